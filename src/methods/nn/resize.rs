//! Images of another size.

use crate::base::dtype::{Element, Float};
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::{check_parameter, layout};
use crate::ops::check_size;

/// The longest height and width: positions along them are counted on the host.
pub(in crate::methods) const LONGEST: usize = 1 << 24;

/// The height and width of a resized image, from two lengths or from two factors.
#[derive(Clone, Copy, Debug, PartialEq)]
pub enum ImageSize {
    /// The number of elements along each axis.
    Lengths([usize; 2]),
    /// ⌊l·f⌋ elements along an axis of length l with the factor f. Places are found with the factor as it is given, not
    /// with the ratio of the lengths, as with ONNX's `scales`. Two cases are as in PyTorch (its `scale_factor` without
    /// `recompute_scale_factor`): an axis that keeps its length stays as it is, and the nearest element of one that
    /// doubles its length is ⌊i/2⌋.
    Factors([f64; 2]),
}

impl From<[usize; 2]> for ImageSize {
    fn from(lengths: [usize; 2]) -> Self {
        Self::Lengths(lengths)
    }
}

impl From<[f64; 2]> for ImageSize {
    fn from(factors: [f64; 2]) -> Self {
        Self::Factors(factors)
    }
}

/// The place of element i of n of a resized axis in the original one, of length l. With factors, f is in the place of
/// n/l.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corners {
    /// Pixels are squares, whose outer edges stay where they are: (i + ½)·l/n − ½ (PyTorch's `align_corners=False`,
    /// ONNX's `half_pixel`).
    HalfPixel,
    /// Pixels are points, of which the outermost stay where they are: i·(l − 1)/(n − 1) (PyTorch's
    /// `align_corners=True`, ONNX's `align_corners`).
    Aligned,
    /// Pixels are squares, of which the first corner stays where it is: i·l/n (ONNX's `asymmetric`).
    Asymmetric,
}

/// An axis that is resized.
struct Resized {
    /// Counted from the last.
    axis: isize,
    len: usize,
    count: usize,
    /// Original elements to resized ones, as numerator and denominator.
    ratio: [f64; 2],
}

operations! {
    /// Resizing of the last two axes, height and width, as in PyTorch's `interpolate`. `size` is `[height, width]` or
    /// the factors by which they grow: `[2.0, 2.0]`. None may be longer than 16 777 216.
    "resize";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Corners, Device, GpuCommandBatch, ImageSize};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let image = batch.upload_shaped(&[1.0_f32, 3.0], [1, 2]);
        /// let size = ImageSize::Lengths([1, 4]); // `[1, 4]` is the same.
        /// let results = [
        ///     (image.resize_nearest(size), [1.0, 1.0, 3.0, 3.0]),
        ///     (image.resize_bilinear([1, 4], Corners::HalfPixel), [1.0, 1.5, 2.5, 3.0]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// The element ⌊i·l/n⌋ for element i of n, from an axis of length l; with a factor f, ⌊i/f⌋: PyTorch's `nearest`,
    /// and ONNX's with `asymmetric` coordinates and `floor`.
    #[doc(alias = "interpolate")]
    #[doc(alias = "upsample")]
    fn resize_nearest<T: Element>(x: T; size: impl Into<ImageSize>) -> Tensor<'b, T> = resize_nearest(x, size),
        ALL, "made of look-ups, which fuse", EXACT, "Images of another size, from the nearest elements.";
    /// Between the two nearest elements along each axis in proportion to their distance: PyTorch's `bilinear`, without
    /// its `antialias`.
    #[doc(alias = "interpolate")]
    #[doc(alias = "upsample")]
    fn resize_bilinear<T: Float>(x: T; size: impl Into<ImageSize>, corners: Corners) -> Tensor<'b, T> = resize_bilinear(x, size, corners),
        FLOAT, "made of look-ups and elementwise operations, which fuse", SUMMED, "Images of another size, from between the nearest elements.";
}

fn resize_nearest<T: Element>(x: Tensor<'_, T>, size: impl Into<ImageSize>) -> TensorResult<'_, T> {
    let mut y = x;
    for Resized { axis, len, count, ratio } in resized_axes(x.known_shape()?, size.into())? {
        let ratio = if count == 2 * len { [1.0, 2.0] } else { ratio };
        let resized = Resized { axis, len, count, ratio };
        if resized.changes() {
            let at: Vec<u32> = resized.places(Corners::Asymmetric).map(|at| at as u32).collect();
            y = y.gather(x.batch().upload(at), axis);
        }
    }
    Ok(y)
}

fn resize_bilinear<T: Float>(
    x: Tensor<'_, T>,
    size: impl Into<ImageSize>,
    corners: Corners,
) -> TensorResult<'_, T> {
    let axes = resized_axes(x.known_shape()?, size.into())?;
    // The width is resized first: its elements are gathered one by one, while the height copies whole rows.
    let changed = axes.iter().rev().filter(|axis| axis.changes());
    Ok(changed.fold(x, |y, resized| interpolated(y, resized, corners)))
}

/// Elements between two of an axis.
fn interpolated<'b, T: Float>(
    x: Tensor<'b, T>,
    resized: &Resized,
    corners: Corners,
) -> Tensor<'b, T> {
    let (b, &Resized { axis, count, .. }) = (x.batch(), resized);
    let places: Vec<f64> = resized.places(corners).collect();
    let below: Vec<u32> = places.iter().map(|&at| at as u32).collect();
    // At a weight of 0 both neighbours are the element itself, so that no other element counts, not even NaN. Each has
    // the weight ½, so that infinity is not multiplied by 0.
    let is_between = |at: &f64| at.fract() as f32 > 0.0;
    let parts = places.iter().map(|at| if is_between(at) { at.fract() } else { 0.5 });
    let above: Vec<u32> = places.iter().map(|at| *at as u32 + u32::from(is_between(at))).collect();
    let weights: Vec<f32> = parts.clone().map(|part| part as f32).collect();
    let rest: Vec<f32> = parts.map(|part| (1.0 - part) as f32).collect();
    let (below, above) = (b.upload(below), b.upload(above));
    let column = if axis == -1 { vec![count] } else { vec![count, 1] };
    let [weights, rest] = [weights, rest].map(|it| b.upload_shaped(it, column.clone()).cast::<T>());
    x.gather(below, axis) * rest + x.gather(above, axis) * weights
}

/// The resizing of the last two axes of `shape`.
fn resized_axes(shape: Shape, size: ImageSize) -> Result<[Resized; 2], MistakeKind> {
    let Some(lead) = shape.rank().checked_sub(2) else {
        return Err(layout("[…, height, width]", &shape));
    };
    let lengths = [shape[lead], shape[lead + 1]];
    let must = "1 to 16777216";
    check_parameter("height and width", lengths.iter().all(|&len| len <= LONGEST), must, &shape)?;
    if let Some(axis) = (lead..shape.rank()).find(|&axis| shape[axis] == 0) {
        return Err(MistakeKind::EmptyReduction { op: "resizing", axis, shape });
    }
    let counts = size.counts(lengths)?;
    let fits = counts.iter().all(|count| (1..=LONGEST).contains(count));
    check_parameter("size", fits, must, &size.given(counts))?;
    check_size(&shape.dims()[..lead].iter().copied().chain(counts).collect())?;
    Ok([0, 1].map(|at| Resized {
        axis: at as isize - 2,
        len: lengths[at],
        count: counts[at],
        ratio: match size {
            ImageSize::Lengths(_) => [lengths[at] as f64, counts[at] as f64],
            ImageSize::Factors(factors) => [1.0, factors[at]],
        },
    }))
}

impl ImageSize {
    /// The lengths that axes of these `lengths` get.
    fn counts(self, lengths: [usize; 2]) -> Result<[usize; 2], MistakeKind> {
        let factors = match self {
            Self::Lengths(counts) => return Ok(counts),
            Self::Factors(factors) => factors,
        };
        let fits = factors.iter().all(|factor| factor.is_finite() && *factor > 0.0);
        check_parameter("factors", fits, "over 0 and finite", &format_args!("{factors:?}"))?;
        Ok([0, 1].map(|at| (lengths[at] as f64 * factors[at]) as usize))
    }

    /// The size as the user gave it, and as it is with `counts`.
    fn given(self, counts: [usize; 2]) -> String {
        match self {
            Self::Lengths(_) => format!("{counts:?}"),
            Self::Factors(factors) => format!("{counts:?}, by the factors {factors:?}"),
        }
    }
}

impl Resized {
    fn changes(&self) -> bool {
        self.len != self.count
    }

    /// The place of each element of the resized axis, inside of the original one.
    fn places(&self, corners: Corners) -> impl Iterator<Item = f64> {
        let &Self { len, count, ratio: [original, resized], .. } = self;
        let last = (len - 1) as f64;
        (0..count).map(move |i| {
            let i = i as f64;
            let at = match corners {
                Corners::HalfPixel => (i + 0.5) * original / resized - 0.5,
                Corners::Aligned if count == 1 => 0.0,
                Corners::Aligned => i * last / (count - 1) as f64,
                Corners::Asymmetric => i * original / resized,
            };
            at.clamp(0.0, last)
        })
    }
}
