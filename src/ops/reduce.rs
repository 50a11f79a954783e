//! Reductions: a map before, an associative combination, a map after.

use super::{Accepts, Tolerance};
use crate::base::dtype::{DType, Ty};
use crate::expr::E;

/// A reduction, as the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Reduction {
    Sum,
    Mean,
    Prod,
    Max,
    Min,
    Argmax,
    Argmin,
    Any,
    All,
    LogSumExp,
    Norm,
}

/// How two partial results become one: what a kernel implements.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Combine {
    Sum,
    Prod,
    /// NaN if any is NaN.
    Max,
    /// NaN if any is NaN.
    Min,
    /// The first position of the greatest value; the first NaN wins over all.
    ArgMax,
    /// The first position of the least value; the first NaN wins over all.
    ArgMin,
    /// log Σ eˣ, kept as (greatest, Σ e^(x − greatest)).
    LogSumExp,
}

impl Combine {
    /// 32-bit words of a partial result.
    pub fn words(self) -> usize {
        match self {
            Self::Sum | Self::Prod | Self::Max | Self::Min => 1,
            Self::ArgMax | Self::ArgMin | Self::LogSumExp => 2,
        }
    }

    /// The lane type of the result, for arguments of type `ty`.
    pub fn result(self, ty: Ty) -> Ty {
        match self {
            Self::ArgMax | Self::ArgMin => Ty::U32,
            _ => ty,
        }
    }
}

impl Reduction {
    pub const ALL: [Self; 11] = [
        Self::Sum,
        Self::Mean,
        Self::Prod,
        Self::Max,
        Self::Min,
        Self::Argmax,
        Self::Argmin,
        Self::Any,
        Self::All,
        Self::LogSumExp,
        Self::Norm,
    ];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "sum",
            Self::Mean => "mean",
            Self::Prod => "prod",
            Self::Max => "amax",
            Self::Min => "amin",
            Self::Argmax => "argmax",
            Self::Argmin => "argmin",
            Self::Any => "any",
            Self::All => "all",
            Self::LogSumExp => "logsumexp",
            Self::Norm => "norm",
        }
    }

    pub fn doc(self) -> &'static str {
        match self {
            Self::Sum => "The sum. Integers wrap; `f16` is summed in `f32`.",
            Self::Mean => "The arithmetic mean; NaN over no elements.",
            Self::Prod => "The product. Integers wrap.",
            Self::Max => "The greatest element; NaN if any is NaN. An empty axis is a mistake.",
            Self::Min => "The least element; NaN if any is NaN. An empty axis is a mistake.",
            Self::Argmax => "The first position of the greatest element (or of the first NaN).",
            Self::Argmin => "The first position of the least element (or of the first NaN).",
            Self::Any => "Whether any element is true; false over no elements.",
            Self::All => "Whether all elements are true; true over no elements.",
            Self::LogSumExp => "log Σ eˣ without overflow; −∞ over no elements.",
            Self::Norm => "The Euclidean norm √Σx².",
        }
    }

    pub fn accepts(self) -> Accepts {
        match self {
            Self::Sum | Self::Prod | Self::Max | Self::Min | Self::Argmax | Self::Argmin => {
                Accepts::Numeric
            }
            Self::Mean | Self::LogSumExp | Self::Norm => Accepts::Float,
            Self::Any | Self::All => Accepts::Logical,
        }
    }

    /// The element type of the result.
    pub fn result(self, dtype: DType) -> DType {
        match self {
            Self::Argmax | Self::Argmin => DType::U32,
            _ => dtype,
        }
    }

    /// The result over no elements, if there is one.
    pub fn of_nothing(self) -> Option<f64> {
        match self {
            Self::Sum | Self::Norm | Self::Any => Some(0.0),
            Self::Prod | Self::All => Some(1.0),
            Self::Mean => Some(f64::NAN),
            Self::LogSumExp => Some(f64::NEG_INFINITY),
            Self::Max | Self::Min | Self::Argmax | Self::Argmin => None,
        }
    }

    /// Allowed error per √n combined elements, relative to Σ|x|.
    pub fn tolerance(self) -> Tolerance {
        match self {
            Self::Max | Self::Min | Self::Argmax | Self::Argmin | Self::Any | Self::All => {
                Tolerance { ulp: 0.0, abs: 0.0 }
            }
            Self::LogSumExp => Tolerance { ulp: 8.0, abs: 1e-6 },
            Self::Sum | Self::Mean | Self::Prod | Self::Norm => Tolerance { ulp: 4.0, abs: 1e-7 },
        }
    }

    pub fn combine(self) -> Combine {
        match self {
            Self::Sum | Self::Mean | Self::Norm => Combine::Sum,
            Self::Prod => Combine::Prod,
            Self::Max | Self::Any => Combine::Max,
            Self::Min | Self::All => Combine::Min,
            Self::Argmax => Combine::ArgMax,
            Self::Argmin => Combine::ArgMin,
            Self::LogSumExp => Combine::LogSumExp,
        }
    }

    /// What is combined for the element `x`.
    pub fn before(self, x: E<'_>) -> E<'_> {
        match self {
            Self::Norm => x * x,
            Self::Any | Self::All => x.cast(DType::U32),
            _ => x,
        }
    }

    /// Whether [`after`](Self::after) wants the number of elements.
    pub fn counts(self) -> bool {
        self == Self::Mean
    }

    /// The result, from what was combined and the number of elements (1 unless it
    /// [`counts`](Self::counts)).
    pub fn after<'b>(self, combined: E<'b>, count: Option<E<'b>>) -> E<'b> {
        match (self, count) {
            (Self::Mean, Some(count)) => combined / count,
            (Self::Norm, _) => combined.sqrt(),
            (Self::Any | Self::All, _) => combined.cast(DType::Bool),
            _ => combined,
        }
    }
}
