//! Buffers that the host has again when a submission has finished: mapped, to be read or filled.

use std::sync::Arc;

use super::completion::{Completion, CompletionResult};
use crate::exec::gpu::driver::Driver;
use crate::exec::gpu::memory::mapped::Readback;
use crate::exec::gpu::memory::pool::Lease;

/// The buffers of one submission that are mapped after it.
#[derive(Default)]
pub(crate) struct MappedAfter {
    /// To be filled by a later run.
    pub staging: Option<Lease>,
    /// To be read, with the bytes to map.
    pub readback: Option<(Lease, u64)>,
}

impl MappedAfter {
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.staging.iter().chain(self.readback.as_ref().map(|(readback, _)| readback))
    }

    /// Registers the callbacks that map the buffers and complete `completion`. To be called once the commands that use the
    /// buffers are submitted.
    pub fn register(self, driver: &Driver, completion: Arc<Completion>) {
        // Before the readback, so that the staging buffer is back when the run completes.
        if let Some(staging) = self.staging {
            let buffer = staging.buffer.clone();
            buffer.map_async(wgpu::MapMode::Write, .., move |mapped| {
                staging.settle(mapped.is_ok());
            });
        }
        if let Some((lease, size)) = self.readback {
            lease.set_reusable(false);
            let buffer = lease.buffer.clone();
            buffer.map_async(wgpu::MapMode::Read, ..size, move |mapped| {
                let readback = mapped.ok().and_then(|()| Readback::open(lease, size));
                let done = |readback| CompletionResult::Done(Some(readback));
                completion.complete(readback.map_or(CompletionResult::Unmapped, done));
            });
        } else {
            let complete = move || completion.complete(CompletionResult::Done(None));
            driver.on_submitted_work_done(complete);
        }
    }
}
