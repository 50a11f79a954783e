//! Data that stays on the device from run to run.

use std::ops::Range;
use std::sync::Arc;

use super::flight::Flight;
use super::readback::{Download, Output, Source};
use super::record::Transfer;
use crate::base::dtype::DType;
use crate::error::DeviceError;
use crate::exec::Patch;
use crate::exec::budget::Permit;
use crate::exec::gpu::driver::driver_lock::in_turn;
use crate::exec::gpu::driver::health::Scope;
use crate::exec::gpu::memory::convert::Storage;
use crate::exec::gpu::memory::pool::{Kind, Lease};
use crate::exec::gpu::submit::mapped_after::MappedAfter;
use crate::exec::gpu::submit::stage::Cargo;
use crate::exec::gpu::{Gpu, GpuCounts, Shared};

/// A value on the device. Its memory is used again when it is dropped.
pub(crate) struct DeviceBuffer {
    pub dtype: DType,
    pub elements: usize,
    pub(crate) lease: Lease,
}

impl DeviceBuffer {
    pub fn raw(&self) -> &wgpu::Buffer {
        &self.lease.buffer
    }

    /// From now on others have its memory too, who may write to it or destroy it at any time: it is used for nothing else.
    pub fn share(&self) {
        self.lease.set_reusable(false);
    }

    /// Whether it is of a device that is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }

    /// Room for a value, with any contents.
    pub(crate) fn lease(
        shared: &Shared,
        dtype: DType,
        elements: usize,
        counts: &mut GpuCounts,
    ) -> Result<Self, DeviceError> {
        let bytes = Storage::of(dtype, &shared.limits).bytes(elements);
        Ok(Self { dtype, elements, lease: shared.lease(Kind::Storage, bytes, counts)? })
    }

    /// Room in the same block, which has yet to be [claimed](crate::exec::gpu::memory::pool::Pool::claim) once this value is gone.
    pub(crate) fn again(&self) -> Self {
        let &Self { dtype, elements, ref lease } = self;
        Self { dtype, elements, lease: lease.next() }
    }
}

impl Gpu {
    /// Puts host elements on the device. MappedAfter before they have arrived: later runs wait for them.
    pub fn resident(&self, dtype: DType, host: &[u8]) -> Result<Arc<DeviceBuffer>, DeviceError> {
        let shared = &self.0;
        let _passing = shared.admit()?;
        let held = shared.hold(&Permit::default())?;
        let mut counts = GpuCounts::default();
        let elements = host.len() / dtype.size();
        let resident = Arc::new(DeviceBuffer::lease(shared, dtype, elements, &mut counts)?);
        let mut cargo = Cargo::default();
        let place = cargo.push(Storage::of(dtype, &shared.limits), host);
        let Some(staging) = shared.stage(&cargo, &mut counts)? else {
            return Ok(resident);
        };
        let scope = Scope::open(&shared.device, &shared.health);
        let mut encoder = shared.encoder();
        let bytes = place.end - place.start;
        encoder.copy_buffer_to_buffer(&staging.buffer, 0, &resident.lease.buffer, 0, bytes);
        // Its end is for the poller to see: it only returns the staging buffer.
        let returns = MappedAfter { staging: Some(staging), readback: None };
        drop(Flight::submit(shared, encoder.finish(), returns, held));
        scope.close(|| format!("uploading a resident of {bytes} bytes"))?;
        Ok(resident)
    }

    /// A value from the device, in one piece.
    pub async fn read_resident(
        &self,
        resident: &Arc<DeviceBuffer>,
    ) -> Result<Download, DeviceError> {
        let elements = 0..resident.elements;
        Fetch::begin(&self.0, resident, elements).await?.land().await
    }

    /// A value from the device, in parts of so many elements.
    pub fn read_parts(&self, resident: &Arc<DeviceBuffer>, stride: usize) -> Parts {
        let (shared, resident) = (Arc::clone(&self.0), Arc::clone(resident));
        Parts { shared, resident, stride, start: 0, ahead: None }
    }
}

/// Elements that replace a part of a value on the device.
pub(crate) struct Patched {
    pub new: Arc<DeviceBuffer>,
    pub patch: Patch,
    pub to: Arc<DeviceBuffer>,
    /// What is copied there first, as a whole.
    pub copied: Option<Arc<DeviceBuffer>>,
}

impl Patched {
    fn encode(&self, shared: &Shared, encoder: &mut wgpu::CommandEncoder) {
        let Self { new, patch, to, copied } = self;
        let storage = Storage::of(to.dtype, &shared.limits);
        let mut copy = |from: &DeviceBuffer, from_start, to_start, bytes| {
            let (from, to) = ((from.raw().clone(), from_start), (to.raw().clone(), to_start));
            Transfer { from, to, bytes }.record(encoder);
        };
        if let Some(from) = copied {
            copy(from, 0, 0, storage.bytes(from.elements));
        }
        for (from, start, bytes) in patch.copies(storage.size()) {
            copy(new, from as u64, start as u64, bytes as u64);
        }
    }
}

impl Gpu {
    /// Room for a value like another, with any contents.
    pub fn room_like(&self, value: &DeviceBuffer) -> Result<DeviceBuffer, DeviceError> {
        let mut counts = GpuCounts::default();
        DeviceBuffer::lease(&self.0, value.dtype, value.elements, &mut counts)
    }

    /// Replaces parts of values, and says how often that was submitted. Later runs wait for it.
    ///
    /// # Errors
    /// If nothing was replaced, or the device is lost.
    pub fn patch(&self, patches: &[&Patched]) -> Result<u32, DeviceError> {
        if patches.is_empty() {
            return Ok(0);
        }
        let shared = &self.0;
        let _passing = shared.admit()?;
        let held = shared.hold(&Permit::default())?;
        let scope = Scope::open(&shared.device, &shared.health);
        let mut encoder = shared.encoder();
        patches.iter().for_each(|patched| patched.encode(shared, &mut encoder));
        drop(Flight::submit(shared, encoder.finish(), MappedAfter::default(), held));
        // One command that was refused is enough for nothing to be submitted. What was submitted is no more to fail.
        scope.close_alone(|| "replacing parts of residents".into())?;
        Ok(1)
    }
}

/// A value that comes over in parts: while the caller copies one out, the next is on its way.
pub(crate) struct Parts {
    shared: Arc<Shared>,
    resident: Arc<DeviceBuffer>,
    /// A multiple of 4, so that parts start at whole words.
    stride: usize,
    /// Of the next part.
    start: usize,
    ahead: Option<Fetch>,
}

impl Parts {
    /// The next part and where it starts; `None` after the last.
    pub async fn next(&mut self) -> Result<Option<(usize, Download)>, DeviceError> {
        let fetch = match self.ahead.take() {
            None => self.fetch().await?,
            ahead => ahead,
        };
        let Some(fetch) = fetch else { return Ok(None) };
        let part = fetch.land().await?;
        let start = self.start;
        self.start += part.len();
        self.ahead = self.fetch().await?;
        Ok(Some((start, part)))
    }

    /// The part at `start`, on its way.
    async fn fetch(&self) -> Result<Option<Fetch>, DeviceError> {
        let end = self.resident.elements.min(self.start + self.stride);
        if self.start == end {
            return Ok(None);
        }
        Fetch::begin(&self.shared, &self.resident, self.start..end).await.map(Some)
    }
}

/// Elements on their way to the host.
struct Fetch {
    /// `None` if there are no elements.
    flight: Option<Flight>,
    output: Output,
}

impl Fetch {
    /// Submits the copy of some elements.
    async fn begin(
        shared: &Arc<Shared>,
        resident: &Arc<DeviceBuffer>,
        elements: Range<usize>,
    ) -> Result<Self, DeviceError> {
        let (shared, resident) = (Arc::clone(shared), Arc::clone(resident));
        in_turn(move |_| shared.fetch(&resident, elements)).await
    }

    async fn land(self) -> Result<Download, DeviceError> {
        let readback = match self.flight {
            Some(flight) => flight.land().await?.map(Arc::new),
            None => None,
        };
        Ok(Download { output: self.output, readback })
    }
}

impl Shared {
    /// As [`Fetch::begin`], on this thread.
    fn fetch(
        self: &Arc<Self>,
        resident: &DeviceBuffer,
        elements: Range<usize>,
    ) -> Result<Fetch, DeviceError> {
        let _passing = self.admit()?;
        let &DeviceBuffer { dtype, ref lease, .. } = resident;
        let storage = Storage::of(dtype, &self.limits);
        let (start, bytes) = (storage.bytes(elements.start), storage.bytes(elements.len()));
        let output = Output { dtype, elements: elements.len(), storage, source: Source::Device(0) };
        if bytes == 0 {
            return Ok(Fetch { flight: None, output });
        }
        let held = self.hold(&Permit::default())?;
        let readback = self.lease(Kind::Readback, bytes, &mut GpuCounts::default())?;
        let scope = Scope::open(&self.device, &self.health);
        let mut encoder = self.encoder();
        encoder.copy_buffer_to_buffer(&lease.buffer, start, &readback.buffer, 0, bytes);
        let returns = MappedAfter { staging: None, readback: Some((readback, bytes)) };
        let flight = Flight::submit(self, encoder.finish(), returns, held);
        scope.close(|| format!("reading {bytes} bytes of a resident"))?;
        Ok(Fetch { flight: Some(flight), output })
    }
}
