//! Paths: the movements between a stored value and its reader.

use std::rc::Rc;

use super::ir::{Ir, Ix};
use crate::base::shape::{Move, Shape, View};
use crate::ops::Op;

/// The movements from a value to a point of a kernel's space, first to last.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Path {
    moves: Rc<[Move]>,
    /// The shape at the end.
    shape: Shape,
}

impl Path {
    /// The path from a value of `shape` to itself.
    pub fn start(shape: &Shape) -> Self {
        Self { moves: Rc::new([]), shape: shape.clone() }
    }

    pub fn shape(&self) -> &Shape {
        &self.shape
    }

    pub fn is_empty(&self) -> bool {
        self.moves.is_empty()
    }

    /// This path, then `next`, which leads to `shape`.
    pub fn then(&self, next: Move, shape: Shape) -> Self {
        if next.is_identity(&self.shape) {
            return self.clone();
        }
        let before = self.before(&next);
        Self { moves: before.iter().cloned().chain([next]).collect(), shape }
    }

    /// The movements that count before `next`: of two reshapes in a row, only the second does.
    fn before(&self, next: &Move) -> &[Move] {
        match (&self.moves[..], next) {
            ([before @ .., Move::Reshape(_)], Move::Reshape(_)) => before,
            (all, _) => all,
        }
    }

    /// True if any of the movements makes windows.
    pub fn has_windows(&self) -> bool {
        self.moves.iter().any(|step| matches!(step, Move::Window { .. }))
    }

    pub fn reshaped(&self, shape: Shape) -> Self {
        self.then(Move::Reshape(shape.clone()), shape)
    }

    pub fn broadcast(&self, shape: &Shape) -> Self {
        self.then(Move::Broadcast(shape.clone()), shape.clone())
    }

    pub fn permuted(&self, axes: &[usize]) -> Self {
        let shape = axes.iter().map(|&axis| self.shape[axis]).collect();
        self.then(Move::Permute(axes.into()), shape)
    }

    /// This path, then all of `next`.
    pub fn followed_by(&self, next: &Self) -> Self {
        let Some(first) = next.moves.first() else { return self.clone() };
        let moves = self.before(first).iter().chain(next.moves.iter()).cloned().collect();
        Self { moves, shape: next.shape.clone() }
    }

    /// The strided view that the path is of a value of shape `from` stored row by row, if it is one.
    pub fn view(&self, from: &Shape) -> Option<View> {
        self.carried(View::contiguous(from))
    }

    /// The view of coordinate `axis` at the start of the path as a number: an iota operand's.
    pub fn coordinate(&self, from: &Shape, axis: usize) -> Option<View> {
        let mut view = View::contiguous(from);
        view.strides.iter_mut().for_each(|stride| *stride = 0);
        view.strides[axis] = 1;
        self.carried(view)
    }

    /// `view`, which is over the shape at the start of the path, as seen from its end.
    pub fn carried(&self, view: View) -> Option<View> {
        self.moves.iter().try_fold(view, |view, step| view.moved(step))
    }
}

/// The movements that are folded into their readers, and those that must be carried out.
pub(crate) struct Views {
    /// The stored value that each node is a view of, and the path from there; a node that is no
    /// folded movement is its own base.
    bases: Vec<(Ix, Path)>,
}

impl Views {
    /// Folds every movement that strides can express over its stored base.
    pub fn resolve(ir: &Ir) -> Self {
        let mut bases: Vec<(Ix, Path)> = Vec::with_capacity(ir.nodes.len());
        for (ix, node) in ir.nodes.iter().enumerate() {
            let folded = match &node.op {
                Op::Move { to, .. } => {
                    let (base, path) = &bases[node.inputs[0]];
                    let path = path.then(to.clone(), node.ty.shape.clone());
                    path.view(&ir.nodes[*base].ty.shape).is_some().then_some((*base, path))
                }
                _ => None,
            };
            bases.push(folded.unwrap_or_else(|| (ix, Path::start(&node.ty.shape))));
        }
        // Outputs, and operands of a kernel of the user's own, must be stored as they are read, and kept values in a
        // buffer of its own.
        let mut views = Self { bases };
        let mut kept: Vec<Ix> = Vec::with_capacity(ir.keeps.len());
        for &ix in &ir.keeps {
            let base = views.bases[ix].0;
            if ir.nodes[base].op.is_source() || kept.contains(&base) {
                views.bases[ix] = (ix, Path::start(&ir.nodes[ix].ty.shape));
            }
            kept.push(views.bases[ix].0);
        }
        for ix in ir.outputs().chain(ir.read_as_they_are()) {
            let (base, path) = &views.bases[ix];
            let whole = path.view(&ir.nodes[*base].ty.shape).is_some_and(|view| {
                view.is_contiguous()
                    && view.shape().elements() == ir.nodes[*base].ty.shape.elements()
            });
            if !whole {
                views.bases[ix] = (ix, Path::start(&ir.nodes[ix].ty.shape));
            }
        }
        views
    }

    /// The stored value behind `ix`, and the way from there.
    pub fn of(&self, ix: Ix) -> &(Ix, Path) {
        &self.bases[ix]
    }

    pub fn is_base(&self, ix: Ix) -> bool {
        self.bases[ix].0 == ix
    }
}
