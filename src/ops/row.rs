//! Row operations: each element of the result depends on its whole row, which a kernel reads once.

use super::Tolerance;
use crate::base::dtype::Scalar;

/// A normalisation of the values along one axis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Normalization {
    Softmax,
    LogSoftmax,
    /// With the ε that is added to the variance.
    LayerNorm(Scalar),
    /// With the ε that is added to the mean square.
    RmsNorm(Scalar),
    /// With the ε that the norm is taken for at the least.
    L2Normalize(Scalar),
}

/// A [`Normalization`] without its number: what a kernel implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum RowKind {
    /// e^(x − max) / Σ e^(x − max)
    Softmax,
    /// x − max − log Σ e^(x − max)
    LogSoftmax,
    /// (x − mean) / √(variance + ε), with the variance over n elements
    LayerNorm,
    /// x / √(mean of x² + ε)
    RmsNorm,
    /// x / max(√Σx², ε)
    L2Normalize,
}

impl RowKind {
    pub const ALL: [Self; 5] =
        [Self::Softmax, Self::LogSoftmax, Self::LayerNorm, Self::RmsNorm, Self::L2Normalize];

    pub fn name(self) -> &'static str {
        match self {
            Self::Softmax => "softmax",
            Self::LogSoftmax => "log_softmax",
            Self::LayerNorm => "layer_norm",
            Self::RmsNorm => "rms_norm",
            Self::L2Normalize => "l2_normalize",
        }
    }

    pub fn doc(self) -> &'static str {
        match self {
            Self::Softmax => "e^(x − max) / Σ e^(x − max) along `axis`.",
            Self::LogSoftmax => "x − max − log Σ e^(x − max) along `axis`.",
            Self::LayerNorm => {
                "(x − mean) / √(variance + ε) along `axis`, the variance over n (Ba et al., 2016)."
            }
            Self::RmsNorm => "x / √(mean of x² + ε) along `axis` (Zhang and Sennrich, 2019).",
            Self::L2Normalize => "x / max(√Σx², ε) along `axis`.",
        }
    }

    /// Whether the kernel reads an ε.
    #[cfg(test)]
    pub fn has_epsilon(self) -> bool {
        matches!(self, Self::LayerNorm | Self::RmsNorm | Self::L2Normalize)
    }

    /// 32-bit words of the statistics of a part of a row.
    pub fn words(self) -> usize {
        match self {
            Self::Softmax | Self::LogSoftmax => 2,
            Self::LayerNorm => 3,
            Self::RmsNorm | Self::L2Normalize => 1,
        }
    }

    /// Flops per element, for the cost model.
    pub fn flops(self) -> u64 {
        match self {
            Self::Softmax | Self::LogSoftmax => 26,
            Self::LayerNorm => 8,
            Self::RmsNorm | Self::L2Normalize => 4,
        }
    }

    pub fn tolerance(self) -> Tolerance {
        Tolerance { ulp: 32.0, abs: 4e-6 }
    }
}

impl Normalization {
    pub fn kind(self) -> RowKind {
        match self {
            Self::Softmax => RowKind::Softmax,
            Self::LogSoftmax => RowKind::LogSoftmax,
            Self::LayerNorm(_) => RowKind::LayerNorm,
            Self::RmsNorm(_) => RowKind::RmsNorm,
            Self::L2Normalize(_) => RowKind::L2Normalize,
        }
    }

    /// The ε of the kinds that have one.
    pub fn epsilon(self) -> Option<Scalar> {
        match self {
            Self::Softmax | Self::LogSoftmax => None,
            Self::LayerNorm(epsilon) | Self::RmsNorm(epsilon) | Self::L2Normalize(epsilon) => {
                Some(epsilon)
            }
        }
    }

    pub fn name(self) -> &'static str {
        self.kind().name()
    }
}
