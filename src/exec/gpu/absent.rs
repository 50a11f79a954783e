//! Stand-ins for a build without the feature `gpu`: types without values, under the names that other rooms use.

#[path = "counts.rs"]
mod counts;
#[expect(dead_code, reason = "no GPU runs it")]
#[path = "submit/run_inputs.rs"]
mod run_inputs;

use std::future::{Ready, ready};
use std::sync::Arc;

use self::counts::GpuCounts;
pub(crate) use self::run_inputs::{GpuRunInputs, HostData};
use crate::base::disk::cache::Store;
use crate::base::dtype::{DType, Element};
use crate::codegen::Dispatch;
use crate::cost::Limits;
use crate::error::{DeviceError, MistakeKind, Result};
use crate::exec::memory::MemoryCounts;
use crate::exec::{FailedElement, HostBuffer, SliceWrite};
use crate::ops::{CustomKernel, Type};

/// A type without values. It is private, so that other rooms are compiled as if the types here had values.
#[derive(Clone, Copy, PartialEq)]
enum Never {}

/// Defines types without values, and their methods.
macro_rules! absent {
    ($(#[doc = $doc:literal] $type:ident {
        $(fn $name:ident $(<$generic:ident: $bound:ident>)? ($($arg:ty),*) -> $result:ty;)*
    })*) => {$(
        #[doc = $doc]
        #[derive(Clone, PartialEq)]
        pub(crate) struct $type(Never);

        impl $type {
            $(pub fn $name $(<$generic: $bound>)? (&self $(, _: $arg)*) -> $result {
                match self.0 {}
            })*
        }
    )*};
}

absent! {
    /// A GPU, of which there is none.
    Gpu {
        fn id() -> GpuId;
        fn info() -> &GpuInfo;
        fn limits() -> &Limits;
        fn loss_reason() -> Option<&str>;
        fn memory_counts() -> MemoryCounts;
        fn trim() -> ();
        fn destroy() -> ();
        fn close() -> ();
        fn owns(&DeviceBuffer) -> bool;
        fn compile(Vec<Dispatch>, impl Send + 'static) -> Ready<Result<Arc<Kernels>, DeviceError>>;
        fn begin_compiling(Vec<Dispatch>) -> Ready<Result<(), DeviceError>>;
        fn can_run(&Kernels) -> bool;
        fn run(GpuRunInputs) -> Ready<Result<GpuRunResults>>;
        fn resident(DType, &[u8]) -> Result<Arc<DeviceBuffer>, DeviceError>;
        fn room_like(&DeviceBuffer) -> Result<DeviceBuffer, DeviceError>;
        fn write_slices(&[&SliceWrite<DeviceBuffer>]) -> Result<u32, DeviceError>;
        fn read_resident(&Arc<DeviceBuffer>) -> Ready<Result<Download, DeviceError>>;
        fn read_chunks(&Arc<DeviceBuffer>, usize) -> DownloadChunks;
    }
    /// The identity of a GPU.
    GpuId {}
    /// A value on a GPU.
    DeviceBuffer {
        fn is_lost() -> bool;
    }
    /// A value that came from a GPU.
    Download {
        fn len() -> usize;
        fn bytes() -> usize;
        fn in_place<T: Element>() -> Option<&[T]>;
        fn copy_out<T: Element>(usize, &mut [T]) -> ();
        fn to_host() -> Result<HostBuffer, DeviceError>;
        fn to_vec<T: Element>() -> Vec<T>;
        fn copied_into<T: Element>(Vec<T>, usize) -> Ready<Vec<T>>;
    }
    /// A value that comes from a GPU in chunks.
    DownloadChunks {
        fn next() -> Ready<Result<Option<(usize, Download)>, DeviceError>>;
    }
}

/// The description of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuInfo {
    pub name: String,
    pub backend: String,
    pub driver: String,
    pub software: bool,
}

/// The choice of an adapter.
pub(crate) struct AdapterChoice;

/// The compiled kernels of a plan.
pub(crate) struct Kernels {
    pub compiled: u32,
    pub hits: u32,
}

/// The results of a run.
pub(crate) struct GpuRunResults {
    pub kept: Vec<Arc<DeviceBuffer>>,
    pub failed: Option<FailedElement>,
    pub counts: GpuCounts,
    never: Never,
}

impl Gpu {
    pub fn open(
        _: &AdapterChoice,
        _: Option<Arc<Store>>,
        _: impl Send + 'static,
    ) -> Ready<Result<Self, DeviceError>> {
        ready(Err(DeviceError::NoGpuSupport))
    }

    pub fn list() -> Ready<Result<Vec<GpuInfo>, DeviceError>> {
        ready(Err(DeviceError::NoGpuSupport))
    }
}

impl GpuInfo {
    pub fn pci_bus_id(&self) -> Option<&str> {
        None
    }
}

pub(crate) fn check_custom(_: &CustomKernel, _: &[&Type], _: &Type) -> Result<(), MistakeKind> {
    Ok(())
}

pub(crate) fn close<T>(_: Arc<T>) {}

pub(crate) async fn in_turn<R>(calls: impl FnOnce() -> R) -> R {
    ready(calls()).await
}

pub(crate) async fn in_last_poll<R>(calls: impl FnOnce() -> R) -> R {
    ready(calls()).await
}

impl AdapterChoice {
    pub fn best(_: Option<String>, _: bool) -> Self {
        Self
    }

    pub fn again(_: &GpuInfo) -> Self {
        Self
    }
}

impl GpuRunResults {
    pub fn len(&self) -> usize {
        match self.never {}
    }

    pub fn download(&self, _: usize) -> Download {
        match self.never {}
    }
}
