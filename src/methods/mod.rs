//! The operations: each a method of batches, a method of tensors and a row of the registry, from one row of a table.
//!
//! A family is a file, or a folder of some files: its table, and the functions that record. Elementwise operations have
//! their table in [`crate::ops`], since planner and kernels read it too.

/// Makes a family of operations: for each row the batch's method, the tensor's method and the registry's row.
///
/// An example of the family stands on the batch's methods. A row is documentation, with aliases for its search; the
/// method with its operands by element type, after `;` its parameters, and its result; the expression that records it,
/// in which the operands are tensors; and for the registry the element types, what it fuses with, the tolerance, and
/// the documentation in short. Operations of another form are written out beside the table; `others` has their rows for
/// the registry.
///
/// The expression is evaluated within the call of the method: all that it records, and its refusal, is of that method and
/// of the caller's line.
macro_rules! operations {
    (
        $(#[$heading:meta])*
        $family:literal;
        $(example { $(#[$example:meta])* })?
        $(
            $(#[doc = $doc:literal])*
            $(#[doc(alias = $alias:literal)])*
            fn $name:ident<T: $bound:ident $(, $g:ident: $gbound:ident)*>(
                $x:ident: T $(, $y:ident: $ytype:ident)* $(; $($p:ident: $ptype:ty),+)?
            ) -> $out:ty = $body:expr $(, $dtypes:expr, $fusion:expr, $tolerance:expr, $short:literal)?;
        )*
        $(others {
            $($other:ident, $odtypes:expr, $ofusion:expr, $otolerance:expr, $oshort:literal;)*
        })?
    ) => {
        $(#[$heading])*
        $($(#[$example])*)?
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            $(#[doc(alias = $alias)])*
            #[track_caller]
            pub fn $name<'b, T: $bound $(, $g: $gbound)*>(
                &'b self,
                $x: impl Operand<T>
                $(, $y: impl Operand<$ytype>)*
                $($(, $p: $ptype)+)?
            ) -> $out {
                // The lifetime is named here too, since some results do not have it.
                let batch: &'b Self = self;
                batch.composed_of(stringify!($name), |operands| {
                    let $x = batch.operand($x);
                    $(let $y = batch.operand($y);)*
                    operands.extend_from_slice(&[$x.value() $(, $y.value())*]);
                    $body
                })
            })*
        }

        $(#[$heading])*
        impl<'b, T: Element> Tensor<'b, T> {
            $(
            #[doc = concat!(
                "As [`GpuCommandBatch::", stringify!($name), "`], with this tensor for `", stringify!($x), "`."
            )]
            $(#[doc(alias = $alias)])*
            #[track_caller]
            pub fn $name$(<$g: $gbound>)*(
                self
                $(, $y: impl Operand<$ytype>)*
                $($(, $p: $ptype)+)?
            ) -> $out
            where
                T: $bound,
            {
                self.batch().$name(self $(, $y)* $($(, $p)+)?)
            })*
        }

        registry_rows! {
            $family;
            $($($name, $dtypes, $fusion, $tolerance, $short;)?)*
            $($($other, $odtypes, $ofusion, $otolerance, $oshort;)*)?
        }
    };
}

/// Makes a family of operations that have no operands, from rows as those of [`operations`]: methods of the batch, whose
/// name in the expressions comes first.
macro_rules! creations {
    (
        $(#[$heading:meta])*
        $family:literal, $batch:ident;
        $(
            $(#[$doc:meta])*
            fn $name:ident$(<$g:ident: $gbound:ident>)?($($p:ident: $ptype:ty),+) -> $out:ty = $body:expr,
                $dtypes:expr, $fusion:expr, $tolerance:expr, $short:literal;
        )*
    ) => {
        $(#[$heading])*
        impl GpuCommandBatch {
            $($(#[$doc])*
            #[track_caller]
            pub fn $name<'b $(, $g: $gbound)?>(&'b self, $($p: $ptype),+) -> $out {
                let $batch = self;
                self.composed(stringify!($name), || $body)
            })*
        }

        registry_rows! {
            $family; $($name, $dtypes, $fusion, $tolerance, $short;)*
        }
    };
}

/// Makes the registry's rows of a family.
macro_rules! registry_rows {
    ($family:literal;) => {};
    ($family:literal; $($name:ident, $dtypes:expr, $fusion:expr, $tolerance:expr, $short:literal;)*) => {
        /// The family's rows of the registry.
        pub(in crate::methods) const ROWS: &[$crate::methods::OpInfo] = {
            use $crate::methods::registry::words::*;
            &[$($crate::methods::OpInfo {
                name: stringify!($name),
                family: $family,
                dtypes: $dtypes,
                doc: $short,
                fusion: $fusion,
                tolerance: $tolerance,
            }),*]
        };
    };
}

mod elementwise;

mod linear;

mod reduce;

mod rows;

mod scan;

mod sort;

mod movement;

mod indexing;

mod nn;

mod loss;

mod create;

mod arguments;
mod by_name;
mod registry;
#[cfg(test)]
mod tests;

pub use by_name::{Parameter, ParameterKind, Signature, signatures};

pub use arguments::axes::Axes;
pub use arguments::ranges::SliceRange;
pub use loss::{ClassLoss, LossReduction};
pub use nn::{
    Attention, AttentionMask, Causal, CellWeights, Conv, Conv1d, Conv2d, ConvTranspose,
    ConvTranspose1d, ConvTranspose2d, Corners, ImageSize, LstmState, Pool, Pool1d, Pool2d,
    Recurrence, Rotary,
};
pub use registry::{OpInfo, registry};
