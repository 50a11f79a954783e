//! A product fused into the depthwise windows that read its results: blocks of these are computed where windows read them
//! at once, and are never stored as a whole.

use std::ops::Range;

use super::plane_shape::PlaneShape;
use super::planes::Planes;
use crate::base::dtype::{DType, Ty};
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::forms::product::UnstoredProduct;
use crate::exec::cpu::operands::{SharedOutputs, for_each_if, parts, ranges, rows_of_blocks};
use crate::exec::threads;
use crate::ops::Combine;
use crate::plan::{Form, Home, OperandSource, Plan, ProductForm, ReduceForm, Sliding, Step};

/// Most elements of the images of a block.
const BLOCK: usize = Sliding::CACHED_ELEMENTS;
/// Fewest planes of a block, and most blocks of whole planes of an image.
const FEWEST: usize = 24;
const MOST: usize = 16;
/// Fewest rows of windows of a block of all planes: its first rows are computed for the block above too.
const ROWS: usize = 4;

/// The sizes of blocks: planes of an image, and rows of windows.
#[derive(Clone, Copy, Debug, PartialEq)]
struct BlockSize {
    planes: usize,
    rows: usize,
}

/// Returns whether step `at` of `plan` is a product that the next step alone reads, by windows of planes.
pub(crate) fn is_fused(plan: &Plan, at: usize) -> bool {
    found(plan, at).is_some()
}

fn found(plan: &Plan, at: usize) -> Option<()> {
    let [step, next] = plan.steps.get(at..at + 2)? else { return None };
    let (product, _, sliding) = forms(step, next)?;
    let [output] = &step.outputs[..] else { return None };
    let value = &plan.values[output.value.index()];
    let reads = |step: &Step| {
        let sources = step.operands.iter().filter_map(|operand| operand.source.value());
        sources.filter(|&read| read == output.value).count()
    };
    let is_read_once = plan.steps.iter().map(reads).sum::<usize>() == 1;
    let is_result = plan.downloads.contains(&output.value) || plan.keeps.contains(&output.value);
    if is_result || !is_read_once || !matches!(value.home, Home::Slot(_)) {
        return None;
    }
    let image = next.loaded(sliding.element)?;
    let images = sliding.image_view(&image.view);
    let is_image = image.source == OperandSource::Value(output.value)
        && images.is_contiguous()
        && images.dims.iter().product::<usize>() == value.shape.elements()
        && output.view.is_contiguous();
    let size = block_size(product, PlaneShape::of(sliding)?);
    (is_image && size.is_some()).then_some(())
}

/// The forms of a product and of sums over windows of its results.
fn forms<'p>(
    step: &'p Step,
    next: &'p Step,
) -> Option<(&'p ProductForm, &'p ReduceForm, &'p Sliding)> {
    let (Form::Product(product), Form::Reduce(reduce)) = (&step.form, &next.form) else {
        return None;
    };
    let sliding = reduce.sliding.as_ref().filter(|sliding| !sliding.channels_last)?;
    let [down, along] = &sliding.axes[..] else { return None };
    let is_product = product.acc == Ty::F32
        && product.spread.is_none()
        && product.k > 0
        && matches!(step.outputs[..], [ref output] if output.dtype == DType::F32);
    let border = sliding.border_bits(&next.scalars);
    let is_windows = reduce.combine == Combine::Sum
        && sliding.weight.is_some()
        && border == 0
        && matches!(next.outputs[..], [ref output] if output.dtype == DType::F32)
        && down.inside.len() * along.inside.len() == product.n;
    (is_product && is_windows && !step.is_empty() && !next.is_empty())
        .then_some((product, reduce, sliding))
}

/// The size of blocks, which depends on the sizes of a step alone. `None` if all planes of an image are one block, which
/// threads find in their caches anyway, or if blocks would be too low.
fn block_size(product: &ProductForm, shape: PlaneShape) -> Option<BlockSize> {
    let &ProductForm { m, n, k, .. } = product;
    let all = shape.rows;
    let wide = (n * m).div_ceil(BLOCK);
    if wide < 2 {
        return None;
    }
    if n * FEWEST.min(m) <= BLOCK && n * k <= BLOCK {
        let parts = wide.max((m / FEWEST).min(MOST)).max(1);
        return Some(BlockSize { planes: m.div_ceil(parts), rows: all });
    }
    let elements = |rows: usize| m * shape.band(&(0..rows)).1.elements();
    let parts = (1..=all).find(|&parts| elements(all.div_ceil(parts)) <= BLOCK + BLOCK / 2)?;
    let rows = all.div_ceil(parts);
    (rows >= ROWS).then_some(BlockSize { planes: m, rows })
}

/// Computes the results of windows over those of `product`, as [`is_fused`] found them.
///
/// # Errors
/// [`DeviceError::OutOfMemory`]; [`DeviceError::Refused`] for a plan in which they were not found.
pub(crate) fn run(
    before: &StepJob<'_>,
    job: &StepJob<'_>,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    let broken = || DeviceError::broken("windows do not follow their product");
    let (product, reduce, sliding) = forms(before.step, job.step).ok_or_else(broken)?;
    let planes = Planes::of(job, reduce, sliding).ok_or_else(broken)?;
    let mut size = block_size(product, planes.shape).ok_or_else(broken)?;
    let unstored = UnstoredProduct::of(before, product)?;
    let images = (0..planes.count).step_by(product.m);
    let all_rows = planes.windows / planes.row;
    let cost = planes.cost() + (planes.count * planes.elements * product.k) as u64;
    let is_shared = parts(cost) > 1;
    if is_shared && size.planes == product.m {
        let rows = [all_rows, size.rows];
        size.rows = rows_of_blocks(rows, 1, images.len(), threads::count());
    }
    let groups = images.flat_map(|first| {
        ranges(product.m, size.planes).map(move |own| first + own.start..first + own.end)
    });
    let blocks =
        groups.flat_map(|own| ranges(all_rows, size.rows).map(move |rows| (own.clone(), rows)));
    let shared = SharedOutputs::new(outputs);
    let work = |(product_worker, worker, image): &mut (_, _, Vec<f32>),
                (own, rows): (Range<usize>, Range<usize>)| {
        let (band, shape) = planes.shape.band(&rows);
        let width = shape.width;
        let elements = band.len() * width;
        image.resize(own.len() * elements, 0.0);
        unstored.results(product_worker, own.clone(), band.start * width..band.end * width, image);
        for (at, plane) in own.enumerate() {
            let image = &image[at * elements..][..elements];
            let start = plane * planes.windows + rows.start * planes.row;
            // SAFETY: blocks have different planes or rows.
            let mut part = unsafe { shared.part(start, rows.len() * planes.row) };
            planes.rows(worker, (&mut part, 0), plane, (shape, image), 0..rows.len());
        }
    };
    let new = || (unstored.worker(), planes.worker(), Vec::new());
    for_each_if(is_shared, blocks.collect(), new, work);
    Ok(())
}
