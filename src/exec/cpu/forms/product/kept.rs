//! Copies of an operand in another order, which are kept beside its data from the second run on.

use super::kernel::Kernel;
use super::operand::Matrices;

/// Fewest elements of a right operand whose panels are kept.
const SMALLEST: usize = 16 << 10;

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
        let columns = Kernel::native().panel_width;
        let order = [columns, k, n].map(|size| size as i64);
        self.kept(order, n.next_multiple_of(columns) * k, || {
            let (mut panels, mut copy) = (Vec::new(), Vec::new());
            self.pack(0, [&(0..k), &(0..n)], columns, (&mut panels, &mut copy));
            panels
        })
    }

    /// A copy of the only matrix in an order of its own, which `make` makes of `len` elements, if the same data were read
    /// before. It is kept beside the data.
    pub(super) fn kept(
        &self,
        [order, k, n]: [i64; 3],
        len: usize,
        make: impl FnOnce() -> Vec<f32>,
    ) -> Option<&'a [f32]> {
        let [row, column] = self.strides().map(|stride| stride as i64);
        self.arranged?.get([self.start(0), row, column, k, n, order], len, make)
    }
}
