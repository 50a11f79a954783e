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
    // First, so that the compiler proves the types of wgpu to be `Send` and `Sync` by the shortest way: the other ways are
    // longer than it goes.
    pub driver: Arc<Driver>,
    pub memory: DeviceMemory,
    pub compiler: Compiler,
    pub submissions: Submissions,
}

impl Engine {
    /// Keeps compiled pipelines in `store`.
    pub fn new(driver: Arc<Driver>, store: Option<Arc<Store>>) -> Result<Self, DeviceError> {
        let started = Submissions::new(Arc::clone(&driver));
        let submissions = started.map_err(|error| DeviceError::Open {
            adapter: driver.info().name.clone(),
            reason: error.to_string(),
        })?;
        let memory = DeviceMemory::new(Arc::clone(&driver));
        let compiler = Compiler::new(Arc::clone(&driver), store);
        Ok(Self { driver, memory, compiler, submissions })
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
