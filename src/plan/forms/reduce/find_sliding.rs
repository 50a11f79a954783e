//! The search for windows that slide over images, in the expression and the operands of a reduction.

use std::ops::Range;

use smallvec::{SmallVec, smallvec};

use super::ReduceForm;
use super::sliding::{Sliding, SlidingAxis};
use crate::base::shape::{View, Window, points};
use crate::expr::{Binary, ExprNode, Ref};
use crate::ops::Combine;
use crate::plan::forms::host_work::LAYOUT_FLOPS;
use crate::plan::step_parts::{Border, OperandSource, StepContext, StepOperand};

/// Windows along one axis that lie apart are summed as rows if they have this many elements.
const LONG: usize = 32;
/// Elements that the windows of one row of results cover, at most: they have to fit into a cache.
const MOST: usize = 1 << 17;

impl ReduceForm {
    /// The windows of a reduction, if each of its elements is an element of an image, perhaps times a weight.
    pub fn find_sliding(&self, context: &StepContext<'_>) -> Option<Sliding> {
        let ReduceForm { combine, outer, inner, prologue, .. } = self;
        let &StepContext { expr, operands, .. } = context;
        let is_small = points(outer) == 0 || points(inner) < 2;
        if !Sliding::combines(*combine) || is_small || expr.can_fail(&[*prologue]) {
            return None;
        }
        let factors = match expr.node(*prologue) {
            ExprNode::Binary(Binary::Mul, x, w) if *combine == Combine::Sum => {
                [Some((x, Some(w))), Some((w, Some(x)))]
            }
            _ => [None; 2],
        };
        let reads = |roots: &[Ref]| -> SmallVec<[&StepOperand; 4]> {
            expr.loads(roots).into_iter().map(|at| &operands[at]).collect()
        };
        [Some((*prologue, None))].into_iter().chain(factors).flatten().find_map(
            |(image, weight)| {
                let border = Border::of(context.borders, image);
                let element = border.map_or(image, |border| border.element);
                let ranges = border.map_or(&[][..], |border| &border.inside);
                let mut images = reads(&[element]);
                images.extend(ranges.iter().map(|(at, _)| &operands[*at]));
                let (lead, mut axes) = image_axes(outer, inner, &images)?;
                let weights = weight.map(|weight| reads(&[weight])).unwrap_or_default();
                let moves = |axis: usize| {
                    outer[axis] > 1 && weights.iter().any(|weight| weight.view.strides[axis] != 0)
                };
                if (lead..outer.len()).any(moves) {
                    return None;
                }
                for (at, range) in ranges {
                    narrow(lead, &mut axes, &operands[*at].view, range)?;
                }
                let inside: f64 = axes.iter().map(|axis| axis.inside.len() as f64).product();
                let once = inside * points(&outer[..lead]) as f64;
                let every = points(outer) as f64 * points(inner) as f64;
                let flops =
                    (expr.flops(&[*prologue]) - expr.transcendental_flops(&[*prologue])) as f64;
                let spared = every * flops - once * (expr.flops(&[element]) as f64 + LAYOUT_FLOPS);
                let border = border.map(|border| border.number);
                let channels_last = false;
                Some(Sliding { lead, axes, element, weight, border, channels_last, spared })
            },
        )
    }
}

/// The axes of the images that `operands` are read from, and the number of outer axes before them. An inner axis and
/// an outer one are one axis of an image if they step through all operands in the same proportion.
fn image_axes(
    outer: &[usize],
    inner: &[usize],
    operands: &[&StepOperand],
) -> Option<(usize, SmallVec<[SlidingAxis; 2]>)> {
    let mut windows: SmallVec<[Option<(usize, Window)>; 4]> = smallvec![None; outer.len()];
    let mut still: SmallVec<[SlidingAxis; 2]> = SmallVec::new();
    for (axis, &size) in (outer.len()..).zip(inner) {
        if size == 1 {
            continue;
        }
        let free = (0..outer.len()).filter(|&o| outer[o] > 1 && windows[o].is_none());
        let fits = free.filter_map(|o| Some((o, window(operands, [o, axis], [outer[o], size])?)));
        match fits.min_by_key(|(_, window)| window.step.max(window.dilation)) {
            Some((o, window)) => windows[o] = Some((axis, window)),
            None => {
                let window = Window { size, step: 1, dilation: 1 };
                still.push(SlidingAxis {
                    outer: None,
                    inner: Some(axis),
                    count: 1,
                    window,
                    inside: 0..size,
                });
            }
        }
    }
    let lead = windows.iter().position(Option::is_some)?;
    let moving = (lead..outer.len()).map(|o| {
        let one = Window { size: 1, step: 1, dilation: 1 };
        let (inner, window) = windows[o].map_or((None, one), |(axis, window)| (Some(axis), window));
        let axis = SlidingAxis { outer: Some(o), inner, count: outer[o], window, inside: 0..0 };
        SlidingAxis { inside: 0..axis.extent(), ..axis }
    });
    let whole = !still.is_empty();
    let axes: SmallVec<[SlidingAxis; 2]> = still.into_iter().chain(moving).collect();
    let slides = |axis: &SlidingAxis| axis.inner.is_some() && axis.count > 1;
    let overlap = axes.iter().any(|axis| slides(axis) && axis.window.step < axis.window.reach());
    // Windows that lie apart are rows or columns of a matrix.
    let last = &axes.iter().rfind(|axis| axis.extent() > 1)?.window;
    let is_matrix = !overlap && (whole || !(2..LONG).contains(&last.size));
    let blocked = axes.iter().position(slides)?;
    let others = axes.iter().enumerate().filter(|&(at, _)| at != blocked);
    let row: usize = others
        .map(|(_, axis)| axis.extent())
        .fold(axes[blocked].window.reach(), usize::saturating_mul);
    (!is_matrix && row <= MOST).then_some((lead, axes))
}

/// The window that an inner axis is of one that slides along an outer axis, if it is.
fn window(
    operands: &[&StepOperand],
    [outer, inner]: [usize; 2],
    [count, size]: [usize; 2],
) -> Option<Window> {
    let strides =
        |operand: &&StepOperand| [operand.view.strides[outer], operand.view.strides[inner]];
    let [step, dilation] = operands.iter().map(strides).find(|&[_, inner]| inner != 0)?;
    if step == 0 || (step < 0) != (dilation < 0) {
        return None;
    }
    let (step, dilation) = (step.unsigned_abs() as usize, dilation.unsigned_abs() as usize);
    let unit = gcd(step, dilation);
    let window = Window { size, step: step / unit, dilation: dilation / unit };
    let in_proportion = |operand: &&StepOperand| {
        let [outer, inner] = strides(operand);
        outer.checked_mul(window.dilation as i64) == inner.checked_mul(window.step as i64)
    };
    // Rows and columns of a matrix are in proportion too, but nothing counts their places.
    let counts = |operand: &&StepOperand| {
        operand.source == OperandSource::Iota && strides(operand) != [0, 0]
    };
    let is_dense = window.dilation < count.saturating_mul(window.step)
        && window.step <= window.reach().saturating_mul(2);
    let is_window = is_dense || operands.iter().any(counts);
    (is_window && operands.iter().all(in_proportion)).then_some(window)
}

/// Narrows an axis to the coordinates for which the counter `view` is in `range`.
fn narrow(lead: usize, axes: &mut [SlidingAxis], view: &View, range: &Range<i64>) -> Option<()> {
    let moves = |axis: &SlidingAxis| axis.stride(view) != 0;
    let at = axes.iter().position(moves)?;
    let before = view.dims.iter().zip(&view.strides).take(lead);
    if axes[at + 1..].iter().any(moves) || before.into_iter().any(|(&dim, &s)| dim > 1 && s != 0) {
        return None;
    }
    let axis = &mut axes[at];
    let stride = axis.stride(view);
    if stride < 0 {
        return None;
    }
    // The first coordinate with a counter of at least `bound`.
    let from = |bound: i64| ((bound - view.offset).max(0) as usize).div_ceil(stride as usize);
    let (start, end) = (from(range.start), from(range.end));
    axis.inside = axis.inside.start.max(start)..axis.inside.end.min(end).max(start);
    Some(())
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
