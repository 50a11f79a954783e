//! The elementwise methods, made from the table of operations.

use smallvec::smallvec;

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{Element, Float, Logical, Numeric, Signed};
use crate::ops::{Elementwise, Op, table};

macro_rules! methods {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident>($($x:ident),+ $(; $($p:ident: $pt:ty),+)?)
        -> $out:ty, ulp $ulp:literal, abs $abs:literal, on ($lo:literal, $hi:literal), $formula:expr;)*) => {
        /// Elementwise operations. Arguments broadcast by NumPy's rules.
        ///
        /// On the CPU, results in `f32` that are normal numbers lie within 1 ulp (unit in the last place) of the
        /// exact ones for `exp` and `log`, within 1.5 ulp for `expm1`, `log1p`, `tanh` and `erf`.
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name<T: $bound>(&mut self, $($x: BufferId<T>),+ $(, $($p: $pt),+)?) -> BufferId<$out> {
                let op = Op::Elementwise(Elementwise::$op, smallvec![$($(Element::scalar($p)),+)?]);
                let ids = [$(self.check($x)),+];
                self.record(op, &ids)
            })*
        }
    };
}
table!(methods);

impl GpuCommandBatch {
    #[doc(alias = "where")]
    /// `x` where `condition` holds, else `y`. The three broadcast by NumPy's rules.
    #[track_caller]
    pub fn select<T: Element>(
        &mut self,
        condition: BufferId<bool>,
        x: BufferId<T>,
        y: BufferId<T>,
    ) -> BufferId<T> {
        let ids = [self.check(condition), self.check(x), self.check(y)];
        self.record(Op::Select, &ids)
    }

    /// The values as elements `U`. Float to integer truncates toward zero and saturates, NaN
    /// becomes 0; integer to float rounds to nearest; `i32` and `u32` exchange their bits; to `bool` is
    /// ≠ 0; `bool` becomes 0 or 1.
    #[track_caller]
    pub fn cast<T: Element, U: Element>(&mut self, x: BufferId<T>) -> BufferId<U> {
        let ids = [self.check(x)];
        self.record(Op::Cast(U::DTYPE), &ids)
    }

    /// Another name of [`silu`](Self::silu).
    #[track_caller]
    pub fn swish<T: Float>(&mut self, x: BufferId<T>) -> BufferId<T> {
        self.silu(x)
    }
}
