//! Kernels built by hand: each is checked by naga, and run on an adapter where there is one.

mod attention;
mod case;
#[cfg(feature = "gpu")]
mod device;
mod golden;
mod map;
mod matmul;
mod reduce;
#[cfg(feature = "gpu")]
mod row;
mod row_table;
mod scan;
mod sort;
mod text;

use self::case::Case;
use crate::cost::{Limits, Subgroups};

/// A GPU with and without `f16` in memory and subgroups.
fn targets() -> [Limits; 2] {
    [Limits::webgpu(), Limits { f16: true, ..with_subgroups() }]
}

fn with_subgroups() -> Limits {
    Limits { subgroups: Some(Subgroups { least: 4, most: 128 }), ..Limits::webgpu() }
}

/// Panics unless the kernels of `case` are valid and compute what they should.
#[track_caller]
fn check(case: &Case, limits: &Limits) {
    text::validate(case, limits);
    #[cfg(feature = "gpu")]
    device::check(case, limits);
}
