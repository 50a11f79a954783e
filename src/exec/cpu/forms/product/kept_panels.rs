//! Copies of an operand in another order, which are kept beside its data from the second run on.

use super::kernel::Kernel;
use super::operand::Matrices;
use crate::exec::{ArrangementKey, ArrangementOrder, threads};

/// Fewest elements of a right operand whose panels are kept.
const SMALLEST: usize = (16 << 10) / threads::SMALLER;

impl<'a> Matrices<'a> {
    /// Returns whether the panels of the only matrix, of `k` by `n`, are kept from the second run on, unless there is no
    /// room. It does not depend on the run.
    pub(super) fn is_worth_panels(&self, [k, n]: [usize; 2]) -> bool {
        self.is_resident && !self.is_only_copied() && k * n >= SMALLEST
    }

    /// The panels of the only matrix, of `k` by `n` words, if the same data were read before. They are kept beside the data.
    pub(super) fn kept_panels(&self, [k, n]: [usize; 2]) -> Option<&'a [f32]> {
        if self.is_only_copied() || k * n < SMALLEST {
            return None;
        }
        let key = self.panels_key([k, n]);
        let columns = Kernel::native().panel_width;
        self.arranged?.get(key, n.next_multiple_of(columns) * k, || {
            let (mut panels, mut copy) = (Vec::new(), Vec::new());
            self.pack(0, [&(0..k), &(0..n)], columns, (&mut panels, &mut copy));
            panels
        })
    }

    /// The key of the panels of the only matrix.
    pub(super) fn panels_key(&self, size: [usize; 2]) -> ArrangementKey {
        self.key(ArrangementOrder::Panels(Kernel::native().panel_width), size)
    }

    /// The key of the first matrix, of `size`, in another order.
    pub(super) fn key(&self, order: ArrangementOrder, size: [usize; 2]) -> ArrangementKey {
        let strides = self.strides().map(|stride| stride as i64);
        ArrangementKey { order, start: self.start(0), strides, size }
    }
}
