//! Kernels built by hand: each is checked by naga, and run on an adapter where there is one.

mod case;
#[cfg(feature = "gpu")]
mod device;
mod golden;
mod map;
mod matmul;
mod reduce;
mod reference;
mod row;
mod text;

use self::case::Case;
use crate::cost::Limits;

/// A GPU with and without `f16` in memory.
fn targets() -> [Limits; 2] {
    let plain = Limits::webgpu();
    [plain.clone(), Limits { f16: true, ..plain }]
}

/// Panics unless the kernels of `case` are valid and compute what they should.
#[track_caller]
fn check(case: &Case, limits: &Limits) {
    text::validate(case, limits);
    #[cfg(feature = "gpu")]
    device::check(case, limits);
}
