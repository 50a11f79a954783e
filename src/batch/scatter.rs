//! Writing tensors at computed indices, and what is made of comparing indices with coordinates.

use super::axes::resolve;
use super::{Axes, BufferId, GpuCommandBatch, Refusal};
use crate::dtype::{Element, Index, Numeric, Scalar};
use crate::error::MistakeKind;
use crate::graph::NodeId;
use crate::ops::{Op, Side, SortOrder};
use crate::shape::Shape;

/// A histogram compares each element with each bin up to as many comparisons, and sorts beyond that.
const COMPARED: usize = 1 << 24;

/// What is recorded of a scatter whose operands fit.
struct Scattered<I> {
    /// The updates in the order of their places, those of one place in their own.
    order: BufferId<u32>,
    /// The places in that order.
    sorted: BufferId<I>,
    /// For each place whether it has updates, over the axes of the tensor.
    written: BufferId<bool>,
    /// For each place the position of its last update in that order; 0 where there is none.
    last: BufferId<u32>,
    axis: usize,
    /// How many updates there are; not 0.
    count: usize,
}

/// Why nothing is scattered: what is returned instead.
type Instead<T> = BufferId<T>;

/// Scatters: a tensor with updates at places along an axis. `indices` is a vector that says for each element of the updates'
/// axis its place in `x`; off the axis the two shapes are equal. An index out of range is a [`Fault`](crate::Fault).
///
/// Updates are sorted by place, and those of one place combined in pairs, in their own order: neighbours, then what is two
/// apart, then four, and so on. So results are the same from run to run and on every device.
impl GpuCommandBatch {
    /// `x` with the updates added. Integers wrap.
    #[doc(alias = "index_add")]
    #[track_caller]
    pub fn scatter_add<T: Numeric, I: Index>(
        &mut self,
        x: BufferId<T>,
        indices: BufferId<I>,
        updates: BufferId<T>,
        axis: isize,
    ) -> BufferId<T> {
        self.composed("scatter_add", |b| {
            match b.scattered("scatter_add", x, indices, updates, axis) {
                Ok(scattered) => b.combined(&scattered, x, updates, Self::add),
                Err(instead) => instead,
            }
        })
    }

    /// `x` with updates in place of its elements. Where several have one place, the last is taken.
    #[doc(alias = "index_copy")]
    #[track_caller]
    pub fn scatter<T: Element, I: Index>(
        &mut self,
        x: BufferId<T>,
        indices: BufferId<I>,
        updates: BufferId<T>,
        axis: isize,
    ) -> BufferId<T> {
        self.composed("scatter", |b| match b.scattered("scatter", x, indices, updates, axis) {
            Ok(Scattered { order, written, last, axis, .. }) => {
                let at = b.gather(order, last, 0);
                let taken = b.gather(updates, at, axis as isize);
                b.select(written, taken, x)
            }
            Err(instead) => instead,
        })
    }

    /// The greatest of each element of `x` and its updates; NaN if any is NaN.
    #[track_caller]
    pub fn scatter_max<T: Numeric, I: Index>(
        &mut self,
        x: BufferId<T>,
        indices: BufferId<I>,
        updates: BufferId<T>,
        axis: isize,
    ) -> BufferId<T> {
        self.composed("scatter_max", |b| {
            match b.scattered("scatter_max", x, indices, updates, axis) {
                Ok(scattered) => b.combined(&scattered, x, updates, Self::max),
                Err(instead) => instead,
            }
        })
    }

    /// The least of each element of `x` and its updates; NaN if any is NaN.
    #[track_caller]
    pub fn scatter_min<T: Numeric, I: Index>(
        &mut self,
        x: BufferId<T>,
        indices: BufferId<I>,
        updates: BufferId<T>,
        axis: isize,
    ) -> BufferId<T> {
        self.composed("scatter_min", |b| {
            match b.scattered("scatter_min", x, indices, updates, axis) {
                Ok(scattered) => b.combined(&scattered, x, updates, Self::min),
                Err(instead) => instead,
            }
        })
    }

    /// How often each of the numbers 0 to `bins` − 1 is among `x`. Others are not counted, as what lies outside of the bins of
    /// NumPy's `histogram` and PyTorch's `histc`.
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
        let elements = self.graph[x.node].ty.shape.elements();
        let x = self.reshape(x, [elements]);
        let sorted = self.sort(x, 0, SortOrder::Ascending);
        let range = self.range::<I>(bins);
        let [first, end] =
            [Side::Left, Side::Right].map(|side| self.searchsorted(sorted, range, side));
        self.sub(end, first)
    }

    /// 1 at the position that each index names along a new last axis of `classes` elements, else 0. An index that is none of
    /// them is a [`Fault`](crate::Fault), as in PyTorch.
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

    /// Where `mask` is true: the first `size` positions in row-major order, and how many there are in all. Past the last one
    /// positions are the number of elements. It is a mistake if `size` is more than that.
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

    /// x on the diagonal `diagonal` of its last two axes and above, else 0 (false). Diagonal 0 is the main one, 1 the one
    /// above it.
    #[track_caller]
    pub fn triu<T: Element>(&mut self, x: BufferId<T>, diagonal: isize) -> BufferId<T> {
        self.composed("triu", |b| {
            b.triangle("triu", x, diagonal, |b, column, row| b.ge(column, row))
        })
    }

    /// x on the diagonal `diagonal` of its last two axes and below, else 0 (false). Diagonal 0 is the main one, 1 the one
    /// above it.
    #[track_caller]
    pub fn tril<T: Element>(&mut self, x: BufferId<T>, diagonal: isize) -> BufferId<T> {
        self.composed("tril", |b| {
            b.triangle("tril", x, diagonal, |b, column, row| b.le(column, row))
        })
    }

    fn triangle<T: Element>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        diagonal: isize,
        keeps: impl Fn(&mut Self, BufferId<i32>, BufferId<i32>) -> BufferId<bool>,
    ) -> BufferId<T> {
        let id = self.check(x);
        let shape = match (&id, self.known_shape(&id)) {
            (Err(what), _) => return self.mistake(name, what.clone()),
            (Ok(_), None) => return x,
            (Ok(_), Some(shape)) if shape.rank() < 2 => {
                return self.mistake(name, MistakeKind::Transpose(shape));
            }
            (Ok(_), Some(shape)) => shape,
        };
        let sides = &shape.dims()[shape.rank() - 2..];
        let [Ok(rows), Ok(columns)] = [0, 1].map(|side| i32::try_from(sides[side])) else {
            return self.mistake(name, MistakeKind::TooLarge(shape));
        };
        // Diagonals past the corners are those beside them.
        let first = diagonal.clamp(-(rows as isize), columns as isize) as i32;
        let Some(end) = first.checked_add(rows) else {
            return self.mistake(name, MistakeKind::TooLarge(shape));
        };
        let column = self.arange(0, columns, 1);
        let row = self.arange(first, end, 1);
        let row = self.unsqueeze(row, -1);
        let kept = keeps(self, column, row);
        let zero = self.full([], T::default());
        self.select(kept, x, zero)
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
    fn range<I: Index>(&mut self, count: usize) -> BufferId<I> {
        let [start, step] = [0.0, 1.0].map(|value| Scalar::new(I::DTYPE, value));
        self.source(Op::Arange { start, step }, I::DTYPE, count.into())
    }

    /// A vector along one axis of a tensor of `rank` axes, the others of size 1.
    fn along<T: Element>(&mut self, x: BufferId<T>, axis: usize, rank: usize) -> BufferId<T> {
        let mut dims = vec![1; rank];
        dims[axis] = self.graph[x.node].ty.shape.elements();
        self.reshape(x, dims)
    }

    /// `x` combined with what becomes of the updates of each place: a scan along the axis that begins anew at each place.
    fn combined<T: Element, I: Index>(
        &mut self,
        scattered: &Scattered<I>,
        x: BufferId<T>,
        updates: BufferId<T>,
        combine: impl Fn(&mut Self, BufferId<T>, BufferId<T>) -> BufferId<T>,
    ) -> BufferId<T> {
        let &Scattered { order, sorted, written, last, axis, count } = scattered;
        let mut sums = self.gather(updates, order, axis as isize);
        let rank = self.graph[sums.node].ty.shape.rank();
        let mut step = 1;
        while step < count {
            let here = self.slice(sorted, [(step..count, 1)]);
            let there = self.slice(sorted, [(0..count - step, 1)]);
            let same = self.eq(here, there);
            let same = self.pad(same, [(step, 0)], false);
            let same = self.along(same, axis, rank);
            let before = self.shifted(sums, axis, step);
            let both = combine(self, before, sums);
            sums = self.select(same, both, sums);
            step *= 2;
        }
        let all = self.gather(sums, last, axis as isize);
        let both = combine(self, x, all);
        self.select(written, both, x)
    }

    /// Each element `step` further on along the axis, and 0 before the first.
    fn shifted<T: Element>(&mut self, x: BufferId<T>, axis: usize, step: usize) -> BufferId<T> {
        let dims = self.graph[x.node].ty.shape.dims().to_vec();
        let ranges = dims.iter().enumerate();
        let ranges = ranges.map(|(at, &dim)| (0..if at == axis { dim - step } else { dim }, 1));
        let first = self.slice(x, ranges.collect::<Vec<_>>());
        let border = (0..dims.len()).map(|at| if at == axis { (step, 0) } else { (0, 0) });
        self.pad(first, border.collect::<Vec<_>>(), T::default())
    }

    /// Checks the operands of a scatter, and sorts the places. `Err` is what it returns where there are no updates, where an
    /// operand comes from a mistake, or is one.
    fn scattered<T: Element, I: Index>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        indices: BufferId<I>,
        updates: BufferId<T>,
        axis: isize,
    ) -> Result<Scattered<I>, Instead<T>> {
        let ids = [self.check(x), self.check(indices), self.check(updates)];
        if let Some(Err(what)) = ids.iter().find(|id| id.is_err()) {
            return Err(self.mistake(name, what.clone()));
        }
        let shapes = ids.each_ref().map(|id: &Result<NodeId, _>| self.known_shape(id));
        let [Some(target), Some(places), Some(source)] = shapes else {
            return Err(self.record(Op::Invalid, &ids));
        };
        let axis = resolve(axis, &target).map_err(|what| self.mistake(name, what))?;
        let count = places.elements();
        let mut fits = target.dims().to_vec();
        fits[axis] = count;
        if places.rank() != 1 {
            return Err(self.mistake(name, MistakeKind::NotAVector(places)));
        }
        if source.dims() != fits {
            return Err(self.mistake(name, MistakeKind::Updates(fits.into(), source)));
        }
        if count == 0 {
            return Err(x);
        }
        let rank = target.rank();
        let range = self.range::<I>(target[axis]);
        let check = Op::InRange { name, axis: Some(axis), size: target[axis], ignored: None };
        let indices: BufferId<I> = self.record(check, &ids[1..2]);
        let sorted = self.sort(indices, 0, SortOrder::Ascending);
        let order = self.argsort(indices, 0, SortOrder::Ascending);
        let [first, end] =
            [Side::Left, Side::Right].map(|side| self.searchsorted(sorted, range, side));
        let written = self.gt(end, first);
        let one = self.cast(written);
        let last = self.sub(end, one);
        // Past a place without updates those of the next begin, or there are none.
        let none = self.full([], 0_u32);
        let last = self.select(written, last, none);
        let written = self.along(written, axis, rank);
        Ok(Scattered { order, sorted, written, last, axis, count })
    }
}
