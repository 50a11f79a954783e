//! The tensors and the text of a program that is a file.

use super::{Weights, unreadable};
use crate::base::dtype::{DType, Element};
use crate::device::Device;
use crate::error::{Origin, Result};
use crate::exec::HostBuffer;
use crate::ops::Type;
use crate::residents::Handle;

/// Calls `$call` with the Rust type of a [`DType`].
macro_rules! typed {
    ($dtype:expr, $call:ident($($argument:expr),*)) => {
        match $dtype {
            DType::F32 => $call::<f32>($($argument),*),
            DType::F16 => $call::<half::f16>($($argument),*),
            DType::I32 => $call::<i32>($($argument),*),
            DType::U32 => $call::<u32>($($argument),*),
            DType::Bool => $call::<bool>($($argument),*),
        }
    };
}

impl Weights {
    /// The file's own text of this name.
    pub(crate) fn text(&self, name: &str) -> Option<&str> {
        self.file.metadata.metadata().as_ref()?.get(name).map(String::as_str)
    }

    /// A tensor of type `ty` as a resident, which messages name as `of`.
    ///
    /// # Errors
    /// As [`resident`](Self::resident), and if the tensor has another shape.
    pub(crate) fn handle(
        &self,
        device: &Device,
        tensor: &str,
        ty: &Type,
        of: &Origin,
    ) -> Result<Handle> {
        fn handle<T: Element>(
            weights: &Weights,
            device: &Device,
            tensor: &str,
            ty: &Type,
            of: &Origin,
        ) -> Result<Handle> {
            let elements = weights.elements::<T>(tensor, of)?;
            let resident = device.resident_of(of.clone(), elements.get(), ty.shape.clone())?;
            Ok(resident.handle().clone())
        }
        self.check_shape(tensor, ty)?;
        typed!(ty.dtype, handle(self, device, tensor, ty, of))
    }

    /// A copy of a tensor of type `ty`, which messages name as `of`.
    ///
    /// # Errors
    /// As [`vec`](Self::vec), and if the tensor has another shape.
    pub(crate) fn copy(&self, tensor: &str, ty: &Type, of: &Origin) -> Result<HostBuffer> {
        fn copy<T: Element>(weights: &Weights, tensor: &str, of: &Origin) -> Result<HostBuffer> {
            let elements = weights.elements::<T>(tensor, of)?;
            Ok(HostBuffer::try_from_slice(elements.get()).map_err(|error| error.of(of))?)
        }
        self.check_shape(tensor, ty)?;
        typed!(ty.dtype, copy(self, tensor, of))
    }

    fn check_shape(&self, tensor: &str, ty: &Type) -> Result<()> {
        let shape = self.shape(tensor)?;
        if shape == ty.shape {
            return Ok(());
        }
        let reason = format!("tensor {tensor:?} has shape {shape}, not {}", ty.shape);
        Err(unreadable(&self.file.name, reason).into())
    }
}
