//! Reductions: a map before, an associative combination, a map after. Each is one row of [`reduce_table!`].

use super::{Accepts, Tolerance};
use crate::base::dtype::{DType, Ty};
use crate::expr::E;

/// Hands the table of reductions to the macro `$use`: here to the definitions, and to the macro that makes the methods.
///
/// A row is: documentation, whose first paragraph describes the result; name, variant and bound on the element type `T`;
/// the result's type; how partial results are combined; the result over no elements, if there is one; the error allowed
/// per √n combined elements, relative to Σ|x|, in units in the last place of an `f32` and in absolute terms; the value
/// combined for an element; the result, from the combined value and perhaps the number of elements.
macro_rules! reduce_table {
    ($use:ident) => { $use! {
        /// The sum. Integers wrap; `f16` is summed in `f32`.
        #[doc(alias = "reduce_sum")]
        sum Sum<Numeric> -> T, combine Sum, empty Some(0.0), ulp 4.0, abs 1e-7, of (x) x, then (sum) sum;
        /// The arithmetic mean; NaN over no elements.
        #[doc(alias = "average")]
        mean Mean<Float> -> T, combine Sum, empty Some(f64::NAN), ulp 4.0, abs 1e-7,
            of (x) x, then (sum, count) sum / count;
        /// The product. Integers wrap.
        prod Prod<Numeric> -> T, combine Prod, empty Some(1.0), ulp 4.0, abs 1e-7, of (x) x, then (product) product;
        /// The greatest element; NaN if any is NaN. An empty axis is a mistake.
        #[doc(alias = "max")]
        #[doc(alias = "reduce_max")]
        amax Max<Numeric> -> T, combine Max, empty None, ulp 0.0, abs 0.0, of (x) x, then (most) most;
        /// The least element; NaN if any is NaN. An empty axis is a mistake.
        #[doc(alias = "min")]
        #[doc(alias = "reduce_min")]
        amin Min<Numeric> -> T, combine Min, empty None, ulp 0.0, abs 0.0, of (x) x, then (least) least;
        /// The first position of the greatest element (or of the first NaN); over several axes, its
        /// position in row-major order. An empty axis is a mistake.
        argmax Argmax<Numeric> -> u32, combine ArgMax, empty None, ulp 0.0, abs 0.0, of (x) x, then (at) at;
        /// The first position of the least element (or of the first NaN); over several axes, its
        /// position in row-major order. An empty axis is a mistake.
        argmin Argmin<Numeric> -> u32, combine ArgMin, empty None, ulp 0.0, abs 0.0, of (x) x, then (at) at;
        /// True if any element is true; false over no elements.
        any Any<Logical> -> T, combine Max, empty Some(0.0), ulp 0.0, abs 0.0,
            of (x) x.cast(DType::U32), then (most) most.cast(DType::Bool);
        /// True if all elements are true; also over no elements.
        all All<Logical> -> T, combine Min, empty Some(1.0), ulp 0.0, abs 0.0,
            of (x) x.cast(DType::U32), then (least) least.cast(DType::Bool);
        /// log Σ eˣ without overflow; −∞ over no elements.
        logsumexp LogSumExp<Float> -> T, combine LogSumExp, empty Some(f64::NEG_INFINITY), ulp 8.0, abs 1e-6,
            of (x) x, then (log) log;
        /// The Euclidean norm √Σx².
        norm Norm<Float> -> T, combine Sum, empty Some(0.0), ulp 4.0, abs 1e-7, of (x) x * x, then (sum) sum.sqrt();
    } };
}
pub(crate) use reduce_table;

/// The combination of two partial results, which a kernel implements.
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
    #[cfg(test)]
    pub const ALL: [Self; 7] = {
        use Combine::*;
        [Sum, Prod, Max, Min, ArgMax, ArgMin, LogSumExp]
    };

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

/// Everything that there is to know of one reduction.
pub(crate) struct ReductionDef {
    pub name: &'static str,
    pub doc: &'static str,
    pub accepts: Accepts,
    pub combine: Combine,
    /// The element type of the result, if it is not that of the elements.
    of_type: Option<DType>,
    /// The result over no elements, if there is one.
    pub of_nothing: Option<f64>,
    /// The allowed error per √n combined elements, relative to Σ|x|.
    pub tolerance: Tolerance,
    /// True if the result depends on the number of elements.
    counts: bool,
    before: for<'b> fn(E<'b>) -> E<'b>,
    after: for<'b> fn(&[E<'b>]) -> E<'b>,
}

macro_rules! result_type {
    (T) => {
        None
    };
    (u32) => {
        Some(DType::U32)
    };
}

macro_rules! define {
    ($($(#[doc = $doc:literal])* $(#[doc(alias = $alias:literal)])* $name:ident $op:ident<$bound:ident> -> $out:tt, combine $combine:ident,
        empty $empty:expr, ulp $ulp:literal, abs $abs:literal,
        of ($x:ident) $before:expr, then ($combined:ident $(, $count:ident)?) $after:expr;)*) => {
        /// A reduction.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Reduction { $($op),* }

        impl Reduction {
            pub const ALL: [Self; [$(stringify!($op)),*].len()] = [$(Self::$op),*];
        }

        /// The definitions, in the order of [`Reduction`].
        static REDUCTIONS: &[ReductionDef] = &[$(ReductionDef {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),*),
            accepts: Accepts::$bound,
            combine: Combine::$combine,
            of_type: result_type!($out),
            of_nothing: $empty,
            tolerance: Tolerance { ulp: $ulp, abs: $abs },
            counts: { const COUNT: &[&str] = &[$(stringify!($count))?]; !COUNT.is_empty() },
            before: |$x| $before,
            after: |given| {
                let &[$combined $(, $count)?] = given else { unreachable!("`Reduction::after` gives them") };
                $after
            },
        }),*];
    };
}
reduce_table!(define);

impl Reduction {
    pub fn def(self) -> &'static ReductionDef {
        &REDUCTIONS[self as usize]
    }

    /// The element type of the result.
    pub fn result(self, dtype: DType) -> DType {
        self.def().of_type.unwrap_or(dtype)
    }

    /// The value that is combined for the element `x`.
    pub fn before(self, x: E<'_>) -> E<'_> {
        (self.def().before)(x)
    }

    /// True if [`after`](Self::after) needs the number of elements.
    pub fn counts(self) -> bool {
        self.def().counts
    }

    /// The result, from the combined value and the number of elements, which only reductions that
    /// [count](Self::counts) are given.
    pub fn after<'b>(self, combined: E<'b>, count: Option<E<'b>>) -> E<'b> {
        match count {
            Some(count) => (self.def().after)(&[combined, count]),
            None => (self.def().after)(&[combined]),
        }
    }
}
