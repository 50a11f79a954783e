//! Scans: each element of the result combines those up to it along one axis. Each is one row of [`scan_table!`].

use super::{Accepts, Combine, Tolerance};

/// Hands the table of scans to the macro `$use`: here to the definitions, and to the macro that makes the methods.
///
/// A row is: documentation, whose first paragraph describes the result; name, variant and bound on the element type; how
/// elements are combined; the error allowed per √n combined elements, relative to Σ|x|, in units in the last place of an
/// `f32` and in absolute terms.
macro_rules! scan_table {
    ($use:ident) => {
        $use! {
            /// The running sum. Integers wrap.
            cumsum Sum<Numeric>, combine Sum, ulp 4.0, abs 1e-7;
            /// The running product. Integers wrap.
            cumprod Prod<Numeric>, combine Prod, ulp 4.0, abs 1e-7;
            /// The greatest element so far; NaN from the first NaN on.
            cummax Max<Numeric>, combine Max, ulp 0.0, abs 0.0;
            /// The least element so far; NaN from the first NaN on.
            cummin Min<Numeric>, combine Min, ulp 0.0, abs 0.0;
        }
    };
}
pub(crate) use scan_table;

/// Everything that there is to know of one scan.
pub(crate) struct ScanDef {
    pub name: &'static str,
    pub doc: &'static str,
    pub accepts: Accepts,
    pub combine: Combine,
    /// The allowed error per √n combined elements, relative to Σ|x|.
    pub tolerance: Tolerance,
}

macro_rules! define {
    ($($(#[doc = $doc:literal])* $(#[doc(alias = $alias:literal)])* $name:ident $op:ident<$bound:ident>, combine $combine:ident,
        ulp $ulp:literal, abs $abs:literal;)*) => {
        /// A running combination.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        pub(crate) enum Scan { $($op),* }

        impl Scan {
            pub const ALL: [Self; [$(stringify!($op)),*].len()] = [$(Self::$op),*];
        }

        /// The definitions, in the order of [`Scan`].
        static SCANS: &[ScanDef] = &[$(ScanDef {
            name: stringify!($name),
            doc: concat!($($doc, "\n"),*),
            accepts: Accepts::$bound,
            combine: Combine::$combine,
            tolerance: Tolerance { ulp: $ulp, abs: $abs },
        }),*];
    };
}
scan_table!(define);

impl Scan {
    pub fn def(self) -> &'static ScanDef {
        &SCANS[self as usize]
    }
}
