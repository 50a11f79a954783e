//! Which adapter to open, and what it offers.

use std::sync::{Arc, OnceLock};

use wgpu::DeviceType;

use crate::cost::{Limits, MatrixUnits, Subgroups};
use crate::error::DeviceError;
use crate::exec::gpu::driver::health::Health;
use crate::exec::gpu::driver::{device_cache, driver_lock, health_registry};

const BACKENDS: wgpu::Backends = wgpu::Backends::VULKAN
    .union(wgpu::Backends::METAL)
    .union(wgpu::Backends::DX12)
    .union(wgpu::Backends::BROWSER_WEBGPU);

/// Which adapter is wanted.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdapterChoice {
    /// A part of its name, in any case, or its PCI bus ID.
    pub name_part: Option<String>,
    /// Whether one that runs on the host's cores will do.
    pub software_too: bool,
    /// All that wgpu says of it, where it must be one that was opened before.
    known: Option<wgpu::AdapterInfo>,
}

impl AdapterChoice {
    /// The best whose name has this part or whose PCI bus ID this is, or of all.
    pub fn best(name_part: Option<String>, software_too: bool) -> Self {
        Self { name_part, software_too, known: None }
    }

    /// The adapter of `info` and no other. Equal cards are told apart by their PCI bus ID, which Vulkan alone says.
    pub fn again(info: &GpuInfo) -> Self {
        Self { name_part: None, software_too: true, known: Some(info.adapter.clone()) }
    }

    fn fits(&self, adapter: &wgpu::AdapterInfo) -> bool {
        let has = |part: &String| {
            adapter.name.to_lowercase().contains(&part.to_lowercase())
                || adapter.device_pci_bus_id.eq_ignore_ascii_case(part)
        };
        self.known.as_ref().is_none_or(|known| known == adapter)
            && self.name_part.as_ref().is_none_or(has)
            && (self.software_too || adapter.device_type != DeviceType::Cpu)
    }
}

/// What is known of an opened adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuInfo {
    /// As wgpu describes it.
    adapter: wgpu::AdapterInfo,
    pub name: String,
    /// `Vulkan`, `Metal`, `Dx12` or `BrowserWebGpu`.
    pub backend: String,
    pub driver: String,
    /// Whether it runs on the host's cores.
    pub software: bool,
    /// Bytes of the largest binding.
    pub binding_bytes: u64,
    /// Bytes of the largest buffer.
    pub buffer_bytes: u64,
    /// What tells the adapter's compiled pipelines from those of others; `None` where the backend keeps none.
    pub cache_key: Option<String>,
}

impl GpuInfo {
    /// Of an adapter whose device has these limits.
    fn of(adapter: &wgpu::Adapter, limits: &wgpu::Limits) -> Self {
        let info = adapter.get_info();
        Self {
            cache_key: wgpu::util::pipeline_cache_key(&info),
            name: info.name.clone(),
            backend: format!("{:?}", info.backend),
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            software: info.device_type == DeviceType::Cpu,
            binding_bytes: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
            buffer_bytes: limits.max_buffer_size,
            adapter: info,
        }
    }
}

/// An opened device.
#[derive(Clone)]
pub(crate) struct Opened {
    pub device: wgpu::Device,
    pub queue: wgpu::Queue,
    pub info: GpuInfo,
    pub limits: Limits,
    /// One for all of its users: what one of them reads, another one may lose.
    pub health: Arc<Health>,
}

/// Opens the best adapter that fits, with all its limits and those features in `features` that it has.
pub(crate) async fn open(
    choice: &AdapterChoice,
    features: wgpu::Features,
) -> Result<Opened, DeviceError> {
    let _turn = driver_lock::long();
    let adapters = enumerate().await;
    let found: Vec<_> = adapters.iter().map(wgpu::Adapter::get_info).collect();
    let index = best(&found, choice).ok_or_else(|| none_fits(&found, choice))?;
    let adapter = &adapters[index];
    let info = GpuInfo::of(adapter, &adapter.limits());
    let features = features & adapter.features();
    let same = |idle: &Opened| idle.info == info && idle.device.features() == features;
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
    let health = health_registry::opened(&device);
    Ok(Opened { device, queue, info, limits, health })
}

/// A device that somebody else opened on `adapter`.
pub(crate) fn adopt(
    adapter: &wgpu::Adapter,
    device: wgpu::Device,
    queue: wgpu::Queue,
) -> Result<Opened, DeviceError> {
    let has = device.limits();
    check_limits(&has)?;
    let info = GpuInfo::of(adapter, &has);
    let limits = plan_limits(&device, adapter, &info);
    let health = health_registry::adopted(&device);
    Ok(Opened { device, queue, info, limits, health })
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
        // Beside the storage buffers, the parameters.
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

async fn enumerate() -> Vec<wgpu::Adapter> {
    instance().enumerate_adapters(BACKENDS).await
}

/// The only instance of the process, never dropped: a driver that is let go of with the last instance may hang the
/// threads that used it when they end.
fn instance() -> &'static wgpu::Instance {
    static INSTANCE: OnceLock<wgpu::Instance> = OnceLock::new();
    INSTANCE.get_or_init(|| {
        wgpu::Instance::new(wgpu::InstanceDescriptor {
            backends: BACKENDS,
            // No dispatch here is indirect, and their validation is dear.
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

/// Browsers want a directive in the text before subgroup operations; kernels there do without.
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

/// Squares of f16 that add up in f32, the largest that there are. Kernels count on subgroups of one size.
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

/// The position of the fastest kind of adapter that fits; the first of equals.
fn best(found: &[wgpu::AdapterInfo], choice: &AdapterChoice) -> Option<usize> {
    let fitting = found.iter().enumerate().filter(|(_, adapter)| choice.fits(adapter));
    fitting.min_by_key(|(_, adapter)| rank(adapter.device_type)).map(|(index, _)| index)
}

fn rank(kind: DeviceType) -> u8 {
    match kind {
        DeviceType::DiscreteGpu => 0,
        DeviceType::IntegratedGpu => 1,
        DeviceType::VirtualGpu => 2,
        DeviceType::Other => 3,
        DeviceType::Cpu => 4,
    }
}

fn none_fits(found: &[wgpu::AdapterInfo], choice: &AdapterChoice) -> DeviceError {
    let wanted = match (&choice.known, &choice.name_part, choice.software_too) {
        (Some(known), ..) => format!("that is {} as it was opened before", known.name),
        (None, Some(part), true) => format!("whose name contains \"{part}\""),
        (None, Some(part), false) => format!("in hardware whose name contains \"{part}\""),
        (None, None, true) => "at all".into(),
        (None, None, false) => "in hardware".into(),
    };
    let describe = |one: &wgpu::AdapterInfo| match &*one.device_pci_bus_id {
        "" => format!("{} ({:?})", one.name, one.device_type),
        bus => format!("{} ({:?}, PCI bus {bus})", one.name, one.device_type),
    };
    let list: Vec<_> = found.iter().map(describe).collect();
    let hint = match (&choice.known, &choice.name_part) {
        _ if found.is_empty() => {
            "Install a Vulkan, Metal or DirectX 12 driver, or use `Device::cpu()`"
        }
        (Some(_), _) => "Open the device anew, or use `Recovery::Cpu`",
        (None, Some(_)) => "Name one of these in `ONETRIP_ADAPTER`, or use `Device::cpu()`",
        (None, None) => {
            "`Device::gpu()` and `ONETRIP_BACKEND=gpu` take any of these; `Device::cpu()` needs none"
        }
    };
    let found = if list.is_empty() { "none".into() } else { list.join(", ") };
    DeviceError::NoAdapter { wanted, found, hint }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn adapter(name: &str, kind: DeviceType, bus: &str) -> wgpu::AdapterInfo {
        let (name, device_pci_bus_id) = (name.into(), bus.into());
        let unnamed = wgpu::AdapterInfo::new(kind, wgpu::Backend::Vulkan);
        wgpu::AdapterInfo { name, device_pci_bus_id, ..unnamed }
    }

    fn host() -> Vec<wgpu::AdapterInfo> {
        vec![
            adapter("llvmpipe (LLVM)", DeviceType::Cpu, ""),
            adapter("Onboard 5", DeviceType::IntegratedGpu, "0000:00:02.0"),
            adapter("Big Card XL", DeviceType::DiscreteGpu, "0000:01:00.0"),
            adapter("Big Card", DeviceType::DiscreteGpu, "0000:02:00.0"),
            adapter("Big Card", DeviceType::DiscreteGpu, "0000:03:00.0"),
            adapter("Passthrough", DeviceType::VirtualGpu, ""),
        ]
    }

    fn choose(part: Option<&str>, software_too: bool) -> Option<usize> {
        best(&host(), &AdapterChoice::best(part.map(Into::into), software_too))
    }

    #[test]
    fn the_fastest_kind_wins_unless_another_is_named() {
        assert_eq!(choose(None, true), Some(2));
        assert_eq!(choose(Some("ONBOARD"), true), Some(1));
        assert_eq!(choose(Some("pass"), false), Some(5));
        assert_eq!(choose(Some("llvm"), true), Some(0));
    }

    #[test]
    fn equal_cards_are_told_apart_by_their_bus() {
        assert_eq!(choose(Some("big card"), true), Some(2));
        assert_eq!(choose(Some("0000:02:00.0"), true), Some(3));
        assert_eq!(choose(Some("0000:03:00.0"), true), Some(4));
        assert_eq!(choose(Some("0000:03"), true), None);
    }

    #[test]
    fn software_is_taken_only_where_it_will_do() {
        assert_eq!(choose(Some("llvm"), false), None);
        let only = &host()[..1];
        assert_eq!(best(only, &AdapterChoice::default()), None);
        assert_eq!(best(only, &AdapterChoice::best(None, true)), Some(0));
    }

    #[test]
    fn an_adapter_is_opened_again_and_no_other_instead() {
        let again = |known| AdapterChoice { software_too: true, known, ..Default::default() };
        for (at, known) in host().into_iter().enumerate() {
            assert_eq!(best(&host(), &again(Some(known))), Some(at));
        }
        let gone = adapter("Big Card", DeviceType::DiscreteGpu, "0000:04:00.0");
        let choice = again(Some(gone));
        assert_eq!(best(&host(), &choice), None);
        assert!(none_fits(&host(), &choice).to_string().contains("Big Card as it was opened"));
    }

    #[test]
    fn the_error_lists_what_was_found() {
        let choice = AdapterChoice::best(Some("rtx".into()), true);
        let message = none_fits(&host(), &choice).to_string();
        assert!(
            message.contains("\"rtx\"")
                && message.contains("Onboard 5 (IntegratedGpu, PCI bus 0000:00:02.0)")
        );
        assert!(none_fits(&[], &choice).to_string().contains("found: none"));
    }
}
