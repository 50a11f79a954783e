//! Row operations: each element of the result depends on its whole row, which a kernel reads once. Each is one row of
//! [`row_table!`].

use super::Tolerance;
use crate::base::dtype::Scalar;

/// Hands the table of row operations to the macro `$use`: here to the definitions, and to the macro that makes the
/// methods.
///
/// A row is: documentation, whose first paragraph describes the result; name and variant, with the ε of those that have
/// one; the family in the registry; 32-bit words of the statistics of a part of a row; flops per element, for the cost
/// model.
macro_rules! row_table {
    ($use:ident) => {
        $use! {
            /// e^(x − max) / Σ e^(x − max) along `axis`, which may count from the last (−1). The result has the shape of x. A
            /// row with NaN, with +∞ or of −∞ alone is NaN, as in PyTorch.
            softmax Softmax, family "row", words 2, flops 26;
            /// x − max − log Σ e^(x − max) along `axis`, which may count from the last (−1).
            ///
            /// The result of an element far above all others is near 0, and its error is a few 2⁻²⁴, not a few units in its
            /// last place. The sum has the term 1 for that element, and the other terms are added in `f32`, as in PyTorch.
            log_softmax LogSoftmax, family "row", words 2, flops 26;
            /// (x − mean) / √(variance + ε) along `axis`, with the variance over n elements (Ba et al., 2016).
            ///
            /// [`layer_norm_with`](Self::layer_norm_with) has a weight and a bias. It is a mistake if ε is negative or not
            /// finite. On a GPU squares are taken in `f32`, which overflows past |x − mean| of 1e19.
            layer_norm LayerNorm(epsilon: Scalar), family "row", words 3, flops 8;
            /// x / √(mean of x² + ε) along `axis` (Zhang and Sennrich, 2019).
            ///
            /// [`rms_norm_with`](Self::rms_norm_with) has a weight. It is a mistake if ε is negative or not finite. On
            /// a GPU squares are taken in `f32`, which overflows past |x| of 1e19.
            rms_norm RmsNorm(epsilon: Scalar), family "row", words 2, flops 4;
            /// x / max(√Σx², ε) along `axis`, as PyTorch's `normalize`: rows of length 1, but for those shorter than ε.
            ///
            /// It is a mistake if ε is negative or not finite. On a GPU squares are taken in `f32`, which overflows past |x|
            /// of 1e19.
            l2_normalize L2Normalize(epsilon: Scalar), family "normalization", words 2, flops 4;
        }
    };
}
pub(crate) use row_table;

/// Everything that there is to know of one row operation.
pub(crate) struct RowDef {
    pub name: &'static str,
    pub doc: &'static str,
    pub family: &'static str,
    /// 32-bit words of the statistics of a part of a row.
    pub words: usize,
    /// Flops per element, for the cost model.
    pub flops: u64,
    pub tolerance: Tolerance,
    /// True if the kernel reads an ε.
    pub has_epsilon: bool,
}

macro_rules! define {
    ($($(#[doc = $doc:literal])* $(#[doc(alias = $alias:literal)])* $name:ident $op:ident $(($epsilon:ident: $scalar:ty))?, family $family:literal,
        words $words:literal, flops $flops:literal;)*) => {
        /// A normalisation of the values along one axis, with its ε.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Normalization { $($op $(($scalar))?),* }

        /// A [`Normalization`] without its number: the operation that a kernel implements.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum RowKind { $($op),* }

        impl RowKind {
            pub const ALL: [Self; [$(stringify!($op)),*].len()] = [$(Self::$op),*];

            /// The operation with this ε, if it has one.
            pub fn with(self, epsilon: Scalar) -> Normalization {
                let _ = epsilon;
                match self { $(Self::$op => Normalization::$op $(({ let $epsilon = epsilon; $epsilon }))?),* }
            }
        }

        impl Normalization {
            pub fn kind(self) -> RowKind {
                match self { $(Self::$op { .. } => RowKind::$op),* }
            }

            /// The ε of the kinds that have one.
            pub fn epsilon(self) -> Option<Scalar> {
                match self {
                    $(Self::$op $(($epsilon))? => {
                        let epsilon: &[Scalar] = &[$($epsilon)?];
                        epsilon.first().copied()
                    })*
                }
            }
        }

        /// The definitions, in the order of [`RowKind`].
        static ROWS: &[RowDef] = &[$(RowDef {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),*),
            family: $family,
            words: $words,
            flops: $flops,
            tolerance: Tolerance { ulp: 32.0, abs: 4e-6 },
            has_epsilon: { const EPSILON: &[&str] = &[$(stringify!($epsilon))?]; !EPSILON.is_empty() },
        }),*];
    };
}
row_table!(define);

impl RowKind {
    pub fn def(self) -> &'static RowDef {
        &ROWS[self as usize]
    }
}
