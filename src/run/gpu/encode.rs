//! From a plan's dispatches to commands: which buffer is bound where, what is copied.

use std::ops::Range;
use std::sync::Arc;

use super::fault::Scope;
use super::flight::Commands;
use super::kernels::{Kernels, Params, Pipeline};
use super::pool::{Block, Kind, Lease};
use super::readback::{Output, Source};
use super::resident::DeviceBuffer;
use super::stamps::{Mark, Stamps};
use super::trip::Job;
use super::{GpuCounts, GroupKey, Shared};
use crate::codegen::{BufferRef, Dispatch};
use crate::error::DeviceError;
use crate::plan::{Home, Plan, Value};

/// A copy from the staging buffer to the start of a block.
pub(super) struct StagedCopy<'a> {
    pub from: Range<u64>,
    pub to: &'a Block,
}

/// The buffers of one run.
pub(super) struct Memory<'a> {
    pub slots: Vec<Lease>,
    pub kept: Vec<DeviceBuffer>,
    /// Where failures are told, if anything can fail.
    pub failures: Option<Lease>,
    residents: &'a [Arc<DeviceBuffer>],
}

impl<'a> Memory<'a> {
    pub fn lease(
        shared: &Shared,
        job: &'a Job,
        counts: &mut GpuCounts,
    ) -> Result<Self, DeviceError> {
        let plan = &job.plan;
        let mut slots = Vec::with_capacity(plan.slots.len());
        for &bytes in &plan.slots {
            slots.push(shared.lease(Kind::Storage, bytes, counts)?);
        }
        let mut kept = Vec::with_capacity(plan.keeps.len());
        for id in &plan.keeps {
            let value = value(plan, id.index())?;
            let elements = value.shape.elements();
            kept.push(DeviceBuffer::lease(shared, value.dtype, elements, counts)?);
        }
        let sites = plan.sites.len() as u64;
        let failures = match sites {
            0 => None,
            _ => Some(shared.lease(Kind::Storage, 4 * sites, counts)?),
        };
        Ok(Self { slots, kept, failures, residents: &job.residents })
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

/// A block that a dispatch binds.
struct Bound<'a> {
    block: &'a Block,
    /// How much of it, where that is not all.
    bytes: Option<u64>,
}

/// The encoding of one run.
pub(super) struct Encode<'a> {
    pub shared: &'a Shared,
    pub job: &'a Job,
    pub memory: &'a Memory<'a>,
}

impl Encode<'_> {
    /// All commands of the run, ready to be submitted.
    pub fn commands(
        &self,
        counts: &mut GpuCounts,
        staging: Option<Lease>,
        copies: &[StagedCopy<'_>],
        readback: Option<(Lease, u64)>,
        outputs: &[Output],
    ) -> Result<Commands, DeviceError> {
        let shared = self.shared;
        let scope = Scope::open(&shared.device, &shared.health);
        let timed = self.job.timeline.is_kept();
        let dispatches = self.job.kernels.dispatches.len();
        let stamps = if timed { Stamps::new(shared, dispatches)? } else { None };
        let mut encoder = shared.encoder();
        let mark = |encoder: &mut _, mark| {
            if let Some(stamps) = &stamps {
                stamps.mark(encoder, mark);
            }
        };
        mark(&mut encoder, Mark::Begin);
        if let Some(staging) = &staging {
            for StagedCopy { from, to } in copies {
                let bytes = from.end - from.start;
                copy(&mut encoder, &staging.buffer, from.start, &to.buffer, 0, bytes);
            }
        }
        if let Some(failures) = &self.memory.failures {
            encoder.clear_buffer(&failures.buffer, 0, None);
        }
        mark(&mut encoder, Mark::Uploaded);
        self.dispatch(&mut encoder, counts, stamps.as_ref())?;
        mark(&mut encoder, Mark::Computed);
        if let Some((readback, bytes)) = &readback {
            self.download(&mut encoder, readback, outputs)?;
            (counts.downloads, counts.bytes_down) = (1, *bytes);
        }
        mark(&mut encoder, Mark::End);
        if let Some(stamps) = stamps {
            stamps.collect(&mut encoder, &self.job.timeline);
        }
        let commands = Commands::new(encoder, staging, readback);
        counts.submits = 1;
        let done = scope.close(|| self.job.doing());
        done.inspect_err(|_| shared.bind_groups().retain(|_| false))?;
        Ok(commands)
    }

    /// All dispatches, in one compute pass, or in one each where their times are wanted.
    fn dispatch(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        counts: &mut GpuCounts,
        stamps: Option<&Stamps>,
    ) -> Result<(), DeviceError> {
        let Kernels { dispatches, params, .. } = &*self.job.kernels;
        let Some(params) = params else { return Ok(()) };
        let count = dispatches.len();
        let each = if stamps.is_some() { 1 } else { count.max(1) };
        for start in (0..count).step_by(each) {
            let descriptor = wgpu::ComputePassDescriptor {
                label: Some("onetrip"),
                timestamp_writes: stamps.and_then(|stamps| stamps.around(start)),
            };
            let mut pass = encoder.begin_compute_pass(&descriptor);
            self.pass(&mut pass, start..start + each, params, counts)?;
        }
        counts.dispatches = count as u32;
        Ok(())
    }

    /// The dispatches `range`.
    fn pass(
        &self,
        pass: &mut wgpu::ComputePass<'_>,
        range: Range<usize>,
        params: &Params,
        counts: &mut GpuCounts,
    ) -> Result<(), DeviceError> {
        let Kernels { dispatches, pipelines, .. } = &*self.job.kernels;
        let mut bound: Option<&Arc<Pipeline>> = None;
        for at in range {
            let (dispatch, pipeline) = (&dispatches[at], &pipelines[at]);
            let bound_blocks = self.bound(dispatch)?;
            let group = self.shared.bind_group(pipeline, params, &bound_blocks, counts);
            if !bound.is_some_and(|bound| Arc::ptr_eq(bound, pipeline)) {
                pass.set_pipeline(&pipeline.raw);
                bound = Some(pipeline);
            }
            let offset = dispatch.own.is_none().then_some(params.offsets[at]);
            pass.set_bind_group(0, &group, offset.as_slice());
            let [x, y, z] = dispatch.groups;
            pass.dispatch_workgroups(x, y, z);
        }
        Ok(())
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

    fn download(
        &self,
        encoder: &mut wgpu::CommandEncoder,
        readback: &Lease,
        outputs: &[Output],
    ) -> Result<(), DeviceError> {
        let mut end = 0;
        for (id, output) in self.job.plan.downloads.iter().zip(outputs) {
            let Source::Device(start) = output.source else { continue };
            let from = &self.memory.value(&self.job.plan, id.index())?.buffer;
            let bytes = output.storage.bytes(output.elements);
            copy(encoder, from, 0, &readback.buffer, start as u64, bytes);
            end = start as u64 + bytes;
        }
        if let Some(failures) = &self.memory.failures {
            let bytes = 4 * self.job.plan.sites.len() as u64;
            copy(encoder, &failures.buffer, 0, &readback.buffer, end, bytes);
        }
        Ok(())
    }
}

/// A copy of what may be nothing.
pub(super) fn copy(
    encoder: &mut wgpu::CommandEncoder,
    from: &wgpu::Buffer,
    from_start: u64,
    to: &wgpu::Buffer,
    to_start: u64,
    bytes: u64,
) {
    if bytes > 0 {
        encoder.copy_buffer_to_buffer(from, from_start, to, to_start, bytes);
    }
}

impl Shared {
    fn bind_group(
        &self,
        pipeline: &Pipeline,
        params: &Params,
        blocks: &[Bound<'_>],
        counts: &mut GpuCounts,
    ) -> wgpu::BindGroup {
        let layout = &pipeline.layout;
        let ids = [params.block.id].into_iter().chain(blocks.iter().map(|bound| bound.block.id));
        let key = GroupKey {
            layout: layout.id,
            blocks: ids.collect(),
            bytes: blocks.iter().filter_map(|bound| bound.bytes).collect(),
        };
        if let Some(group) = self.bind_groups().get(&key) {
            counts.bind_group_hits += 1;
            return group.clone();
        }
        let of = |buffer, size| {
            wgpu::BindingResource::Buffer(wgpu::BufferBinding { buffer, offset: 0, size })
        };
        let size = wgpu::BufferSize::new(layout.params);
        let params = size.map(|size| of(&params.block.buffer, Some(size)));
        let blocks = blocks.iter().map(|&Bound { block, bytes }| {
            of(&block.buffer, bytes.and_then(wgpu::BufferSize::new))
        });
        let all = (0..).zip(params.into_iter().chain(blocks));
        let entries: Vec<_> =
            all.map(|(binding, resource)| wgpu::BindGroupEntry { binding, resource }).collect();
        let group = self.device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: Some("onetrip kernel"),
            layout: &layout.group,
            entries: &entries,
        });
        self.bind_groups().insert(key, group.clone());
        group
    }
}

pub(super) fn value(plan: &Plan, index: usize) -> Result<&Value, DeviceError> {
    plan.values.get(index).ok_or_else(|| DeviceError::broken("a value is missing"))
}
