//! Stand-ins for a build without the feature `gpu`: types without values, under the names that other rooms use.

use std::sync::Arc;

use crate::base::dtype::{DType, Element};
use crate::error::DeviceError;
use crate::exec::{HostBuffer, Patch};

/// A type without values. It is private, so that other rooms are compiled as if the types here had values.
#[derive(Clone, Copy)]
enum Never {}

/// A GPU, of which there is none.
#[derive(Clone)]
pub(crate) struct Gpu(Never);

/// A value on a GPU.
pub(crate) struct DeviceBuffer(Never);

/// A value that came from a GPU.
pub(crate) struct Download(Never);

/// A value that comes from a GPU in parts.
pub(crate) struct Parts(Never);

/// A finished run on a GPU.
pub(crate) struct GpuRun(Never);

/// Elements that replace a part of a value on a GPU.
#[expect(dead_code, reason = "no GPU reads them")]
pub(crate) struct Patched {
    pub new: Arc<DeviceBuffer>,
    pub patch: Patch,
    pub to: Arc<DeviceBuffer>,
    pub copied: Option<Arc<DeviceBuffer>>,
}

impl Gpu {
    pub fn owns(&self, _: &DeviceBuffer) -> bool {
        match self.0 {}
    }

    pub fn resident(&self, _: DType, _: &[u8]) -> Result<Arc<DeviceBuffer>, DeviceError> {
        match self.0 {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as with the feature `gpu`")]
    pub async fn read_resident(&self, _: &Arc<DeviceBuffer>) -> Result<Download, DeviceError> {
        match self.0 {}
    }

    pub fn read_parts(&self, _: &Arc<DeviceBuffer>, _: usize) -> Parts {
        match self.0 {}
    }

    pub fn room_like(&self, _: &DeviceBuffer) -> Result<DeviceBuffer, DeviceError> {
        match self.0 {}
    }

    pub fn patch(&self, _: &[&Patched]) -> Result<u32, DeviceError> {
        match self.0 {}
    }

    pub async fn in_turn<R>(calls: impl FnOnce() -> R) -> R {
        std::future::ready(calls()).await
    }

    pub async fn at_the_end<R>(calls: impl FnOnce() -> R) -> R {
        std::future::ready(calls()).await
    }
}

impl DeviceBuffer {
    pub fn is_lost(&self) -> bool {
        match self.0 {}
    }
}

impl Parts {
    #[expect(clippy::unused_async, reason = "the same signature as with the feature `gpu`")]
    pub async fn next(&mut self) -> Result<Option<(usize, Download)>, DeviceError> {
        match self.0 {}
    }
}

impl GpuRun {
    pub fn len(&self) -> usize {
        match self.0 {}
    }

    pub fn download(&self, _: usize) -> Download {
        match self.0 {}
    }
}

impl Download {
    pub fn len(&self) -> usize {
        match self.0 {}
    }

    pub fn bytes(&self) -> usize {
        match self.0 {}
    }

    pub fn in_place<T: Element>(&self) -> Option<&[T]> {
        match self.0 {}
    }

    pub fn copy_out<T: Element>(&self, _: usize, _: &mut [T]) {
        match self.0 {}
    }

    pub fn to_host(&self) -> Result<HostBuffer, DeviceError> {
        match self.0 {}
    }

    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        match self.0 {}
    }

    #[expect(clippy::unused_async, reason = "the same signature as with the feature `gpu`")]
    pub async fn copied_into<T: Element>(self, _: Vec<T>, _: usize) -> Vec<T> {
        match self.0 {}
    }
}
