//! Pooling: reductions over windows that slide along the last axes.

use super::window::{AxisWindows, slid};
use crate::base::dtype::{DType, Element, Float, Numeric, Scalar};
use crate::base::shape::Window;
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::methods::Axes;
use crate::methods::arguments::checks::layout;
use crate::ops::Op;
use crate::record::{Refusal, UserCall};

/// The options of [`max_pool1d`](GpuCommandBatch::max_pool1d), [`avg_pool2d`](GpuCommandBatch::avg_pool2d) and the
/// like, whose windows slide along the last `D` axes. By default a window is one element, without padding.
///
/// ```
/// # use onetrip::{Device, GpuCommandBatch, Pool2d};
/// # let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.full([1, 64, 112, 112], 1.0_f32);
/// let pool = Pool2d { stride: Some([2, 2]), padding: [(1, 1); 2], ..Pool2d::new([3, 3]) };
/// let y = batch.max_pool2d(x, pool);
/// assert_eq!(batch.shape(y).unwrap().dims(), [1, 64, 56, 56]);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Pool<const D: usize> {
    /// Elements of a window along each axis.
    pub size: [usize; D],
    /// From the start of one window to that of the next; `None` for the size, so that windows touch.
    pub stride: Option<[usize; D]>,
    /// Elements of border before and after each axis.
    pub padding: [(usize, usize); D],
    /// From one element of a window to the next.
    pub dilation: [usize; D],
    /// True if a last window may reach past the end (of axis and padding), as long as it starts inside of the axis
    /// or of the padding before it.
    pub ceil_mode: bool,
    /// True if an average counts the padding as zeros (PyTorch's `count_include_pad`, true by default as there; ONNX's
    /// default is false). Elements that `ceil_mode` adds are never counted.
    pub count_padding: bool,
}

/// Windows along one axis.
pub type Pool1d = Pool<1>;
/// Windows along two axes: height and width.
pub type Pool2d = Pool<2>;

impl<const D: usize> Pool<D> {
    /// Windows of `size` that touch, without padding.
    #[must_use]
    pub fn new(size: [usize; D]) -> Self {
        Self {
            size,
            stride: None,
            padding: [(0, 0); D],
            dilation: [1; D],
            ceil_mode: false,
            count_padding: true,
        }
    }
}

impl<const D: usize> Default for Pool<D> {
    fn default() -> Self {
        Self::new([1; D])
    }
}

operations! {
    /// Pooling over the last one or two axes, after any others: `[batch, channels, length]` or `[batch, channels,
    /// height, width]` as in PyTorch, whose rules these are. What is padded is no memory: one kernel reads the argument
    /// and writes the result.
    "pooling";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch, Pool1d, Pool2d};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[1.0_f32, 2.0, 3.0, 4.0], [1, 1, 4]);
        /// let image = x.reshape([1, 1, 2, 2]);
        /// let results = [
        ///     (x.max_pool1d(Pool1d::new([2])), vec![2.0, 4.0]),
        ///     (x.avg_pool1d(Pool1d::new([2])), vec![1.5, 3.5]),
        ///     (image.max_pool2d(Pool2d::new([2, 2])), vec![4.0]),
        ///     (image.avg_pool2d(Pool2d::new([2, 2])), vec![2.5]),
        ///     (image.global_avg_pool(), vec![2.5]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     assert_eq!(batch.read(result).await?, expected);
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// The greatest element of each window, NaN if any is NaN. The padding is less than every number; where a window
    /// covers nothing else, the result is −∞ (for integers, the least number).
    fn max_pool1d<T: Numeric>(x: T; pool: Pool1d) -> Tensor<'b, T> = max_pool(x, pool),
        NUMERIC, WINDOWED, EXACT, "The greatest element of each window along the last axis.";
    /// As [`max_pool1d`](Self::max_pool1d), over two axes.
    fn max_pool2d<T: Numeric>(x: T; pool: Pool2d) -> Tensor<'b, T> = max_pool(x, pool),
        NUMERIC, WINDOWED, EXACT, "The greatest element of each window along the last two axes.";
    /// The mean of each window, with or without the padding ([`Pool::count_padding`]); 0 where nothing is counted.
    fn avg_pool1d<T: Float>(x: T; pool: Pool1d) -> Tensor<'b, T> = avg_pool(x, pool),
        FLOAT, WINDOWED, SUMMED, "The mean of each window along the last axis.";
    /// As [`avg_pool1d`](Self::avg_pool1d), over two axes.
    fn avg_pool2d<T: Float>(x: T; pool: Pool2d) -> Tensor<'b, T> = avg_pool(x, pool),
        FLOAT, WINDOWED, SUMMED, "The mean of each window along the last two axes.";
    /// The mean over all axes but the first two, which stay with size 1: `[batch, channels, 1, 1]` of an image.
    fn global_avg_pool<T: Float>(x: T) -> Tensor<'b, T> = global_avg_pool(x),
        FLOAT, WINDOWED, SUMMED, "The mean over all axes but the first two.";
}

fn max_pool<T: Numeric, const D: usize>(x: Tensor<'_, T>, pool: Pool<D>) -> TensorResult<'_, T> {
    let least = match T::DTYPE {
        DType::F32 | DType::F16 => f64::NEG_INFINITY,
        DType::I32 => f64::from(i32::MIN),
        DType::U32 | DType::Bool => 0.0,
    };
    let (windows, _, axes) = pooled(x, &pool, least)?;
    Ok(windows.amax(axes))
}

pub(super) fn avg_pool<T: Float, const D: usize>(
    x: Tensor<'_, T>,
    pool: Pool<D>,
) -> TensorResult<'_, T> {
    let (windows, slides, axes) = pooled(x, &pool, 0.0)?;
    if slides.iter().all(|slide| slide.counts_all(pool.count_padding)) {
        return Ok(windows.mean(axes));
    }
    let sum = windows.sum(axes);
    let counted = slides.map(|slide| slide.counted(pool.count_padding));
    Ok(sum / counts(x.batch(), &counted))
}

fn global_avg_pool<T: Float>(x: Tensor<'_, T>) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    if shape.rank() < 3 {
        return Err(layout("[batch, channels, …]", &shape).into());
    }
    let axes: Vec<isize> = (2..shape.rank() as isize).collect();
    Ok(x.mean(Axes::from(&axes[..]).keep_dims()))
}

/// The windows over `x` within its padding, how they slide, and the axes of their elements.
fn pooled<'b, T: Element, const D: usize>(
    x: Tensor<'b, T>,
    pool: &Pool<D>,
    border: f64,
) -> Result<(Tensor<'b, T>, [AxisWindows; D], Axes), Refusal> {
    let shape = x.known_shape()?;
    let wanted = if D == 1 { "[…, length]" } else { "[…, height, width]" };
    let lead = shape.rank().checked_sub(D).ok_or_else(|| layout(wanted, &shape))?;
    let stride = pool.stride.unwrap_or(pool.size);
    let mut slides = [AxisWindows::default(); D];
    for (at, slide) in slides.iter_mut().enumerate() {
        let window = Window { size: pool.size[at], step: stride[at], dilation: pool.dilation[at] };
        *slide = AxisWindows::new(window, &shape, lead + at, pool.padding[at], pool.ceil_mode)?;
    }
    let border = Scalar::new(T::DTYPE, border);
    let windows = slid(UserCall::outer_name(), x, lead, &slides, border)?;
    let axes: Vec<isize> = (0..D).map(|at| (lead + 2 * at + 1) as isize).collect();
    Ok((windows, slides, Axes::from(&axes[..])))
}

/// The number of elements that each window counts, given their numbers along each axis; at least 1.
fn counts<'b, T: Float>(b: &'b GpuCommandBatch, along: &[Vec<usize>]) -> Tensor<'b, T> {
    let dims: Vec<usize> = along.iter().map(Vec::len).collect();
    let first = along.iter().flatten().next().copied();
    if along.iter().flatten().all(|&count| Some(count) == first) {
        let count = first.unwrap_or(1).pow(along.len() as u32).max(1) as f64;
        return b.source(Op::Full(Scalar::new(T::DTYPE, count)), dims.into());
    }
    let products = along.iter().fold(vec![1.0_f32], |products, counts| {
        let all = products.iter().flat_map(|p| counts.iter().map(move |&c| p * c as f32));
        all.collect()
    });
    let counts: Vec<f32> = products.into_iter().map(|count| count.max(1.0)).collect();
    b.upload_shaped(counts, dims).cast()
}
