//! Running combinations along an axis.

use super::axes::resolve;
use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::Numeric;
use crate::ops::{Op, Scan, scan_table};

macro_rules! scans {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident>, combine $combine:ident,
        ulp $ulp:literal, abs $abs:literal;)*) => {
        /// Scans along `axis`, which may count from the last (−1): each element of the result combines those up to
        /// it, itself included. Backwards is a [`flip`](Self::flip) before and one after.
        ///
        /// Floats are combined in `f32` in blocks, on the CPU in `f64`: in another order than one by one, with an
        /// error that is no larger, and the same in each run on one device.
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name<T: $bound>(&mut self, x: BufferId<T>, axis: isize) -> BufferId<T> {
                self.scan(Scan::$op, x, axis)
            })*
        }
    };
}
scan_table!(scans);

impl GpuCommandBatch {
    #[track_caller]
    fn scan<T: Numeric>(&mut self, op: Scan, x: BufferId<T>, axis: isize) -> BufferId<T> {
        let ids = [self.check(x)];
        match self.known_shape(&ids[0]).map(|shape| resolve(axis, &shape)).transpose() {
            Ok(axis) => self.record(Op::Scan { op, axis: axis.unwrap_or_default() }, &ids),
            Err(what) => self.mistake(op.name(), what),
        }
    }
}
