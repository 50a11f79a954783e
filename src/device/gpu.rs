//! The GPU of a device: as long as there is one to use, and after a loss.

use std::sync::Arc;

use super::Device;
use super::parts::device_gpu::DeviceGpu;
use super::parts::loss::DeviceLoss;
use crate::error::{DeviceError, Error, Result};
use crate::exec::gpu::Gpu;

/// The GPU and its losses.
impl Device {
    /// The GPU, as long as there is one to use.
    pub(crate) fn opened(&self) -> Option<Gpu> {
        self.device_gpu().filter(|gpu| gpu.is_usable()).map(DeviceGpu::opened)
    }

    pub(super) fn device_gpu(&self) -> Option<&DeviceGpu> {
        self.0.device_gpu.as_ref()
    }

    /// Returns whether runs under way are repeated after a loss of the GPU.
    pub(crate) fn recovers(&self) -> bool {
        self.device_gpu().is_some_and(DeviceGpu::recovers)
    }

    /// Calls `listener` once for each loss of the GPU, before the recovery, in the task whose run or transfer detected
    /// the loss. The listener should return soon; its panics are ignored. A device without a GPU never calls it. The device
    /// holds it: a listener that holds a handle of the device keeps the device open for good.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::auto().await?;
    /// device.on_lost(|loss| eprintln!("{loss}"));
    /// # Ok(())
    /// # }
    /// ```
    pub fn on_lost(&self, listener: impl Fn(&DeviceLoss) + Send + Sync + 'static) {
        if let Some(gpu) = self.device_gpu() {
            gpu.listeners.add(Arc::new(listener));
        }
    }

    /// Recovers from `error` if it is a loss, so that the failed work may be repeated.
    ///
    /// # Errors
    /// `error` itself, or the reason why the recovery failed.
    pub(crate) async fn recover(&self, error: Error) -> Result<()> {
        match (self.device_gpu(), &error) {
            (Some(gpu), Error::Device(DeviceError::Lost { .. })) => gpu.recover(error).await,
            _ => Err(error),
        }
    }

    /// Reports `error` to the listeners if it is a loss, and returns it. Transfers of residents call it: some are not
    /// repeated, and so never reach [`recover`](Self::recover).
    pub(super) fn report_if_lost(&self, error: DeviceError) -> DeviceError {
        if let (Some(gpu), DeviceError::Lost { .. }) = (self.device_gpu(), &error) {
            gpu.report_loss();
        }
        error
    }

    /// Loses the GPU as a failing driver might, to test the reaction of a service. Without a GPU nothing happens. It
    /// waits up to one second for polls in progress. As with any loss, the next user of the GPU finds out, and then the
    /// loss is reported and counted. Runs on the host's cores go on and notice nothing.
    pub fn simulate_loss(&self) {
        if let Some(gpu) = self.device_gpu() {
            gpu.opened().destroy();
        }
    }
}
