//! From a plan's dispatches to an encoded run: the buffers that each dispatch binds, and the copies.

use std::sync::Arc;

use smallvec::SmallVec;

use super::commands::{EncodedRun, RunBuffers};
use super::engine::Engine;
use super::run_inputs::GpuRunInputs;
use super::run_results::{GpuRunResults, OutputSource, RunOutput};
use super::stage::StagedCopy;
use super::submission::MappedAfter;
use crate::codegen::{BufferRef, Dispatch};
use crate::error::DeviceError;
use crate::exec::gpu::compile::{Kernels, Pipeline};
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::driver::{Calls, WgpuHandle};
use crate::exec::gpu::memory::{Block, BoundBlock, BufferCopy, CommandList, Lease};

/// Encodes one run.
pub(crate) struct RunEncoder<'a> {
    pub engine: &'a Engine,
    pub inputs: &'a GpuRunInputs,
    pub buffers: RunBuffers,
}

impl RunEncoder<'_> {
    /// The run, ready to be recorded.
    pub fn encode(
        self,
        calls: &Calls<'_>,
        results: &mut GpuRunResults,
        mapped_after: MappedAfter,
        copies: Vec<StagedCopy>,
    ) -> Result<EncodedRun, DeviceError> {
        let groups = self.groups(calls, &mut results.counts)?;
        let filled: SmallVec<[u64; 8]> = copies.iter().map(|copy| copy.to.id).collect();
        let up = up(mapped_after.staging.as_ref(), copies);
        let down = match &mapped_after.readback {
            None => Vec::new(),
            Some((readback, bytes)) => {
                (results.counts.downloads, results.counts.bytes_down) = (1, *bytes);
                self.down(&readback.buffer, &results.outputs)?
            }
        };
        let Self { inputs, buffers, .. } = self;
        let kernels = Arc::clone(&inputs.kernels);
        let failures = buffers.failures.as_ref().map(|failures| failures.buffer.clone());
        let residents = buffers.residents.iter().map(|resident| &resident.lease);
        let leases = buffers.leases().chain(residents).chain(mapped_after.leases());
        let blocks = leases.map(|lease| lease.id).chain(filled).collect();
        let list = Arc::new(CommandList { groups, up, down, failures, blocks });
        Ok(EncodedRun { kernels, list, recorded: None, buffers, mapped_after })
    }

    fn groups(
        &self,
        calls: &Calls<'_>,
        counts: &mut GpuCounts,
    ) -> Result<Vec<WgpuHandle<wgpu::BindGroup>>, DeviceError> {
        let Kernels { dispatches, pipelines, params, .. } = &*self.inputs.kernels;
        counts.dispatches = dispatches.len() as u32;
        let params = params.as_ref().map(|params| &*params.block);
        let group = |(dispatch, pipeline): (&Dispatch, &Arc<Pipeline>)| {
            let (bound, groups) = (self.bound(dispatch)?, &self.engine.memory.groups);
            let (group, was_there) = groups.of(calls, pipeline.layout(), params, &bound);
            counts.bind_group_hits += u32::from(was_there);
            Ok(group)
        };
        dispatches.iter().zip(pipelines).map(group).collect()
    }

    fn bound(&self, dispatch: &Dispatch) -> Result<Vec<BoundBlock<'_>>, DeviceError> {
        let block = |buffer| match buffer {
            BufferRef::Value(id) => self.buffers.value(self.inputs, id.index()),
            BufferRef::Slot(slot) => self.buffers.slot(slot),
            BufferRef::Failures => {
                let failures = self.buffers.failures.as_deref();
                failures.ok_or_else(|| DeviceError::broken("there is no room for failures"))
            }
        };
        let bytes = |buffer| match buffer {
            BufferRef::Value(id) if dispatch.custom.is_some() => {
                let value = self.inputs.value(id.index())?;
                Ok(Some(value.bytes(&self.engine.device.limits)))
            }
            _ => Ok(None),
        };
        let bound = |buffer| Ok(BoundBlock { block: block(buffer)?, bytes: bytes(buffer)? });
        dispatch.buffers.iter().map(|binding| bound(binding.buffer)).collect()
    }

    fn down(
        &self,
        readback: &wgpu::Buffer,
        outputs: &[RunOutput],
    ) -> Result<Vec<BufferCopy>, DeviceError> {
        let mut down = Vec::with_capacity(outputs.len() + 1);
        let mut end = 0;
        let mut transfer = |block: &Block, start, bytes| {
            let (from, to) = ((block.buffer.clone(), 0), (readback.clone().into(), start));
            down.push(BufferCopy { from, to, bytes });
        };
        for (id, output) in self.inputs.plan.downloads.iter().zip(outputs) {
            let OutputSource::Device(start) = output.source else { continue };
            let bytes = output.storage.bytes(output.elements);
            transfer(self.buffers.value(self.inputs, id.index())?, start as u64, bytes);
            end = start as u64 + bytes;
        }
        if let Some(failures) = &self.buffers.failures {
            transfer(failures, end, 4 * self.inputs.plan.sites.len() as u64);
        }
        Ok(down)
    }
}

pub(crate) fn up(staging: Option<&Lease>, copies: Vec<StagedCopy>) -> Vec<BufferCopy> {
    let Some(staging) = staging else { return Vec::new() };
    let transfer = |StagedCopy { from, to }: StagedCopy| BufferCopy {
        from: (staging.buffer.clone(), from.start),
        to: (to.buffer, 0),
        bytes: from.end - from.start,
    };
    copies.into_iter().map(transfer).collect()
}
