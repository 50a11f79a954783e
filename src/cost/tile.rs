//! Measured rates of the kernels of matrix products.

use std::fmt;

/// The units that multiply in a [`TileRate`]'s kernel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub enum TileKind {
    /// Scalar units.
    Scalar,
    /// Matrix units, operands rounded to `f16`.
    Half,
    /// Matrix units, operands as sums of two `f16`.
    Split,
}

/// The speed of a GPU that multiplies in tiles of one shape.
#[derive(Clone, Copy, Debug, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct TileRate {
    /// The units that multiply.
    pub kind: TileKind,
    /// Rows of the result that a workgroup computes.
    pub bm: u32,
    /// Columns of the result that a workgroup computes.
    pub bn: u32,
    /// Elements along k that it takes at a time.
    pub bk: u32,
    /// Flops a second of one core, with as many workgroups as it holds.
    pub rate: f64,
    /// Seconds that a workgroup takes for `bk` elements along k, alone on a core.
    pub step: f64,
}

impl TileRate {
    pub(super) fn is_sound(&self) -> bool {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        positive(self.rate) && positive(self.step)
    }
}

impl fmt::Display for TileRate {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let kind = match self.kind {
            TileKind::Scalar => "scalar",
            TileKind::Half => "half",
            TileKind::Split => "split",
        };
        let Self { bm, bn, bk, .. } = self;
        let (rate, step) = (self.rate / 1e9, self.step * 1e6);
        write!(
            f,
            "{kind} tiles of {bm} × {bn} × {bk}: {rate:.0} GFLOP/s a core, {step:.2} µs a step"
        )
    }
}
