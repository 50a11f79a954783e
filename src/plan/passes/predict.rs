//! What a step moves and computes, and how long that should take on each side.

use crate::base::shape::{View, points};
use crate::cost::{Backend, Limits, WINDOW_FLOPS, Work};
use crate::expr::Ref;
use crate::ops::RowKind;
use crate::plan::forms::product::{self, ProductSize, STRIP_ROWS};
use crate::plan::forms::schedule_types::AttentionLayout;
use crate::plan::forms::{
    AttentionForm, Form, MatMulForm, OwnForm, ReduceForm, RowForm, ScanForm, SortForm,
};
use crate::plan::step::{Cost, Source, Step, ValueId};
use crate::plan::{Target, Value};

/// Sets the step's cost.
pub(crate) fn predict(step: &mut Step, values: &[Value], target: &Target) {
    let limits = &target.limits;
    let bytes = |value: ValueId| values[value.index()].bytes(limits);
    let read = total(step.reads().iter().map(|&id| read_bytes(step, id, values, limits)));
    let written = total(step.outputs.iter().map(|output| bytes(output.value)));
    // Partial results are written and read again.
    let partial = step.scratch.map_or(0.0, |scratch| 8.0 * scratch.words as f64);
    let work = Work {
        bytes: read as f64 + written as f64 + partial,
        dispatches: step.dispatches(),
        ..work(step)
    };
    let on_cpu = Work {
        arithmetic: work.arithmetic + WINDOW_FLOPS * (windows(step) + gathered_elements(step)),
        product: work.product * padding_factor(step),
        ..work
    };
    let on_gpu = Work { product_seconds: product_seconds(step, target, &work), ..work };
    step.cost = Cost {
        flops: work.flops() as u64,
        bytes_read: read,
        bytes_written: written,
        ..Cost::default()
    };
    step.cost.cpu_seconds = target.profile.cpu.step(&on_cpu);
    step.cost.gpu_seconds = target.profile.gpu.step(&on_gpu);
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
        Source::Table(_) if matches!(step.form, Form::Own(_)) => u64::MAX,
        Source::Table(_) => step.points(),
        _ => reached(&operand.view),
    }));
    reached.min(value.shape.elements() as u64) * limits.stored(value.dtype)
}

/// The sum, saturating: a value that is only a view may count more bytes than there are.
pub(crate) fn total(bytes: impl Iterator<Item = u64>) -> u64 {
    bytes.fold(0, u64::saturating_add)
}

/// What moving an element of a sort costs, in flops: estimated, not measured.
const SORT_MOVE: f64 = 16.0;

/// What an element of a kernel of the user's own costs, of which nothing is known.
const OWN_FLOPS: f64 = 64.0;

/// The elements of the windows that the step multiplies.
fn windows(step: &Step) -> f64 {
    match &step.form {
        Form::MatMul(MatMulForm { batch, n, k, spread: Some(_), .. }) => {
            points(batch) as f64 * *k as f64 * *n as f64
        }
        _ => 0.0,
    }
}

/// Elements that the step gathers one by one, each with an index to find and to check; windows are counted
/// [elsewhere](windows).
fn gathered_elements(step: &Step) -> f64 {
    if matches!(&step.form, Form::MatMul(MatMulForm { spread: Some(_), .. })) {
        return 0.0;
    }
    let operands = step.operands.iter().filter(|operand| match operand.source {
        Source::Iota => operand.view.dims.len() > 1,
        _ => operand.clamp,
    });
    operands.map(|operand| count(&operand.view.dims)).sum()
}

/// Columns of a product that the host computes at a time: three vectors of 16, as `gemm` does with AVX-512.
const COLUMNS: usize = 48;

/// How many times as much the host computes for a product as is asked for: where there are few columns, others in vain.
fn padding_factor(step: &Step) -> f64 {
    match step.form {
        Form::MatMul(MatMulForm { m, n: n @ 2.., .. }) if m > STRIP_ROWS => {
            (COLUMNS as f64 / n as f64).max(1.0)
        }
        _ => 1.0,
    }
}

/// What the step computes.
fn work(step: &Step) -> Work {
    let mut tally = Tally { step, work: Work::default() };
    match &step.form {
        Form::Map { dims } => tally.results(count(dims)),
        Form::Own(OwnForm { dims, .. }) => tally.work.arithmetic += OWN_FLOPS * count(dims),
        Form::Reduce(ReduceForm { outer, inner, prologue, .. }) => {
            let elements = count(outer) * count(inner);
            tally.evaluate(&[*prologue], elements);
            tally.results(count(outer));
            tally.work.reduce = elements;
        }
        Form::Row(RowForm { kind, outer, len, prologue, .. }) => {
            let elements = count(outer) * *len as f64;
            tally.evaluate(&[*prologue], elements);
            tally.results(elements);
            tally.work.row = elements * kind.flops() as f64;
        }
        Form::Scan(ScanForm { outer, len, prologue, .. }) => {
            let elements = count(outer) * *len as f64;
            tally.evaluate(&[*prologue], elements);
            tally.results(elements);
            // The parts of a row are added up once more.
            tally.work.reduce = 2.0 * elements;
        }
        Form::Sort(SortForm { outer, len, prologue, .. }) => {
            let elements = count(outer) * *len as f64;
            tally.evaluate(&[*prologue], elements);
            // Elements move about as often as a merge sort would compare them.
            let moves = f64::from(usize::BITS - len.leading_zeros());
            tally.work.arithmetic += elements * moves * SORT_MOVE;
        }
        Form::MatMul(form) => tally.product(form),
        Form::Attention(form) => tally.attention(form),
    }
    tally.work
}

fn count(dims: &[usize]) -> f64 {
    points(dims) as f64
}

/// Adds up what a step computes.
struct Tally<'a> {
    step: &'a Step,
    work: Work,
}

impl Tally<'_> {
    /// Expressions, so many times.
    fn evaluate(&mut self, roots: &[Ref], times: f64) {
        let expr = &self.step.expr;
        let flops = expr.flops(roots);
        let transcendental = expr.transcendental_flops(roots);
        self.work.arithmetic += (flops - transcendental) as f64 * times;
        self.work.transcendental += transcendental as f64 * times;
    }

    /// What is done to each of so many results.
    fn results(&mut self, times: f64) {
        let roots: Vec<Ref> = self.step.outputs.iter().map(|output| output.root).collect();
        self.evaluate(&roots, times);
    }

    fn product(&mut self, form: &MatMulForm) {
        let MatMulForm { batch, m, n, k, x, w, .. } = form;
        let of = |sides: [usize; 2]| count(batch) * count(&sides);
        self.evaluate(&[*x], of([*m, *k]));
        self.evaluate(&[*w], of([*k, *n]));
        self.results(of([*m, *n]));
        self.work.product = 2.0 * of([*m, *n]) * *k as f64;
        self.work.thinness = thinness(*m);
    }

    fn attention(&mut self, form: &AttentionForm) {
        let AttentionForm { batch, queries, keys, width, out, q, k, v, mask, causal, .. } = form;
        let of = |sides: [usize; 2]| count(batch) * count(&sides);
        self.evaluate(&[*q], of([*queries, *width]));
        self.evaluate(&[*k], of([*keys, *width]));
        self.evaluate(&[*v], of([*keys, *out]));
        let mask: Vec<Ref> = mask.iter().copied().collect();
        self.evaluate(&mask, of([*queries, *keys]));
        self.results(of([*queries, *out]));
        // About half of a square is seen.
        let seen = of([*queries, *keys]) * if causal.is_some() { 0.5 } else { 1.0 };
        self.work.row = seen * RowKind::Softmax.flops() as f64;
        self.work.product = 2.0 * seen * (width + out) as f64;
    }
}

/// 1 for as few rows as one pass over the right operand serves, 0 from where a product is as good as square (which is
/// estimated), in between by the logarithm.
fn thinness(rows: usize) -> f64 {
    const SQUARE: f64 = 256.0;
    let few = STRIP_ROWS as f64;
    let rows = (rows as f64).clamp(few, SQUARE);
    (SQUARE / rows).ln() / (SQUARE / few).ln()
}

/// Seconds in which a workgroup of an attention is done with a key, for each element of a key and a value: those of the
/// next wait for it. Between 0.5 and 1.1 µs for 64 and 64, measured on an H200.
const KEY_SECONDS: f64 = 0.8e-6 / 128.0;
/// Seconds in which a workgroup of strips is done with the keys that it takes at a time: once what memory takes to
/// answer, and a few shuffles. Estimated, not measured.
const STRIP_SECONDS: f64 = 1.5e-6;

/// What the products of a step take on a GPU, where more is known than by their flops.
fn product_seconds(step: &Step, target: &Target, work: &Work) -> Option<f64> {
    if target.backend != Backend::Gpu {
        return None;
    }
    match &step.form {
        Form::MatMul(MatMulForm { batch, m, n, k, spread, schedule, .. }) => {
            let windows = spread.is_some();
            let size = ProductSize { count: points(batch), m: *m, n: *n, k: *k, windows };
            product::measured_seconds(&size, schedule, target)
        }
        // However few there are, each workgroup takes its keys one after the other.
        Form::Attention(AttentionForm { keys, width, out, schedule, .. }) => {
            let keys = keys.div_ceil(schedule.parts.max(1));
            let alone = match schedule.layout {
                AttentionLayout::Strips { .. } => {
                    keys.div_ceil(schedule.keys) as f64 * STRIP_SECONDS
                }
                AttentionLayout::Tiles | AttentionLayout::Units(_) => {
                    (keys * (width + out)) as f64 * KEY_SECONDS
                }
            };
            Some(target.profile.gpu.product.seconds(work.product).max(alone))
        }
        _ => None,
    }
}
