//! The buffers that a run needs, known from its plan before it touches any data. So the thread of the caller can tell
//! whether all of them lie idle, and leaves the run to another thread if one must be allocated.
//!
//! Quirk: drivers take milliseconds to allocate: 42 ms in one call after a loss, with NVIDIA 580.159.04 on an H200. Test:
//! `exec/gpu/tests/runs.rs`.

use std::sync::Arc;

use super::commands::RunBuffers;
use super::run_inputs::GpuRunInputs;
use super::run_results::{GpuRunResults, OutputSource, RunOutput};
use super::stage::{StagedUploads, UploadPart};
use super::submission::MappedAfter;
use crate::cost::Limits;
use crate::error::{DeviceError, Error};
use crate::exec::gpu::counts::GpuCounts;
use crate::exec::gpu::memory::{
    Class, DeviceBuffer, DeviceFormat, DeviceMemory, IdleLeases, Kind, Lease,
};
use crate::plan::Home;

/// The classes of the buffers of one run.
pub(crate) struct BufferRequest {
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

/// The buffers of one run, and its results as far as they are known before it.
pub(crate) struct LeasedRun {
    pub buffers: RunBuffers,
    pub mapped_after: MappedAfter,
    pub results: GpuRunResults,
}

impl BufferRequest {
    /// # Errors
    /// If a buffer would be larger than the device allows, or data that is downloaded as it was uploaded is missing.
    pub fn new(
        memory: &DeviceMemory,
        limits: &Limits,
        inputs: &GpuRunInputs,
    ) -> Result<Self, Error> {
        let plan = &inputs.plan;
        let failures = 4 * plan.sites.len() as u64;
        let sizes = plan.slots.iter().copied().chain((failures > 0).then_some(failures));
        let slots =
            sizes.map(|bytes| memory.class(Kind::Storage, bytes)).collect::<Result<_, _>>()?;
        let kept = plan.keeps.iter().map(|id| {
            let value = inputs.value(id.index())?;
            memory.value_class(value.dtype, value.shape.elements())
        });
        let kept = kept.collect::<Result<_, DeviceError>>()?;
        let capacity = if inputs.is_in_waves() {
            0
        } else {
            StagedUploads::of(inputs, UploadPart::Whole, limits).0.capacity()
        };
        let class = |kind, bytes| match bytes {
            0 => Ok(None),
            bytes => memory.class(kind, bytes).map(Some),
        };
        let (outputs, output_bytes) = outputs(inputs, limits)?;
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

    /// Leases the buffers that lie idle, each in the place of its class.
    pub fn lease_idle(&self, memory: &DeviceMemory) -> IdleLeases {
        memory.pool.reuse(self.classes())
    }

    /// The buffers of the run: the `idle` ones, and new ones.
    pub fn lease(
        self,
        memory: &DeviceMemory,
        inputs: &GpuRunInputs,
        idle: IdleLeases,
    ) -> Result<LeasedRun, DeviceError> {
        let mut counts = GpuCounts::default();
        let mut idle = idle.into_iter();
        let mut lease = |class| memory.found_or_new(idle.next().flatten(), class, &mut counts);
        let mut slots: Vec<Lease> =
            self.slots.iter().map(|&class| lease(class)).collect::<Result<_, _>>()?;
        let failures = if self.has_failures { slots.pop() } else { None };
        let mut kept = Vec::with_capacity(self.kept.len());
        for (&class, id) in self.kept.iter().zip(&inputs.plan.keeps) {
            let value = inputs.value(id.index())?;
            let (dtype, elements) = (value.dtype, value.shape.elements());
            kept.push(Arc::new(DeviceBuffer { dtype, elements, lease: lease(class)? }));
        }
        let staging = self.staging.map(&mut lease).transpose()?;
        let readback = match self.readback {
            Some((class, bytes)) => Some((lease(class)?, bytes)),
            None => None,
        };
        let (residents, outputs) = (inputs.residents.clone(), self.outputs);
        let start = self.output_bytes as usize;
        let results = GpuRunResults {
            readback: None,
            outputs,
            failures: start..start + 4 * inputs.plan.sites.len(),
            failed: None,
            kept: kept.clone(),
            counts,
        };
        let buffers = RunBuffers { slots, failures, kept, residents };
        Ok(LeasedRun { buffers, mapped_after: MappedAfter { staging, readback }, results })
    }
}

/// The outputs, one after the other in the readback, or on the host; and the bytes of those in the readback.
fn outputs(inputs: &GpuRunInputs, limits: &Limits) -> Result<(Vec<RunOutput>, u64), Error> {
    let mut outputs = Vec::with_capacity(inputs.plan.downloads.len());
    let mut bytes = 0;
    for id in &inputs.plan.downloads {
        let value = inputs.value(id.index())?;
        let (storage, elements) = (DeviceFormat::of(value.dtype, limits), value.shape.elements());
        let source = if let Home::Upload { input, slot: None } = value.home {
            OutputSource::Host(Arc::clone(inputs.host_data(value, input)?))
        } else {
            let start = bytes;
            bytes += storage.bytes(elements);
            OutputSource::Device(start as usize)
        };
        outputs.push(RunOutput { dtype: value.dtype, elements, storage, source });
    }
    Ok((outputs, bytes))
}
