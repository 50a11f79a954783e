//! The elementwise methods, made from the table of operations.

mod operators;

use smallvec::smallvec;

use crate::base::dtype::{Element, Float, Logical, Numeric, Signed};
use crate::batch::{GpuCommandBatch, Operand, Tensor};
use crate::ops::{Elementwise, Op, table};

macro_rules! methods {
    ($($(#[doc = $doc:literal])* $(#[doc(alias = $alias:literal)])* $name:ident $op:ident<$bound:ident>($first:ident $(, $x:ident)* $(; $($p:ident: $pt:ty),+)?)
        -> $out:ty, ulp $ulp:literal, abs $abs:literal, on ($lo:literal, $hi:literal), $formula:expr;)*) => {
        /// Elementwise operations. Arguments broadcast by NumPy's rules.
        ///
        /// On the CPU, results in `f32` that are normal numbers are nearly exact. They are within 1 ulp (unit in the last
        /// place) for `exp` and `log`, and within 1.5 ulp for `expm1`, `log1p` and `erf`. They are within 3 ulp for
        /// `sigmoid` above −87, and within 7 ulp for `tanh`.
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let (x, y) = (batch.upload(&[4.0_f32, 0.25]), batch.upload(&[2.0_f32, 0.5]));
        /// let results = [
        ///     (x.neg(), [-4.0, -0.25]),
        ///     (x.abs(), [4.0, 0.25]),
        ///     (x.sign(), [1.0, 1.0]),
        ///     (x.recip(), [0.25, 4.0]),
        ///     (x.square(), [16.0, 0.0625]),
        ///     (x.sqrt(), [2.0, 0.5]),
        ///     (x.rsqrt(), [0.5, 2.0]),
        ///     (x.exp(), [54.5982, 1.284]),
        ///     (x.log(), [1.3863, -1.3863]),
        ///     (x.log1p(), [1.6094, 0.2231]),
        ///     (x.expm1(), [53.5982, 0.284]),
        ///     (x.sin(), [-0.7568, 0.2474]),
        ///     (x.cos(), [-0.6536, 0.9689]),
        ///     (x.tanh(), [0.9993, 0.2449]),
        ///     (x.erf(), [1.0, 0.2763]),
        ///     (x.floor(), [4.0, 0.0]),
        ///     (x.ceil(), [4.0, 1.0]),
        ///     (x.floor_pow2(), [4.0, 0.25]),
        ///     (x.round(), [4.0, 0.0]),
        ///     (x.add(y), [6.0, 0.75]),
        ///     (x.sub(y), [2.0, -0.25]),
        ///     (x.mul(y), [8.0, 0.125]),
        ///     (x.div(y), [2.0, 0.5]),
        ///     (x.rem(y), [0.0, 0.25]),
        ///     (x.pow(y), [16.0, 0.5]),
        ///     (x.min(y), [2.0, 0.25]),
        ///     (x.max(y), [4.0, 0.5]),
        ///     (x.clip(0.5, 3.0), [3.0, 0.5]),
        ///     (x.scale(2.0), [8.0, 0.5]),
        ///     (x.add_scalar(1.0), [5.0, 1.25]),
        ///     (x.pow_scalar(2.0), [16.0, 0.0625]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload(&[-1.0_f32, 2.0]);
        /// let results = [
        ///     (x.relu(), [0.0, 2.0]),
        ///     (x.leaky_relu(0.1), [-0.1, 2.0]),
        ///     (x.elu(1.0), [-0.6321, 2.0]),
        ///     (x.selu(), [-1.1113, 2.1014]),
        ///     (x.sigmoid(), [0.2689, 0.8808]),
        ///     (x.gelu(), [-0.1587, 1.9545]),
        ///     (x.gelu_tanh(), [-0.1588, 1.9546]),
        ///     (x.silu(), [-0.2689, 1.7616]),
        ///     (x.mish(), [-0.3034, 1.944]),
        ///     (x.softplus(), [0.3133, 2.1269]),
        ///     (x.hard_sigmoid(), [0.3333, 0.8333]),
        ///     (x.hard_swish(), [-0.3333, 1.6667]),
        ///     (x.swish(), [-0.2689, 1.7616]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let (x, y) = (batch.upload(&[1_i32, 2, 3]), batch.upload(&[2_i32, 2, 2]));
        /// let (p, q) = (batch.upload(&[true, true, false]), batch.upload(&[true, false, false]));
        /// let results = [
        ///     (x.eq(y), [false, true, false]),
        ///     (x.ne(y), [true, false, true]),
        ///     (x.lt(y), [true, false, false]),
        ///     (x.le(y), [true, true, false]),
        ///     (x.gt(y), [false, false, true]),
        ///     (x.ge(y), [false, true, true]),
        ///     (p.and(q), [true, false, false]),
        ///     (p.or(q), [true, true, false]),
        ///     (p.not(), [false, false, true]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert_eq!(values, expected);
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
        impl GpuCommandBatch {
            $($(#[doc = $doc])* $(#[doc(alias = $alias)])*
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
            $($(#[doc = $doc])* $(#[doc(alias = $alias)])*
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
///
/// ```
/// # pollster::block_on(async {
/// # use onetrip::{Device, GpuCommandBatch};
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload(&[1.5_f32, -2.5]);
/// let (selected, whole) = (x.gt(0.0).select(x, 0.0), x.cast::<i32>());
/// batch.execute().await?;
/// assert_eq!(batch.read(selected).await?, [1.5, 0.0]);
/// assert_eq!(batch.read(whole).await?, [1, -2]);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
impl GpuCommandBatch {
    #[doc(alias = "where")]
    #[doc(alias = "where_")]
    /// `x` where `condition` holds, else `y`: NumPy's `where`, not its `select`. The three broadcast by NumPy's rules.
    /// Of tensors it is a method of the mask: `mask.select(x, y)`.
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
    #[doc(alias = "astype")]
    #[doc(alias = "to_dtype")]
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
    #[doc(alias = "astype")]
    #[doc(alias = "to_dtype")]
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
    #[doc(alias = "where")]
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
