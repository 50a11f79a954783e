//! The forms in which data comes to a batch.

use std::sync::Arc;

use crate::base::dtype::Element;
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::CpuPool;

/// Elements `T` in row-major order, for [`upload`](crate::GpuCommandBatch::upload) and its like: a slice, an array or a
/// vector by reference, whose elements are copied, or a vector by value, whose memory the batch takes over where an
/// element has 32 bits (`f16` and `bool` are copied).
pub trait UploadData<T: Element>: sealed::UploadData<T> {}

impl<T: Element, D: sealed::UploadData<T>> UploadData<T> for D {}

pub(super) mod sealed {
    use super::{Arc, CpuPool, DeviceError, Element, HostBuffer};

    pub trait UploadData<T: Element>: Sized {
        /// The number of elements.
        fn elements(&self) -> usize;
        /// The elements in a buffer of their own.
        fn into_buffer(self, pool: &CpuPool) -> Result<HostBuffer, DeviceError>;
        /// Replaces the data of an upload, in its memory where nobody else reads that.
        fn replace(
            self,
            upload: &mut Option<Arc<HostBuffer>>,
            pool: &CpuPool,
        ) -> Result<(), DeviceError> {
            *upload = Some(Arc::new(self.into_buffer(pool)?));
            Ok(())
        }
    }
}

impl<T: Element> sealed::UploadData<T> for &[T] {
    fn elements(&self) -> usize {
        self.len()
    }

    fn into_buffer(self, pool: &CpuPool) -> Result<HostBuffer, DeviceError> {
        pool.filled(self)
    }

    fn replace(
        self,
        upload: &mut Option<Arc<HostBuffer>>,
        pool: &CpuPool,
    ) -> Result<(), DeviceError> {
        match upload.as_mut().and_then(Arc::get_mut) {
            Some(buffer) => buffer.write(self),
            // The old data is still read, by a run that was dropped midway or by a view, or there is none.
            None => *upload = Some(Arc::new(pool.filled(self)?)),
        }
        Ok(())
    }
}

/// References to what holds a slice.
macro_rules! as_slices {
    ($(<$(const $N:ident)?> $data:ty;)*) => {$(
        impl<T: Element $(, const $N: usize)?> sealed::UploadData<T> for $data {
            fn elements(&self) -> usize {
                self.len()
            }

            fn into_buffer(self, pool: &CpuPool) -> Result<HostBuffer, DeviceError> {
                self[..].into_buffer(pool)
            }

            fn replace(
                self,
                upload: &mut Option<Arc<HostBuffer>>,
                pool: &CpuPool,
            ) -> Result<(), DeviceError> {
                self[..].replace(upload, pool)
            }
        }
    )*};
}
as_slices! {
    <const N> &[T; N];
    <> &Vec<T>;
}

impl<T: Element> sealed::UploadData<T> for Vec<T> {
    fn elements(&self) -> usize {
        self.len()
    }

    fn into_buffer(self, _pool: &CpuPool) -> Result<HostBuffer, DeviceError> {
        HostBuffer::try_from_vec(self)
    }
}
