//! What a step moves and computes, and how long that should take on each side.

use super::Value;
use super::step::{Cost, Form, Source, Step, ValueId};
use crate::cost::{Limits, Profiles};
use crate::expr::Ref;
use crate::shape::{View, points};

/// Sets the step's cost.
pub(super) fn predict(step: &mut Step, values: &[Value], limits: &Limits, profiles: &Profiles) {
    let bytes = |value: ValueId| values[value.index()].bytes(limits);
    let read = total(step.reads().iter().map(|&id| read_bytes(step, id, values, limits)));
    let written = total(step.outputs.iter().map(|output| bytes(output.value)));
    let (flops, product) = flops(step);
    let dispatches = step.dispatches();
    let seconds = |profile: &crate::cost::DeviceProfile| {
        profile.step(read.saturating_add(written), flops, product, dispatches)
    };
    step.cost = Cost {
        flops: flops.saturating_add(product),
        bytes_read: read,
        bytes_written: written,
        cpu_seconds: seconds(&profiles.cpu),
        gpu_seconds: seconds(&profiles.gpu),
    };
}

/// Bytes of a value that the step's views reach, each counted once.
fn read_bytes(step: &Step, id: ValueId, values: &[Value], limits: &Limits) -> u64 {
    let value = &values[id.index()];
    let reached = |view: &View| {
        let moving = view.dims.iter().zip(&view.strides).filter(|&(_, &stride)| stride != 0);
        moving.fold(1_u64, |n, (&dim, _)| n.saturating_mul(dim as u64))
    };
    let operands = step.operands.iter().filter(|operand| operand.source.value() == Some(id));
    let reached = total(operands.map(|operand| match operand.source {
        Source::Table(_) => step.points(),
        _ => reached(&operand.view),
    }));
    reached.min(value.shape.elements() as u64) * limits.stored(value.dtype)
}

/// The sum, saturating: a value that is only a view may count more bytes than there are.
pub(super) fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// Elementwise flops, and flops of matrix products; both saturate.
fn flops(step: &Step) -> (u64, u64) {
    let count = |dims: &[usize]| points(dims) as u64;
    let each = |root: Ref| step.expr.flops(&[root]);
    let roots: Vec<_> = step.outputs.iter().map(|output| output.root).collect();
    let after = step.expr.flops(&roots);
    match &step.form {
        Form::Map { dims } => (count(dims).saturating_mul(after), 0),
        Form::Reduce { outer, inner, prologue, .. } => {
            let before = count(inner).saturating_mul(each(*prologue) + 1);
            (count(outer).saturating_mul(before.saturating_add(after)), 0)
        }
        Form::Row { kind, outer, len, prologue, .. } => {
            let flops = each(*prologue) + kind.flops() + after;
            (count(outer).saturating_mul(*len as u64).saturating_mul(flops), 0)
        }
        Form::Scan { outer, len, prologue, .. } => {
            let flops = each(*prologue) + 2 + after;
            (count(outer).saturating_mul(*len as u64).saturating_mul(flops), 0)
        }
        Form::MatMul { batch, m, n, k, x, w, .. } => {
            let of = |sides: [usize; 2], flops: u64| {
                count(batch).saturating_mul(count(&sides)).saturating_mul(flops)
            };
            let before = of([*m, *k], each(*x)).saturating_add(of([*k, *n], each(*w)));
            let product = of([*m, *n], 2).saturating_mul(*k as u64);
            (before.saturating_add(of([*m, *n], after)), product)
        }
    }
}
