//! Uploads of one submission, packed in one mapped buffer.
//!
//! Quirk: staging memory may lie on the card. With NVIDIA 580.159.04 on an H200 it is read at 8 MB/s, so it is written in
//! order and never read. Tests: `tests/transfers.rs`, `tests/waves.rs`.

use std::ops::Range;

use super::engine::Engine;
use super::job::GpuJob;
use super::record::RunBuffers;
use crate::base::trace::stage;
use crate::cost::Limits;
use crate::error::{DeviceError, Error};
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::driver;
use crate::exec::gpu::memory::{Block, DeviceFormat, Kind, Lease};
use crate::exec::memory::{LARGE, PART};
use crate::exec::threads::for_each;
use crate::plan::{Home, Value, ValueId, Wave};

/// Data starts at multiples of this, which suits copies and mapped ranges.
const ALIGNMENT: u64 = 16;

/// The part of a run that is packed in one buffer.
#[derive(Clone, Copy)]
pub(crate) enum Load<'a> {
    /// Parameters of kernels, and all uploads.
    Whole,
    /// The uploads of a wave; the first wave brings the parameters too.
    Wave(&'a Wave),
}

impl Load<'_> {
    fn has_params(self) -> bool {
        match self {
            Self::Whole => true,
            Self::Wave(wave) => wave.dispatches.start == 0,
        }
    }

    fn has(self, value: ValueId) -> bool {
        match self {
            Self::Whole => true,
            Self::Wave(wave) => wave.uploads.contains(&value),
        }
    }

    /// The uploads of `job` in this load: each value with its input and its slot.
    fn uploads(self, job: &GpuJob) -> impl Iterator<Item = (&Value, u32, usize)> {
        job.plan.values.iter().zip(0..).filter_map(move |(value, at)| match value.home {
            Home::Upload { input, slot: Some(slot) } if self.has(ValueId(at)) => {
                Some((value, input, slot))
            }
            _ => None,
        })
    }
}

/// The places of items in a staging buffer, one after the other.
#[derive(Default)]
struct Places {
    bytes: u64,
    /// Bytes that this run could have used, but does not.
    room: u64,
}

impl Places {
    fn push(&mut self, bytes: u64) -> Range<u64> {
        let start = self.bytes.next_multiple_of(ALIGNMENT);
        self.bytes = start + bytes;
        start..self.bytes
    }

    /// Leaves room for data of an earlier run, so that both use the same staging buffer.
    fn leave_room(&mut self, bytes: u64) {
        self.room += bytes.next_multiple_of(ALIGNMENT);
    }

    /// Bytes of the buffer; 0 if there are no items.
    fn capacity(&self) -> u64 {
        if self.bytes == 0 { 0 } else { self.bytes + self.room }
    }
}

/// Bytes of the staging buffer for `load`; 0 if there is nothing to bring.
pub(crate) fn capacity(job: &GpuJob, load: Load<'_>, limits: &Limits) -> u64 {
    let mut places = Places::default();
    if let (Some(params), true) = (&job.kernels.params, load.has_params()) {
        let bytes = 4 * params.words.len() as u64;
        if params.are_there() {
            places.leave_room(bytes);
        } else {
            places.push(bytes);
        }
    }
    for (value, ..) in load.uploads(job) {
        places.push(DeviceFormat::of(value.dtype, limits).bytes(value.shape.elements()));
    }
    places.capacity()
}

/// A copy from the staging buffer to the start of a block.
pub(crate) struct StagedCopy {
    pub from: Range<u64>,
    pub to: Block,
}

/// Host data to be uploaded, with the place of each item in the staging buffer.
#[derive(Default)]
pub(crate) struct StagedUploads<'a> {
    items: Vec<StagedItem<'a>>,
    places: Places,
}

struct StagedItem<'a> {
    storage: DeviceFormat,
    host: &'a [u8],
    place: Range<u64>,
}

impl<'a> StagedUploads<'a> {
    /// Adds host elements, and returns their place.
    pub fn push(&mut self, storage: DeviceFormat, host: &'a [u8]) -> Range<u64> {
        let place = self.places.push(storage.bytes(host.len() / storage.host_size()));
        self.items.push(StagedItem { storage, host, place: place.clone() });
        place
    }

    pub fn bytes(&self) -> u64 {
        self.places.bytes
    }

    /// Writes all items to `staging`, which is mapped.
    fn fill(&self, staging: &Lease) -> Result<(), wgpu::MapRangeError> {
        if self.bytes() >= LARGE as u64 {
            return self.fill_parallel(staging);
        }
        let mut view = staging.buffer.get_mapped_range_mut(..self.bytes())?;
        for StagedItem { storage, host, place } in &self.items {
            storage.pack(host, view.slice(place.start as usize..place.end as usize));
        }
        Ok(())
    }

    fn fill_parallel(&self, staging: &Lease) -> Result<(), wgpu::MapRangeError> {
        let mut parts = Vec::new();
        for &StagedItem { storage, host, ref place } in &self.items {
            let elements = PART / storage.size();
            for (index, part) in host.chunks(elements * storage.host_size()).enumerate() {
                let start = place.start + (index * elements * storage.size()) as u64;
                let end = start + storage.bytes(part.len() / storage.host_size());
                let view = staging.buffer.get_mapped_range_mut(start..end)?;
                parts.push((view, storage, part));
            }
        }
        for_each(parts, || (), |(), (mut view, storage, part)| storage.pack(part, view.slice(..)));
        Ok(())
    }
}

impl Engine {
    /// Packs `load` in `staging`, or in a buffer leased for it, and returns the copies to be made from there.
    pub fn bring(
        &self,
        job: &GpuJob,
        buffers: &RunBuffers,
        load: Load<'_>,
        staging: Option<Lease>,
        counts: &mut GpuCounts,
    ) -> Result<(Option<Lease>, Vec<StagedCopy>), Error> {
        let limits = &self.device.limits;
        let mut cargo = StagedUploads::default();
        let mut copies = Vec::new();
        if let (Some(params), true) = (&job.kernels.params, load.has_params()) {
            let bytes: &[u8] = bytemuck::cast_slice(&params.words);
            if params.are_there() {
                cargo.places.leave_room(bytes.len() as u64);
            } else {
                let from = cargo.push(DeviceFormat::Same(4), bytes);
                copies.push(StagedCopy { from, to: (*params.block).clone() });
            }
        }
        for (value, input, slot) in load.uploads(job) {
            let host = (**job.host_data(value, input)?).as_ref();
            let from = cargo.push(DeviceFormat::of(value.dtype, limits), host);
            copies.push(StagedCopy { from, to: buffers.slot(slot)?.clone() });
        }
        let upload = stage!(job.timeline, "upload", bytes = cargo.bytes());
        Ok((upload.of(|| self.stage(&cargo, staging, counts))?, copies))
    }

    /// `staging` with `cargo` in it, or a buffer leased for it, ready to be copied from; `None` if there is no cargo.
    pub fn stage(
        &self,
        cargo: &StagedUploads<'_>,
        staging: Option<Lease>,
        counts: &mut GpuCounts,
    ) -> Result<Option<Lease>, DeviceError> {
        if cargo.bytes() == 0 {
            return Ok(None);
        }
        let staging = match staging {
            Some(staging) => staging,
            None => self.memory.lease(Kind::Staging, cargo.places.capacity(), counts)?,
        };
        staging.set_reusable(false);
        let lost = || self.device.confirm_loss("its staging memory cannot be mapped");
        let _mapped = staging.map().ok_or_else(lost)?;
        cargo.fill(&staging).map_err(|_| lost())?;
        driver::unscoped(|| staging.buffer.unmap());
        counts.uploads += 1;
        counts.bytes_up += cargo.bytes();
        Ok(Some(staging))
    }
}
