//! The pass *channels last*: on the host, small images are stored pixel by pixel between the steps of a chain of
//! convolutions, with all channels of a pixel side by side (NHWC).
//!
//! A row of a small image does not fill the vectors of loops over windows and products, but its channels do. A chain begins
//! and ends at products of 1 × 1 filters, which read images in either order. Values that leave the run keep their order.

mod image_step;

use smallvec::SmallVec;

use self::image_step::{ImageSize, ImageStep, WindowImage, shape_channels_last};
use crate::base::shape::View;
use crate::plan::step::Step;
use crate::plan::step_parts::{Space, StepOperand};
use crate::plan::value::{Home, Value, ValueId};

/// Most columns of results of windows over an image that is stored so. More fill over half of the widest vectors, and then
/// products lose as much as windows gain (`docs/lab/2026-11.md`).
const MOST_COLUMNS: usize = 8;
/// Most elements of an image. Of a larger one, the product under the windows is not stored at all
/// (`src/exec/cpu/forms/sliding/fused_product.rs`).
const MOST_ELEMENTS: usize = 128 << 10;
/// Fewest channels of such an image: they fill two of the widest vectors.
const FEWEST_CHANNELS: usize = 32;

/// Stores the images of each chain that gains channels last. The `lasting` values leave the run.
pub(crate) fn store_channels_last(steps: &mut [Step], values: &mut [Value], lasting: &[ValueId]) {
    let small: Vec<ValueId> = steps.iter().filter_map(image_of_small_windows).collect();
    if small.is_empty() {
        return;
    }
    let mut chains = Chains::new(steps, values, lasting);
    chains.choose(&small);
    let sizes = chains.chosen;
    for step in steps {
        let Some(image_step) = ImageStep::of(step) else { continue };
        let view = |(at, operand): (usize, &StepOperand)| {
            let size = sizes[operand.source.value()?.index()]?;
            Some((at, image_step.channels_last(at, size)?))
        };
        let views: Vec<(usize, View)> = step.operands.iter().enumerate().filter_map(view).collect();
        let turn = sizes[step.outputs[0].value.index()].map(|_| image_step.turn());
        for (at, view) in views {
            step.operands[at].view = view;
        }
        if let Some(turn) = turn {
            turn.apply(step);
        }
    }
    for (value, size) in values.iter_mut().zip(sizes) {
        if let Some(size) = size {
            value.shape = shape_channels_last(&value.shape, size);
            value.channels_last = true;
        }
    }
}

/// The image that depthwise windows of `step` slide over, if their rows are short and it has many channels.
fn image_of_small_windows(step: &Step) -> Option<ValueId> {
    let WindowImage { value, size, columns } = ImageStep::of(step)?.image_of_windows()?;
    let is_small = columns <= MOST_COLUMNS
        && size.channels >= FEWEST_CHANNELS
        && size.channels * size.pixels <= MOST_ELEMENTS;
    is_small.then_some(value)
}

/// The values of a plan that are stored channels last, and the steps that read and write them.
struct Chains<'a> {
    steps: &'a [Step],
    /// For each value, the step that writes it, if the value is memory of the run alone.
    writers: Vec<Option<usize>>,
    /// For each value, the steps that read it, and the positions of the operands.
    readers: Vec<SmallVec<[(usize, usize); 2]>>,
    /// For each value that is stored channels last, the size of its images.
    chosen: Vec<Option<ImageSize>>,
}

/// Values that have to be stored in one order, with the sizes of their images.
type Chain = Vec<(ValueId, ImageSize)>;

impl<'a> Chains<'a> {
    fn new(steps: &'a [Step], values: &[Value], lasting: &[ValueId]) -> Self {
        let mut writers = vec![None; values.len()];
        let mut readers = vec![SmallVec::new(); values.len()];
        for (at, step) in steps.iter().enumerate() {
            for (position, operand) in step.operands.iter().enumerate() {
                if let Some(value) = operand.source.value() {
                    readers[value.index()].push((at, position));
                }
            }
            for output in &step.outputs {
                let of_run = matches!(values[output.value.index()].home, Home::Slot(_));
                writers[output.value.index()] = Some(at).filter(|_| of_run);
            }
        }
        for value in lasting {
            writers[value.index()] = None;
        }
        Self { steps, writers, readers, chosen: vec![None; values.len()] }
    }

    /// Chooses the `small` images and what must be stored as they are. Then it chooses images beside these that only products
    /// read, if that spares copies.
    fn choose(&mut self, small: &[ValueId]) {
        for &image in small {
            let chain = self.chain(image).unwrap_or_default();
            self.add(&chain);
        }
        for step in self.steps {
            let Some([read, written]) = self.ends_of_product(step) else { continue };
            for [value, beside] in [[read, written], [written, read]] {
                if self.is_chosen(beside)
                    && !self.is_chosen(value)
                    && let Some(chain) = self.chain(value)
                    && self.spares_copies(&chain)
                {
                    self.add(&chain);
                }
            }
        }
    }

    fn is_chosen(&self, value: ValueId) -> bool {
        self.chosen[value.index()].is_some()
    }

    fn add(&mut self, chain: &[(ValueId, ImageSize)]) {
        for &(value, size) in chain {
            self.chosen[value.index()] = Some(size);
        }
    }

    /// The values that must be stored in the order of `value` and are not chosen yet, `value` among them; `None` if some of
    /// them keep their order.
    fn chain(&self, value: ValueId) -> Option<Chain> {
        let (mut chain, mut next) = (Chain::new(), vec![value]);
        while let Some(value) = next.pop() {
            if self.is_chosen(value) || chain.iter().any(|&(other, _)| other == value) {
                continue;
            }
            let writer = ImageStep::of(&self.steps[self.writers[value.index()]?])?;
            let size = writer.result();
            chain.push((value, size));
            next.extend(writer.read_alike());
            for &(at, operand) in &self.readers[value.index()] {
                let reader = ImageStep::of(&self.steps[at])?;
                reader.channels_last(operand, size)?;
                if self.steps[at].operands[operand].space != Space::W {
                    next.push(self.steps[at].outputs[0].value);
                }
            }
        }
        Some(chain)
    }

    /// Returns whether more products read and write images in one order once `chain` is chosen.
    fn spares_copies(&self, chain: &[(ValueId, ImageSize)]) -> bool {
        let mut spared = 0;
        for &(value, _) in chain {
            let writer = self.writers[value.index()].into_iter();
            let readers = self.readers[value.index()].iter().map(|&(step, _)| step);
            for step in writer.chain(readers) {
                let Some(ends) = self.ends_of_product(&self.steps[step]) else { continue };
                let before = ends.map(|end| self.is_chosen(end));
                let after = ends
                    .map(|end| self.is_chosen(end) || chain.iter().any(|&(value, _)| value == end));
                spared += i32::from(after[0] == after[1]) - i32::from(before[0] == before[1]);
            }
        }
        spared > 0
    }

    /// The image that a product reads as its right operand, and the image that it writes.
    fn ends_of_product(&self, step: &Step) -> Option<[ValueId; 2]> {
        let image = step.operands.iter().find(|operand| operand.space == Space::W)?;
        Some([image.source.value()?, step.outputs.first()?.value])
    }
}
