//! Values that stay on the device from run to run.

use super::pool::Lease;
use crate::base::dtype::DType;

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

    /// Notes that others have the memory from now on, who may write to it or destroy it at any time: it is never used for
    /// anything else.
    pub fn share(&self) {
        self.lease.set_reusable(false);
    }

    /// Whether it is of a device that is known to be lost.
    pub fn is_lost(&self) -> bool {
        self.lease.is_lost()
    }
}
