//! Operands: ids, tensors, residents and numbers.

use crate::base::dtype::Element;
use crate::base::shape::Shape;
use crate::batch::{BufferId, GpuCommandBatch, Resident, Tensor};
use crate::ops::Op;
use crate::record::UntypedId;

/// An argument of an operation on elements `T`: a [`BufferId`], a [`Tensor`], a reference to a [`Resident`], or one
/// value for all elements, which broadcasts as a tensor of shape `[]`.
///
/// ```
/// # use onetrip::{Device, GpuCommandBatch};
/// # let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload(&[1.0_f32, 2.0]);
/// let y = batch.add(x.id(), 0.5);
/// let z = 2.0 * batch.max(y, x) - 1.0;
/// assert_eq!(z.shape().unwrap().dims(), [2]);
/// ```
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand of elements `{T}`",
    note = "ids, tensors and borrowed residents of `{T}` are, and a value of `{T}`; `.cast::<{T}>()` converts a tensor",
    note = "a number beside a tensor of `f32` is written `2.0`, beside one of `u32` `2_u32`",
    note = "a slice or a vector is uploaded first: `batch.upload(&data)`"
)]
pub trait Operand<T: Element> {
    /// The id in `batch`, where a number is recorded. A resident of another device is a mistake of `method`.
    #[doc(hidden)]
    #[track_caller]
    fn operand_of(self, batch: &GpuCommandBatch, method: &'static str) -> BufferId<T>;
}

/// An argument that an operation can do without: a tensor, an id, a borrowed resident, or `None`; or an
/// `Option` of an id.
#[diagnostic::on_unimplemented(
    message = "`{Self}` is no operand of elements `{T}`, and not `None`",
    note = "ids, tensors and borrowed residents of `{T}` are; an `Option` holds an id: `Some(x.id())`"
)]
pub trait OptionalOperand<T: Element> {
    /// The id in `batch`, where a number is recorded.
    #[doc(hidden)]
    #[track_caller]
    fn optional_of(self, batch: &GpuCommandBatch) -> Option<BufferId<T>>;
}

impl<T: Element> OptionalOperand<T> for Option<BufferId<T>> {
    fn optional_of(self, _batch: &GpuCommandBatch) -> Self {
        self
    }
}

macro_rules! operands {
    ($($operand:ty: |$x:ident, $batch:ident, $method:ident| $id:expr;)*) => {$(
        impl<T: Element> Operand<T> for $operand {
            fn operand_of(self, $batch: &GpuCommandBatch, $method: &'static str) -> BufferId<T> {
                let $x = self;
                $id
            }
        }

        impl<T: Element> OptionalOperand<T> for $operand {
            fn optional_of(self, batch: &GpuCommandBatch) -> Option<BufferId<T>> {
                Some(self.operand_of(batch, "operand"))
            }
        }
    )*};
}
operands! {
    BufferId<T>: |id, _batch, _method| id;
    &BufferId<T>: |id, _batch, _method| *id;
    Tensor<'_, T>: |tensor, _batch, _method| tensor.id();
    &Tensor<'_, T>: |tensor, _batch, _method| tensor.id();
    &Resident<T>: |resident, batch, method| batch.bound(resident, method).id();
}

impl<T: Element> Operand<T> for T {
    fn operand_of(self, batch: &GpuCommandBatch, _method: &'static str) -> BufferId<T> {
        batch.source::<T>(Op::Full(self.scalar()), Shape::default()).id()
    }
}

/// Several values of any element types, for [`GpuCommandBatch::outputs`]: an array, a vector or a slice of ids or
/// tensors, or a tuple of up to eight.
pub trait Values: sealed::Values {}

impl<V: sealed::Values> Values for V {}

pub(super) mod sealed {
    use super::UntypedId;

    #[diagnostic::on_unimplemented(
        message = "`{Self}` is no value of a batch, and no list of values",
        note = "tensors and ids are, and arrays, vectors and tuples of up to eight of these, such as `(y, z.id())`",
        note = "`outputs` may be called again for more"
    )]
    pub trait Values {
        /// Hands over each of them.
        #[track_caller]
        fn each(&self, take: &mut dyn FnMut(UntypedId));
    }
}

impl<T> sealed::Values for BufferId<T> {
    fn each(&self, take: &mut dyn FnMut(UntypedId)) {
        take(self.value());
    }
}

impl<T: Element> sealed::Values for Tensor<'_, T> {
    fn each(&self, take: &mut dyn FnMut(UntypedId)) {
        take(self.value());
    }
}

impl<V: sealed::Values> sealed::Values for [V] {
    fn each(&self, take: &mut dyn FnMut(UntypedId)) {
        self.iter().for_each(|value| value.each(take));
    }
}

impl<V: sealed::Values, const N: usize> sealed::Values for [V; N] {
    fn each(&self, take: &mut dyn FnMut(UntypedId)) {
        self[..].each(take);
    }
}

impl<V: sealed::Values> sealed::Values for Vec<V> {
    fn each(&self, take: &mut dyn FnMut(UntypedId)) {
        self[..].each(take);
    }
}

impl<V: sealed::Values + ?Sized> sealed::Values for &V {
    fn each(&self, take: &mut dyn FnMut(UntypedId)) {
        (**self).each(take);
    }
}

macro_rules! values {
    ($($value:ident $at:tt),+) => {
        impl<$($value: sealed::Values),+> sealed::Values for ($($value,)+) {
            fn each(&self, take: &mut dyn FnMut(UntypedId)) {
                $(self.$at.each(take);)+
            }
        }
    };
}
tuples!(values);
