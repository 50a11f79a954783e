//! Blocks of steps that repeat: the text of a long plan has each of them once.

use std::fmt::Write as _;
use std::mem::discriminant;

use crate::expr::{ExprNode, Failure};
use crate::picture::fold::hash;
use crate::picture::repeats::{ShownSteps, StepLine, fold_steps};
use crate::plan::Plan;
use crate::plan::step::Step;
use crate::plan::step_parts::OperandSource;
use crate::plan::value::ValueId;

/// Writes steps of these kinds by `write_step`, and a line in place of copies.
pub(super) fn write_steps(
    text: &mut String,
    kinds: &[u64],
    shown: ShownSteps,
    mut write_step: impl FnMut(&mut String, usize),
) {
    for line in fold_steps(kinds, shown) {
        match line {
            StepLine::Step(at) => write_step(text, at),
            StepLine::Copies(repeat) => _ = writeln!(text, "{}", repeat.line_of_steps()),
        }
    }
}

/// Equal numbers for steps of one place that compute the same from values of the same types, with the same `note`. The
/// values may differ, and so may the place of the first element that a step reads of one.
pub(super) fn kind(plan: &Plan, step: &Step, note: &str) -> u64 {
    let Step { form, expr, lookups, borders, joins, place, .. } = step;
    let ty = |id: ValueId| {
        let value = &plan.values[id.index()];
        (value.dtype, &value.shape, value.channels_last)
    };
    let operands = step.operands.iter().map(|operand| {
        let (source, view) = (operand.source, &operand.view);
        // The numbers that an operand counts are constants of the step.
        let first = (source == OperandSource::Iota).then_some(view.offset);
        let lanes = (&view.dims, &view.strides, first, operand.clamp);
        (discriminant(&source), source.value().map(ty), operand.dtype, operand.space, lanes)
    });
    let outputs = step.outputs.iter().map(|of| (ty(of.value), of.dtype, of.root, &of.view));
    let (operands, outputs): (Vec<_>, Vec<_>) = (operands.collect(), outputs.collect());
    // Forms and the notes beside expressions have no hash, but all that they hold is in their text.
    let parts = format!("{form:?} {lookups:?} {borders:?} {joins:?}");
    let shown = (step.label(), place.file(), place.line(), note);
    hash(&(shown, parts, expr, constants(step), operands, outputs))
}

/// The numbers of the expressions by their bits, but for those that only tell a failing operation from others.
fn constants(step: &Step) -> Vec<Option<u32>> {
    let mut constants: Vec<Option<u32>> =
        step.scalars.iter().map(|scalar| Some(scalar.lane_bits())).collect();
    for node in step.expr.nodes() {
        if let ExprNode::Check(_, Failure { site, .. }) = node
            && let ExprNode::Scalar(at) = step.expr.node(site)
        {
            constants[usize::from(at)] = None;
        }
    }
    constants
}
