//! Sorts, and what is made of them.

use super::axes::resolve;
use super::{BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::Element;
use crate::error::MistakeKind;
use crate::ops::{Op, Sort, SortOrder, Sorted};

/// Sorts along `axis`, which may count from the last (−1). All are stable: equal elements keep their order, whether
/// ascending or descending. NaN is past all numbers, as in PyTorch: last where ascending, first where descending.
/// −0 equals 0, and comes out as 0. Positions are along the axis. The results of one order of one tensor share the work.
impl GpuCommandBatch {
    /// The elements in order.
    #[track_caller]
    pub fn sort<T: Element>(
        &mut self,
        x: BufferId<T>,
        axis: isize,
        order: SortOrder,
    ) -> BufferId<T> {
        match self.ordered(x, axis, order, None) {
            Ok(how) => self.sorted(x, how, Sorted::Values),
            Err(what) => self.refused("sort", what),
        }
    }

    /// Where the elements of [`sort`](Self::sort) were.
    #[track_caller]
    pub fn argsort<T: Element>(
        &mut self,
        x: BufferId<T>,
        axis: isize,
        order: SortOrder,
    ) -> BufferId<u32> {
        match self.ordered(x, axis, order, None) {
            Ok(how) => self.sorted(x, how, Sorted::Positions),
            Err(what) => self.refused("argsort", what),
        }
    }

    /// The first `k` elements in order, and where they were: the greatest where it is [`SortOrder::Descending`], else the
    /// least; of equal elements the first ones. It is a mistake if the axis is shorter than k.
    #[track_caller]
    pub fn top_k<T: Element>(
        &mut self,
        x: BufferId<T>,
        k: usize,
        axis: isize,
        order: SortOrder,
    ) -> (BufferId<T>, BufferId<u32>) {
        match self.ordered(x, axis, order, Some(k)) {
            Ok(how) => {
                (self.sorted(x, how, Sorted::Values), self.sorted(x, how, Sorted::Positions))
            }
            Err(what) => {
                let values = self.refused("top_k", what);
                (values, self.refused("top_k", Refusal::Silent))
            }
        }
    }

    fn ordered<T: Element>(
        &self,
        x: BufferId<T>,
        axis: isize,
        order: SortOrder,
        top: Option<usize>,
    ) -> Result<Sort, Refusal> {
        let shape = self.shape_of(x)?;
        let axis = resolve(axis, &shape)?;
        if let Some(k) = top.filter(|&k| k > shape[axis]) {
            let (most, limit) = (shape[axis], "the length of the axis");
            return Err(MistakeKind::AtMost { what: "k", most, limit, given: k }.into());
        }
        Ok(Sort { axis, order, top })
    }

    #[track_caller]
    fn sorted<T: Element, U: Element>(
        &mut self,
        x: BufferId<T>,
        how: Sort,
        part: Sorted,
    ) -> BufferId<U> {
        let ids = [self.check(x)];
        self.record(Op::Sort { how, part }, &ids)
    }
}
