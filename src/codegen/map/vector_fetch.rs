//! Look-ups of four neighbours at once: where the elements that the lanes of a quad fetch lie next to each other, as in
//! the rows of a table, their position is computed once, and they are loaded as a vector.

use crate::base::dtype::Ty;
use crate::codegen::map::Space;
use crate::expr::{Binary, Const, Failure, Node, Ref};
use crate::plan::{Operand, Source, Step};

/// A fetch of four neighbours.
pub(crate) struct Four {
    /// The operand that stands for what is fetched.
    pub operand: usize,
    /// The operand that is fetched from.
    pub table: usize,
    /// The position of the first lane.
    pub position: Ref,
}

/// How a number goes on from lane to lane of a quad.
#[derive(Clone, Copy, PartialEq)]
enum Along {
    /// It does not change; whether it is a multiple of four.
    Same {
        fours: bool,
    },
    /// By ones, from a multiple of four on.
    Ones,
    Otherwise,
}

/// The step with loads in place of all fetches of four neighbours, and what these are. `space` has a last axis of whole
/// quads.
pub(crate) fn find(step: &Step, space: &Space) -> (Step, Vec<Four>) {
    let mut step = step.clone();
    let mut fours = Vec::new();
    let roots: Vec<Ref> = step.outputs.iter().map(|output| output.root).collect();
    for r in step.expr.reachable(&roots) {
        let Node::Fetch(table, position) = step.expr.node(r) else { continue };
        let table = usize::from(table);
        let source = step.operands[table].source;
        let by_lane = step
            .operands
            .iter()
            .any(|operand| operand.source != source && operand.source.value() == source.value());
        if by_lane || step.operands[table].view.dims.contains(&0) || fours.len() == PLACES.len() {
            continue;
        }
        if (Walk { step: &step, space }).along(position) == Along::Ones {
            let operand = step.operands.len();
            step.operands.push(step.operands[table].clone());
            step.expr.load_instead(r, operand as u16);
            fours.push(Four { operand, table, position });
        }
    }
    (step, fours)
}

/// The names of the functions that compute positions.
pub(crate) const PLACES: [&str; 4] = ["place0", "place1", "place2", "place3"];

struct Walk<'a> {
    step: &'a Step,
    space: &'a Space,
}

impl Walk<'_> {
    fn along(&self, r: Ref) -> Along {
        let same = |value: Ref| matches!(self.along(value), Along::Same { .. });
        let when =
            |holds: bool| if holds { Along::Same { fours: false } } else { Along::Otherwise };
        match self.step.expr.node(r) {
            Node::Load(operand) => self.load(operand.into()),
            Node::Scalar(n) => {
                let scalar = self.step.scalars[usize::from(n)];
                let fours = !scalar.dtype().is_float() && scalar.lane_bits().is_multiple_of(4);
                Along::Same { fours }
            }
            Node::Const(Const { ty, bits }) => {
                Along::Same { fours: ty != Ty::F32 && bits.is_multiple_of(4) }
            }
            Node::Binary(Binary::Add, x, y) => match (self.along(x), self.along(y)) {
                (Along::Same { fours: a }, Along::Same { fours: b }) => {
                    Along::Same { fours: a & b }
                }
                (Along::Ones, Along::Same { fours: true })
                | (Along::Same { fours: true }, Along::Ones) => Along::Ones,
                _ => Along::Otherwise,
            },
            Node::Binary(Binary::Mul, x, y) => match (self.along(x), self.along(y)) {
                (Along::Same { fours: a }, Along::Same { fours: b }) => {
                    Along::Same { fours: a | b }
                }
                _ => Along::Otherwise,
            },
            Node::Check(_, Failure { holds, site, at }) => {
                when([holds, site, at].into_iter().all(same))
            }
            node => when(node.operands().all(same)),
        }
    }

    fn load(&self, operand: usize) -> Along {
        let Operand { source, view, .. } = &self.step.operands[operand];
        let strides = &self.space.axes.strides[self.space.map_of(operand)];
        let Some((lane, others)) = strides.split_last() else { return Along::Otherwise };
        let counts = *source == Source::Iota;
        let fours = counts && view.offset % 4 == 0 && others.iter().all(|stride| stride % 4 == 0);
        match lane {
            0 => Along::Same { fours },
            1 if fours => Along::Ones,
            _ => Along::Otherwise,
        }
    }
}
