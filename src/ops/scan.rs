//! Scans: each element of the result combines those up to it along one axis.

use super::{Accepts, Combine, Tolerance};

/// A running combination, as the user names it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Scan {
    Sum,
    Prod,
    Max,
    Min,
}

impl Scan {
    pub const ALL: [Self; 4] = [Self::Sum, Self::Prod, Self::Max, Self::Min];

    pub fn name(self) -> &'static str {
        match self {
            Self::Sum => "cumsum",
            Self::Prod => "cumprod",
            Self::Max => "cummax",
            Self::Min => "cummin",
        }
    }

    pub fn doc(self) -> &'static str {
        match self {
            Self::Sum => {
                "The sum of the elements up to each, itself included, along `axis`. Integers wrap."
            }
            Self::Prod => "The product of the elements up to each, itself included. Integers wrap.",
            Self::Max => "The greatest element up to each; NaN from the first NaN on.",
            Self::Min => "The least element up to each; NaN from the first NaN on.",
        }
    }

    pub fn accepts(self) -> Accepts {
        Accepts::Numeric
    }

    /// Allowed error per √n combined elements, relative to Σ|x|.
    pub fn tolerance(self) -> Tolerance {
        match self {
            Self::Sum | Self::Prod => Tolerance { ulp: 4.0, abs: 1e-7 },
            Self::Max | Self::Min => Tolerance { ulp: 0.0, abs: 0.0 },
        }
    }

    pub fn combine(self) -> Combine {
        match self {
            Self::Sum => Combine::Sum,
            Self::Prod => Combine::Prod,
            Self::Max => Combine::Max,
            Self::Min => Combine::Min,
        }
    }
}
