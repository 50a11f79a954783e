//! An opened device, as it is handed from user to user.

use std::sync::Arc;

use super::adapter::GpuInfo;
use super::handle::Handle;
use super::health::Health;
use crate::cost::Limits;

/// A device with its queue. Clones are the same device.
#[derive(Clone)]
pub(crate) struct Opened {
    pub device: Handle<wgpu::Device>,
    pub queue: Handle<wgpu::Queue>,
    pub info: GpuInfo,
    pub limits: Limits,
    /// One for all users of the device: one of them may lose memory that another one reads.
    pub health: Arc<Health>,
}
