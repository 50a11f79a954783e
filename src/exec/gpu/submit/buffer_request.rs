//! The buffers that a run needs, known from its plan before it touches any data. So the thread of the caller can tell
//! whether all of them lie idle, and leaves the run to another thread if one must be allocated.
//!
//! Quirk: drivers take milliseconds to allocate: 42 ms in one call after a loss, with NVIDIA 580.159.04 on an H200. Test:
//! `exec/gpu/tests/runs.rs`.

use std::sync::Arc;

use super::completion::MappedAfter;
use super::job::GpuJob;
use super::readback::{GpuRun, OutputSource, RunOutput};
use super::record::RunBuffers;
use super::stage::{self, Load};
use crate::cost::Limits;
use crate::error::{DeviceError, Error};
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::memory::{
    Class, DeviceBuffer, DeviceFormat, DeviceMemory, IdleLeases, Kind, Lease,
};
use crate::plan::Home;

/// The classes of the buffers of one run.
pub(crate) struct Request {
    /// The slots, then the buffer of failures.
    slots: Vec<Class>,
    has_failures: bool,
    kept: Vec<Class>,
    /// `None` for a run in waves too: each wave leases its own.
    staging: Option<Class>,
    readback: Option<(Class, u64)>,
    outputs: Vec<RunOutput>,
    /// Bytes of all outputs, with which the readback begins.
    output_bytes: u64,
}

/// The buffers of one run, and the run without its results.
pub(crate) struct Leased {
    pub buffers: RunBuffers,
    pub mapped_after: MappedAfter,
    pub run: GpuRun,
}

impl Request {
    /// # Errors
    /// If a buffer would be larger than the device allows, or data that is downloaded as it was uploaded is missing.
    pub fn new(memory: &DeviceMemory, limits: &Limits, job: &GpuJob) -> Result<Self, Error> {
        let plan = &job.plan;
        let failures = 4 * plan.sites.len() as u64;
        let sizes = plan.slots.iter().copied().chain((failures > 0).then_some(failures));
        let slots =
            sizes.map(|bytes| memory.class(Kind::Storage, bytes)).collect::<Result<_, _>>()?;
        let kept = plan.keeps.iter().map(|id| {
            let value = job.value(id.index())?;
            memory.class_of(value.dtype, value.shape.elements())
        });
        let kept = kept.collect::<Result<_, DeviceError>>()?;
        let capacity =
            if job.is_in_waves() { 0 } else { stage::capacity(job, Load::Whole, limits) };
        let class = |kind, bytes| match bytes {
            0 => Ok(None),
            bytes => memory.class(kind, bytes).map(Some),
        };
        let (outputs, output_bytes) = outputs(job, limits)?;
        let bytes_down = output_bytes + failures;
        Ok(Self {
            slots,
            has_failures: failures > 0,
            kept,
            staging: class(Kind::Staging, capacity)?,
            readback: class(Kind::Readback, bytes_down)?.map(|class| (class, bytes_down)),
            outputs,
            output_bytes,
        })
    }

    /// All classes, in the order in which they are leased.
    fn classes(&self) -> impl Iterator<Item = Class> {
        let slots = self.slots.iter().chain(&self.kept).copied();
        slots.chain(self.staging).chain(self.readback.map(|(class, _)| class))
    }

    /// The buffers that lie idle, each in the place of its class.
    pub fn find(&self, memory: &DeviceMemory) -> IdleLeases {
        memory.pool.reuse(self.classes())
    }

    /// The buffers of the run: those that were `found`, and new ones.
    pub fn lease(
        self,
        memory: &DeviceMemory,
        job: &GpuJob,
        found: IdleLeases,
    ) -> Result<Leased, DeviceError> {
        let mut counts = GpuCounts::default();
        let mut found = found.into_iter();
        let mut lease = |class| memory.found_or_new(found.next().flatten(), class, &mut counts);
        let mut slots: Vec<Lease> =
            self.slots.iter().map(|&class| lease(class)).collect::<Result<_, _>>()?;
        let failures = if self.has_failures { slots.pop() } else { None };
        let mut kept = Vec::with_capacity(self.kept.len());
        for (&class, id) in self.kept.iter().zip(&job.plan.keeps) {
            let value = job.value(id.index())?;
            let (dtype, elements) = (value.dtype, value.shape.elements());
            kept.push(Arc::new(DeviceBuffer { dtype, elements, lease: lease(class)? }));
        }
        let staging = self.staging.map(&mut lease).transpose()?;
        let readback = match self.readback {
            Some((class, bytes)) => Some((lease(class)?, bytes)),
            None => None,
        };
        let (residents, outputs) = (job.residents.clone(), self.outputs);
        let start = self.output_bytes as usize;
        let run = GpuRun {
            readback: None,
            outputs,
            failures: start..start + 4 * job.plan.sites.len(),
            failed: None,
            kept: kept.clone(),
            counts,
        };
        let buffers = RunBuffers { slots, failures, kept, residents };
        Ok(Leased { buffers, mapped_after: MappedAfter { staging, readback }, run })
    }
}

/// The outputs, one after the other in the readback, or on the host; and the bytes of those in the readback.
fn outputs(job: &GpuJob, limits: &Limits) -> Result<(Vec<RunOutput>, u64), Error> {
    let mut outputs = Vec::with_capacity(job.plan.downloads.len());
    let mut bytes = 0;
    for id in &job.plan.downloads {
        let value = job.value(id.index())?;
        let (storage, elements) = (DeviceFormat::of(value.dtype, limits), value.shape.elements());
        let source = if let Home::Upload { input, slot: None } = value.home {
            OutputSource::Host(Arc::clone(job.host_data(value, input)?))
        } else {
            let start = bytes;
            bytes += storage.bytes(elements);
            OutputSource::Device(start as usize)
        };
        outputs.push(RunOutput { dtype: value.dtype, elements, storage, source });
    }
    Ok((outputs, bytes))
}
