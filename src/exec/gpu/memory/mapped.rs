//! Results in host memory.

use super::pool::Lease;
use crate::exec::gpu::driver::{self, Mapped, WgpuHandle};

/// A mapped readback buffer, which returns to the pool when dropped.
pub(crate) struct Readback {
    /// `None` only while this is dropped.
    view: Option<WgpuHandle<wgpu::BufferView>>,
    lease: Lease,
    #[expect(dead_code, reason = "held")]
    mapped: Mapped,
}

impl Readback {
    /// The first `size` bytes of a buffer that is mapped; `None` if its device is lost.
    pub fn open(lease: Lease, size: u64) -> Option<Self> {
        let mapped = lease.map()?;
        let view = lease.buffer.get_mapped_range(..size).ok()?;
        Some(Self { view: Some(view.into()), lease, mapped })
    }

    pub fn bytes(&self) -> &[u8] {
        self.view.as_ref().map_or(&[], |view| view)
    }
}

impl Drop for Readback {
    fn drop(&mut self) {
        // A buffer with a view left cannot be unmapped.
        self.view = None;
        driver::unscoped(|| self.lease.buffer.unmap());
        self.lease.set_reusable(true);
    }
}
