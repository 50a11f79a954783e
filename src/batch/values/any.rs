//! Ids whose element type is known at run time.

use crate::base::dtype::{DType, Element};
use crate::batch::{BufferId, Tensor};
use crate::record::UntypedId;

/// The id of a recorded value with its element type as data: for bindings of other languages, which
/// [call](crate::GpuCommandBatch::call) operations by name.
///
/// ```
/// # use onetrip::{AnyId, DType, Device, GpuCommandBatch};
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload(&[1.0_f32, 2.0]);
/// let any = AnyId::from(x);
/// assert_eq!(any.dtype(), DType::F32);
/// assert_eq!(any.typed::<f32>(), Some(x.id()));
/// assert_eq!(any.typed::<u32>(), None);
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AnyId {
    pub(crate) value: UntypedId,
    pub(crate) dtype: DType,
}

impl AnyId {
    /// The type of the elements.
    #[must_use]
    pub fn dtype(self) -> DType {
        self.dtype
    }

    /// The id with element type `T`; `None` if the elements have another type.
    #[must_use]
    pub fn typed<T: Element>(self) -> Option<BufferId<T>> {
        let UntypedId { node, batch_id } = self.value;
        (self.dtype == T::DTYPE).then(|| BufferId::new(node, batch_id))
    }
}

impl<T: Element> From<BufferId<T>> for AnyId {
    fn from(id: BufferId<T>) -> Self {
        Self { value: id.value(), dtype: T::DTYPE }
    }
}

impl<T: Element> From<Tensor<'_, T>> for AnyId {
    fn from(tensor: Tensor<'_, T>) -> Self {
        tensor.id().into()
    }
}
