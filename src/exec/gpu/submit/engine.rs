//! All parts of an opened GPU.

use std::sync::Arc;

use super::submissions::Submissions;
use crate::base::disk_cache::Store;
use crate::error::DeviceError;
use crate::exec::budget::Permit;
use crate::exec::gpu::compile::compiler::Compiler;
use crate::exec::gpu::driver::Driver;
use crate::exec::gpu::memory::DeviceMemory;
use crate::exec::gpu::submit::completion::Held;
use crate::exec::janitor::Sweep;

/// An opened GPU.
pub(crate) struct Engine {
    pub memory: DeviceMemory,
    pub compiler: Compiler,
    pub submissions: Submissions,
    /// Dropped last: the device is kept for its next user.
    pub driver: Arc<Driver>,
}

impl Engine {
    /// Keeps compiled pipelines in `store`.
    pub fn new(driver: Arc<Driver>, store: Option<Arc<Store>>) -> Result<Self, DeviceError> {
        let started = Submissions::new(Arc::clone(&driver));
        let submissions = started.map_err(|error| DeviceError::Open {
            adapter: driver.info().name.clone(),
            reason: error.to_string(),
        })?;
        Ok(Self {
            memory: DeviceMemory::new(Arc::clone(&driver)),
            compiler: Compiler::new(Arc::clone(&driver), store),
            submissions,
            driver,
        })
    }

    /// The rights that a submission of a run with `permit` holds.
    pub fn hold(&self, permit: &Permit) -> Result<Held, DeviceError> {
        Ok(Held { permit: permit.clone(), work: self.driver.computing()? })
    }
}

impl Sweep for Engine {
    fn sweep(&self) {
        self.memory.sweep();
    }
}
