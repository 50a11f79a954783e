//! From a plan's dispatches to what is recorded: which buffer is bound where, what is copied.

use std::ops::Range;
use std::sync::Arc;

use super::readback::{Output, Source};
use super::record::{Script, Transfer};
use super::resident::DeviceBuffer;
use crate::codegen::{BufferRef, Dispatch};
use crate::error::DeviceError;
use crate::exec::gpu::compile::kernels::Kernels;
use crate::exec::gpu::compile::pipelines::Pipeline;
use crate::exec::gpu::memory::bind_groups::Bound;
use crate::exec::gpu::memory::pool::{Block, Kind, Lease};
use crate::exec::gpu::submit::job::Job;
use crate::exec::gpu::submit::mapped_after::MappedAfter;
use crate::exec::gpu::{GpuCounts, Shared};
use crate::plan::{Home, Plan, Value};

/// A copy from the staging buffer to the start of a block.
pub(crate) struct StagedCopy {
    pub from: Range<u64>,
    pub to: wgpu::Buffer,
}

/// The buffers of one run.
pub(crate) struct Memory {
    pub slots: Vec<Lease>,
    pub kept: Vec<Arc<DeviceBuffer>>,
    /// Where failures are told, if anything can fail.
    pub failures: Option<Lease>,
    residents: Vec<Arc<DeviceBuffer>>,
}

impl Memory {
    /// What the run of `job` takes of the pool, and where it is to put what it keeps, if that is known.
    pub fn lease(
        shared: &Shared,
        job: &Job,
        room: Option<Vec<Arc<DeviceBuffer>>>,
        counts: &mut GpuCounts,
    ) -> Result<Self, DeviceError> {
        let plan = &job.plan;
        let sites = plan.sites.len() as u64;
        let sizes = plan.slots.iter().copied().chain((sites > 0).then_some(4 * sites));
        let mut slots = shared.lease_all(Kind::Storage, sizes, counts)?;
        let failures = if sites > 0 { slots.pop() } else { None };
        let kept = match room {
            Some(room) => {
                counts.pool_hits += room.len() as u32;
                room
            }
            None => Self::room(shared, plan, counts)?,
        };
        Ok(Self { slots, kept, failures, residents: job.residents.clone() })
    }

    /// Room for what a run keeps.
    fn room(
        shared: &Shared,
        plan: &Plan,
        counts: &mut GpuCounts,
    ) -> Result<Vec<Arc<DeviceBuffer>>, DeviceError> {
        let mut room = Vec::with_capacity(plan.keeps.len());
        for id in &plan.keeps {
            let value = value(plan, id.index())?;
            let elements = value.shape.elements();
            room.push(Arc::new(DeviceBuffer::lease(shared, value.dtype, elements, counts)?));
        }
        Ok(room)
    }

    /// What is on loan for this run alone.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.slots().chain(self.kept.iter().map(|kept| &kept.lease))
    }

    /// What only the device uses, without what outlives the run.
    pub fn slots(&self) -> impl Iterator<Item = &Lease> {
        self.slots.iter().chain(&self.failures)
    }

    /// Its [`slots`](Self::slots).
    pub fn into_slots(self) -> Vec<Lease> {
        let mut slots = self.slots;
        slots.extend(self.failures);
        slots
    }

    pub fn slot(&self, slot: usize) -> Result<&Block, DeviceError> {
        self.slots
            .get(slot)
            .map(|lease| &**lease)
            .ok_or_else(|| DeviceError::broken("a slot is missing"))
    }

    fn value(&self, plan: &Plan, index: usize) -> Result<&Block, DeviceError> {
        let lease = match value(plan, index)?.home {
            Home::Slot(slot) | Home::Upload { slot: Some(slot), .. } => return self.slot(slot),
            Home::Upload { slot: None, .. } => None,
            Home::Resident(position) => {
                self.residents.get(position as usize).map(|resident| &resident.lease)
            }
            Home::Kept(position) => self.kept.get(position).map(|kept| &kept.lease),
        };
        lease.map(|lease| &**lease).ok_or_else(|| DeviceError::broken("a value has no buffer"))
    }
}

/// The encoding of one run.
pub(crate) struct Encode<'a> {
    pub shared: &'a Shared,
    pub job: &'a Job,
    pub memory: Memory,
}

impl Encode<'_> {
    /// All that the device is to be told, ready to be recorded.
    pub fn script(
        self,
        counts: &mut GpuCounts,
        returns: MappedAfter,
        copies: Vec<StagedCopy>,
        outputs: &[Output],
    ) -> Result<Script, DeviceError> {
        let groups = self.groups(counts)?;
        let up = up(returns.staging.as_ref(), copies);
        let down = match &returns.readback {
            None => Vec::new(),
            Some((readback, bytes)) => {
                (counts.downloads, counts.bytes_down) = (1, *bytes);
                self.down(&readback.buffer, outputs)?
            }
        };
        let Self { job, memory, .. } = self;
        let kernels = Arc::clone(&job.kernels);
        Ok(Script { kernels, groups, up, down, memory, returns })
    }

    /// The bind group of each dispatch.
    fn groups(&self, counts: &mut GpuCounts) -> Result<Vec<wgpu::BindGroup>, DeviceError> {
        let Kernels { dispatches, pipelines, params, .. } = &*self.job.kernels;
        let Some(params) = params else { return Ok(Vec::new()) };
        counts.dispatches = dispatches.len() as u32;
        let group = |(dispatch, pipeline): (&Dispatch, &Arc<Pipeline>)| {
            let (bound, Shared { device, groups, .. }) = (self.bound(dispatch)?, self.shared);
            let (group, was_there) = groups.of(device, &pipeline.layout, params, &bound);
            counts.bind_group_hits += u32::from(was_there);
            Ok(group)
        };
        dispatches.iter().zip(pipelines).map(group).collect()
    }

    fn bound(&self, dispatch: &Dispatch) -> Result<Vec<Bound<'_>>, DeviceError> {
        let block = |buffer| match buffer {
            BufferRef::Value(id) => self.memory.value(&self.job.plan, id.index()),
            BufferRef::Slot(slot) => self.memory.slot(slot),
            BufferRef::Failures => {
                let failures = self.memory.failures.as_deref();
                failures.ok_or_else(|| DeviceError::broken("there is no room for failures"))
            }
        };
        let bytes = |buffer| match buffer {
            BufferRef::Value(id) if dispatch.own.is_some() => {
                let value = value(&self.job.plan, id.index())?;
                Ok(Some(value.bytes(&self.shared.limits)))
            }
            _ => Ok(None),
        };
        let bound = |buffer| Ok(Bound { block: block(buffer)?, bytes: bytes(buffer)? });
        dispatch.buffers.iter().map(|binding| bound(binding.buffer)).collect()
    }

    /// The copies to `readback`.
    fn down(
        &self,
        readback: &wgpu::Buffer,
        outputs: &[Output],
    ) -> Result<Vec<Transfer>, DeviceError> {
        let mut down = Vec::with_capacity(outputs.len() + 1);
        let mut end = 0;
        let mut transfer = |block: &Block, start, bytes| {
            let (from, to) = ((block.buffer.clone(), 0), (readback.clone(), start));
            down.push(Transfer { from, to, bytes });
        };
        for (id, output) in self.job.plan.downloads.iter().zip(outputs) {
            let Source::Device(start) = output.source else { continue };
            let bytes = output.storage.bytes(output.elements);
            transfer(self.memory.value(&self.job.plan, id.index())?, start as u64, bytes);
            end = start as u64 + bytes;
        }
        if let Some(failures) = &self.memory.failures {
            transfer(failures, end, 4 * self.job.plan.sites.len() as u64);
        }
        Ok(down)
    }
}

/// The copies from `staging`.
pub(crate) fn up(staging: Option<&Lease>, copies: Vec<StagedCopy>) -> Vec<Transfer> {
    let Some(staging) = staging else { return Vec::new() };
    let transfer = |StagedCopy { from, to }: StagedCopy| Transfer {
        from: (staging.buffer.clone(), from.start),
        to: (to, 0),
        bytes: from.end - from.start,
    };
    copies.into_iter().map(transfer).collect()
}

pub(crate) fn value(plan: &Plan, index: usize) -> Result<&Value, DeviceError> {
    plan.values.get(index).ok_or_else(|| DeviceError::broken("a value is missing"))
}
