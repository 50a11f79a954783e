//! The description of one run, and the buffers that its kernels bind.

use std::sync::Arc;

use crate::base::trace::Timeline;
use crate::error::{DeviceError, Error};
use crate::exec::budget::Permit;
use crate::exec::gpu::compile::Kernels;
use crate::exec::gpu::memory::{Block, DeviceBuffer, Lease};
use crate::plan::{Home, Plan, Value};

/// Elements in host memory, in the host's representation.
pub(crate) type HostData = Arc<dyn AsRef<[u8]> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct GpuJob {
    pub plan: Arc<Plan>,
    /// The kernels of the plan's dispatches, compiled for the same device.
    pub kernels: Arc<Kernels>,
    /// The upload data, by position in the batch.
    pub uploads: Vec<HostData>,
    /// The bound residents, by position in the batch.
    pub residents: Vec<Arc<DeviceBuffer>>,
    /// The right to hold the memory of the run.
    pub permit: Permit,
    /// Receives the times of the stages.
    pub timeline: Timeline,
}

impl GpuJob {
    /// Returns whether the run is submitted in the waves of its plan. A run whose kernels are timed goes in one
    /// submission.
    pub fn is_in_waves(&self) -> bool {
        !self.plan.waves.is_empty() && !self.timeline.is_kept()
    }

    /// The data of the upload `input`, which is the value's.
    pub fn host_data(&self, value: &Value, input: u32) -> Result<&HostData, Error> {
        let data = self.uploads.get(input as usize);
        let data = data.ok_or_else(|| DeviceError::broken("the data of an upload is missing"))?;
        let bytes = value.shape.elements().saturating_mul(value.dtype.size());
        if (**data).as_ref().len() != bytes {
            return Err(DeviceError::broken("the data of an upload has another length").into());
        }
        Ok(data)
    }

    pub fn value(&self, index: usize) -> Result<&Value, DeviceError> {
        let value = self.plan.values.get(index);
        value.ok_or_else(|| DeviceError::broken("a value is missing"))
    }
}

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

    /// The buffer of a value of `job`.
    pub fn value(&self, job: &GpuJob, index: usize) -> Result<&Block, DeviceError> {
        let lease = match job.value(index)?.home {
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
