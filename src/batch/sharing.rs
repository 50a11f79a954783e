//! A resident's memory for the user's own wgpu code.

use std::fmt;
use std::ops::Deref;
use std::sync::Arc;

use super::resident::Resident;
use crate::base::dtype::Element;
use crate::error::{DeviceError, Result};
use crate::exec::gpu::DeviceBuffer;
use crate::residents::on_device;

/// The buffer of a [`Resident`], from [`Resident::wgpu_buffer`]. Its memory is never reused, not even after this is
/// dropped. A bind group that the caller's code still holds therefore writes where nobody reads.
pub struct WgpuBuffer(Arc<DeviceBuffer>);

impl<T: Element> Resident<T> {
    /// The buffer on the GPU, to be read or written by the caller's own wgpu code on
    /// [`wgpu_device`](crate::Device::wgpu_device): commands run in the order in which they are submitted to its queue.
    /// A run is submitted for certain only once its future completes. Before that, it may still be queued and may see
    /// commands submitted after its first poll.
    ///
    /// The elements come first, in row-major order: `f32`, `i32` and `u32` as they are, a truth value as a `u32` of 0
    /// or 1, `f16` as itself where the device has `SHADER_F16`, else as an `f32`. The buffer may be larger; the bytes
    /// beyond the elements are unspecified. Its usages are `STORAGE`, `COPY_SRC` and `COPY_DST`.
    ///
    /// Destroying the buffer destroys the data; runs that read the resident then fail.
    ///
    /// From then on the data lies on the GPU alone. Later runs read the data that is written to it; each run on the CPU
    /// fetches it. This overrides [`keep_host_copy`](Self::keep_host_copy): no copy is kept, and the data is lost with
    /// the GPU. Runs of programs that fill the resident give it another buffer, which is not shared: ask again.
    ///
    /// ```no_run
    /// # fn copy(device: &onetrip::Device, mine: &wgpu::Buffer) -> onetrip::Result<()> {
    /// let resident = device.resident(&[1.0_f32, 2.0], 2)?;
    /// let buffer = resident.wgpu_buffer()?;
    /// if let (Some(wgpu), Some(queue)) = (device.wgpu_device(), device.wgpu_queue()) {
    ///     let mut encoder = wgpu.create_command_encoder(&wgpu::CommandEncoderDescriptor::default());
    ///     encoder.copy_buffer_to_buffer(mine, 0, &buffer, 0, 8);
    ///     queue.submit([encoder.finish()]);
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DeviceError::NoGpu`] if the device has none; [`DeviceError::Lost`] if it is lost, and no run has
    /// [recovered](crate::Recovery) it yet;
    /// [`ReadError::EmptyResident`](crate::ReadError::EmptyResident) before the batch that keeps it has run; as
    /// [`Device::resident`](crate::Device::resident) where the data was on the host.
    pub fn wgpu_buffer(&self) -> Result<WgpuBuffer> {
        let gpu = self.device().opened().ok_or(DeviceError::NoGpu)?;
        // Else a copy on the host would be given up for lost data.
        gpu.check()?;
        loop {
            let buffer = on_device(self.handle(), &gpu)?;
            if self.handle().share(&buffer) {
                return Ok(WgpuBuffer(buffer));
            }
        }
    }
}

impl Deref for WgpuBuffer {
    type Target = wgpu::Buffer;

    fn deref(&self) -> &wgpu::Buffer {
        self.0.raw()
    }
}

impl fmt::Debug for WgpuBuffer {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "WgpuBuffer({} × {})", self.0.elements, self.0.dtype)
    }
}
