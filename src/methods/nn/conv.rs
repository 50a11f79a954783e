//! Convolutions: products of filters with windows, which are views.

use smallvec::SmallVec;

use super::window::{AxisWindows, slid};
use crate::base::dtype::{Element, Numeric, Scalar};
use crate::base::shape::{Move, Shape, Window};
use crate::batch::{GpuCommandBatch, Operand, OptionalOperand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::{check_parameter, check_shape};
use crate::methods::linear::product;
use crate::methods::movement::views::moved;
use crate::ops::Precision;
use crate::record::UserCall;

/// The options of [`conv1d`](GpuCommandBatch::conv1d) and [`conv2d`](GpuCommandBatch::conv2d), whose filters slide
/// along `D` axes. By default they slide one by one, without padding, over all channels.
///
/// ```
/// # use onetrip::{Conv2d, Device, GpuCommandBatch};
/// # let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.full([8, 3, 224, 224], 1.0_f32);
/// let w = batch.full([64, 3, 7, 7], 0.1);
/// let y = batch.conv2d(x, w, None, Conv2d { stride: [2, 2], padding: [(3, 3); 2], ..Conv2d::default() });
/// assert_eq!(batch.shape(y).unwrap().dims(), [8, 64, 112, 112]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Conv<const D: usize> {
    /// The distance between neighbouring windows along each axis.
    pub stride: [usize; D],
    /// Zeros before and after each axis.
    pub padding: [(usize, usize); D],
    /// The distance between neighbouring elements of a window.
    pub dilation: [usize; D],
    /// Groups that channels and filters are cut into; each filter sees the channels of its own.
    pub groups: usize,
    /// The precision of products of `f32`.
    pub precision: Precision,
}

/// Along one axis.
pub type Conv1d = Conv<1>;
/// Along two axes: height and width.
pub type Conv2d = Conv<2>;

impl<const D: usize> Default for Conv<D> {
    fn default() -> Self {
        Self {
            stride: [1; D],
            padding: [(0, 0); D],
            dilation: [1; D],
            groups: 1,
            precision: Precision::Exact,
        }
    }
}

/// The sizes of a convolution.
struct ConvSizes<const D: usize> {
    batch: usize,
    groups: usize,
    /// Channels and filters of a group.
    channels: usize,
    filters: usize,
    slides: [AxisWindows; D],
}

impl<const D: usize> ConvSizes<D> {
    fn counts(&self) -> impl Iterator<Item = usize> + '_ {
        self.slides.iter().map(|slide| slide.count)
    }

    fn window(&self) -> impl Iterator<Item = usize> + '_ {
        self.slides.iter().map(|slide| slide.window.size)
    }

    /// Elements that a filter multiplies.
    fn taps(&self) -> usize {
        self.channels * self.window().product::<usize>()
    }

    /// `[batch, filters, …]`
    fn output(&self) -> Shape {
        [self.batch, self.groups * self.filters].into_iter().chain(self.counts()).collect()
    }

    /// Returns true if each filter sees one channel and shares it with few others. Its elements are then added up one by one,
    /// by a reduction over windows.
    fn is_added_directly(&self) -> bool {
        self.channels == 1 && self.filters <= 4
    }
}

operations! {
    /// Convolutions over `[batch, channels, length]` or `[batch, channels, height, width]`, as in PyTorch (without a
    /// flip of the filter). On a GPU windows are never written to memory: the kernel of a product reads them where they
    /// lie, borders included. On the host blocks of images of `f32` are laid out once for all windows; a padded tensor of
    /// another type may be written once before a product. What follows (bias, activation, a sum with another tensor)
    /// becomes part of the product. 1 × 1 filters are a product as it is. Filters of one
    /// channel, at most four a group, add their few elements up directly.
    "convolution";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Conv1d, Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[1_i32, 2, 3], [1, 1, 3]);
        /// let w = batch.upload_shaped(&[1_i32, 1], [1, 1, 2]);
        /// let y = x.conv1d(w, None, Conv1d::default());
        /// batch.execute().await?;
        /// assert_eq!(batch.read(y).await?, [3, 5]);
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// The sums of `x` times filters in each window: `x` of `[batch, channels, length]`, `w` of `[filters, channels /
    /// groups, size]` and, if there is one, a `bias` of `[filters]`. The result is `[batch, filters, n]` with
    /// n = ⌊(length + padding − dilation·(size − 1) − 1) / stride⌋ + 1, where padding is that of both ends. It is a mistake if
    /// `groups` does not divide the channels and the filters. So are channels of `x` and `w` that do not fit, and a window
    /// longer than its padded axis.
    fn conv1d<T: Numeric>(x: T, w: T; bias: impl OptionalOperand<T>, conv: Conv1d) -> Tensor<'b, T> = convolved(x, w, x.optional(bias), &conv),
        NUMERIC, CONVOLVED, SUMMED, "Filters that slide along one axis, with stride, padding, dilation and groups.";
    /// As [`conv1d`](Self::conv1d), over two axes: `x` of `[batch, channels, height, width]`, `w` of `[filters,
    /// channels / groups, height, width]`, and a result `[batch, filters, n, m]`.
    fn conv2d<T: Numeric>(x: T, w: T; bias: impl OptionalOperand<T>, conv: Conv2d) -> Tensor<'b, T> = convolved(x, w, x.optional(bias), &conv),
        NUMERIC, CONVOLVED, SUMMED, "Filters that slide along two axes, with stride, padding, dilation and groups.";
}

pub(super) fn convolved<'b, T: Numeric, const D: usize>(
    x: Tensor<'b, T>,
    w: Tensor<'b, T>,
    bias: Option<Tensor<'b, T>>,
    conv: &Conv<D>,
) -> TensorResult<'b, T> {
    let sizes = sizes(&x.known_shape()?, &w.known_shape()?, conv)?;
    let filters = sizes.groups * sizes.filters;
    check_shape("bias", bias, filters)?;
    let zero = Scalar::new(T::DTYPE, 0.0);
    let windows = slid(UserCall::outer_name(), x, 2, &sizes.slides, zero)?;
    let y = if sizes.is_added_directly() {
        taps_added(windows, w, &sizes)
    } else {
        taps_multiplied(windows, w, &sizes, conv.precision)
    };
    let y = y.reshape(sizes.output());
    Ok(match bias {
        Some(bias) => {
            let ones = std::iter::repeat_n(1, D);
            y + bias.reshape(Shape::from_iter([filters].into_iter().chain(ones)))
        }
        None => y,
    })
}

/// A product for each group: filters times windows, of `[batch, channels, windows, elements, …]`.
fn taps_multiplied<'b, T: Numeric, const D: usize>(
    windows: Tensor<'b, T>,
    w: Tensor<'b, T>,
    sizes: &ConvSizes<D>,
    precision: Precision,
) -> Tensor<'b, T> {
    let &ConvSizes { batch, groups, channels, filters, .. } = sizes;
    let along = sizes.counts().zip(sizes.window()).flat_map(|(count, size)| [count, size]);
    let grouped =
        windows.reshape(Shape::from_iter([batch, groups, channels].into_iter().chain(along)));
    let elements = (0..D).map(|axis| 4 + 2 * axis);
    let places = (0..D).map(|axis| 3 + 2 * axis);
    let order: SmallVec<[usize; 4]> = (0..3).chain(elements).chain(places).collect();
    let grouped = moved(UserCall::outer_name(), grouped, Move::Permute(order));
    let places = sizes.counts().product();
    let columns = grouped.reshape([batch, groups, sizes.taps(), places]);
    let rows = w.reshape([groups, filters, sizes.taps()]);
    product(rows, columns, precision)
}

/// Filters of one channel: each element of a window times its own of the filter, added up.
fn taps_added<'b, T: Numeric, const D: usize>(
    windows: Tensor<'b, T>,
    w: Tensor<'b, T>,
    sizes: &ConvSizes<D>,
) -> Tensor<'b, T> {
    let &ConvSizes { batch, groups, filters, .. } = sizes;
    let along = sizes.counts().zip(sizes.window()).flat_map(|(count, size)| [count, size]);
    let windows = windows.reshape(Shape::from_iter([batch, groups, 1].into_iter().chain(along)));
    let elements = sizes.window().flat_map(|size| [1, size]);
    let w = w.reshape(Shape::from_iter([groups, filters].into_iter().chain(elements)));
    let axes: Vec<isize> = (0..D as isize).map(|axis| 4 + 2 * axis).collect();
    (windows * w).sum(&axes[..])
}

/// The sizes of `conv` of `x` and `w`, if they fit.
fn sizes<const D: usize>(
    x: &Shape,
    w: &Shape,
    conv: &Conv<D>,
) -> Result<ConvSizes<D>, MistakeKind> {
    let groups = conv.groups;
    let layouts =
        ["[filters, channels / groups, size]", "[filters, channels / groups, height, width]"];
    check_layouts::<D>(x, w, layouts, groups, || w[1].saturating_mul(groups))?;
    let mut slides = [AxisWindows::default(); D];
    for (at, slide) in slides.iter_mut().enumerate() {
        let (size, step, dilation) = (w[2 + at], conv.stride[at], conv.dilation[at]);
        let window = Window { size, step, dilation };
        *slide = AxisWindows::new(window, x, 2 + at, conv.padding[at], false)?;
    }
    let (channels, filters) = (w[1], w[0] / groups);
    Ok(ConvSizes { batch: x[0], groups, channels, filters, slides })
}

/// Checks the ranks of `x` and of `w`, which has one of `layouts` over one or two axes. The first axis of `w` is cut into
/// `groups`, and its filters see `channels`.
pub(super) fn check_layouts<const D: usize>(
    x: &Shape,
    w: &Shape,
    layouts: [&'static str; 2],
    groups: usize,
    channels: impl FnOnce() -> usize,
) -> Result<(), MistakeKind> {
    let images = match x.rank() == D + 1 {
        false => ["[batch, channels, length]", "[batch, channels, height, width]"],
        true => [
            "[batch, channels, length] (one sequence: `unsqueeze(0)`)",
            "[batch, channels, height, width] (one image: `unsqueeze(0)`)",
        ],
    };
    for (what, shape, wanted) in [("x", x, images[D - 1]), ("w", w, layouts[D - 1])] {
        if shape.rank() != D + 2 {
            return Err(MistakeKind::Layout { what, wanted, shape: shape.clone() });
        }
    }
    check_parameter("groups", groups > 0, "at least 1", &groups)?;
    let channels = channels();
    if x[1] != channels || !w[0].is_multiple_of(groups) {
        return Err(MistakeKind::Channels { x: x.clone(), w: w.clone(), groups, channels });
    }
    Ok(())
}
