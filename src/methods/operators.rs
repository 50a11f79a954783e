//! Operators of tensors, with tensors, ids, residents and numbers on either side.

use std::ops;

use half::f16;

use crate::base::dtype::{Logical, Numeric, Signed};
use crate::batch::{BufferId, Operand, Resident, Tensor};

macro_rules! operators {
    ($($trait:ident $operator:ident $method:ident $bound:ident;)*) => {$(
        impl<'b, T: $bound, R: Operand<T>> ops::$trait<R> for Tensor<'b, T> {
            type Output = Self;
            #[track_caller]
            fn $operator(self, other: R) -> Self {
                self.batch().$method(self, other)
            }
        }

        impl<'b, T: $bound> ops::$trait<Tensor<'b, T>> for BufferId<T> {
            type Output = Tensor<'b, T>;
            #[track_caller]
            fn $operator(self, tensor: Tensor<'b, T>) -> Tensor<'b, T> {
                tensor.batch().$method(self, tensor)
            }
        }

        impl<'b, T: $bound> ops::$trait<Tensor<'b, T>> for &Resident<T> {
            type Output = Tensor<'b, T>;
            #[track_caller]
            fn $operator(self, tensor: Tensor<'b, T>) -> Tensor<'b, T> {
                tensor.batch().$method(self, tensor)
            }
        }
    )*};
}
operators! {
    Add add add Numeric;
    Sub sub sub Numeric;
    Mul mul mul Numeric;
    Div div div Numeric;
    Rem rem rem Numeric;
    BitAnd bitand and Logical;
    BitOr bitor or Logical;
}

/// Numbers on the left of operators: `1.0 - x`. Rust wants each type by itself.
macro_rules! numbers {
    ($($number:ident: $($trait:ident $operator:ident $method:ident),*;)*) => {$($(
        impl<'b> ops::$trait<Tensor<'b, $number>> for $number {
            type Output = Tensor<'b, $number>;
            #[track_caller]
            fn $operator(self, tensor: Tensor<'b, $number>) -> Self::Output {
                tensor.batch().$method(self, tensor)
            }
        }
    )*)*};
}
numbers! {
    f32: Add add add, Sub sub sub, Mul mul mul, Div div div, Rem rem rem;
    f16: Add add add, Sub sub sub, Mul mul mul, Div div div, Rem rem rem;
    i32: Add add add, Sub sub sub, Mul mul mul, Div div div, Rem rem rem;
    u32: Add add add, Sub sub sub, Mul mul mul, Div div div, Rem rem rem;
    bool: BitAnd bitand and, BitOr bitor or;
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
