//! The buffers of one run.

use std::sync::Arc;

use super::job::Job;
use crate::error::DeviceError;
use crate::exec::gpu::memory::buffer::DeviceBuffer;
use crate::exec::gpu::memory::pool::{Block, Lease};
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

    /// The buffer of a value of `job`.
    pub fn value(&self, job: &Job, index: usize) -> Result<&Block, DeviceError> {
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
