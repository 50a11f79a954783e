//! Values that stay on the device from run to run, and results in host memory.

use super::pool::Lease;
use crate::base::dtype::DType;
use crate::exec::gpu::driver::{self, Mapped, WgpuHandle};

/// A value on the device. Its memory is used again when it is dropped.
pub(crate) struct DeviceBuffer {
    pub dtype: DType,
    pub elements: usize,
    pub lease: Lease,
}

impl DeviceBuffer {
    pub fn raw(&self) -> &wgpu::Buffer {
        &self.lease.buffer
    }

    /// Notes that a user has the memory from now on, and may write to it or destroy it at any time. It is never used for
    /// anything else.
    pub fn share(&self) {
        self.lease.set_reusable(false);
    }

    /// Returns whether it is of a device that is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }
}

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
