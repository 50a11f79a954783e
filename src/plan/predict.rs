//! What a step moves and computes, and how long that should take on each side.

use super::Value;
use super::step::{Cost, Form, Step, ValueId};
use crate::cost::{Limits, Profiles};

/// Sets the step's cost.
pub(super) fn predict(step: &mut Step, values: &[Value], limits: &Limits, profiles: &Profiles) {
    let bytes = |value: ValueId| values[value.index()].bytes(limits);
    let read: u64 = step.reads().into_iter().map(bytes).sum();
    let written = step.outputs.iter().map(|output| bytes(output.value)).sum();
    let (flops, product) = flops(step);
    let dispatches = step.dispatches();
    let seconds = |profile: &crate::cost::DeviceProfile| {
        profile.step(read + written, flops, product, dispatches)
    };
    step.cost = Cost {
        flops: flops + product,
        bytes_read: read,
        bytes_written: written,
        cpu_seconds: seconds(&profiles.cpu),
        gpu_seconds: seconds(&profiles.gpu),
    };
}

/// Elementwise flops, and flops of matrix products.
fn flops(step: &Step) -> (u64, u64) {
    let count = |dims: &[usize]| dims.iter().map(|&d| d as u64).product::<u64>();
    let roots: Vec<_> = step.outputs.iter().map(|output| output.root).collect();
    let after = step.expr.flops(&roots);
    match &step.form {
        Form::Map { dims } => (after * count(dims), 0),
        Form::Reduce { outer, inner, prologue, .. } => {
            let before = step.expr.flops(&[*prologue]) + 1;
            (count(outer) * (before * count(inner) + after), 0)
        }
        Form::Row { kind, outer, len, prologue, .. } => {
            let each = step.expr.flops(&[*prologue]) + kind.flops() + after;
            (count(outer) * *len as u64 * each, 0)
        }
        Form::MatMul { batch, m, n, k, x, w, .. } => {
            let (batch, m, n, k) = (count(batch), *m as u64, *n as u64, *k as u64);
            let before = batch * k * (m * step.expr.flops(&[*x]) + n * step.expr.flops(&[*w]));
            (before + batch * m * n * after, 2 * batch * m * n * k)
        }
    }
}
