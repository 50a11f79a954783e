//! Writing tensors at computed indices, and what is made of comparing indices with coordinates.

use super::axes::resolve;
use super::{Axes, BufferId, GpuCommandBatch};
use crate::dtype::{DType, Element, Index, Numeric, Scalar};
use crate::error::MistakeKind;
use crate::graph::NodeId;
use crate::ops::Op;
use crate::shape::Shape;

/// What is recorded of a scatter whose operands fit.
struct Scattered<T> {
    /// Whether update j goes to place i: the updates' axis comes first, and the tensor's own axes follow.
    goes: BufferId<bool>,
    /// The updates in the same shape, of size 1 along the axis.
    updates: BufferId<T>,
    /// Along which there are places.
    axis: usize,
    /// How many updates there are.
    count: usize,
}

/// Scatters: a tensor with updates at places along an axis. `indices` is a vector that says for each element of the updates'
/// axis its place in `x`; off the axis the two shapes are equal. An index out of range is a [`Fault`](crate::Fault).
/// Results do not depend on threads: they are the same from run to run.
///
/// Every update is compared with every place, which takes time in proportion to their product.
impl GpuCommandBatch {
    /// `x` with the updates added. What is added where is the sum of its updates in a fixed order; integers wrap.
    #[doc(alias = "index_add")]
    #[track_caller]
    pub fn scatter_add<T: Numeric, I: Index>(
        &mut self,
        x: BufferId<T>,
        indices: BufferId<I>,
        updates: BufferId<T>,
        axis: isize,
    ) -> BufferId<T> {
        match self.scattered("scatter_add", x, indices, updates, axis) {
            Ok(scattered) => {
                let added = self.at_places(&scattered, 0.0);
                let sums = self.sum(added, 0);
                self.add(x, sums)
            }
            Err(id) => id,
        }
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
        let scattered = match self.scattered("scatter", x, indices, updates, axis) {
            Ok(scattered) if scattered.count == 0 => return x,
            Ok(scattered) => scattered,
            Err(id) => return id,
        };
        // The number of the last update of each place, from 1 on; 0 where there is none.
        let Scattered { goes, axis, count, .. } = scattered;
        let numbers = self.arange(1_u32, count as u32 + 1, 1);
        let rank = self.graph[goes.node].ty.shape.rank();
        let numbers = self.along(numbers, 0, rank);
        let none = self.full([], 0_u32);
        let numbers = self.select(goes, numbers, none);
        let last = self.amax(numbers, 0);
        let written = self.gt(last, none);
        let one = self.cast(written);
        let at = self.sub(last, one);
        let places = self.graph[at.node].ty.shape.elements();
        let at = self.reshape(at, [places]);
        let written = self.along(written, axis, rank - 1);
        let taken = self.gather(updates, at, axis as isize);
        self.select(written, taken, x)
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
        match self.scattered("scatter_max", x, indices, updates, axis) {
            Ok(scattered) if scattered.count == 0 => x,
            Ok(scattered) => {
                let all = self.at_places(&scattered, least(T::DTYPE));
                let greatest = self.amax(all, 0);
                self.max(x, greatest)
            }
            Err(id) => id,
        }
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
        match self.scattered("scatter_min", x, indices, updates, axis) {
            Ok(scattered) if scattered.count == 0 => x,
            Ok(scattered) => {
                let all = self.at_places(&scattered, greatest(T::DTYPE));
                let least = self.amin(all, 0);
                self.min(x, least)
            }
            Err(id) => id,
        }
    }

    /// How often each of the numbers 0 to `bins` − 1 is among `x`; others are not counted.
    #[doc(alias = "bincount")]
    #[track_caller]
    pub fn histogram<I: Index>(&mut self, x: BufferId<I>, bins: usize) -> BufferId<u32> {
        let hits = match self.equals_range("histogram", x, bins) {
            Ok(hits) => hits,
            Err(what) => return self.mistake("histogram", what),
        };
        let rank = self.graph[hits.node].ty.shape.rank();
        let counts: BufferId<u32> = self.cast(hits);
        let all: Vec<isize> = (0..rank as isize - 1).collect();
        self.sum(counts, Axes::from(&all[..]))
    }

    /// 1 at the position that each index names along a new last axis of `classes` elements, else 0; all 0 for an index that is
    /// none of them.
    #[track_caller]
    pub fn one_hot<T: Element, I: Index>(
        &mut self,
        indices: BufferId<I>,
        classes: usize,
    ) -> BufferId<T> {
        match self.equals_range("one_hot", indices, classes) {
            Ok(hits) => self.cast(hits),
            Err(what) => self.mistake("one_hot", what),
        }
    }

    /// x on the diagonal `diagonal` of its last two axes and above, else 0 (false). Diagonal 0 is the main one, 1 the one
    /// above it.
    #[track_caller]
    pub fn triu<T: Element>(&mut self, x: BufferId<T>, diagonal: isize) -> BufferId<T> {
        self.triangle("triu", x, diagonal, |b, column, row| b.ge(column, row))
    }

    /// x on the diagonal `diagonal` of its last two axes and below, else 0 (false). Diagonal 0 is the main one, 1 the one
    /// above it.
    #[track_caller]
    pub fn tril<T: Element>(&mut self, x: BufferId<T>, diagonal: isize) -> BufferId<T> {
        self.triangle("tril", x, diagonal, |b, column, row| b.le(column, row))
    }

    #[track_caller]
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

    /// Whether each of the indices is each of 0 to `count` − 1, along a new last axis.
    #[track_caller]
    fn equals_range<I: Index>(
        &mut self,
        name: &'static str,
        indices: BufferId<I>,
        count: usize,
    ) -> Result<BufferId<bool>, MistakeKind> {
        self.check(indices)?;
        if i32::try_from(count).is_err() {
            let what =
                if name == "one_hot" { "the number of classes" } else { "the number of bins" };
            return Err(MistakeKind::Parameter {
                what,
                must: "below 2³¹",
                given: count.to_string(),
            });
        }
        let range = self.range::<I>(count);
        let indices = self.unsqueeze(indices, -1);
        Ok(self.eq(indices, range))
    }

    /// 0, 1, … `count` − 1.
    #[track_caller]
    fn range<I: Index>(&mut self, count: usize) -> BufferId<I> {
        let [start, step] = [0.0, 1.0].map(|value| Scalar::new(I::DTYPE, value));
        self.source(Op::Arange { start, step }, I::DTYPE, count.into())
    }

    /// A vector along one axis of a tensor of `rank` axes, the others of size 1.
    #[track_caller]
    fn along<T: Element>(&mut self, x: BufferId<T>, axis: usize, rank: usize) -> BufferId<T> {
        let mut dims = vec![1; rank];
        dims[axis] = self.graph[x.node].ty.shape.elements();
        self.reshape(x, dims)
    }

    /// The updates where they go, else `rest`.
    #[track_caller]
    fn at_places<T: Element>(&mut self, scattered: &Scattered<T>, rest: f64) -> BufferId<T> {
        let rest = Op::Full(Scalar::new(T::DTYPE, rest));
        let rest = self.source(rest, T::DTYPE, Shape::default());
        self.select(scattered.goes, scattered.updates, rest)
    }

    /// Checks the operands of a scatter. `Err` is what it returns where one comes from a mistake, or is one.
    #[track_caller]
    fn scattered<T: Element, I: Index>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        indices: BufferId<I>,
        updates: BufferId<T>,
        axis: isize,
    ) -> Result<Scattered<T>, BufferId<T>> {
        let ids = [self.check(x), self.check(indices), self.check(updates)];
        if let Some(Err(what)) = ids.iter().find(|id| id.is_err()) {
            return Err(self.mistake(name, what.clone()));
        }
        let shapes = ids.each_ref().map(|id: &Result<NodeId, _>| self.known_shape(id));
        let [Some(target), Some(places), Some(source)] = shapes else {
            let dependent = Op::Invalid;
            return Err(self.record(dependent, &ids));
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
        // Looked up among all places, an index is itself, or a fault.
        let (rank, size) = (target.rank(), target[axis]);
        let range = self.range::<I>(size);
        let all = self.along(range, axis, rank);
        let looked = [self.check(all), ids[1].clone()];
        let indices: BufferId<I> = self.record(Op::Gather { name, axis }, &looked);
        let indices = self.reshape(indices, [count]);
        let indices = self.along(indices, 0, rank + 1);
        let range = self.along(range, axis + 1, rank + 1);
        let goes = self.eq(indices, range);
        let first = self.unsqueeze(updates, 0);
        let mut order: Vec<isize> = (0..=rank as isize).collect();
        order.swap(0, axis + 1);
        let updates = self.permute(first, order);
        Ok(Scattered { goes, updates, axis, count })
    }
}

/// What no number of the type is below.
fn least(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::F16 => f64::NEG_INFINITY,
        DType::I32 => i32::MIN.into(),
        DType::U32 | DType::Bool => 0.0,
    }
}

/// What no number of the type is above.
fn greatest(dtype: DType) -> f64 {
    match dtype {
        DType::F32 | DType::F16 => f64::INFINITY,
        DType::I32 => i32::MAX.into(),
        DType::U32 => u32::MAX.into(),
        DType::Bool => 1.0,
    }
}
