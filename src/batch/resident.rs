//! Data that stays on the device from batch to batch.

use std::fmt;
use std::marker::PhantomData;
use std::panic::Location;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use smallvec::SmallVec;

use super::attempt::recover;
use super::read::{Found, ReadView, check_length};
#[cfg(feature = "gpu")]
use super::read::{STRIDE, give_way};
use super::state::Kept;
use super::{BufferId, GpuCommandBatch, elsewhere};
#[cfg(feature = "gpu")]
use crate::cost::Backend;
use crate::cost::Residence;
use crate::device::Device;
#[cfg(feature = "gpu")]
use crate::dtype::DType;
use crate::dtype::Element;
use crate::error::{
    DataError, DeviceError, Error, MistakeKind, Origin, PlanError, ReadError, Result, file_and_line,
};
use crate::graph::Graph;
use crate::ops::{Op, Type, check_size};
use crate::run::HostBuffer;
#[cfg(feature = "gpu")]
use crate::run::gpu::{DeviceBuffer, Download, Parts};
#[cfg(feature = "gpu")]
use crate::run::memory;
use crate::shape::{MAX_RANK, Shape};

/// Bytes up to which data for a device with two sides is kept on both: what cores read in less than the time of a
/// round trip to a GPU, so that a small graph may run on either.
#[cfg(feature = "gpu")]
const ON_BOTH_SIDES: usize = 4 << 20;

/// A tensor that stays on the device until its last handle is dropped. Bind it in any number of
/// batches of its device with [`GpuCommandBatch::bind`].
pub struct Resident<T> {
    handle: Handle,
    element: PhantomData<fn() -> T>,
}

/// A [`Resident`] without its element type in the type.
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
    /// What runs would have saved had the data been on the host too, of what it takes to bring it there.
    #[cfg(feature = "gpu")]
    saved: f64,
}

impl Storage {
    pub fn on_host(buffer: Arc<HostBuffer>) -> Self {
        Self {
            host: Some(buffer),
            #[cfg(feature = "gpu")]
            gpu: None,
            #[cfg(feature = "gpu")]
            is_shared: false,
            #[cfg(feature = "gpu")]
            saved: 0.0,
        }
    }

    #[cfg(feature = "gpu")]
    pub fn on_gpu(buffer: Arc<DeviceBuffer>) -> Self {
        Self { gpu: Some(buffer), ..Self::default() }
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

    /// Where the data lies, if there is any. What is wanted on the host so much that it pays to bring it there counts as if
    /// it were there.
    fn residence(&self) -> Option<Residence> {
        match (self.host.is_some() || self.is_worth_bringing(), self.is_on_gpu()) {
            (true, true) => Some(Residence::Both),
            (true, false) => Some(Residence::Host),
            (false, true) => Some(Residence::Gpu),
            (false, false) => None,
        }
    }

    fn is_worth_bringing(&self) -> bool {
        #[cfg(feature = "gpu")]
        return self.saved >= 1.0 && !self.is_shared;
        #[cfg(not(feature = "gpu"))]
        false
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
            let read = gpu.read_resident(buffer).await.map_err(|error| device.noticed(error))?;
            self.host = Some(Arc::new(read.to_host()?));
        }
        Ok(())
    }
}

impl Handle {
    fn new(device: &Device, ty: Type, place: &'static Location<'static>, storage: Storage) -> Self {
        let (device, storage) = (device.clone(), Mutex::new(storage));
        let host_copy = AtomicBool::new(false);
        Self(Arc::new(Cell { device, ty, place, storage, host_copy, turn: Arc::default() }))
    }

    pub fn lock(&self) -> MutexGuard<'_, Storage> {
        self.0.storage.lock().unwrap_or_else(PoisonError::into_inner)
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

    /// The data on the host, where it is brought if need be, and stays unless it is shared.
    pub async fn on_host(&self) -> Result<Arc<HostBuffer>> {
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

    /// Whether what fills it must come to the host too.
    #[cfg(feature = "gpu")]
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
            (storage.host, storage.is_shared) = (None, true);
        }
        is_there
    }

    #[cfg(feature = "gpu")]
    pub fn device(&self) -> &Device {
        &self.0.device
    }

    #[cfg(feature = "gpu")]
    pub fn dtype(&self) -> DType {
        self.0.ty.dtype
    }
}

/// Notes that a run would have been done in so many `seconds` less if all that it binds had been on the host too. Once what
/// a resident has cost in this way is what it takes to bring it there, it counts as being there, and the first run that the
/// planner puts there brings it: at worst that is twice the cost of the best time to move (Karlin et al., "Competitive snoopy
/// caching", 1988).
#[cfg(feature = "gpu")]
pub(super) fn note_saving(device: &Device, residents: &[Handle], seconds: f64) {
    let targets = device.targets();
    let gpu = &targets.profile().gpu;
    let is_far = |handle: &&Handle| handle.lock().residence() == Some(Residence::Gpu);
    let far: SmallVec<[&Handle; 8]> = residents.iter().filter(is_far).collect();
    let time = |handle: &&Handle| {
        let Type { dtype, shape } = &handle.0.ty;
        gpu.round_trip + gpu.download.seconds((shape.elements() * dtype.size()) as f64)
    };
    let share = seconds / far.iter().map(time).sum::<f64>();
    far.iter().for_each(|handle| handle.lock().saved += share);
}

/// Where the data of each resident lies that `graph` binds.
pub(super) fn residences(graph: &Graph, residents: &[Handle]) -> Result<SmallVec<[Residence; 8]>> {
    let empty = |at: usize| {
        let bound = graph.iter().find(|(_, node)| node.op == Op::Resident(at as u32));
        let place = bound.map(|(_, node)| file_and_line(node.place)).unwrap_or_default();
        Error::from(PlanError::EmptyResident { place })
    };
    let each = residents.iter().enumerate();
    each.map(|(at, handle)| {
        let storage = handle.storage()?;
        storage.and_then(|storage| storage.residence()).ok_or_else(|| empty(at))
    })
    .collect()
}

impl<T: Element> Resident<T> {
    /// A resident of `ty`, whose elements are `T`s, made at `place`, that holds `storage`.
    pub(super) fn holding(
        device: &Device,
        ty: Type,
        place: &'static Location<'static>,
        storage: Storage,
    ) -> Self {
        Self { handle: Handle::new(device, ty, place, storage), element: PhantomData }
    }

    /// Keeps a copy of the data in the host's memory from now on, with which the resident outlives the loss of a
    /// GPU. Where runs fill it, each brings the new data to the host before it ends.
    ///
    /// While the buffer is the caller's too, by [`wgpu_buffer`](Self::wgpu_buffer), no copy could be trusted, and none is kept:
    /// the data is lost with the GPU. The next run that fills the resident brings a copy again.
    ///
    /// # Errors
    /// [`DeviceError`] if the device fails while it hands out the data that it has.
    pub async fn keep_host_copy(&self) -> Result<()> {
        self.handle.0.host_copy.store(true, Ordering::Relaxed);
        let mut recoveries = 0;
        while self.handle.storage()?.is_some() {
            match self.handle.on_host().await {
                Ok(_) => break,
                Err(error) => self.recover(error, &mut recoveries).await?,
            }
        }
        Ok(())
    }

    /// Does for a transfer what the device's [`Recovery`](crate::Recovery) does for runs. Returns if it may be tried again.
    async fn recover(&self, error: Error, recoveries: &mut u64) -> Result<()> {
        recover(self.device(), error, recoveries).await
    }

    pub(super) fn handle(&self) -> &Handle {
        &self.handle
    }

    pub(super) fn device(&self) -> &Device {
        &self.handle.0.device
    }

    /// The tensor's shape.
    #[must_use]
    pub fn shape(&self) -> &Shape {
        &self.handle.0.ty.shape
    }

    /// The data in a vector of its own, in row-major order. Costs as [`GpuCommandBatch::read`]; a large resident
    /// comes from the device in parts, each on its way while the one before is copied.
    ///
    /// # Errors
    /// [`ReadError::EmptyResident`] before the batch that keeps it has run;
    /// [`DeviceError`] if the device fails. If that is its loss, the device's [`Recovery`](crate::Recovery) is made, and
    /// the error is [`DeviceError::ResidentLost`] unless there is a [copy](Self::keep_host_copy) to read.
    pub async fn read(&self) -> Result<Vec<T>> {
        let mut recoveries = 0;
        loop {
            match self.read_once().await {
                Err(error) => self.recover(error, &mut recoveries).await?,
                read => return read,
            }
        }
    }

    async fn read_once(&self) -> Result<Vec<T>> {
        #[cfg(feature = "gpu")]
        if let Some(mut parts) = self.parts()? {
            let mut values = memory::try_zeroed(self.shape().elements())?;
            while let Some((start, part)) = self.next(&mut parts).await? {
                values = part.copied_into(values, start).await;
            }
            return Ok(values);
        }
        Ok(self.found().await?.into_vec().await)
    }

    /// Copies the data to `out`, in row-major order. Costs as [`GpuCommandBatch::read_into`]; a large resident comes
    /// in parts, as in [`read`](Self::read).
    ///
    /// # Errors
    /// As [`read`](Self::read), and then `out` may hold some of the data; [`ReadError::Length`] if `out` has
    /// not as many elements as the resident.
    pub async fn read_into(&self, out: &mut [T]) -> Result<()> {
        check_length(|| self.handle.origin(), self.shape(), out)?;
        let mut recoveries = 0;
        while let Err(error) = self.read_once_into(out).await {
            self.recover(error, &mut recoveries).await?;
        }
        Ok(())
    }

    async fn read_once_into(&self, out: &mut [T]) -> Result<()> {
        #[cfg(feature = "gpu")]
        if let Some(mut parts) = self.parts()? {
            while let Some((start, part)) = self.next(&mut parts).await? {
                part.copy_out(0, &mut out[start..start + part.len()]);
                give_way().await;
            }
            return Ok(());
        }
        self.found().await?.copy_politely(out).await;
        Ok(())
    }

    /// The data in parts, if it is on a GPU.
    #[cfg(feature = "gpu")]
    fn parts(&self) -> Result<Option<Parts>> {
        let (Storage { host: None, gpu: Some(buffer), .. }, Some(gpu)) =
            (self.handle.filled()?, self.device().opened())
        else {
            return Ok(None);
        };
        Ok(Some(gpu.read_parts(&buffer, STRIDE / size_of::<T>())))
    }

    /// The next part, and the position of its first element.
    #[cfg(feature = "gpu")]
    async fn next(&self, parts: &mut Parts) -> Result<Option<(usize, Download)>, DeviceError> {
        parts.next().await.map_err(|error| self.device().noticed(error))
    }

    /// The data as it is now, in memory that the host can read. Costs as [`GpuCommandBatch::read_view`], after
    /// the transfer from the device.
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn read_view(&self) -> Result<ReadView<T>> {
        let mut recoveries = 0;
        loop {
            match self.found().await {
                Err(error) => self.recover(error, &mut recoveries).await?,
                Ok(found) => return Ok(found.into_view()),
            }
        }
    }

    /// The data, brought to the host if need be.
    async fn found(&self) -> Result<Found> {
        let storage = self.handle.filled()?;
        if let Some(buffer) = storage.host {
            return Ok(Found::Host(buffer));
        }
        #[cfg(feature = "gpu")]
        if let (Some(buffer), Some(gpu)) = (storage.gpu, self.device().opened()) {
            let read = gpu.read_resident(&buffer).await;
            return Ok(Found::Gpu(read.map_err(|error| self.device().noticed(error))?));
        }
        Err(self.handle.empty().into())
    }
}

impl Device {
    /// Data that stays on the device until the last handle is dropped, for [`GpuCommandBatch::bind`].
    ///
    /// The data is copied once, by this thread and others, before the call returns; the device takes it from there.
    ///
    /// # Errors
    /// [`DataError`] if the data does not fill the shape;
    /// [`DeviceError`](crate::DeviceError) if the device has no room.
    #[track_caller]
    pub fn resident<T: Element>(&self, data: &[T], shape: impl Into<Shape>) -> Result<Resident<T>> {
        self.resident_of(Origin::unnamed("resident", Location::caller()), data, shape.into())
    }

    /// As [`resident`](Self::resident), for a call that messages are to name as `of`.
    pub(super) fn resident_of<T: Element>(
        &self,
        of: Origin,
        data: &[T],
        shape: Shape,
    ) -> Result<Resident<T>> {
        let given = data.len();
        if shape.rank() > MAX_RANK {
            return Err(DataError::Rank { of, given: shape.rank() }.into());
        }
        if check_size(&shape).is_err() {
            return Err(DataError::TooLarge { of, shape }.into());
        }
        if shape.elements() != given {
            return Err(DataError::Length { of, given, shape }.into());
        }
        let storage = self.stored(data).map_err(|error| error.of(&of))?;
        Ok(Resident::holding(self, Type { dtype: T::DTYPE, shape }, of.place, storage))
    }

    /// Puts `data` on the sides where graphs run that read it.
    fn stored<T: Element>(&self, data: &[T]) -> Result<Storage, DeviceError> {
        let on_host = || Ok(Storage::on_host(Arc::new(HostBuffer::try_from_slice(data)?)));
        #[cfg(feature = "gpu")]
        if let Some(gpu) = self.opened() {
            let small = self.uses(Backend::Cpu) && size_of_val(data) <= ON_BOTH_SIDES;
            let host = if small { on_host()? } else { Storage::default() };
            let on_gpu = gpu.resident(T::DTYPE, bytemuck::cast_slice(data));
            return match on_gpu.map_err(|error| self.noticed(error)) {
                Ok(resident) => Ok(Storage { gpu: Some(Arc::new(resident)), ..host }),
                // It goes to the device that takes its place, with the first run that reads it.
                Err(DeviceError::Lost { .. }) if self.recovers() => on_host(),
                Err(error) => Err(error),
            };
        }
        on_host()
    }
}

impl<T> Clone for Resident<T> {
    fn clone(&self) -> Self {
        Self { handle: self.handle.clone(), element: PhantomData }
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

impl<T> fmt::Debug for Resident<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.handle.fmt(f)
    }
}

impl GpuCommandBatch {
    /// A resident as an input of this batch. It must live on this batch's device.
    #[track_caller]
    pub fn bind<T: Element>(&mut self, resident: &Resident<T>) -> BufferId<T> {
        let cell = &resident.handle.0;
        if !cell.device.is_same(&self.device) {
            return self.mistake("bind", resident.handle.foreign());
        }
        let position = self.residents.len() as u32;
        self.residents.push(resident.handle.clone());
        self.source(Op::Resident(position), T::DTYPE, cell.ty.shape.clone())
    }

    /// Keeps a result on the device. The resident is filled by each run of this batch, and is empty
    /// until the first. What is kept is downloaded only if [`download`](Self::download) asks for it.
    #[track_caller]
    pub fn keep<T: Element>(&mut self, id: BufferId<T>) -> Resident<T> {
        let ty = match self.check(id).map_err(elsewhere) {
            Ok(node) => {
                let ty = self.graph[node].ty.clone();
                if !matches!(self.graph[node].op, Op::Invalid) {
                    self.graph.keeps.push(node);
                    self.runs.forget_plan();
                }
                ty
            }
            Err(what) => {
                let _: BufferId<T> = self.mistake("keep", what);
                Type { dtype: T::DTYPE, shape: Shape::default() }
            }
        };
        let handle = Handle::new(&self.device, ty, Location::caller(), Storage::default());
        if self.graph.keeps.len() > self.kept.len() {
            self.kept.push(Kept { handle: handle.clone(), patch: None });
        }
        Resident { handle, element: PhantomData }
    }
}
