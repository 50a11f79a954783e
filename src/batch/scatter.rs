//! Writing tensors at computed indices.

use super::axes::resolve;
use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{Element, Index, Numeric};
use crate::error::MistakeKind;
use crate::graph::NodeId;
use crate::ops::{Op, Side, SortOrder};

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

/// Scatters: a tensor with updates at places along an axis. `indices` is a vector that says for each element of the
/// updates' axis its place in `x`; off the axis the two shapes are equal. An index out of range is a
/// [`Fault`](crate::Fault).
///
/// Updates are sorted by place, and those of one place combined in pairs, in their own order: neighbours, then what is
/// two apart, then four, and so on. So results are the same from run to run and on every device.
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
        self.scatter_by("scatter_add", x, indices, updates, axis, Self::add)
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
        self.scatter_by("scatter_max", x, indices, updates, axis, Self::max)
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
        self.scatter_by("scatter_min", x, indices, updates, axis, Self::min)
    }

    #[track_caller]
    fn scatter_by<T: Numeric, I: Index>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        indices: BufferId<I>,
        updates: BufferId<T>,
        axis: isize,
        combine: impl Fn(&mut Self, BufferId<T>, BufferId<T>) -> BufferId<T>,
    ) -> BufferId<T> {
        self.composed(name, |b| match b.scattered(name, x, indices, updates, axis) {
            Ok(scattered) => b.combined(&scattered, x, updates, combine),
            Err(instead) => instead,
        })
    }

    /// Checks the operands of a scatter, and sorts the places. `Err` is what it returns where there are no updates,
    /// where an operand comes from a mistake, or is one.
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
            return Err(self.silent(name));
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
        let rank = self.recorded.graph[sums.node].ty.shape.rank();
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
        let dims = self.recorded.graph[x.node].ty.shape.dims().to_vec();
        let ranges = dims.iter().enumerate();
        let ranges = ranges.map(|(at, &dim)| (0..if at == axis { dim - step } else { dim }, 1));
        let first = self.slice(x, ranges.collect::<Vec<_>>());
        let border = (0..dims.len()).map(|at| if at == axis { (step, 0) } else { (0, 0) });
        self.pad(first, border.collect::<Vec<_>>(), T::default())
    }

    /// A vector along one axis of a tensor of `rank` axes, the others of size 1.
    fn along<T: Element>(&mut self, x: BufferId<T>, axis: usize, rank: usize) -> BufferId<T> {
        let mut dims = vec![1; rank];
        dims[axis] = self.recorded.graph[x.node].ty.shape.elements();
        self.reshape(x, dims)
    }
}
