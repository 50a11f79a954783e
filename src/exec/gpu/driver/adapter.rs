//! The choice of an adapter among those of the host.

use wgpu::DeviceType;

use crate::error::DeviceError;

/// The adapter that a user wants.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AdapterChoice {
    /// A part of its name, in any case, or its PCI bus ID.
    pub name_part: Option<String>,
    /// True if an adapter that runs on the host's cores is good enough.
    pub software_too: bool,
    /// The adapter that was seen before, if it must be that one.
    known: Option<Known>,
}

/// An adapter that was seen.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Known {
    /// The description by wgpu.
    adapter: wgpu::AdapterInfo,
    /// Adapters before it with an equal description. Equal cards have their PCI bus IDs in it, but only Vulkan gives
    /// them.
    equal_before: usize,
}

impl AdapterChoice {
    /// The best adapter whose name has this part or whose PCI bus ID this is, or the best of all.
    pub fn best(name_part: Option<String>, software_too: bool) -> Self {
        Self { name_part, software_too, known: None }
    }

    /// The adapter of `info` and no other.
    pub fn again(info: &GpuInfo) -> Self {
        Self { name_part: None, software_too: true, known: Some(info.known.clone()) }
    }

    fn fits(&self, adapter: &wgpu::AdapterInfo) -> bool {
        let has = |part: &String| {
            adapter.name.to_lowercase().contains(&part.to_lowercase())
                || adapter.device_pci_bus_id.eq_ignore_ascii_case(part)
        };
        self.known.as_ref().is_none_or(|known| known.adapter == *adapter)
            && self.name_part.as_ref().is_none_or(has)
            && (self.software_too || adapter.device_type != DeviceType::Cpu)
    }
}

/// The description of an adapter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct GpuInfo {
    known: Known,
    pub name: String,
    /// `Vulkan`, `Metal`, `Dx12` or `BrowserWebGpu`.
    pub backend: String,
    pub driver: String,
    /// True if it runs on the host's cores.
    pub software: bool,
    pub binding_bytes: u64,
    pub buffer_bytes: u64,
    /// The key of the adapter's compiled pipelines; `None` if the backend keeps none.
    pub cache_key: Option<String>,
}

impl GpuInfo {
    /// The description of an adapter whose device has these limits, and before which so many have an equal one.
    pub(super) fn of(adapter: &wgpu::Adapter, limits: &wgpu::Limits, equal_before: usize) -> Self {
        let info = adapter.get_info();
        Self {
            cache_key: wgpu::util::pipeline_cache_key(&info),
            name: name_of(&info).to_owned(),
            backend: format!("{:?}", info.backend),
            driver: format!("{} {}", info.driver, info.driver_info).trim().to_owned(),
            software: info.device_type == DeviceType::Cpu,
            binding_bytes: limits.max_storage_buffer_binding_size.min(limits.max_buffer_size),
            buffer_bytes: limits.max_buffer_size,
            known: Known { adapter: info, equal_before },
        }
    }

    /// The PCI bus ID, if the backend gives it.
    pub fn pci_bus_id(&self) -> Option<&str> {
        Some(&*self.known.adapter.device_pci_bus_id).filter(|bus| !bus.is_empty())
    }
}

/// The position of the fastest kind of adapter that fits; the first of equals.
pub(super) fn best(found: &[wgpu::AdapterInfo], choice: &AdapterChoice) -> Option<usize> {
    let mut fitting = (0..found.len()).filter(|&index| choice.fits(&found[index]));
    match &choice.known {
        Some(known) => fitting.nth(known.equal_before),
        None => fitting.min_by_key(|&index| rank(found[index].device_type)),
    }
}

/// The positions of all adapters, the fastest kind first.
pub(super) fn ranked(found: &[wgpu::AdapterInfo]) -> Vec<usize> {
    let mut order: Vec<usize> = (0..found.len()).collect();
    order.sort_by_key(|&index| rank(found[index].device_type));
    order
}

/// The number of adapters before position `index` with an equal description.
pub(super) fn equal_before(found: &[wgpu::AdapterInfo], index: usize) -> usize {
    found[..index].iter().filter(|&other| *other == found[index]).count()
}

/// The name of an adapter. Some browsers tell none.
fn name_of(adapter: &wgpu::AdapterInfo) -> &str {
    if adapter.name.is_empty() { "WebGPU adapter" } else { &adapter.name }
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

pub(super) fn none_fits(found: &[wgpu::AdapterInfo], choice: &AdapterChoice) -> DeviceError {
    let wanted = match (&choice.known, &choice.name_part, choice.software_too) {
        (Some(known), ..) => format!("that is {} as it was before", name_of(&known.adapter)),
        (None, Some(part), true) => format!("whose name contains \"{part}\""),
        (None, Some(part), false) => format!("in hardware whose name contains \"{part}\""),
        (None, None, true) => "at all".into(),
        (None, None, false) => "in hardware".into(),
    };
    let describe = |one: &wgpu::AdapterInfo| match &*one.device_pci_bus_id {
        "" => format!("{} ({:?})", name_of(one), one.device_type),
        bus => format!("{} ({:?}, PCI bus {bus})", name_of(one), one.device_type),
    };
    let list: Vec<_> = found.iter().map(describe).collect();
    let hint = match (&choice.known, &choice.name_part) {
        _ if found.is_empty() && cfg!(target_arch = "wasm32") => {
            "Use a browser with WebGPU switched on, in a page that comes by https, or `Device::cpu()`"
        }
        _ if found.is_empty() => {
            "Install a Vulkan, Metal or DirectX 12 driver, or use `Device::cpu()`"
        }
        (Some(_), _) => "Choose one of `Device::gpus()` anew, or use `Recovery::Cpu`",
        (None, Some(_)) => {
            "Name one of these by `adapter` or `ONETRIP_ADAPTER`, or use `Device::cpu()`"
        }
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
        let again = |adapter, equal_before| {
            let known = Some(Known { adapter, equal_before });
            AdapterChoice { software_too: true, known, ..Default::default() }
        };
        // Without bus IDs, the order alone tells equal cards apart.
        let equal = || adapter("Card", DeviceType::DiscreteGpu, "");
        let host = [host(), vec![equal(), equal()]].concat();
        for (at, known) in host.iter().enumerate() {
            assert_eq!(best(&host, &again(known.clone(), equal_before(&host, at))), Some(at));
        }
        let gone = adapter("Big Card", DeviceType::DiscreteGpu, "0000:04:00.0");
        for choice in [again(gone, 0), again(equal(), 2)] {
            assert_eq!(best(&host, &choice), None);
        }
        let message = none_fits(&host, &again(equal(), 2)).to_string();
        assert!(message.contains("Card as it was before; found: llvmpipe"), "{message}");
    }

    #[test]
    fn the_best_of_all_is_listed_first() {
        assert_eq!(ranked(&host()), [2, 3, 4, 1, 5, 0]);
        assert_eq!(ranked(&[]), [0; 0]);
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
        let message = none_fits(&[adapter("", DeviceType::Cpu, "")], &choice).to_string();
        assert!(message.contains("found: WebGPU adapter (Cpu)"), "{message}");
    }
}
