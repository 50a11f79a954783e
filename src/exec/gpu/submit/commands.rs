//! Recording the copies and dispatches of one run, or of several, in one encoder.

use std::ops::Range;
use std::sync::Arc;

use super::run_inputs::GpuRunInputs;
use super::stamps::{Mark, Stamps};
use super::submission::MappedAfter;
use crate::error::DeviceError;
use crate::exec::gpu::compile::{Kernels, Pipeline};
use crate::exec::gpu::driver::{Calls, WgpuHandle};
use crate::exec::gpu::memory::{Block, BufferCopy, CommandList, DeviceBuffer, Lease};
use crate::plan::Home;

/// The buffers that the kernels of one run bind.
pub(crate) struct RunBuffers {
    pub slots: Vec<Lease>,
    /// Receives the failures of kernels, if any can fail.
    pub failures: Option<Lease>,
    pub kept: Vec<Arc<DeviceBuffer>>,
    pub residents: Vec<Arc<DeviceBuffer>>,
}

impl RunBuffers {
    /// The buffers leased for this run alone.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        let kept = self.kept.iter().map(|kept| &kept.lease);
        self.slots.iter().chain(&self.failures).chain(kept)
    }

    /// The buffers that only the device uses, and that no value outlives the run in.
    pub fn into_slots(self) -> Vec<Lease> {
        let mut slots = self.slots;
        slots.extend(self.failures);
        slots
    }

    pub fn slot(&self, slot: usize) -> Result<&Block, DeviceError> {
        let lease = self.slots.get(slot);
        lease.map(|lease| &**lease).ok_or_else(|| DeviceError::broken("a slot is missing"))
    }

    /// The buffer of a value of `inputs`.
    pub fn value(&self, inputs: &GpuRunInputs, index: usize) -> Result<&Block, DeviceError> {
        let lease = match inputs.value(index)?.home {
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

/// A run that only has to be submitted, with the buffers that must exist until then.
pub(crate) struct EncodedRun {
    pub kernels: Arc<Kernels>,
    pub list: Arc<CommandList>,
    /// The recorded commands of a run that is submitted alone; `None` if it may be recorded with others.
    pub recorded: Option<WgpuHandle<wgpu::CommandBuffer>>,
    pub buffers: RunBuffers,
    /// The unmapped source of the copies up, and the destination of those down.
    pub mapped_after: MappedAfter,
}

impl EncodedRun {
    /// The buffers leased for this run alone.
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.buffers.leases().chain(self.mapped_after.leases())
    }

    pub fn commands(&self) -> RunCommands<'_> {
        RunCommands { kernels: &self.kernels, list: &self.list }
    }
}

/// The commands of one run, to be recorded.
#[derive(Clone, Copy)]
pub(crate) struct RunCommands<'a> {
    pub kernels: &'a Kernels,
    pub list: &'a CommandList,
}

impl<'a> RunCommands<'a> {
    /// Records a part of the run: the copies `up`, then the dispatches of `range` that exist.
    pub fn record_part(
        self,
        encoder: &mut wgpu::CommandEncoder,
        up: &[BufferCopy],
        range: Range<usize>,
    ) {
        self.record_up(encoder, up, range.start == 0);
        let label = Some("onetrip");
        let descriptor = wgpu::ComputePassDescriptor { label, timestamp_writes: None };
        self.dispatch(&mut encoder.begin_compute_pass(&descriptor), range, &mut None);
    }

    pub fn record_down(self, encoder: &mut wgpu::CommandEncoder) {
        self.list.down.iter().for_each(|copy| copy.record(encoder));
    }

    /// Records the copies `up`; if they `begin` the run, failures of the last one are cleared too.
    fn record_up(self, encoder: &mut wgpu::CommandEncoder, up: &[BufferCopy], begin: bool) {
        up.iter().for_each(|copy| copy.record(encoder));
        if let Some(failures) = self.list.failures.as_ref().filter(|_| begin) {
            encoder.clear_buffer(failures, 0, None);
        }
    }

    /// Records the dispatches of `range` that exist.
    fn dispatch(
        self,
        pass: &mut wgpu::ComputePass<'_>,
        range: Range<usize>,
        bound: &mut Option<&'a Arc<Pipeline>>,
    ) {
        let Kernels { dispatches, pipelines, params, .. } = self.kernels;
        let groups = &self.list.groups;
        for at in range.start..range.end.min(groups.len()) {
            let (dispatch, pipeline) = (&dispatches[at], &pipelines[at]);
            if !bound.is_some_and(|bound| Arc::ptr_eq(bound, pipeline)) {
                pass.set_pipeline(pipeline.raw());
                *bound = Some(pipeline);
            }
            let offset = params.as_ref().filter(|_| dispatch.custom.is_none());
            let offset = offset.map(|params| params.offsets[at]);
            pass.set_bind_group(0, &*groups[at], offset.as_slice());
            let [x, y, z] = dispatch.groups;
            pass.dispatch_workgroups(x, y, z);
        }
    }
}

/// The commands of a run that is submitted alone: those recorded before it came, or new ones.
pub(crate) fn take_or_record(calls: &Calls<'_>, encoded: &EncodedRun) -> wgpu::CommandBuffer {
    let recorded = encoded.kernels.next_run.take(&encoded.list);
    recorded.unwrap_or_else(|| recorded_now(calls, &[encoded.commands()]))
}

/// As [`record`], in an encoder of their own.
pub(crate) fn recorded_now(calls: &Calls<'_>, runs: &[RunCommands<'_>]) -> wgpu::CommandBuffer {
    calls.commands(|encoder| record(encoder, runs, None))
}

/// Records `runs`, none of which may write what another one reads or writes: first all copies up, in the end all
/// copies down.
///
/// One run has one compute pass, or one pass a dispatch if times are wanted. Several runs share passes: one pass has the
/// first dispatch of each run, the next pass the second dispatches, and so on. wgpu waits for earlier dispatches wherever
/// a pass changes the use of a buffer, but a pass changes the uses of all its buffers at its beginning.
pub(crate) fn record(
    encoder: &mut wgpu::CommandEncoder,
    runs: &[RunCommands<'_>],
    stamps: Option<&Stamps>,
) {
    let mark = |encoder: &mut _, mark| {
        if let Some(stamps) = stamps {
            stamps.mark(encoder, mark);
        }
    };
    mark(encoder, Mark::Begin);
    runs.iter().for_each(|run| run.record_up(encoder, &run.list.up, true));
    mark(encoder, Mark::Uploaded);
    let levels = runs.iter().map(|run| run.list.groups.len()).max().unwrap_or(0);
    let each = if stamps.is_some() || runs.len() > 1 { 1 } else { levels.max(1) };
    for start in (0..levels).step_by(each) {
        let descriptor = wgpu::ComputePassDescriptor {
            label: Some("onetrip"),
            timestamp_writes: stamps.and_then(|stamps| stamps.around(start)),
        };
        let mut pass = encoder.begin_compute_pass(&descriptor);
        let mut bound = None;
        for run in runs {
            run.dispatch(&mut pass, start..start + each, &mut bound);
        }
    }
    mark(encoder, Mark::Computed);
    runs.iter().for_each(|run| run.record_down(encoder));
    mark(encoder, Mark::End);
}
