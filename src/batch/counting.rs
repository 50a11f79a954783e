//! What is made of comparing indices with 0, 1, …: counts and positions.

use super::{Axes, BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::{Element, Index, Scalar};
use crate::base::shape::Shape;
use crate::error::MistakeKind;
use crate::ops::{Op, Side, SortOrder};

/// A histogram compares each element with each bin up to as many comparisons, and sorts beyond that.
const COMPARED: usize = 1 << 24;

impl GpuCommandBatch {
    /// How often each of the numbers 0 to `bins` − 1 is among `x`. Others are not counted, as what lies outside of the
    /// bins of NumPy's `histogram` and PyTorch's `histc`.
    #[doc(alias = "bincount")]
    #[track_caller]
    pub fn histogram<I: Index>(&mut self, x: BufferId<I>, bins: usize) -> BufferId<u32> {
        self.composed("histogram", |b| {
            if let Err(what) = b.check_range("the number of bins", x, bins) {
                return b.mistake("histogram", what);
            }
            let shape = b.known_shape(&b.check(x)).unwrap_or_default();
            if shape.elements().saturating_mul(bins) > COMPARED {
                return b.histogram_of_sorted(x, bins);
            }
            let hits = b.equals_range(x, bins);
            let counts: BufferId<u32> = b.cast(hits);
            let all: Vec<isize> = (0..shape.rank() as isize).collect();
            b.sum(counts, Axes::from(&all[..]))
        })
    }

    fn histogram_of_sorted<I: Index>(&mut self, x: BufferId<I>, bins: usize) -> BufferId<u32> {
        let elements = self.recorded.graph[x.node].ty.shape.elements();
        let x = self.reshape(x, [elements]);
        let sorted = self.sort(x, 0, SortOrder::Ascending);
        let range = self.range::<I>(bins);
        let [first, end] =
            [Side::Left, Side::Right].map(|side| self.searchsorted(sorted, range, side));
        self.sub(end, first)
    }

    /// 1 at the position that each index names along a new last axis of `classes` elements, else 0. An index that is
    /// none of them is a [`Fault`](crate::Fault), as in PyTorch.
    #[track_caller]
    pub fn one_hot<T: Element, I: Index>(
        &mut self,
        indices: BufferId<I>,
        classes: usize,
    ) -> BufferId<T> {
        self.composed_if("one_hot", |b| {
            b.check_range("the number of classes", indices, classes)?;
            let ids = [b.check(indices)];
            let check = Op::InRange { name: "one_hot", axis: None, size: classes, ignored: None };
            let indices: BufferId<I> = b.record(check, &ids);
            let hits = b.equals_range(indices, classes);
            Ok(b.cast(hits))
        })
    }

    /// Where `mask` is true: the first `size` positions in row-major order, and how many there are in all. Past the
    /// last one positions are the number of elements. It is a mistake if `size` is more than that.
    ///
    /// NumPy's `flatnonzero` with a shape that does not depend on the data.
    #[track_caller]
    pub fn nonzero(&mut self, mask: BufferId<bool>, size: usize) -> (BufferId<u32>, BufferId<u32>) {
        self.composed("nonzero", |b| match b.flat_positions(mask, size) {
            Ok(elements) => b.true_positions(mask, size, elements),
            Err(what) => {
                let positions = b.refused("nonzero", what);
                (positions, b.refused("nonzero", Refusal::Silent))
            }
        })
    }

    fn true_positions(
        &mut self,
        mask: BufferId<bool>,
        size: usize,
        elements: usize,
    ) -> (BufferId<u32>, BufferId<u32>) {
        let flat = self.reshape(mask, [elements]);
        let ones: BufferId<u32> = self.cast(flat);
        let count = self.sum(ones, 0);
        // A stable sort leaves positions of one kind in their order.
        let order = self.argsort(flat, 0, SortOrder::Descending);
        let first = self.slice(order, [(0..size, 1)]);
        let rank = self.arange(0, size as u32, 1);
        let there = self.lt(rank, count);
        let none = self.full([], elements as u32);
        // A result of its own, which nothing here reads.
        let count = self.reshape(count, Shape::default());
        (self.select(there, first, none), count)
    }

    /// How many elements the mask has, of which `size` are asked for.
    fn flat_positions(&self, mask: BufferId<bool>, size: usize) -> Result<usize, Refusal> {
        let shape = self.shape_of(mask)?;
        let elements = shape.elements();
        if i32::try_from(elements).is_err() {
            return Err(MistakeKind::TooLarge(shape).into());
        }
        if size > elements {
            let (most, limit) = (elements, "the number of elements");
            return Err(MistakeKind::AtMost { what: "size", most, limit, given: size }.into());
        }
        Ok(elements)
    }

    /// Refuses a foreign id, and a `count` (of `what`) that is not counted in 31 bits.
    fn check_range<I: Index>(
        &self,
        what: &'static str,
        indices: BufferId<I>,
        count: usize,
    ) -> Result<(), MistakeKind> {
        self.check(indices)?;
        if i32::try_from(count).is_err() {
            let given = count.to_string();
            return Err(MistakeKind::Parameter { what, must: "below 2³¹", given });
        }
        Ok(())
    }

    /// Whether each of the indices is each of 0 to `count` − 1, along a new last axis.
    #[track_caller]
    fn equals_range<I: Index>(&mut self, indices: BufferId<I>, count: usize) -> BufferId<bool> {
        let range = self.range::<I>(count);
        let indices = self.unsqueeze(indices, -1);
        self.eq(indices, range)
    }

    /// 0, 1, … `count` − 1.
    #[track_caller]
    pub(super) fn range<I: Index>(&mut self, count: usize) -> BufferId<I> {
        let [start, step] = [0.0, 1.0].map(|value| Scalar::new(I::DTYPE, value));
        self.source(Op::Arange { start, step }, I::DTYPE, count.into())
    }
}
