//! Counts and positions, by comparison of indices with 0, 1, ….

use crate::base::dtype::{Element, Index, Logical, Scalar};
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::Axes;
use crate::methods::arguments::checks::check_parameter;
use crate::ops::{Op, SearchSide, SortOrder};
use crate::record::Refusal;

/// A histogram compares each element with each bin up to as many comparisons, and sorts beyond that.
const COMPARED: usize = 1 << 24;

operations! {
    /// Counts of indices.
    "indexing";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload(&[0_u32, 2, 2]);
        /// let (counts, vectors) = (x.histogram(4), x.one_hot::<i32>(3));
        /// let (positions, count) = x.eq(2).nonzero(3);
        /// batch.execute().await?;
        /// assert_eq!(batch.read(counts).await?, [1, 0, 2, 0]);
        /// assert_eq!(batch.read(vectors).await?, [1, 0, 0, 0, 0, 1, 0, 0, 1]);
        /// assert_eq!(batch.read(positions).await?, [1, 2, 3]); // padded
        /// assert_eq!(batch.read(count).await?, [2]);
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// The number of times that each of 0 to `bins` − 1 is among `x`, of shape `[bins]`. Other numbers are not counted, as outside of the
    /// bins of NumPy's `histogram` and PyTorch's `histc`. This is NumPy's `bincount`: the bins are whole numbers.
    #[doc(alias = "bincount")]
    fn histogram<T: Index>(x: T; bins: usize) -> Tensor<'b, u32> = histogram(x, bins),
        "i32 u32", AROUND, EXACT, "How often each number below a bound is there.";
    /// The first `size` positions in row-major order where `mask` is true, of shape `[size]`, and the number of all such
    /// positions, a scalar.
    /// Entries past the last position hold the number of elements. It is a mistake if `size` is more than that.
    ///
    /// NumPy's `flatnonzero` with a shape that does not depend on the data.
    #[doc(alias = "argwhere")]
    #[doc(alias = "flatnonzero")]
    fn nonzero<T: Logical>(mask: T; size: usize) -> (Tensor<'b, u32>, Tensor<'b, u32>) = nonzero(mask, size),
        "bool", "made of `argsort` and look-ups", EXACT, "The first positions where a mask is true, and how many there are.";

    others {
        one_hot, ALL, ANYTHING, EXACT, "1 where the index is the coordinate.";
    }
}

/// Indices as vectors of classes.
impl GpuCommandBatch {
    /// 1 at the position that each index names along a new last axis of `classes` elements, else 0. An index that is
    /// none of them is a [`Fault`](crate::Fault), as in PyTorch.
    #[track_caller]
    pub fn one_hot<T: Element, I: Index>(
        &self,
        indices: impl Operand<I>,
        classes: usize,
    ) -> Tensor<'_, T> {
        self.composed_of("one_hot", |named| {
            let indices = self.operand(indices);
            named.push(indices.value());
            check_range("the number of classes", indices, classes)?;
            let check = Op::InRange { name: "one_hot", axis: None, size: classes, ignored: None };
            let indices: Tensor<'_, I> = indices.apply(check);
            Ok(equals_range(indices, classes).cast())
        })
    }
}

/// Indices as vectors of classes.
impl<'b, I: Index> Tensor<'b, I> {
    /// As [`GpuCommandBatch::one_hot`], with this tensor for `indices`.
    #[track_caller]
    pub fn one_hot<T: Element>(self, classes: usize) -> Tensor<'b, T> {
        self.batch().one_hot(self, classes)
    }
}

fn histogram<T: Index>(x: Tensor<'_, T>, bins: usize) -> TensorResult<'_, u32> {
    check_range("the number of bins", x, bins)?;
    let shape = x.known_shape()?;
    if shape.elements().saturating_mul(bins) > COMPARED {
        let sorted = x.reshape([shape.elements()]).sort(0, SortOrder::Ascending);
        let range = range::<T>(x.batch(), bins);
        let [first, end] =
            [SearchSide::Left, SearchSide::Right].map(|side| sorted.searchsorted(range, side));
        return Ok(end - first);
    }
    let counts: Tensor<'_, u32> = equals_range(x, bins).cast();
    let all: Vec<isize> = (0..shape.rank() as isize).collect();
    Ok(counts.sum(Axes::from(&all[..])))
}

fn nonzero<T: Logical>(
    mask: Tensor<'_, T>,
    size: usize,
) -> Result<(Tensor<'_, u32>, Tensor<'_, u32>), Refusal> {
    let shape = mask.known_shape()?;
    let elements = shape.elements();
    if i32::try_from(elements).is_err() {
        return Err(MistakeKind::TooLarge(shape).into());
    }
    if size > elements {
        let (most, limit) = (elements, "the number of elements");
        return Err(MistakeKind::AtMost { what: "size", most, limit, given: size }.into());
    }
    let flat = mask.reshape([elements]);
    let count = flat.cast::<u32>().sum(0);
    // A stable sort leaves positions of one kind in their order.
    let order = flat.argsort(0, SortOrder::Descending);
    let first = order.slice([(0..size, 1)]);
    let there = mask.batch().arange(0, size as u32, 1).lt(count);
    let none = mask.batch().full([], elements as u32);
    // A result of its own, which nothing here reads.
    let count = count.reshape(Shape::default());
    Ok((there.select(first, none), count))
}

/// Refuses an operand that is none, and a `count` (of `what`) that is not counted in 31 bits.
fn check_range<I: Index>(
    what: &'static str,
    indices: Tensor<'_, I>,
    count: usize,
) -> Result<(), Refusal> {
    indices.known_shape()?;
    Ok(check_parameter(what, i32::try_from(count).is_ok(), "below 2³¹", &count)?)
}

/// The comparison of each of the indices with each of 0 to `count` − 1, along a new last axis.
fn equals_range<I: Index>(indices: Tensor<'_, I>, count: usize) -> Tensor<'_, bool> {
    let range = range::<I>(indices.batch(), count);
    indices.unsqueeze(-1).eq(range)
}

/// 0, 1, … `count` − 1.
pub(super) fn range<I: Index>(batch: &GpuCommandBatch, count: usize) -> Tensor<'_, I> {
    let [start, step] = [0.0, 1.0].map(|value| Scalar::new(I::DTYPE, value));
    batch.source(Op::Arange { start, step }, count.into())
}
