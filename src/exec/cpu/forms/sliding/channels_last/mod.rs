//! Sums over depthwise windows of images stored channels last: a vector holds channels of one pixel.

mod image;
mod loops;
mod padded_rows;

use std::borrow::Cow;

use bytemuck::{cast_slice, cast_slice_mut};

use self::image::{WindowedAxis, WindowedImages};
use self::loops::sum_rows;
use crate::base::shape::View;
use crate::error::DeviceError;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::forms::row::fill;
use crate::exec::cpu::operands::{OutputPart, for_each_part};
use crate::exec::cpu::tape::Machine;
use crate::exec::cpu::{ExprHole, StepJob};
use crate::exec::{ArrangementKey, ArrangementOrder, HostBuffer};
use crate::plan::{CollapsedAxes, ReduceForm, Sliding, Space};

/// Computes the results of a step whose images the plan stores channels last.
///
/// # Errors
/// [`DeviceError::Refused`] for a plan whose image is not in memory.
pub(crate) fn run(
    job: &StepJob<'_>,
    reduce: &ReduceForm,
    sliding: &Sliding,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    let broken = || DeviceError::broken("images with channels last are not in memory");
    let [down, along] = &sliding.axes[..] else { return Err(broken()) };
    let [down, along] = [down, along].map(WindowedAxis::of);
    let channels = reduce.outer.last().copied().ok_or_else(broken)?;
    let (.., image) = job.loaded(sliding.element).ok_or_else(broken)?;
    let words = image.words();
    let epilogue = Epilogue::of(job);
    let affine = epilogue.chain.as_ref().and_then(|chain| chain.as_affine_of_columns(channels));
    let weights = weights(job, reduce, sliding).ok_or_else(broken)?;
    let images = cast_slice(words);
    let images = WindowedImages {
        channels,
        down,
        along,
        images,
        weights: &weights,
        affine: affine.as_ref(),
    };
    let row = along.count * channels;
    let results = outputs.first().map_or(0, HostBuffer::len);
    let of_window = sliding.taps() as u64 + epilogue.tape.flops();
    let cost = results as u64 * of_window + 2 * words.len() as u64;
    let work = |(machine, scratch): &mut (Machine<'_>, Vec<f32>), mut part: OutputPart<'_>| {
        let len = part.len;
        let rows = part.start / row..(part.start + len) / row;
        sum_rows(&images, rows, cast_slice_mut(part.words(0, 0, len)), scratch);
        if affine.is_none() {
            epilogue.finish_in_place(machine, &mut part, 0, len);
        }
    };
    for_each_part(outputs, cost, row, || (epilogue.machine(), Vec::new()), work);
    Ok(())
}

/// The weights of each element of a window, of which all channels lie side by side. Those of a resident are kept from the
/// second run on.
fn weights<'a>(
    job: &StepJob<'a>,
    reduce: &ReduceForm,
    sliding: &Sliding,
) -> Option<Cow<'a, [f32]>> {
    let weight = sliding.weight?;
    let channel = reduce.outer.len().checked_sub(1)?;
    let order = |view: &View| {
        let of_window = sliding.axes.iter().filter_map(|axis| axis.inner);
        view.along(of_window.chain([channel]))
    };
    let (taps, channels) = (sliding.taps(), reduce.outer[channel]);
    let len = taps * channels;
    let make = || {
        let inputs = job.inputs_through(Space::Main, |view| Cow::Owned(order(view)));
        let mut machine = Machine::new(job.tape(ExprHole::Right, &[weight], &inputs));
        let mut weights = vec![0.0_f32; len];
        fill(&mut machine, &inputs, 0, cast_slice_mut(&mut weights));
        weights
    };
    let resident = job.loaded(weight).filter(|&(_, value, _)| job.is_resident(value));
    let kept = resident.and_then(|(operand, _, buffer)| {
        let view = order(&operand.view);
        // The elements of a window are one axis, so that the key describes them.
        let axes = CollapsedAxes::collapse(&view.dims, &[&view.strides]);
        if axes.dims[..] != [taps, channels] {
            return None;
        }
        let key = ArrangementKey {
            order: ArrangementOrder::ChannelsLast,
            start: view.offset,
            strides: [axes.strides[0][0], axes.strides[0][1]],
            size: [taps, channels],
        };
        buffer.arranged().get(key, len, make)
    });
    Some(kept.map_or_else(|| Cow::Owned(make()), Cow::Borrowed))
}
