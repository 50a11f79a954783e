//! The pass *channels last*: on the host, small images around depthwise convolutions are stored with all channels of a pixel
//! side by side (NHWC).
//!
//! A row of a small image does not fill the vectors of loops over windows, but its channels do. Products of 1 × 1 filters read
//! and write either layout, so that no step only changes it. Values that leave the run keep their layout.

mod image_step;

use smallvec::SmallVec;

use self::image_step::{ImageSize, ImageStep, WindowedImage, shape_channels_last};
use crate::plan::forms::Sliding;
use crate::plan::step::Step;
use crate::plan::step_parts::Space;
use crate::plan::value::{Home, Value, ValueId};

/// Most results a row of windows over an image stored channels last. More fill over half of the widest vectors, and then
/// products lose as much as windows gain (`docs/lab/2026-11.md`).
const MOST_COLUMNS: usize = 8;
/// Fewest channels of an image stored channels last: they fill two of the widest vectors.
const FEWEST_CHANNELS: usize = 32;

/// Chooses the values that are stored channels last, and changes the steps that read and write them. The `lasting` values
/// leave the run.
pub(crate) fn store_channels_last(steps: &mut [Step], values: &mut [Value], lasting: &[ValueId]) {
    let images: Vec<ValueId> = steps.iter().filter_map(image_of_short_rows).collect();
    if images.is_empty() {
        return;
    }
    let mut layouts = Layouts::new(steps, values, lasting);
    layouts.choose(&images);
    let sizes: Vec<Option<ImageSize>> = layouts.of.into_iter().map(Layout::channels_last).collect();
    for step in steps {
        let image_step = ImageStep::of(step);
        let mut views = Vec::new();
        for (at, operand) in step.operands.iter().enumerate() {
            let Some(size) = operand.source.value().and_then(|read| sizes[read.index()]) else {
                continue;
            };
            let view = image_step.as_ref().and_then(|step| step.view_channels_last(at, size));
            debug_assert!(view.is_some(), "{} reads a layout that it has no view of", step.label());
            views.extend(view.map(|view| (at, view)));
        }
        let is_written = sizes[step.outputs[0].value.index()].is_some();
        let permutation = image_step.filter(|_| is_written).map(|step| step.permutation());
        for (at, view) in views {
            step.operands[at].view = view;
        }
        if let Some(permutation) = permutation {
            permutation.apply(step);
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
fn image_of_short_rows(step: &Step) -> Option<ValueId> {
    let WindowedImage { value, size, columns } = ImageStep::of(step)?.windowed_image()?;
    let fits = columns <= MOST_COLUMNS
        && size.channels >= FEWEST_CHANNELS
        // A product that writes a larger image is fused into its windows.
        && size.channels * size.pixels <= Sliding::CACHED_ELEMENTS;
    fits.then_some(value)
}

/// The layout of a value.
#[derive(Clone, Copy, PartialEq)]
enum Layout {
    Undecided,
    /// The layout that the recorded operations give.
    Kept,
    ChannelsLast(ImageSize),
}

impl Layout {
    fn channels_last(self) -> Option<ImageSize> {
        match self {
            Self::ChannelsLast(size) => Some(size),
            Self::Undecided | Self::Kept => None,
        }
    }
}

/// The layouts of a plan's values, and the steps that read and write them.
struct Layouts<'a> {
    /// The steps whose results are images.
    steps: Vec<Option<ImageStep<'a>>>,
    /// For each value, the step that writes it, if the value is memory of the run alone.
    writers: Vec<Option<usize>>,
    /// For each value, the steps that read it, and the positions of the operands.
    readers: Vec<SmallVec<[(usize, usize); 2]>>,
    of: Vec<Layout>,
}

/// Values that must have one layout, with the sizes of their images.
type Group = Vec<(ValueId, ImageSize)>;

impl<'a> Layouts<'a> {
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
        let steps = steps.iter().map(ImageStep::of).collect();
        Self { steps, writers, readers, of: vec![Layout::Undecided; values.len()] }
    }

    /// Chooses the groups of `images`. Then it chooses groups beside these that only products read, in the order of steps, if
    /// more products then read and write one layout.
    fn choose(&mut self, images: &[ValueId]) {
        for &image in images {
            self.choose_group(image, |_, _| true);
        }
        for step in 0..self.steps.len() {
            let Some([read, written]) = self.ends_of_product(step) else { continue };
            for [value, beside] in [[read, written], [written, read]] {
                if self.is_channels_last(beside, &[]) {
                    self.choose_group(value, Self::aligns_products);
                }
            }
        }
    }

    fn choose_group(
        &mut self,
        value: ValueId,
        accepts: impl Fn(&Self, &[(ValueId, ImageSize)]) -> bool,
    ) {
        if self.of[value.index()] != Layout::Undecided {
            return;
        }
        let mut group = Group::new();
        let is_free = self.collect(value, &mut group).is_some();
        if is_free && !accepts(self, &group) {
            return;
        }
        // If one value of a group keeps its layout, all do.
        for (value, size) in group {
            self.of[value.index()] =
                if is_free { Layout::ChannelsLast(size) } else { Layout::Kept };
        }
    }

    /// Adds all values that must have the layout of `value`, and `value` itself, to `group`; `None` if some of them keep their
    /// layout.
    fn collect(&self, value: ValueId, group: &mut Group) -> Option<()> {
        let (mut is_seen, mut next) = (vec![false; self.of.len()], vec![value]);
        while let Some(value) = next.pop() {
            if std::mem::replace(&mut is_seen[value.index()], true) {
                continue;
            }
            match self.of[value.index()] {
                Layout::ChannelsLast(_) => continue,
                Layout::Kept => return None,
                Layout::Undecided => {}
            }
            let writer = self.steps[self.writers[value.index()]?].as_ref()?;
            let size = writer.result();
            group.push((value, size));
            next.extend(writer.inputs_of_its_layout());
            for &(at, operand) in &self.readers[value.index()] {
                let reader = self.steps[at].as_ref()?;
                reader.view_channels_last(operand, size)?;
                if reader.step.operands[operand].space != Space::W {
                    next.push(reader.step.outputs[0].value);
                }
            }
        }
        Some(())
    }

    /// Returns whether more products read and write one layout once `group` is stored channels last.
    fn aligns_products(&self, group: &[(ValueId, ImageSize)]) -> bool {
        let mut steps: Vec<usize> = Vec::new();
        for &(value, _) in group {
            steps.extend(self.writers[value.index()]);
            steps.extend(self.readers[value.index()].iter().map(|&(step, _)| step));
        }
        steps.sort_unstable();
        steps.dedup();
        let mut aligned = 0;
        for step in steps {
            let Some(ends) = self.ends_of_product(step) else { continue };
            let [before, after] = [&[][..], group].map(|group| {
                let [read, written] = ends.map(|end| self.is_channels_last(end, group));
                i32::from(read == written)
            });
            aligned += after - before;
        }
        aligned > 0
    }

    /// Returns whether a value is stored channels last, or is one of `group`.
    fn is_channels_last(&self, value: ValueId, group: &[(ValueId, ImageSize)]) -> bool {
        self.of[value.index()].channels_last().is_some()
            || group.iter().any(|&(other, _)| other == value)
    }

    /// The image that a product reads as its right operand, and the image that it writes.
    fn ends_of_product(&self, step: usize) -> Option<[ValueId; 2]> {
        let step = self.steps[step].as_ref()?.step;
        let mut right = step.operands.iter().filter(|operand| operand.space == Space::W);
        Some([right.find_map(|operand| operand.source.value())?, step.outputs[0].value])
    }
}
