//! The calls of wgpu that runs and compilers make.

use super::driver_lock;
use super::opened_device::OpenedDevice;
use crate::error::DeviceError;

/// Calls of one device, between the beginning and the end of an error scope. Their errors are found where the scope ends.
pub(crate) struct Calls<'a>(pub(super) &'a OpenedDevice);

/// Defines methods of [`Calls`] that pass a call on to the device.
macro_rules! pass_on {
    ($($call:ident($descriptor:ty) -> $object:ty;)*) => {
        impl Calls<'_> {$(
            pub fn $call(&self, descriptor: $descriptor) -> $object {
                self.0.device.$call(descriptor)
            }
        )*}
    };
}
pass_on! {
    create_buffer(&wgpu::BufferDescriptor<'_>) -> wgpu::Buffer;
    create_query_set(&wgpu::QuerySetDescriptor<'_>) -> wgpu::QuerySet;
    create_bind_group(&wgpu::BindGroupDescriptor<'_>) -> wgpu::BindGroup;
    create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor<'_>) -> wgpu::BindGroupLayout;
    create_pipeline_layout(&wgpu::PipelineLayoutDescriptor<'_>) -> wgpu::PipelineLayout;
    create_shader_module(wgpu::ShaderModuleDescriptor<'_>) -> wgpu::ShaderModule;
}

impl Calls<'_> {
    /// A module that is compiled without checks of indices, divisions and loops.
    ///
    /// # Safety
    /// As for [`create_shader_module_trusted`](wgpu::Device::create_shader_module_trusted): the kernels index in range,
    /// divide by nothing that is 0 and end their loops.
    pub unsafe fn create_unchecked_shader_module(
        &self,
        descriptor: wgpu::ShaderModuleDescriptor<'_>,
    ) -> wgpu::ShaderModule {
        // SAFETY: the caller keeps to it.
        unsafe {
            let checks = wgpu::ShaderRuntimeChecks::unchecked();
            self.0.device.create_shader_module_trusted(descriptor, checks)
        }
    }

    /// # Safety
    /// As for [`create_pipeline_cache`](wgpu::Device::create_pipeline_cache): the data comes from
    /// [`get_data`](wgpu::PipelineCache::get_data) on the same adapter, driver and backend.
    pub unsafe fn create_pipeline_cache(
        &self,
        descriptor: &wgpu::PipelineCacheDescriptor<'_>,
    ) -> wgpu::PipelineCache {
        // SAFETY: the caller keeps to it.
        unsafe { self.0.device.create_pipeline_cache(descriptor) }
    }

    /// The driver compiles the pipeline here: a long call.
    pub fn create_compute_pipeline(
        &self,
        descriptor: &wgpu::ComputePipelineDescriptor<'_>,
    ) -> wgpu::ComputePipeline {
        let _long = driver_lock::long();
        self.0.device.create_compute_pipeline(descriptor)
    }

    /// The commands that `record` records in an encoder of their own.
    pub fn commands(&self, record: impl FnOnce(&mut wgpu::CommandEncoder)) -> wgpu::CommandBuffer {
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some("onetrip") };
        let mut encoder = self.0.device.create_command_encoder(&descriptor);
        record(&mut encoder);
        encoder.finish()
    }

    pub fn submit(
        &self,
        commands: wgpu::CommandBuffer,
    ) -> Result<wgpu::SubmissionIndex, DeviceError> {
        self.0.enqueue(commands)
    }
}
