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
    let sizes = Chains::new(steps, values, lasting).choose();
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

/// The steps of a plan, by the values that they read and write.
struct Chains<'a> {
    steps: &'a [Step],
    /// For each value, the step that writes it, if the value is memory of the run alone.
    writers: Vec<Option<usize>>,
    /// For each value, the steps that read it, and the positions of the operands.
    readers: Vec<SmallVec<[(usize, usize); 2]>>,
}

/// The sizes of the images of values that are stored channels last.
type Chosen = Vec<Option<ImageSize>>;

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
                let of_run = matches!(values[output.value.index()].home, Home::Slot(_))
                    && !lasting.contains(&output.value);
                writers[output.value.index()] = Some(at).filter(|_| of_run);
            }
        }
        Self { steps, writers, readers }
    }

    /// The images around small depthwise windows, then those that only products read, if that spares copies.
    fn choose(&self) -> Chosen {
        let mut chosen = vec![None; self.writers.len()];
        for step in self.steps {
            let Some(step) = ImageStep::of(step) else { continue };
            if let Some(WindowImage { value: image, size, columns }) = step.image_of_windows()
                && columns <= MOST_COLUMNS
                && size.channels >= FEWEST_CHANNELS
                && size.channels * size.pixels <= MOST_ELEMENTS
                && let Some(more) = self.chain(image, &chosen)
            {
                chosen = more;
            }
        }
        if chosen.iter().any(Option::is_some) {
            for value in (0..self.writers.len()).map(|at| ValueId(at as u32)) {
                if let Some(more) = self.chain(value, &chosen)
                    && self.spared_copies(&more) > self.spared_copies(&chosen)
                {
                    chosen = more;
                }
            }
        }
        chosen
    }

    /// Adds `value` and all others that must be stored in its order to those that are `chosen`; `None` if some cannot be.
    fn chain(&self, value: ValueId, chosen: &Chosen) -> Option<Chosen> {
        let (mut chain, mut chosen) = (vec![value], chosen.clone());
        let mut done = 0;
        while let Some(&value) = chain.get(done) {
            done += 1;
            let writer = ImageStep::of(&self.steps[self.writers[value.index()]?])?;
            let size = writer.result();
            chosen[value.index()] = Some(size);
            let mut alike: SmallVec<[ValueId; 8]> = writer.read_alike().collect();
            for &(at, operand) in &self.readers[value.index()] {
                let reader = ImageStep::of(&self.steps[at])?;
                reader.channels_last(operand, size)?;
                if self.steps[at].operands[operand].space != Space::W {
                    alike.push(self.steps[at].outputs[0].value);
                }
            }
            alike.retain(|other| !chain.contains(other) && chosen[other.index()].is_none());
            chain.extend(alike);
        }
        Some(chosen)
    }

    /// The number of products that read images in the order in which they write theirs, less the number of others.
    fn spared_copies(&self, chosen: &Chosen) -> i64 {
        let orders = self.steps.iter().filter_map(|step| {
            let ImageStep { .. } = ImageStep::of(step)?;
            let mut operands = step.operands.iter();
            let image = operands.find(|operand| operand.space == Space::W)?.source.value()?;
            Some([image, step.outputs[0].value].map(|value| chosen[value.index()].is_some()))
        });
        orders.map(|[read, written]| if read == written { 1 } else { -1 }).sum()
    }
}
