//! The check of a node that comes from a file: recording has made sure of all this for others.

use crate::base::dtype::{DType, Scalar};
use crate::base::shape::{MAX_RANK, Move, Range, Shape, Window};
use crate::exec::gpu::check_custom;
use crate::graph::{Graph, Node};
use crate::ops::{CustomKernel, Distribution, MOST_BINDINGS, Op, Precision, Type, expected_type};

/// Counts of the crate's kernels have 31 bits.
const MOST: usize = i32::MAX as usize;

/// Says what of `node` does not fit its operands, which are in `graph`.
pub(super) fn check(graph: &Graph, node: &Node) -> Result<(), String> {
    let inputs: Vec<&Type> = node.inputs.iter().map(|&input| &graph[input].ty).collect();
    let (least, most) = arity(&node.op);
    if !(least..=most).contains(&inputs.len()) {
        return Err(format!("has {} operands", inputs.len()));
    }
    if let Some(what) = misfit(&node.op, &inputs, &node.ty) {
        return Err(format!("has {what} that does not fit"));
    }
    if let Op::Custom(kernel) = &node.op {
        check_custom(kernel, &inputs, &node.ty).map_err(|what| format!("cannot be: {what}"))?;
    }
    match expected_type(&node.op, &inputs, &node.ty) {
        Ok(ty) if ty == node.ty => Ok(()),
        Ok(ty) => Err(format!("makes {ty}, not {}", node.ty)),
        Err(what) => Err(format!("cannot be: {what}")),
    }
}

/// The least and the greatest number of operands.
fn arity(op: &Op) -> (usize, usize) {
    match op {
        Op::Invalid
        | Op::Upload(_)
        | Op::Resident(_)
        | Op::Full(_)
        | Op::Arange { .. }
        | Op::Random(_) => (0, 0),
        Op::Elementwise(op, _) => (op.def().arity, op.def().arity),
        Op::Select => (3, 3),
        Op::Cast(_)
        | Op::Reduce { .. }
        | Op::Row { .. }
        | Op::Scan { .. }
        | Op::Sort { .. }
        | Op::Move { .. }
        | Op::Pad { .. }
        | Op::InRange { .. } => (1, 1),
        Op::MatMul(_) | Op::Gather { .. } | Op::TakeAlong { .. } | Op::SearchSorted { .. } => {
            (2, 2)
        }
        Op::Attention(_) => (3, 4),
        Op::Concat { .. } => (1, usize::MAX),
        Op::Custom(_) => (0, MOST_BINDINGS - 1),
    }
}

/// The parameter, or the type of a result that states it, that does not fit.
fn misfit(op: &Op, inputs: &[&Type], ty: &Type) -> Option<&'static str> {
    let first = inputs.first();
    let rank = first.map_or(0, |x| x.shape.rank());
    let dtype = first.map_or(ty.dtype, |x| x.dtype);
    let says = |wrong: bool, what| wrong.then_some(what);
    let off = |axis: usize| says(axis >= rank, "an axis");
    match op {
        Op::Invalid => Some("a mistake"),
        Op::Upload(_) | Op::Resident(_) | Op::Select | Op::Cast(_) | Op::SearchSorted { .. } => {
            None
        }
        Op::Full(value) => says(value.dtype() != ty.dtype, "a value"),
        Op::Arange { start, step } => {
            let fits = |x: &Scalar| x.dtype() == ty.dtype && ty.dtype.is_numeric();
            let counts = ty.shape.rank() == 1 && ty.shape[0] <= MOST;
            says(!fits(start) || !fits(step) || !counts, "a range")
        }
        Op::Random(random) => {
            let fits = match random.kind {
                Distribution::Bits => ty.dtype == DType::U32,
                Distribution::Uniform | Distribution::Normal => ty.dtype.is_float(),
                Distribution::Bernoulli(below) => ty.dtype == DType::Bool && below <= 1 << 24,
            };
            says(!fits || ty.shape.elements() > MOST, "a distribution")
        }
        Op::Elementwise(op, given) => {
            let wanted = op.def().parameters;
            let fits = |(&wanted, given): (&&str, &Scalar)| {
                given.dtype() == if wanted == "T" { dtype } else { DType::F32 }
            };
            let fit = wanted.len() == given.len() && wanted.iter().zip(given).all(fits);
            says(!fit, "a parameter")
        }
        Op::Reduce { axes, .. } => {
            let ascend = axes.windows(2).all(|pair| pair[0] < pair[1]);
            says(!ascend || axes.iter().any(|&axis| axis >= rank), "an axis")
        }
        Op::Row { op, axis } => {
            let fits = |x: Scalar| x.value().is_finite() && x.value() >= 0.0;
            off(*axis).or(says(!op.epsilon().is_none_or(fits), "an epsilon"))
        }
        Op::Scan { axis, .. } | Op::Concat { axis } => off(*axis),
        Op::Sort { how, .. } => off(how.axis).or_else(|| {
            says(how.top.is_some_and(|top| top > inputs[0].shape[how.axis]), "a number of elements")
        }),
        Op::MatMul(precision) => {
            says(*precision != Precision::Exact && !dtype.is_float(), "a precision")
        }
        Op::Attention(scores) => {
            let far = scores.causal.is_some_and(|causal| causal.unsigned_abs() > MOST as u64);
            says(far || scores.scale.dtype() != DType::F32, "a scale or an order")
        }
        Op::Move { to, .. } => says(!fits_move(to, &inputs[0].shape), "a movement"),
        Op::Pad { before, after, value } => {
            let fits = before.len() == rank && after.len() == rank && value.dtype() == dtype;
            says(!fits, "a border")
        }
        Op::Custom(kernel) => says(!fits_custom(kernel, inputs, ty), "a kernel"),
        Op::Gather { axis, .. } | Op::TakeAlong { axis, .. } => off(*axis),
        Op::InRange { axis, size, ignored, .. } => {
            let other = ignored.is_some_and(|ignored| ignored.dtype() != dtype);
            let far = axis.is_some_and(|axis| axis >= MAX_RANK);
            says(other || far || *size > MOST, "a range")
        }
    }
}

fn fits_custom(kernel: &CustomKernel, inputs: &[&Type], ty: &Type) -> bool {
    kernel.needs_gpu() && inputs.iter().chain([&ty]).all(|ty| ty.dtype.is_word())
}

fn fits_move(to: &Move, from: &Shape) -> bool {
    let rank = from.rank();
    match to {
        Move::Reshape(to) => to.elements() == from.elements(),
        Move::Permute(axes) => {
            let mut seen: Vec<usize> = axes.to_vec();
            seen.sort_unstable();
            seen.into_iter().eq(0..rank)
        }
        Move::Broadcast(to) => from.broadcast(to).as_ref() == Some(to),
        Move::Slice(ranges) => {
            ranges.len() == rank
                && ranges.iter().zip(from.dims()).all(|(r, &dim)| fits_range(r, dim))
        }
        Move::Window { axis, window } => {
            *axis < rank && rank < MAX_RANK && fits_window(*window, from[*axis])
        }
    }
}

/// Returns whether all elements of a range lie in `0..dim`, and its numbers can be counted with.
fn fits_range(&Range { start, step, count }: &Range, dim: usize) -> bool {
    let last = (count as i64).checked_sub(1).and_then(|steps| steps.checked_mul(step));
    let last = last.and_then(|reach| reach.checked_add(start));
    let inside = |at: i64| (0..dim as i64).contains(&at);
    // A step that is never taken is small, or it would overflow as a stride.
    let whole =
        i64::try_from(count).is_ok() && if count > 1 { step != 0 } else { matches!(step, -1 | 1) };
    // A range of nothing begins anywhere in the axis or at its end.
    let empty = count == 0 && (0..=dim as i64).contains(&start);
    whole && (empty || (count > 0 && inside(start) && last.is_some_and(inside)))
}

/// Returns whether the windows are some, and lie in `len` elements.
fn fits_window(window: Window, len: usize) -> bool {
    let Window { size, step, dilation } = window;
    let some = size > 0 && step > 0 && dilation > 0 && window.reach() <= len;
    // A step that is never taken may be of any size.
    some && (step <= MOST || window.count(len) == 1) && (dilation <= MOST || size == 1)
}
