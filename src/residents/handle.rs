//! The handle of a resident, without its element type.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use super::Storage;
use crate::base::sync::{Mutex, MutexGuard};
use crate::cost::{Backend, Residence};
use crate::device::Device;
use crate::error::{DeviceError, MistakeKind, Origin, ReadError, Result};
use crate::exec::HostBuffer;
use crate::exec::gpu::DeviceBuffer;
use crate::ops::Type;

/// A [`Resident`](crate::Resident) without its element type in the type.
#[derive(Clone)]
pub(crate) struct Handle(Arc<Cell>);

struct Cell {
    device: Device,
    ty: Type,
    /// Its name in messages, and the place in the user's code where it was made.
    origin: Origin,
    storage: Mutex<Storage>,
    /// True if the host keeps a copy of all data that fills the resident.
    keeps_host_copy: AtomicBool,
    /// The side on which runs are to find the data, besides the one where it lies.
    preferred: Mutex<Option<Backend>>,
    /// Held by the run that replaces the data by a result computed from it.
    update_lock: Arc<tokio::sync::Mutex<()>>,
    /// Held by the thread that sends the data to the GPU.
    sending: Mutex<()>,
}

impl Handle {
    /// A resident that messages name as `origin`.
    pub fn new(device: &Device, ty: Type, origin: Origin, storage: Storage) -> Self {
        Self(Arc::new(Cell {
            device: device.clone(),
            ty,
            origin,
            storage: Mutex::new(storage),
            keeps_host_copy: AtomicBool::new(false),
            preferred: Mutex::default(),
            update_lock: Arc::default(),
            sending: Mutex::default(),
        }))
    }

    pub fn device(&self) -> &Device {
        &self.0.device
    }

    pub fn ty(&self) -> &Type {
        &self.0.ty
    }

    pub fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// The address of what all its clones share.
    pub fn address(&self) -> usize {
        Arc::as_ptr(&self.0).addr()
    }

    pub fn lock(&self) -> MutexGuard<'_, Storage> {
        self.0.storage.lock()
    }

    /// The right to send the data to the GPU, on a thread that may wait.
    pub fn sending(&self) -> MutexGuard<'_, ()> {
        self.0.sending.lock()
    }

    /// The lock of runs that replace the data by a result computed from it.
    pub fn update_lock(&self) -> &Arc<tokio::sync::Mutex<()>> {
        &self.0.update_lock
    }

    /// The data; `None` before the batch that keeps it has run.
    ///
    /// # Errors
    /// [`DeviceError::ResidentLost`] if it lay on a lost GPU alone.
    pub fn storage(&self) -> Result<Option<Storage>, DeviceError> {
        let storage = self.lock().clone();
        if storage.is_empty() {
            return Ok(None);
        }
        let storage = storage.without_lost_buffer(&self.0.device);
        if storage.is_empty() {
            let (of, what) = (self.origin(), self.0.ty.to_string());
            return Err(DeviceError::ResidentLost { of, what });
        }
        Ok(Some(storage))
    }

    /// As [`storage`](Self::storage), of a resident that must have been filled.
    ///
    /// # Errors
    /// [`ReadError::EmptyResident`] too.
    pub fn filled_storage(&self) -> Result<Storage> {
        Ok(self.storage()?.ok_or_else(|| self.empty())?)
    }

    /// The side or sides on which the planner counts the data; `None` before the batch that keeps it has run.
    pub fn residence(&self) -> Result<Option<Residence>, DeviceError> {
        let lies = if matches!(*self.lock(), Storage::Host(_)) {
            Some(Residence::Host)
        } else {
            self.storage()?.and_then(|storage| storage.residence())
        };
        let preferred = || *self.0.preferred.lock();
        Ok(match lies {
            Some(Residence::Host) if preferred() == Some(Backend::Gpu) => Some(Residence::Both),
            Some(Residence::Gpu) if preferred() == Some(Backend::Cpu) => Some(Residence::Both),
            lies => lies,
        })
    }

    /// Lets runs find the data on `side`, besides the one where it lies.
    pub fn prefer(&self, side: Backend) {
        *self.0.preferred.lock() = Some(side);
    }

    /// Returns whether the data is on a side, which is not known to be lost.
    pub fn is_on(&self, side: Backend) -> bool {
        let storage = self.lock();
        match side {
            Backend::Cpu => storage.host().is_some(),
            Backend::Gpu => storage.gpu().is_some_and(|buffer| !buffer.is_lost()),
        }
    }

    pub fn host(&self) -> Option<Arc<HostBuffer>> {
        self.lock().host().cloned()
    }

    /// The data on the host, where it is brought if need be, and stays unless it is shared.
    pub async fn on_host(&self) -> Result<Arc<HostBuffer>> {
        if let Some(host) = self.host() {
            return Ok(host);
        }
        let storage = self.filled_storage()?;
        let copy = storage.to_host(&self.0.device).await?.ok_or_else(|| self.empty())?;
        if let Some(buffer) = storage.gpu() {
            self.add_host_copy(buffer, &copy);
        }
        Ok(copy)
    }

    pub fn fill(&self, storage: Storage) {
        *self.lock() = storage;
    }

    /// Keeps a copy on the host from now on, of all data that fills the resident.
    pub fn keep_host_copy(&self) {
        self.0.keeps_host_copy.store(true, Ordering::Relaxed);
    }

    /// Returns whether all data that fills the resident must come to the host too.
    pub fn keeps_host_copy(&self) -> bool {
        self.0.keeps_host_copy.load(Ordering::Relaxed)
    }

    /// Adds a copy on the GPU of the data that is `on_host`, unless other data has taken its place.
    pub fn add_device_copy(&self, on_host: &Arc<HostBuffer>, copy: &Arc<DeviceBuffer>) {
        let mut storage = self.lock();
        if storage.host().is_some_and(|host| Arc::ptr_eq(host, on_host)) {
            storage.add_gpu(Arc::clone(copy));
        }
    }

    /// Adds a copy on the host of the data that is `on_gpu` and not shared, unless other data has taken its place.
    pub fn add_host_copy(&self, on_gpu: &Arc<DeviceBuffer>, copy: &Arc<HostBuffer>) {
        let mut storage = self.lock();
        if storage.is_in(on_gpu) {
            storage.add_host(Arc::clone(copy));
        }
    }

    /// Lets others write to `on_gpu` from now on. `false`, and nothing is done, if other data has taken its place.
    #[cfg(feature = "gpu")]
    pub fn share(&self, on_gpu: &Arc<DeviceBuffer>) -> bool {
        let mut storage = self.lock();
        let is_there = storage.is_in(on_gpu);
        if is_there {
            on_gpu.share();
            *storage = Storage::Shared(Arc::clone(on_gpu));
        }
        is_there
    }

    /// The name that the resident has whatever binds it, such as that of a file's tensor.
    pub fn name(&self) -> Option<&str> {
        self.0.origin.name.as_deref()
    }

    pub fn origin(&self) -> Origin {
        self.0.origin.clone()
    }

    /// The error for a resident that no run has filled yet.
    pub fn empty(&self) -> ReadError {
        ReadError::EmptyResident(self.origin())
    }

    /// The mistake to use the resident in a batch of `other`, another device.
    pub fn foreign(&self, other: &Device) -> MistakeKind {
        let [device, batch] = [&self.0.device, other].map(|device| device.info().name.clone());
        MistakeKind::ForeignResident { of: self.origin(), device, batch }
    }
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
