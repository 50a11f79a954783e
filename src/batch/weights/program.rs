//! The tensors and the text of a program that is a file.

use std::sync::Arc;

use safetensors::tensor::TensorInfo;

use super::{TensorType, Weights, unreadable};
use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::device::Device;
use crate::error::{Origin, Result, quoted};
use crate::exec::HostBuffer;
use crate::ops::Type;
use crate::residents::{Handle, Storage};

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

    /// The names of all tensors of the file in order, each with its type and shape.
    pub(crate) fn tensor_list(&self) -> Vec<(String, &TensorInfo)> {
        let names = self.whole().names().into_iter();
        let infos = names.filter_map(|name| {
            let info = self.file.metadata.info(&name)?;
            Some((name, info))
        });
        infos.collect()
    }

    /// True if the file is mapped, so that a tensor is read from the disk when it is first used.
    pub(crate) fn is_mapped(&self) -> bool {
        self.file.is_mapped
    }

    /// The bytes of a tensor, if there is one of the name.
    pub(crate) fn bytes(&self, tensor: &str) -> Option<&[u8]> {
        let (start, end) = self.info(tensor).ok()?.data_offsets;
        self.file.bytes.get(self.file.start + start..self.file.start + end)
    }

    /// A tensor of type `ty` as a resident, which messages name as `of`. On a device without a GPU it is read where it
    /// lies in the file's memory, which it then holds.
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
            if let Some(shared) = weights.in_place(device, tensor, T::DTYPE) {
                let storage = Storage::Host(Arc::new(shared));
                return Ok(Handle::new(device, ty.clone(), of.clone(), storage));
            }
            let elements = weights.elements::<T>(tensor, of)?;
            let resident = device.resident_of(of.clone(), elements.get(), ty.shape.clone())?;
            Ok(resident.handle().clone())
        }
        self.check_shape(tensor, ty)?;
        typed!(ty.dtype, handle(self, device, tensor, ty, of))
    }

    /// The data of a tensor of type `ty`, which messages name as `of`, for uploads of programs on `device`: as
    /// [`handle`](Self::handle).
    ///
    /// # Errors
    /// As [`vec`](Self::vec), and if the tensor has another shape.
    pub(crate) fn data(
        &self,
        device: &Device,
        tensor: &str,
        ty: &Type,
        of: &Origin,
    ) -> Result<HostBuffer> {
        fn data<T: Element>(
            weights: &Weights,
            device: &Device,
            tensor: &str,
            of: &Origin,
        ) -> Result<HostBuffer> {
            if let Some(shared) = weights.in_place(device, tensor, T::DTYPE) {
                return Ok(shared);
            }
            let elements = weights.elements::<T>(tensor, of)?;
            Ok(HostBuffer::try_from_slice(elements.get()).map_err(|error| error.of(of))?)
        }
        self.check_shape(tensor, ty)?;
        typed!(ty.dtype, data(self, device, tensor, of))
    }

    /// Returns whether `device` reads a tensor as elements of `dtype` where it lies in the file's memory.
    pub(crate) fn reads_in_place(&self, device: &Device, tensor: &str, dtype: DType) -> bool {
        self.in_place(device, tensor, dtype).is_some()
    }

    /// The elements in the file's memory, if it holds them as `dtype` at an address that kernels of `device` read from.
    fn in_place(&self, device: &Device, tensor: &str, dtype: DType) -> Option<HostBuffer> {
        if device.opened().is_some() {
            return None;
        }
        let info = self.info(tensor).ok()?;
        let (start, end) = info.data_offsets;
        let range = self.file.start + start..self.file.start + end;
        let is_same = TensorType::of(info.dtype).is(dtype) && range.end <= self.file.bytes.len();
        is_same.then(|| HostBuffer::shared(dtype, self.file.bytes.slice(range)).ok()).flatten()
    }

    fn check_shape(&self, tensor: &str, ty: &Type) -> Result<()> {
        let shape = self.shape(tensor)?;
        if shape == ty.shape {
            return Ok(());
        }
        let mut turned = shape.dims().to_vec();
        if let [.., rows, columns] = &mut turned[..] {
            std::mem::swap(rows, columns);
        }
        let cure = match ty.shape == Shape::from(&turned[..]) {
            true => {
                "transposed it fits: record the program with `Weights::resident`, and `transpose` in the graph"
            }
            false => "give the tensor that the program was recorded with",
        };
        let reason =
            format!("tensor {} has shape {shape}, not {}; {cure}", quoted(tensor), ty.shape);
        Err(unreadable(&self.file.name, reason).into())
    }
}
