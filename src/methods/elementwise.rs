//! The elementwise methods, made from the table of operations.

use smallvec::smallvec;

use crate::base::dtype::{Element, Float, Logical, Numeric, Signed};
use crate::batch::{GpuCommandBatch, Operand, Tensor};
use crate::ops::{Elementwise, Op, table};

macro_rules! methods {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident>($first:ident $(, $x:ident)* $(; $($p:ident: $pt:ty),+)?)
        -> $out:ty, ulp $ulp:literal, abs $abs:literal, on ($lo:literal, $hi:literal), $formula:expr;)*) => {
        /// Elementwise operations. Arguments broadcast by NumPy's rules.
        ///
        /// On the CPU, results in `f32` that are normal numbers are nearly exact: within 1 ulp (unit in the last place)
        /// for `exp` and `log`, within 1.5 ulp for `expm1`, `log1p`, `tanh` and `erf`.
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name<T: $bound>(
                &self,
                $first: impl Operand<T>
                $(, $x: impl Operand<T>)*
                $($(, $p: $pt)+)?
            ) -> Tensor<'_, $out> {
                let values = [
                    $first.operand_of(self, stringify!($name)).value()
                    $(, $x.operand_of(self, stringify!($name)).value())*
                ];
                self.record(
                    Op::Elementwise(Elementwise::$op, smallvec![$($(Element::scalar($p)),+)?]),
                    &values,
                )
            })*
        }

        /// Elementwise operations, with this tensor for the first argument.
        #[expect(clippy::should_implement_trait, reason = "the traits are implemented by these")]
        impl<'b, T: Element> Tensor<'b, T> {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name(self $(, $x: impl Operand<T>)* $($(, $p: $pt)+)?) -> Tensor<'b, $out>
            where
                T: $bound,
            {
                self.batch().$name(self $(, $x)* $($(, $p)+)?)
            })*
        }
    };
}
table!(methods);

/// Choices, and conversions of elements.
impl GpuCommandBatch {
    #[doc(alias = "where")]
    #[doc(alias = "where_")]
    /// `x` where `condition` holds, else `y`. The three broadcast by NumPy's rules. Of tensors it is a method of the mask:
    /// `mask.select(x, y)`.
    #[track_caller]
    pub fn select<T: Element>(
        &self,
        condition: impl Operand<bool>,
        x: impl Operand<T>,
        y: impl Operand<T>,
    ) -> Tensor<'_, T> {
        let condition = condition.operand_of(self, "select").value();
        let [x, y] = [x.operand_of(self, "select"), y.operand_of(self, "select")];
        self.record(Op::Select, &[condition, x.value(), y.value()])
    }

    /// The values as elements `U`. Float to integer truncates toward zero and saturates, NaN
    /// becomes 0; integer to float rounds to nearest; `i32` and `u32` exchange their bits; to `bool` is
    /// ≠ 0; `bool` becomes 0 or 1.
    #[track_caller]
    pub fn cast<T: Element, U: Element>(&self, x: impl Operand<T>) -> Tensor<'_, U> {
        self.record(Op::Cast(U::DTYPE), &[x.operand_of(self, "cast").value()])
    }

    /// Another name of [`silu`](Self::silu).
    #[track_caller]
    pub fn swish<T: Float>(&self, x: impl Operand<T>) -> Tensor<'_, T> {
        self.silu(x)
    }
}

/// Conversions of elements.
impl<'b, T: Element> Tensor<'b, T> {
    /// The values as elements `U`: as [`GpuCommandBatch::cast`].
    #[track_caller]
    pub fn cast<U: Element>(self) -> Tensor<'b, U> {
        self.batch().cast(self)
    }

    /// Another name of [`silu`](Self::silu).
    #[track_caller]
    pub fn swish(self) -> Tensor<'b, T>
    where
        T: Float,
    {
        self.silu()
    }
}

/// Choices by truth values.
impl<'b> Tensor<'b, bool> {
    /// `x` where this holds, else `y`: as [`GpuCommandBatch::select`].
    #[track_caller]
    pub fn select<T: Element>(self, x: impl Operand<T>, y: impl Operand<T>) -> Tensor<'b, T> {
        self.batch().select(self, x, y)
    }
}

registry_rows! {
    "elementwise";
    select, ALL, ANYTHING, EXACT, "x where the condition holds, else y.";
    cast, ALL, ANYTHING, EXACT, "To another element type. Float to integer truncates and saturates, NaN becomes 0; to bool is ≠ 0.";
}
