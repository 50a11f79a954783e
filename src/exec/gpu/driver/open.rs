//! Opening a device with all that its adapter has, or adopting a device of the user.
//!
//! Quirk: threads that called a driver hang when they end after the last instance was dropped (the driver was not
//! recorded). So there is one instance in the process, and it stays. No test covers the hang.

use std::sync::{Arc, LazyLock, OnceLock};

use super::adapter::{self, AdapterChoice, GpuInfo};
use super::guarded_device::GuardedDevice;
use super::opened_device::OpenedDevice;
use super::{device_cache, driver_lock, exit_guard, health_registry};
use crate::base::future::BoxFuture;
use crate::base::single_flight::SingleFlight;
use crate::cost::{Limits, MatrixUnits, Subgroups};
use crate::error::DeviceError;

const BACKENDS: wgpu::Backends = wgpu::Backends::VULKAN
    .union(wgpu::Backends::METAL)
    .union(wgpu::Backends::DX12)
    .union(wgpu::Backends::BROWSER_WEBGPU);

static OPENING: LazyLock<SingleFlight> = LazyLock::new(SingleFlight::default);

impl GuardedDevice {
    /// Opens the best adapter that fits `choice`, with those of `features` that it has.
    ///
    /// Quirk: NVIDIA 580.159.04 crashed in 1 of 24 processes while 13 threads opened devices, so one is opened at a time.
    pub async fn open(
        choice: &AdapterChoice,
        features: wgpu::Features,
    ) -> Result<Arc<Self>, DeviceError> {
        let opening = OPENING.alone(&()).await;
        let _work = exit_guard::work()?;
        // In a box, where the proof that wgpu's types are `Send` ends: it would exceed a user's recursion limit.
        let opened: BoxFuture<'_, _> = Box::pin(open(choice, features));
        let opened = opened.await?;
        drop(opening);
        let device = Arc::new(Self::new(opened, true));
        device.warm_up().await;
        Ok(device)
    }

    /// The adapters of the host, the fastest kind first.
    pub async fn list() -> Result<Vec<GpuInfo>, DeviceError> {
        let _opening = OPENING.alone(&()).await;
        let _work = exit_guard::work()?;
        let listed: BoxFuture<'_, _> = Box::pin(list());
        Ok(listed.await)
    }

    /// A device that its user opened on `adapter`, and closes.
    pub fn adopt(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<Arc<Self>, DeviceError> {
        Ok(Arc::new(Self::new(adopt(adapter, device, queue)?, false)))
    }
}

/// Opens the best adapter that fits, with all its limits and those features in `features` that it has.
async fn open(
    choice: &AdapterChoice,
    features: wgpu::Features,
) -> Result<OpenedDevice, DeviceError> {
    let _long = driver_lock::long();
    let (adapters, found) = enumerate().await;
    let index = adapter::best(&found, choice).ok_or_else(|| adapter::none_fits(&found, choice))?;
    let adapter = &adapters[index];
    let info = GpuInfo::of(adapter, &adapter.limits(), adapter::equal_before(&found, index));
    let features = features & adapter.features();
    let same = |unused: &OpenedDevice| unused.info == info && unused.device.features() == features;
    if let Some(opened) = device_cache::take(same) {
        return Ok(opened);
    }
    // SAFETY: of the features that wgpu calls experimental, only cooperative matrices are ever asked for; the
    // kernels that use them come from this crate's code generator, in one shape that the adapter lists and with
    // every index in range.
    let experimental_features = unsafe { wgpu::ExperimentalFeatures::enabled() };
    let descriptor = wgpu::DeviceDescriptor {
        label: Some("onetrip"),
        required_features: features,
        experimental_features,
        required_limits: adapter.limits(),
        memory_hints: wgpu::MemoryHints::Performance,
        ..Default::default()
    };
    let (device, queue) = adapter.request_device(&descriptor).await.map_err(|error| {
        DeviceError::Open { adapter: info.name.clone(), reason: error.to_string() }
    })?;
    let limits = plan_limits(&device, adapter, &info);
    let health = health_registry::health(&device, false);
    Ok(OpenedDevice { device: device.into(), queue: queue.into(), info, limits, health })
}

async fn list() -> Vec<GpuInfo> {
    let _long = driver_lock::long();
    let (adapters, found) = enumerate().await;
    let order = adapter::ranked(&found).into_iter();
    let described = order.map(|index| {
        let adapter = &adapters[index];
        GpuInfo::of(adapter, &adapter.limits(), adapter::equal_before(&found, index))
    });
    described.collect()
}

/// The adapters of the host, with their descriptions.
async fn enumerate() -> (Vec<wgpu::Adapter>, Vec<wgpu::AdapterInfo>) {
    // wgpu panics where JavaScript knows no WebGPU.
    if cfg!(target_arch = "wasm32") && !wgpu::util::is_browser_webgpu_supported().await {
        return Default::default();
    }
    let adapters = instance().enumerate_adapters(BACKENDS).await;
    let found = adapters.iter().map(wgpu::Adapter::get_info).collect();
    (adapters, found)
}

/// A device that its user opened on `adapter`.
fn adopt(
    adapter: &wgpu::Adapter,
    device: wgpu::Device,
    queue: wgpu::Queue,
) -> Result<OpenedDevice, DeviceError> {
    let has = device.limits();
    check_limits(&has)?;
    let info = GpuInfo::of(adapter, &has, 0);
    let limits = plan_limits(&device, adapter, &info);
    let health = health_registry::health(&device, true);
    Ok(OpenedDevice { device: device.into(), queue: queue.into(), info, limits, health })
}

/// Checks that no limit is too low for kernels, which need no more than WebGPU promises.
fn check_limits(has: &wgpu::Limits) -> Result<(), DeviceError> {
    let promised = wgpu::Limits::default();
    let storage_buffers = promised.max_storage_buffers_per_shader_stage;
    macro_rules! limits {
        ($($limit:ident: $needed:expr),+ $(,)?) => {
            [$((stringify!($limit), u64::from(has.$limit), u64::from($needed))),+]
        };
    }
    let limits = limits![
        max_bind_groups: 1_u32,
        // The storage buffers and the parameters.
        max_bindings_per_bind_group: storage_buffers + 1,
        max_storage_buffers_per_shader_stage: storage_buffers,
        max_uniform_buffers_per_shader_stage: 1_u32,
        max_uniform_buffer_binding_size: promised.max_uniform_buffer_binding_size,
        max_compute_workgroup_storage_size: promised.max_compute_workgroup_storage_size,
        max_compute_invocations_per_workgroup: promised.max_compute_invocations_per_workgroup,
        max_compute_workgroup_size_x: promised.max_compute_workgroup_size_x,
        max_compute_workgroup_size_y: 1_u32,
        max_compute_workgroup_size_z: 1_u32,
        max_compute_workgroups_per_dimension: promised.max_compute_workgroups_per_dimension,
    ];
    match limits.into_iter().find(|(_, found, needed)| found < needed) {
        None => Ok(()),
        Some((limit, found, needed)) => Err(DeviceError::Lacks { limit, found, needed }),
    }
}

/// The only instance of the process, which is never dropped: a driver that is unloaded with the last instance may hang
/// the threads that called it when they end.
fn instance() -> &'static wgpu::Instance {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: BACKENDS,
            // No dispatch here is indirect, and the validation of indirect ones costs time.
            flags: (wgpu::InstanceFlags::from_build_config()
                - wgpu::InstanceFlags::VALIDATION_INDIRECT_CALL)
                .with_env(),
            ..wgpu::InstanceDescriptor::new_without_display_handle()
        })
    })
}

fn plan_limits(device: &wgpu::Device, adapter: &wgpu::Adapter, info: &GpuInfo) -> Limits {
    let limits = device.limits();
    let subgroups = subgroups(device, &adapter.get_info());
    Limits {
        adapter: info.name.clone(),
        binding_bytes: info.binding_bytes,
        storage_buffers: limits.max_storage_buffers_per_shader_stage as usize,
        groups: limits.max_compute_workgroups_per_dimension,
        workgroup_bytes: limits.max_compute_workgroup_storage_size,
        threads: limits
            .max_compute_invocations_per_workgroup
            .min(limits.max_compute_workgroup_size_x),
        f16: device.features().contains(wgpu::Features::SHADER_F16),
        subgroups,
        units: subgroups.and_then(|subgroups| units(device, adapter, subgroups)),
        int64: device.features().contains(wgpu::Features::SHADER_INT64),
        wide_bool: true,
    }
}

/// Browsers want a directive in the text before subgroup operations; kernels there use none.
fn subgroups(device: &wgpu::Device, adapter: &wgpu::AdapterInfo) -> Option<Subgroups> {
    let (least, most) = (adapter.subgroup_min_size, adapter.subgroup_max_size);
    let usable = device.features().contains(wgpu::Features::SUBGROUP)
        && adapter.backend != wgpu::Backend::BrowserWebGpu
        && least.is_power_of_two()
        && most.is_power_of_two()
        && (4..=most).contains(&least)
        && most <= 128;
    usable.then_some(Subgroups { least, most })
}

/// The largest square units that multiply f16 and add in f32. Kernels count on subgroups of one size.
fn units(
    device: &wgpu::Device,
    adapter: &wgpu::Adapter,
    subgroups: Subgroups,
) -> Option<MatrixUnits> {
    use wgpu::CooperativeScalarType as Of;
    let needed = wgpu::Features::EXPERIMENTAL_COOPERATIVE_MATRIX | wgpu::Features::SHADER_F16;
    if !device.features().contains(needed) || subgroups.least != subgroups.most {
        return None;
    }
    let listed = adapter.cooperative_matrix_properties();
    let fits = |side: &u32| {
        listed.iter().any(|unit| {
            [unit.m_size, unit.n_size, unit.k_size] == [*side; 3]
                && (unit.ab_type, unit.cr_type) == (Of::F16, Of::F32)
        })
    };
    let side = [16, 8].into_iter().find(fits)?;
    Some(MatrixUnits { side, subgroup: subgroups.least })
}
