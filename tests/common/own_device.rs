//! Devices of the user's own.

use onetrip::{Device, wgpu};

use crate::common;

/// An adapter of any kind. Its instance stays: a driver may hang where the last is let go of.
async fn adapter() -> Option<wgpu::Adapter> {
    common::devices().await.into_iter().find(Device::is_gpu)?;
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor {
        backends: wgpu::Backends::PRIMARY,
        ..wgpu::InstanceDescriptor::new_without_display_handle()
    });
    let adapters = instance.enumerate_adapters(wgpu::Backends::PRIMARY).await;
    std::mem::forget(instance);
    adapters.into_iter().next()
}

/// A device of an instance of its own.
pub async fn open(limits: wgpu::Limits) -> Option<(wgpu::Adapter, wgpu::Device, wgpu::Queue)> {
    let adapter = adapter().await?;
    let descriptor =
        wgpu::DeviceDescriptor { required_limits: limits, ..wgpu::DeviceDescriptor::default() };
    let (device, queue) = adapter.request_device(&descriptor).await.expect("a device");
    Some((adapter, device, queue))
}
