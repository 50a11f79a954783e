//! One wgpu device for this crate and for the user's own wgpu code.

use super::Device;
use super::parts::builder::DeviceBuilder;
use super::parts::info::OpenedSides;
use crate::error::Result;
use crate::exec::gpu::{Gpu, GuardedDevice};

/// Sharing with the user's own wgpu code. The version of wgpu is [`onetrip::wgpu`](crate::wgpu).
impl Device {
    /// A device of the caller's own, as [`Device::gpu`]; [`DeviceBuilder::wgpu`] takes a memory budget, a recovery and
    /// the like. It is not closed with the last handle, and commands of both go to the one queue, in the order of their
    /// submission.
    ///
    /// It must have been opened from `adapter`. onetrip uses these features if the device has them: `SHADER_F16`,
    /// `SUBGROUP`, `SHADER_INT64`, `EXPERIMENTAL_COOPERATIVE_MATRIX`, `TIMESTAMP_QUERY`,
    /// `TIMESTAMP_QUERY_INSIDE_ENCODERS`. It does not keep the compiled kernels of such a device on disk. Its limits
    /// are kept to: `adapter.limits()` allow the largest data.
    ///
    /// onetrip then handles the loss of this device. It replaces the caller's device-lost callback and error handler; its
    /// own handler sends the caller's errors to `tracing`. These errors fail no run. To receive them, open an error scope
    /// or set your own handler again; onetrip does not need its handler.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
    /// use onetrip::{Device, wgpu};
    ///
    /// let instance = wgpu::Instance::default();
    /// let adapter = instance.request_adapter(&wgpu::RequestAdapterOptions::default()).await?;
    /// let (device, queue) = adapter.request_device(&wgpu::DeviceDescriptor::default()).await?;
    /// let mine = device.clone();
    /// let shared = Device::from_wgpu(&adapter, device, queue)?;
    /// // Or with options: `Device::builder().memory_budget(1 << 30).wgpu(&adapter, device, queue)?`.
    /// assert_eq!(shared.wgpu_device(), Some(mine));
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DeviceError::Lacks`](crate::DeviceError::Lacks) if its limits are below those that WebGPU promises.
    pub fn from_wgpu(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<Self> {
        Self::builder().wgpu(adapter, device, queue)
    }

    /// The wgpu device, as long as there is a GPU. After a loss it may be another.
    ///
    /// Destroy the device only while nobody reads results. After a loss, do not poll it or submit to it while results
    /// are being read: wgpu frees their memory, even under live views. This crate polls every device that it does not
    /// know to be lost.
    #[must_use]
    pub fn wgpu_device(&self) -> Option<wgpu::Device> {
        self.opened().map(|gpu| gpu.device.raw().0.clone())
    }

    /// The queue of [`wgpu_device`](Self::wgpu_device).
    #[must_use]
    pub fn wgpu_queue(&self) -> Option<wgpu::Queue> {
        self.opened().map(|gpu| gpu.device.raw().1.clone())
    }
}

/// Sharing with the user's own wgpu code.
impl DeviceBuilder {
    /// Shares a wgpu device of the caller's own, as [`Device::from_wgpu`], with the builder's options. With
    /// [`Recovery::Reopen`](crate::Recovery::Reopen), a loss opens a device of this crate's own, if that has the limits
    /// of the lost one.
    ///
    /// # Errors
    /// As [`Device::from_wgpu`]; [`DeviceError::Profile`](crate::DeviceError::Profile);
    /// [`DeviceError::OtherSide`](crate::DeviceError::OtherSide).
    pub fn wgpu(
        self,
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<Device> {
        let start = self.checked(OpenedSides::Gpu)?;
        let device = GuardedDevice::adopt(adapter, device, queue)?;
        Ok(Device::with_gpu(Gpu::new(device, None)?, OpenedSides::Gpu, start))
    }
}
