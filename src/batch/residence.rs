//! Where the data of residents lies: on the host, on a GPU, or on both.

use std::fmt;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use smallvec::SmallVec;

#[cfg(feature = "gpu")]
use crate::base::dtype::DType;
use crate::base::sync::{Mutex, MutexGuard};
use crate::cost::{Backend, Residence};
use crate::device::Device;
use crate::error::{
    DeviceError, Error, MistakeKind, Origin, PlanError, ReadError, Result, file_and_line,
};
use crate::exec::HostBuffer;
#[cfg(feature = "gpu")]
use crate::exec::gpu::DeviceBuffer;
use crate::graph::Graph;
use crate::ops::{Op, Type};

/// A [`Resident`](super::Resident) without its element type in the type.
#[derive(Clone)]
pub(super) struct Handle(Arc<Cell>);

struct Cell {
    device: Device,
    ty: Type,
    /// Where it was made.
    place: &'static Location<'static>,
    storage: Mutex<Storage>,
    /// Whether the host is to have a copy, whatever fills it.
    host_copy: AtomicBool,
    /// Whose turn it is to replace the data by what it makes of it.
    turn: Arc<tokio::sync::Mutex<()>>,
    /// Held by who brings the data to the GPU.
    #[cfg(feature = "gpu")]
    bringing: Mutex<()>,
}

/// Where a resident's data lies: on either side or both, nowhere until the batch that keeps it has run.
#[derive(Clone, Default)]
pub(super) struct Storage {
    pub host: Option<Arc<HostBuffer>>,
    #[cfg(feature = "gpu")]
    pub gpu: Option<Arc<DeviceBuffer>>,
    /// Whether others may write to it on the GPU, so that no copy on the host can be trusted: there is none.
    #[cfg(feature = "gpu")]
    pub is_shared: bool,
}

/// What a run left, in the order of the graph's keeps.
pub(super) type Left = SmallVec<[Storage; 1]>;

impl Storage {
    pub fn on_host(buffer: Arc<HostBuffer>) -> Self {
        Self {
            host: Some(buffer),
            #[cfg(feature = "gpu")]
            gpu: None,
            #[cfg(feature = "gpu")]
            is_shared: false,
        }
    }

    #[cfg(feature = "gpu")]
    pub fn on_gpu(buffer: Arc<DeviceBuffer>) -> Self {
        Self { gpu: Some(buffer), ..Self::default() }
    }

    /// The same data, of which `buffer` is a copy.
    #[cfg(feature = "gpu")]
    pub fn and_on_gpu(self, buffer: Arc<DeviceBuffer>) -> Self {
        Self { gpu: Some(buffer), ..self }
    }

    pub fn is_on_gpu(&self) -> bool {
        #[cfg(feature = "gpu")]
        return self.gpu.is_some();
        #[cfg(not(feature = "gpu"))]
        false
    }

    #[cfg(feature = "gpu")]
    fn is_in(&self, buffer: &Arc<DeviceBuffer>) -> bool {
        self.gpu.as_ref().is_some_and(|gpu| Arc::ptr_eq(gpu, buffer))
    }

    pub fn is_empty(&self) -> bool {
        self.residence().is_none()
    }

    /// Where the data lies, if there is any.
    fn residence(&self) -> Option<Residence> {
        match (self.host.is_some(), self.is_on_gpu()) {
            (true, true) => Some(Residence::Both),
            (true, false) => Some(Residence::Host),
            #[cfg(feature = "gpu")]
            (false, true) if self.is_shared => Some(Residence::Shared),
            (false, true) => Some(Residence::Gpu),
            (false, false) => None,
        }
    }

    /// Without what lies on another GPU than that which `device` has now.
    #[cfg_attr(
        not(feature = "gpu"),
        expect(unused_mut, unused_variables, reason = "on the host alone")
    )]
    fn still_there(mut self, device: &Device) -> Self {
        #[cfg(feature = "gpu")]
        if let Some(buffer) = &self.gpu
            && buffer.is_lost()
            && !device.opened().is_some_and(|gpu| gpu.owns(buffer))
        {
            self.gpu = None;
        }
        self
    }

    /// Brings the data to the host, unless it is there.
    ///
    /// # Errors
    /// If the device fails.
    #[cfg(feature = "gpu")]
    pub async fn bring_to_host(&mut self, device: &Device) -> Result<(), DeviceError> {
        if let (None, Some(buffer), Some(gpu)) = (&self.host, &self.gpu, device.opened()) {
            let read = device.fetch(&gpu, buffer).await?;
            self.host = Some(Arc::new(read.to_host()?));
        }
        Ok(())
    }
}

impl Handle {
    pub fn new(
        device: &Device,
        ty: Type,
        place: &'static Location<'static>,
        storage: Storage,
    ) -> Self {
        let (device, storage) = (device.clone(), Mutex::new(storage));
        let host_copy = AtomicBool::new(false);
        Self(Arc::new(Cell {
            device,
            ty,
            place,
            storage,
            host_copy,
            turn: Arc::default(),
            #[cfg(feature = "gpu")]
            bringing: Mutex::default(),
        }))
    }

    pub fn lock(&self) -> MutexGuard<'_, Storage> {
        self.0.storage.lock()
    }

    /// The right to bring the data to the GPU, until it is dropped: on a thread that may wait.
    #[cfg(feature = "gpu")]
    pub fn bringing(&self) -> MutexGuard<'_, ()> {
        self.0.bringing.lock()
    }

    /// Where the data lies, and the GPU that it lies on where it does so; `None` before the batch that keeps it has run.
    ///
    /// # Errors
    /// [`DeviceError::ResidentLost`] if it lay on a lost GPU alone.
    pub fn storage(&self) -> Result<Option<Storage>, DeviceError> {
        let storage = self.lock().clone();
        if storage.is_empty() {
            return Ok(None);
        }
        let storage = storage.still_there(&self.0.device);
        if storage.is_empty() {
            let (what, place) = (self.0.ty.to_string(), file_and_line(self.0.place));
            return Err(DeviceError::ResidentLost { what, place });
        }
        Ok(Some(storage))
    }

    /// Where the data lies; `None` before the batch that keeps it has run.
    ///
    /// # Errors
    /// As [`storage`](Self::storage).
    fn residence(&self) -> Result<Option<Residence>, DeviceError> {
        let storage = self.lock();
        if storage.host.is_some() && !storage.is_on_gpu() {
            return Ok(Some(Residence::Host));
        }
        drop(storage);
        Ok(self.storage()?.and_then(|storage| storage.residence()))
    }

    /// As [`storage`](Self::storage), of a resident that must have been filled.
    ///
    /// # Errors
    /// [`ReadError::EmptyResident`] too.
    pub fn filled(&self) -> Result<Storage> {
        Ok(self.storage()?.ok_or_else(|| self.empty())?)
    }

    /// How messages name it.
    pub fn origin(&self) -> Origin {
        Origin::unnamed("resident", self.0.place)
    }

    /// What asking for data says that is not there yet.
    pub fn empty(&self) -> ReadError {
        ReadError::EmptyResident { place: file_and_line(self.0.place) }
    }

    /// The mistake to use it with another device.
    pub fn foreign(&self) -> MistakeKind {
        let device = self.0.device.info().name.clone();
        MistakeKind::ForeignResident { of: self.origin(), device }
    }

    /// The data on the host, if it is there.
    pub fn host(&self) -> Option<Arc<HostBuffer>> {
        self.lock().host.clone()
    }

    /// The data on the host, where it is brought if need be, and stays unless it is shared.
    pub async fn on_host(&self) -> Result<Arc<HostBuffer>> {
        if let Some(host) = self.host() {
            return Ok(host);
        }
        #[cfg_attr(not(feature = "gpu"), expect(unused_mut, reason = "it is there"))]
        let mut storage = self.filled()?;
        #[cfg(feature = "gpu")]
        storage.bring_to_host(&self.0.device).await?;
        #[cfg(feature = "gpu")]
        if let (Some(copy), Some(buffer)) = (&storage.host, &storage.gpu) {
            self.add_host_copy(buffer, copy);
        }
        Ok(storage.host.ok_or_else(|| self.empty())?)
    }

    /// Has the host keep a copy from now on, whatever fills it.
    pub fn want_host_copy(&self) {
        self.0.host_copy.store(true, Ordering::Relaxed);
    }

    /// Whether what fills it must come to the host too.
    pub fn wants_host_copy(&self) -> bool {
        self.0.host_copy.load(Ordering::Relaxed)
    }

    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    pub fn turn(&self) -> &Arc<tokio::sync::Mutex<()>> {
        &self.0.turn
    }

    /// New data, in place of what was there.
    pub fn fill(&self, storage: Storage) {
        *self.lock() = storage;
    }

    /// Whether the data is on a side, which is not known to be lost.
    pub fn is_on(&self, side: Backend) -> bool {
        let storage = self.lock();
        match side {
            Backend::Cpu => storage.host.is_some(),
            #[cfg(feature = "gpu")]
            Backend::Gpu => storage.gpu.as_ref().is_some_and(|buffer| !buffer.is_lost()),
            #[cfg(not(feature = "gpu"))]
            Backend::Gpu => false,
        }
    }

    /// A copy on the GPU of the data that is `on_host`, unless other data has taken its place.
    #[cfg(feature = "gpu")]
    pub fn add_copy(&self, on_host: &Arc<HostBuffer>, copy: &Arc<DeviceBuffer>) {
        let mut storage = self.lock();
        if storage.host.as_ref().is_some_and(|host| Arc::ptr_eq(host, on_host)) {
            storage.gpu = Some(Arc::clone(copy));
        }
    }

    /// As [`add_copy`](Self::add_copy), on the host of what is `on_gpu` and not shared.
    #[cfg(feature = "gpu")]
    pub fn add_host_copy(&self, on_gpu: &Arc<DeviceBuffer>, copy: &Arc<HostBuffer>) {
        let mut storage = self.lock();
        if !storage.is_shared && storage.is_in(on_gpu) {
            storage.host = Some(Arc::clone(copy));
        }
    }

    /// From now on others may write to `on_gpu`. `false`, and nothing is done, if other data has taken its place.
    #[cfg(feature = "gpu")]
    pub fn share(&self, on_gpu: &Arc<DeviceBuffer>) -> bool {
        let mut storage = self.lock();
        let is_there = storage.is_in(on_gpu);
        if is_there {
            on_gpu.share();
            (storage.host, storage.is_shared) = (None, true);
        }
        is_there
    }

    pub fn device(&self) -> &Device {
        &self.0.device
    }

    #[cfg(feature = "gpu")]
    pub fn dtype(&self) -> DType {
        self.0.ty.dtype
    }

    pub fn ty(&self) -> &Type {
        &self.0.ty
    }
}

/// Where the data of each resident lies that `graph` binds.
pub(super) fn residences(graph: &Graph, residents: &[Handle]) -> Result<SmallVec<[Residence; 8]>> {
    let empty = |at: usize| {
        let bound = graph.iter().find(|(_, node)| node.op == Op::Resident(at as u32));
        let place = bound.map(|(_, node)| file_and_line(node.place)).unwrap_or_default();
        Error::from(PlanError::EmptyResident { place })
    };
    let each = residents.iter().enumerate();
    each.map(|(at, handle)| handle.residence()?.ok_or_else(|| empty(at))).collect()
}

impl fmt::Debug for Handle {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let state = match self.storage() {
            Ok(Some(_)) => "",
            Ok(None) => ", empty",
            Err(_) => ", lost",
        };
        write!(f, "Resident({}{state})", self.0.ty)
    }
}
