//! Everything that goes to the device in one trip, or in one wave of it, packed in one mapped buffer.

use std::ops::Range;
use std::sync::atomic::Ordering;

use super::encode::{Memory, StagedCopy};
use crate::base::trace::stage;
use crate::error::{DeviceError, Error};
use crate::exec::gpu::driver::health::ours;
use crate::exec::gpu::memory::convert::Storage;
use crate::exec::gpu::memory::pool::{Kind, Lease};
use crate::exec::gpu::submit::job::{HostData, Job};
use crate::exec::gpu::{GpuCounts, Shared};
use crate::exec::memory::{LARGE, PART};
use crate::exec::threads::for_each;
use crate::plan::{Home, Value, ValueId, Wave};

/// Data starts at multiples of this, which suits copies and mapped ranges.
const ALIGNMENT: u64 = 16;

/// Of a run, what is packed in one buffer.
#[derive(Clone, Copy)]
pub(crate) enum Load<'a> {
    /// Parameters of kernels, and all uploads.
    Whole,
    /// The uploads of a wave; the first brings the parameters too.
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
}

/// What is to be uploaded, with the place of each item in the staging buffer.
#[derive(Default)]
pub(crate) struct Cargo<'a> {
    items: Vec<Item<'a>>,
    bytes: u64,
    /// Bytes that this run could have used, but does not.
    room: u64,
}

struct Item<'a> {
    storage: Storage,
    host: &'a [u8],
    place: Range<u64>,
}

impl<'a> Cargo<'a> {
    /// Adds host elements, and returns where they will lie.
    pub fn push(&mut self, storage: Storage, host: &'a [u8]) -> Range<u64> {
        let start = self.bytes.next_multiple_of(ALIGNMENT);
        let end = start + storage.bytes(host.len() / storage.host_size());
        self.bytes = end;
        self.items.push(Item { storage, host, place: start..end });
        start..end
    }

    /// Leaves room for what an earlier run brought, so that both use the same staging buffer.
    pub fn leave_room(&mut self, bytes: u64) {
        self.room += bytes.next_multiple_of(ALIGNMENT);
    }

    /// Bytes of the buffer to pack the items in.
    pub fn capacity(&self) -> u64 {
        self.bytes + self.room
    }

    /// Bytes of the whole.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes all items to `staging`, which is mapped.
    pub fn fill(&self, staging: &Lease) -> Result<(), wgpu::MapRangeError> {
        if self.bytes >= LARGE as u64 {
            return self.fill_parallel(staging);
        }
        let mut view = staging.buffer.get_mapped_range_mut(..self.bytes)?;
        for Item { storage, host, place } in &self.items {
            storage.pack(host, view.slice(place.start as usize..place.end as usize));
        }
        Ok(())
    }

    fn fill_parallel(&self, staging: &Lease) -> Result<(), wgpu::MapRangeError> {
        let mut parts = Vec::new();
        for &Item { storage, host, ref place } in &self.items {
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

impl Shared {
    /// Packs `load`, and says what is to be copied where from it.
    pub fn bring(
        &self,
        job: &Job,
        memory: &Memory,
        load: Load<'_>,
        counts: &mut GpuCounts,
    ) -> Result<(Option<Lease>, Vec<StagedCopy>), Error> {
        let mut cargo = Cargo::default();
        let mut copies = Vec::new();
        if let (Some(params), true) = (&job.kernels.params, load.has_params()) {
            let bytes: &[u8] = bytemuck::cast_slice(&params.words);
            if params.there.load(Ordering::Acquire) {
                cargo.leave_room(bytes.len() as u64);
            } else {
                let from = cargo.push(Storage::Same(4), bytes);
                copies.push(StagedCopy { from, to: params.block.buffer.clone() });
            }
        }
        for (value, at) in job.plan.values.iter().zip(0..) {
            let Home::Upload { input, slot: Some(slot) } = value.home else { continue };
            if !load.has(ValueId(at)) {
                continue;
            }
            let host = (**host_data(job, value, input)?).as_ref();
            let from = cargo.push(self.storage(value), host);
            copies.push(StagedCopy { from, to: memory.slot(slot)?.buffer.clone() });
        }
        let upload = stage!(job.timeline, "upload", bytes = cargo.bytes());
        Ok((upload.of(|| self.stage(&cargo, counts))?, copies))
    }

    /// A staging buffer with `cargo` in it, ready to be copied from; `None` where there is no cargo.
    pub fn stage(
        &self,
        cargo: &Cargo<'_>,
        counts: &mut GpuCounts,
    ) -> Result<Option<Lease>, DeviceError> {
        if cargo.bytes() == 0 {
            return Ok(None);
        }
        let staging = self.lease(Kind::Staging, cargo.capacity(), counts)?;
        staging.set_reusable(false);
        let lost = || self.health.lost(&self.device, "its staging memory cannot be mapped");
        let _mapped = staging.map().ok_or_else(lost)?;
        cargo.fill(&staging).map_err(|_| lost())?;
        ours(|| staging.buffer.unmap());
        counts.uploads += 1;
        counts.bytes_up += cargo.bytes();
        Ok(Some(staging))
    }

    pub fn storage(&self, value: &Value) -> Storage {
        Storage::of(value.dtype, &self.limits)
    }
}

pub(crate) fn host_data<'a>(
    job: &'a Job,
    value: &Value,
    input: u32,
) -> Result<&'a HostData, Error> {
    let data = job.uploads.get(input as usize);
    let data = data.ok_or_else(|| DeviceError::broken("the data of an upload is missing"))?;
    let bytes = value.shape.elements().saturating_mul(value.dtype.size());
    if (**data).as_ref().len() != bytes {
        return Err(DeviceError::broken("the data of an upload has another length").into());
    }
    Ok(data)
}
