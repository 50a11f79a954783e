//! Operators of tensors, with tensors, ids, residents and numbers on either side.

use std::ops;

use half::f16;

use crate::base::dtype::{Logical, Numeric, Signed};
use crate::batch::{BufferId, Operand, Resident, Tensor};

macro_rules! operators {
    ($($trait:ident $operator:ident $method:ident $bound:ident: $($number:ident)*;)*) => {$(
        impl<'b, T: $bound, R: Operand<T>> ops::$trait<R> for Tensor<'b, T> {
            type Output = Self;
            #[track_caller]
            fn $operator(self, other: R) -> Self {
                self.batch().$method(self, other)
            }
        }
        on_the_left!($trait $operator $method, <T: $bound> BufferId<T>, T);
        on_the_left!($trait $operator $method, <T: $bound> &Resident<T>, T);
        $(on_the_left!($trait $operator $method, <> $number, $number);)*
    )*};
}
/// Operands on the left of a tensor: `1.0 - x`. Rust wants each number's type by itself.
macro_rules! on_the_left {
    ($trait:ident $operator:ident $method:ident, <$($t:ident: $bound:ident)?> $left:ty, $element:ty) => {
        impl<'b $(, $t: $bound)?> ops::$trait<Tensor<'b, $element>> for $left {
            type Output = Tensor<'b, $element>;
            #[track_caller]
            fn $operator(self, tensor: Tensor<'b, $element>) -> Self::Output {
                tensor.batch().$method(self, tensor)
            }
        }
    };
}
operators! {
    Add add add Numeric: f32 f16 i32 u32;
    Sub sub sub Numeric: f32 f16 i32 u32;
    Mul mul mul Numeric: f32 f16 i32 u32;
    Div div div Numeric: f32 f16 i32 u32;
    Rem rem rem Numeric: f32 f16 i32 u32;
    BitAnd bitand and Logical: bool;
    BitOr bitor or Logical: bool;
}

impl<T: Signed> ops::Neg for Tensor<'_, T> {
    type Output = Self;
    #[track_caller]
    fn neg(self) -> Self {
        self.batch().neg(self)
    }
}

impl<T: Logical> ops::Not for Tensor<'_, T> {
    type Output = Self;
    #[track_caller]
    fn not(self) -> Self {
        self.batch().not(self)
    }
}
