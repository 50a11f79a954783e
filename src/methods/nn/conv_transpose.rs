//! Transposed convolutions: convolutions by parts of the filters for each phase of the stride, or of what is spread out
//! with zeros.

use std::ops::Range;

use smallvec::SmallVec;

use super::conv::{Conv, check_layouts, convolved};
use super::window::check_window;
use crate::base::dtype::{Element, Numeric, Scalar};
use crate::base::shape::{Shape, Window};
use crate::batch::{GpuCommandBatch, Operand, OptionalOperand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::{check_parameter, check_shape};
use crate::ops::{Op, Precision, check_size};

/// Filters that see fewer channels than this are added up element by element, or nearly so.
const FEW_CHANNELS: usize = 4;

/// The options of [`conv_transpose2d`](GpuCommandBatch::conv_transpose2d) and its like, which lay out filters along `D`
/// axes: the numbers of the convolution that is turned around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvTranspose<const D: usize> {
    /// The stride: the distance between the filters of neighbouring elements.
    pub stride: [usize; D],
    /// Elements left out before and after each axis of the result.
    pub padding: [(usize, usize); D],
    /// Extra elements at the end of each axis, which must be fewer than the stride or the dilation.
    pub output_padding: [usize; D],
    /// The distance between neighbouring elements of a filter.
    pub dilation: [usize; D],
    /// Groups that channels and filters are cut into.
    pub groups: usize,
    /// The precision of products of `f32`.
    pub precision: Precision,
}

/// Along one axis.
pub type ConvTranspose1d = ConvTranspose<1>;
/// Along two axes: height and width.
pub type ConvTranspose2d = ConvTranspose<2>;

impl<const D: usize> Default for ConvTranspose<D> {
    fn default() -> Self {
        Self {
            stride: [1; D],
            padding: [(0, 0); D],
            output_padding: [0; D],
            dilation: [1; D],
            groups: 1,
            precision: Precision::Exact,
        }
    }
}

/// One axis where the argument is written out: elements `step` apart, of which `start..end` are taken, between zeros.
struct SpreadAxis {
    step: usize,
    start: usize,
    end: usize,
    border: (usize, usize),
}

operations! {
    /// Transposed convolutions, as in PyTorch: each element lays out its filter, scaled by it, and overlaps are added
    /// up. With stride s, one product computes the s results between two elements, from s parts of the filter. The
    /// results are then put in place (Shi et al., 2016). Where filters see fewer than 4 channels, or are dilated, the
    /// argument is written out with zeros between its elements.
    ///
    /// Filters whose size is no multiple of the stride are filled up with zeros, and zeros between elements are
    /// multiplied by filters. Products of zeros with ±∞ or NaN are NaN. Such an element makes NaN of up to s − 1
    /// results past the reach of its filter. Such an element of a filter makes NaN of results that no element reaches
    /// by it. In PyTorch those results stay as they are.
    "convolution";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{ConvTranspose1d, ConvTranspose2d, Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[1_i32, 2], [1, 1, 2]);
        /// let w = batch.upload_shaped(&[1_i32, 1], [1, 1, 2]);
        /// let (image, filter) = (x.unsqueeze(2), w.unsqueeze(2));
        /// let results = [
        ///     (x.conv_transpose1d(w, None, ConvTranspose1d::default()), [1, 3, 2]),
        ///     (image.conv_transpose2d(filter, None, ConvTranspose2d::default()), [1, 3, 2]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert_eq!(values, expected);
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// `x` of `[batch, channels, length]`, `w` of `[channels, filters / groups, size]` and, if there is one, a `bias`
    /// of `[filters]`: along each axis (length − 1)·stride + reach − padding + `output_padding` elements, where a
    /// filter reaches over (size − 1)·dilation + 1.
    fn conv_transpose1d<T: Numeric>(x: T, w: T; bias: impl OptionalOperand<T>, conv: ConvTranspose1d) -> Tensor<'b, T> = conv_transpose(x, w, x.optional(bias), &conv),
        NUMERIC, TURNED_AROUND, SUMMED, "Filters laid out along one axis and added up: a convolution turned around.";
    /// As [`conv_transpose1d`](Self::conv_transpose1d), over two axes: `x` of `[batch, channels, height, width]`, `w`
    /// of `[channels, filters / groups, height, width]`.
    fn conv_transpose2d<T: Numeric>(x: T, w: T; bias: impl OptionalOperand<T>, conv: ConvTranspose2d) -> Tensor<'b, T> = conv_transpose(x, w, x.optional(bias), &conv),
        NUMERIC, TURNED_AROUND, SUMMED, "Filters laid out along two axes and added up: a convolution turned around.";
}

fn conv_transpose<'b, T: Numeric, const D: usize>(
    x: Tensor<'b, T>,
    w: Tensor<'b, T>,
    bias: Option<Tensor<'b, T>>,
    conv: &ConvTranspose<D>,
) -> TensorResult<'b, T> {
    let (shape, filters) = (x.known_shape()?, w.known_shape()?);
    let layouts =
        ["[channels, filters / groups, size]", "[channels, filters / groups, height, width]"];
    check_layouts::<D>(&shape, &filters, layouts, conv.groups, || filters[0])?;
    let axes: Vec<SpreadAxis> =
        (0..D).map(|at| axis(&shape, &filters, conv, at)).collect::<Result<_, _>>()?;
    if let Some(phases) = phases(&shape, &filters, conv) {
        return by_phases(x, (w, &filters), bias, conv, &phases);
    }
    let spread = spread_out(x, &shape, &axes)?;
    let w = turned(w, &filters, conv.groups);
    let padding: [_; D] = std::array::from_fn(|at| axes[at].border);
    let &ConvTranspose { dilation, groups, precision, .. } = conv;
    let plain = Conv { padding, dilation, groups, precision, ..Conv::default() };
    convolved(spread, w, bias, &plain)
}

/// A convolution that gives all phases of a place as so many filters, each of which is then at its own place.
fn by_phases<'b, T: Numeric, const D: usize>(
    x: Tensor<'b, T>,
    (w, filters): (Tensor<'b, T>, &Shape),
    bias: Option<Tensor<'b, T>>,
    conv: &ConvTranspose<D>,
    phases: &[PhasedAxis; D],
) -> TensorResult<'b, T> {
    let shape = x.known_shape()?;
    let count = filters[1] * conv.groups;
    check_shape("bias", bias, count)?;
    let head = [shape[0], count];
    let joined = || phases.iter().map(|axis| axis.places * axis.step);
    check_size(&filters.dims()[..2].iter().copied().chain(filled(phases)).collect())?;
    check_size(&head.into_iter().chain(joined()).collect())?;
    let whole = shape.dims()[..2].iter().map(|&len| 0..len);
    let x = x.slice(whole.chain(phases.iter().map(|axis| axis.seen.clone())));
    let w = phases_of(w, filters, conv.groups, phases);
    let padding: [_; D] = std::array::from_fn(|at| phases[at].border);
    let &ConvTranspose { groups, precision, .. } = conv;
    let plain = Conv { padding, groups, precision, ..Conv::default() };
    let y = convolved(x, w, None, &plain)?;
    let steps = phases.iter().map(|axis| axis.step);
    let places = phases.iter().map(|axis| axis.places);
    let mut y = y.reshape(head.into_iter().chain(steps).chain(places).collect::<Shape>());
    if let Some(bias) = bias {
        let ones = std::iter::repeat_n(1, 2 * D);
        y = y + bias.reshape([count].into_iter().chain(ones).collect::<Shape>());
    }
    let pairs = (0..D as isize).flat_map(|axis| [2 + D as isize + axis, 2 + axis]);
    let y = y.permute([0, 1].into_iter().chain(pairs).collect::<SmallVec<[_; 8]>>());
    let y = y.reshape(head.into_iter().chain(joined()).collect::<Shape>());
    let whole = head.into_iter().map(|len| 0..len);
    Ok(y.slice(whole.chain(phases.iter().map(|axis| axis.taken.clone()))))
}

/// For each filter and phase the elements of the filter that lie a stride apart, backwards, with zeros after the
/// last.
fn phases_of<'b, T: Numeric, const D: usize>(
    w: Tensor<'b, T>,
    shape: &Shape,
    groups: usize,
    phases: &[PhasedAxis; D],
) -> Tensor<'b, T> {
    let (seen, each) = (shape[0] / groups, shape[1]);
    let longer = filled(phases).zip(&shape.dims()[2..]);
    let after = longer.map(|(filled, &size)| (0, filled - size));
    let border: SmallVec<[_; 4]> = [(0, 0); 2].into_iter().chain(after).collect();
    let w = w.pad(border, T::default());
    let pairs = phases.iter().flat_map(|axis| [axis.taps, axis.step]);
    let w = w.reshape([groups, seen, each].into_iter().chain(pairs).collect::<Shape>());
    let taps = (0..D as isize).map(|axis| 3 + 2 * axis);
    let w = w.flip(&taps.clone().collect::<SmallVec<[_; 2]>>()[..]);
    let steps = (0..D as isize).map(|axis| 4 + 2 * axis);
    let order = [0, 2].into_iter().chain(steps).chain([1]).chain(taps);
    let w = w.permute(order.collect::<SmallVec<[_; 8]>>());
    let all = phases.iter().map(|axis| axis.step).product::<usize>() * groups * each;
    let taps = phases.iter().map(|axis| axis.taps);
    w.reshape([all, seen].into_iter().chain(taps).collect::<Shape>())
}

/// `x` with zeros between its elements, cut to the range that `axes` take.
fn spread_out<'b, T: Numeric>(
    x: Tensor<'b, T>,
    shape: &Shape,
    axes: &[SpreadAxis],
) -> TensorResult<'b, T> {
    let lead = &shape.dims()[..2];
    let each = || axes.iter().zip(&shape.dims()[2..]);
    let spread =
        lead.iter().copied().chain(each().map(|(axis, &len)| len.saturating_mul(axis.step)));
    let spread: Shape = spread.collect();
    check_size(&spread)?;
    let mut y = x;
    if axes.iter().any(|axis| axis.step > 1) {
        let pairs = each().flat_map(|(_, &len)| [len, 1]);
        y = y.reshape(lead.iter().copied().chain(pairs).collect::<Shape>());
        let none = [0, 0].into_iter();
        let before = std::iter::repeat_n(0, 2 + 2 * axes.len()).collect();
        let after = none.chain(axes.iter().flat_map(|axis| [0, axis.step - 1])).collect();
        y = y.apply(Op::Pad { before, after, value: Scalar::new(T::DTYPE, 0.0) });
        y = y.reshape(spread);
    }
    let whole = lead.iter().map(|&len| 0..len);
    Ok(y.slice(whole.chain(axes.iter().map(|axis| axis.start..axis.end))))
}

/// Filters as a convolution takes them: those of a group by the channels that they see, backwards.
fn turned<'b, T: Numeric>(w: Tensor<'b, T>, shape: &Shape, groups: usize) -> Tensor<'b, T> {
    let (seen, each) = (shape[0] / groups, shape[1]);
    let sizes = &shape.dims()[2..];
    let with = |head: &[usize]| head.iter().chain(sizes).copied().collect::<Shape>();
    let grouped = w.reshape(with(&[groups, seen, each]));
    let rest = 3..3 + sizes.len() as isize;
    let order: SmallVec<[isize; 8]> = [0, 2, 1].into_iter().chain(rest.clone()).collect();
    let axes: Vec<isize> = rest.collect();
    grouped.permute(order).flip(&axes[..]).reshape(with(&[groups * each, seen]))
}

/// One axis where results are computed by the phases of the stride.
struct PhasedAxis {
    step: usize,
    /// Elements of a filter that a phase takes.
    taps: usize,
    /// Places of `step` results each.
    places: usize,
    /// The elements that are seen, and the zeros around them.
    seen: Range<usize>,
    border: (usize, usize),
    /// The results among those of all places.
    taken: Range<usize>,
}

/// Elements of a filter along each axis with the zeros that fill it up.
fn filled(phases: &[PhasedAxis]) -> impl Iterator<Item = usize> {
    phases.iter().map(|axis| axis.taps * axis.step)
}

/// The phases of each axis; `None` where zeros between the elements cost less, or dilation mixes phases.
fn phases<const D: usize>(
    x: &Shape,
    w: &Shape,
    conv: &ConvTranspose<D>,
) -> Option<[PhasedAxis; D]> {
    let strided = conv.stride.iter().any(|&step| step > 1);
    let channels = w[0] / conv.groups;
    if !strided || channels < FEW_CHANNELS || conv.dilation.iter().any(|&dilation| dilation > 1) {
        return None;
    }
    let axes: Vec<PhasedAxis> =
        (0..D).map(|at| phases_along(x, w, conv, at)).collect::<Option<_>>()?;
    axes.try_into().ok()
}

fn phases_along<const D: usize>(
    x: &Shape,
    w: &Shape,
    conv: &ConvTranspose<D>,
    at: usize,
) -> Option<PhasedAxis> {
    let (len, size, step) = (x[2 + at], w[2 + at], conv.stride[at]);
    let (before, after) = conv.padding[at];
    let all =
        (len - 1).checked_mul(step)?.checked_add(size)?.checked_add(conv.output_padding[at])?;
    let taps = size.div_ceil(step);
    // Result i of all is of place i / step.
    let end = all.checked_sub(after)?;
    let (first, last) = (before / step, end.checked_sub(1)? / step);
    // A place is made of the element of its number and those before it.
    let seen = (first + 1).saturating_sub(taps)..(last + 1).min(len);
    let border = (taps.saturating_sub(first + 1), (last + 1).saturating_sub(len));
    let taken = before - first * step..end - first * step;
    let places = (last + 1).checked_sub(first)?;
    taps.max(places).checked_mul(step)?;
    (!seen.is_empty()).then_some(PhasedAxis { step, taps, places, seen, border, taken })
}

/// Axis `at` of the image, checked.
fn axis<const D: usize>(
    x: &Shape,
    w: &Shape,
    conv: &ConvTranspose<D>,
    at: usize,
) -> Result<SpreadAxis, MistakeKind> {
    let (len, size) = (x[2 + at], w[2 + at]);
    let (step, dilation, more) = (conv.stride[at], conv.dilation[at], conv.output_padding[at]);
    check_window(Window { size, step, dilation })?;
    let must = "less than the stride or the dilation";
    check_parameter("output_padding", more < step.max(dilation), must, &more)?;
    let reach = Window { size, step: 1, dilation }.reach();
    let (before, after) = conv.padding[at];
    let [length, reach_, step_, before_, after_, more_] =
        [len, reach, step, before, after, more].map(|number| number as i128);
    let result = (length - 1) * step_ + reach_ - before_ - after_ + more_;
    if len == 0 || result < 1 {
        return Err(MistakeKind::Window { reach, axis: 2 + at, shape: x.clone() });
    }
    // The zeros before the first element, and after those that follow the last.
    let (left, right) = (reach_ - 1 - before_, reach_ - step_ - after_ + more_);
    let zeros = |side: i128| usize::try_from(side).unwrap_or(0);
    let end = len.saturating_mul(step).saturating_sub(zeros(-right));
    // The elements left out at the front may reach past all elements, into the zeros after them.
    let past = zeros(-left).saturating_sub(end);
    let border = (zeros(left), zeros(right).saturating_sub(past));
    Ok(SpreadAxis { step, start: zeros(-left).min(end), end, border })
}
