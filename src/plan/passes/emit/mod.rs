//! From a group to a step: the group's values become one expression over operands and scalars.
//!
//! [`form`](Emitter::form) writes what a kernel form computes from, `value` the values of single nodes, `checked` those
//! that read tables or can fail; what an expression reads is collected in [`Leaves`].

mod checked;
mod form;
mod value;

use foldhash::{HashMap, HashMapExt};
use smallvec::{SmallVec, smallvec};

use super::fuse::{Fusion, Group};
use super::ir::{Ir, IrNode, Ix};
use super::path::{Path, Views};
use super::reads::{Read, epilogue_space, into_epilogue, is_heavy};
use crate::base::dtype::{DType, Scalar};
use crate::base::shape::{Move, View};
use crate::error::PlanError;
use crate::expr::{Builder, E, Ref};
use crate::ops::Op;
use crate::plan::passes::failure_sites::Sites;
use crate::plan::step::{Cost, Step, StepOp};
use crate::plan::step_parts::{
    Border, Join, Lookup, OperandSource, Space, StepOperand, StepOutput,
};
use crate::plan::value::ValueId;

/// The step that computes `group`. `values` gives the storage of every stored value.
///
/// # Errors
/// [`PlanError::Invalid`] where a path that fusion checked is no view after all.
pub(crate) fn step(
    ir: &Ir,
    views: &Views,
    sites: &Sites,
    fusion: &Fusion,
    group: &Group,
    values: &[Option<ValueId>],
) -> Result<Step, PlanError> {
    let builder = Builder::default();
    let mut emitter = Emitter {
        ir,
        views,
        sites,
        stored: &fusion.stored,
        extra: &group.extra,
        values,
        builder: &builder,
        anchor: group.anchor.or_else(|| is_heavy(&ir.nodes[group.root].op).then_some(group.root)),
        leaves: Leaves { builder: &builder, operands: Vec::new(), scalars: Vec::new() },
        known: HashMap::new(),
        lookups: Vec::new(),
        borders: Vec::new(),
        joins: Vec::new(),
    };
    let (Some(form), Some(outputs)) = (emitter.form(group), emitter.outputs(group)) else {
        let what = format!("{} cannot be expressed", ir.nodes[group.root].op.name());
        return Err(PlanError::Invalid { pass: "emit", what });
    };
    let Emitter { leaves: Leaves { operands, scalars, .. }, lookups, borders, joins, .. } = emitter;
    Ok(Step {
        ops: step_ops(ir, &group.ops),
        place: ir.nodes[group.root].place.clone(),
        form,
        expr: builder.finish(),
        operands,
        scalars,
        outputs,
        lookups,
        borders,
        joins,
        scratch: None,
        cost: Cost::default(),
    })
}

/// The `ops` in the order recorded; constants only where there is nothing else.
fn step_ops(ir: &Ir, ops: &[Ix]) -> Vec<StepOp> {
    let mut ops = ops.to_vec();
    ops.sort_unstable();
    ops.dedup();
    let is_constant = |&ix: &Ix| matches!(ir.nodes[ix].op, Op::Full(_));
    if !ops.iter().all(is_constant) {
        ops.retain(|ix| !is_constant(ix));
    }
    let op = |node: &IrNode| StepOp { node: node.node, name: node.op.name() };
    ops.into_iter().map(|ix| op(&ir.nodes[ix])).collect()
}

/// A step in the making.
struct Emitter<'a, 'b> {
    ir: &'a Ir,
    views: &'a Views,
    sites: &'a Sites,
    stored: &'a [bool],
    /// Values that the step stores beside its root.
    extra: &'a [Ix],
    values: &'a [Option<ValueId>],
    builder: &'b Builder,
    /// The heavy value that the form of the step computes, if the root is its epilogue.
    anchor: Option<Ix>,
    leaves: Leaves<'b>,
    /// Values computed before.
    known: HashMap<Read, Ref>,
    lookups: Vec<Lookup>,
    borders: Vec<Border>,
    joins: Vec<Join>,
}

impl Emitter<'_, '_> {
    /// The root and all that is stored on the way.
    fn outputs(&mut self, group: &Group) -> Option<SmallVec<[StepOutput; 1]>> {
        let mut outputs: SmallVec<[StepOutput; 1]> = smallvec![];
        for &ix in [group.root].iter().chain(&group.extra) {
            let node = &self.ir.nodes[ix];
            let start = Path::start(&node.ty.shape);
            let (space, path) = match self.anchor {
                Some(anchor) => (
                    epilogue_space(&self.ir.nodes[anchor].op),
                    into_epilogue(self.ir, anchor, &start),
                ),
                None => (Space::Main, start),
            };
            let (root, view) = if let Op::Move { to: Move::Reshape(_), .. } = node.op {
                // The argument in its own order is the result in its own order.
                let (base, path) = self.views.of(node.inputs[0]).clone();
                let view = View::contiguous(path.shape());
                (self.emit(&Read { base, path, space })?, view)
            } else {
                let view = path.view(&node.ty.shape)?;
                (self.compute(&Read { base: ix, path, space })?, view)
            };
            let value = self.values[ix]?;
            outputs.push(StepOutput { value, dtype: node.ty.dtype, root: root.r(), view });
        }
        Some(outputs)
    }
}

/// The operands and scalars of a step in the making.
struct Leaves<'b> {
    builder: &'b Builder,
    /// The operands, each once.
    pub operands: Vec<StepOperand>,
    pub scalars: Vec<Scalar>,
}

impl<'b> Leaves<'b> {
    /// The element of `operand` that belongs to a point of its space.
    pub fn load(&mut self, operand: StepOperand) -> E<'b> {
        let ty = operand.dtype.lane();
        let at = self.operand(operand);
        self.builder.load(at, ty)
    }

    /// The index that `view` maps a point of the space to, as an `i32`.
    pub fn iota(&mut self, view: View, space: Space) -> E<'b> {
        self.counter(view, space).1
    }

    /// The operand that counts the index to which `view` maps a point of the space, and its load.
    pub fn counter(&mut self, view: View, space: Space) -> (usize, E<'b>) {
        let (source, dtype) = (OperandSource::Iota, DType::I32);
        let at = self.operand(StepOperand { source, dtype, space, view, clamp: false });
        (at.into(), self.builder.load(at, dtype.lane()))
    }

    /// The position of an operand that is there as a whole.
    pub fn whole(&mut self, source: OperandSource, dtype: DType, view: View) -> u16 {
        self.operand(StepOperand { source, dtype, space: Space::Whole, view, clamp: false })
    }

    fn operand(&mut self, operand: StepOperand) -> u16 {
        let known = self.operands.iter().position(|o| *o == operand);
        let at = known.unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        });
        at as u16
    }

    pub fn number(&mut self, value: i64) -> E<'b> {
        self.scalar(Scalar::new(DType::I32, value as f64))
    }

    pub fn scalar(&mut self, value: Scalar) -> E<'b> {
        let at = self.scalar_index(value);
        self.builder.scalar(at, value.dtype().lane())
    }

    /// Each number gets a place of its own, so that equal numbers make no other code.
    pub fn scalar_index(&mut self, value: Scalar) -> u16 {
        self.scalars.push(value);
        self.scalars.len() as u16 - 1
    }
}
