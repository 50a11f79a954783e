//! The inputs of one run: a plan with its kernels, and data.

use std::sync::Arc;

use crate::base::trace::Timeline;
use crate::error::{DeviceError, Error};
use crate::exec::budget::Permit;
use crate::exec::gpu::{DeviceBuffer, Kernels};
use crate::plan::{Plan, Value};

/// Elements in host memory, in the host's representation.
pub(crate) type HostData = Arc<dyn AsRef<[u8]> + Send + Sync>;

#[derive(Clone)]
pub(crate) struct GpuRunInputs {
    pub plan: Arc<Plan>,
    /// The kernels of the plan's dispatches, compiled for the same device.
    pub kernels: Arc<Kernels>,
    /// The upload data, by position in the plan.
    pub uploads: Vec<HostData>,
    /// The bound residents, by position in the plan.
    pub residents: Vec<Arc<DeviceBuffer>>,
    /// The right to hold the memory of the run.
    pub permit: Permit,
    /// Receives the times of the stages.
    pub timeline: Timeline,
}

impl GpuRunInputs {
    /// Returns whether the run is submitted in the waves of its plan. A run whose kernels are timed goes in one
    /// submission.
    pub fn is_in_waves(&self) -> bool {
        !self.plan.waves.is_empty() && !self.timeline.is_recording()
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
