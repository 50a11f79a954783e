//! Buffers that the host has again when a submission has finished: mapped, to be read or filled.

use std::sync::Arc;

use crate::exec::gpu::driver::health::{Mapped, ours};
use crate::exec::gpu::memory::pool::Lease;
use crate::exec::gpu::submit::completion::{Completion, CompletionResult};

/// Results in host memory: a mapped buffer, which returns to the pool when dropped.
pub(crate) struct Readback {
    /// `None` only while dropping.
    view: Option<wgpu::BufferView>,
    lease: Lease,
    #[expect(dead_code, reason = "held")]
    mapped: Mapped,
}

impl Readback {
    fn open(lease: Lease, size: u64) -> Option<Self> {
        let mapped = lease.map()?;
        let view = lease.buffer.get_mapped_range(..size).ok()?;
        Some(Self { view: Some(view), lease, mapped })
    }

    pub fn bytes(&self) -> &[u8] {
        self.view.as_deref().unwrap_or_default()
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        // A buffer with a view of it left cannot be unmapped.
        self.view = None;
        ours(|| self.lease.buffer.unmap());
        self.lease.set_reusable(true);
    }
}

/// What the host has again when a submission has finished.
#[derive(Default)]
pub(crate) struct MappedAfter {
    /// To be mapped again.
    pub staging: Option<Lease>,
    /// To be read, with the bytes to map.
    pub readback: Option<(Lease, u64)>,
}

impl MappedAfter {
    pub fn leases(&self) -> impl Iterator<Item = &Lease> {
        self.staging.iter().chain(self.readback.as_ref().map(|(readback, _)| readback))
    }

    /// To be called once what uses the buffers is submitted. When that has finished, they are mapped and `ticket` is
    /// told.
    pub fn follow(self, queue: &wgpu::Queue, ticket: Arc<Completion>) {
        // Before the readback, so that the staging buffer is back when the flight lands.
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
                ticket.land(
                    readback
                        .map_or(CompletionResult::Unmapped, |it| CompletionResult::Done(Some(it))),
                );
            });
        } else {
            queue.on_submitted_work_done(move || ticket.land(CompletionResult::Done(None)));
        }
    }
}
