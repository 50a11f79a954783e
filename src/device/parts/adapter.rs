//! The adapters of a host, of which a device opens one.

use std::fmt;

use crate::exec::gpu::{AdapterChoice, GpuInfo};

/// A GPU of this host, or a software adapter, as [`Device::gpus`](crate::Device::gpus) lists it.
///
/// ```no_run
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> onetrip::Result<()> {
/// for gpu in onetrip::Device::gpus().await? {
///     println!("{}: {}, {}, {:?}", gpu.name(), gpu.api(), gpu.driver(), gpu.pci_bus_id());
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GpuAdapter(pub(in crate::device) GpuInfo);

impl GpuAdapter {
    /// The adapter's name, as the driver gives it. Equal cards have equal names.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.0.name
    }

    /// The graphics API: `Vulkan`, `Metal`, `Dx12` or `BrowserWebGpu`.
    #[must_use]
    pub fn api(&self) -> &str {
        &self.0.backend
    }

    /// The driver and its version, where there is one.
    #[must_use]
    pub fn driver(&self) -> &str {
        &self.0.driver
    }

    /// True if the adapter is emulated on the host's cores.
    #[must_use]
    pub fn is_software(&self) -> bool {
        self.0.software
    }

    /// The PCI bus ID of a card, such as `0000:01:00.0`. Only Vulkan gives it.
    #[must_use]
    pub fn pci_bus_id(&self) -> Option<&str> {
        self.0.pci_bus_id()
    }
}

impl fmt::Display for GpuAdapter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} ({}", self.name(), self.api())?;
        for part in [self.driver(), self.pci_bus_id().unwrap_or_default()] {
            if !part.is_empty() {
                write!(f, ", {part}")?;
            }
        }
        f.write_str(if self.is_software() { ", software)" } else { ")" })
    }
}

/// The adapter that a device is to open: one that was [listed](crate::Device::gpus), a part of a name, or a PCI bus ID.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AdapterKey(KeyKind);

#[derive(Clone, Debug, PartialEq, Eq)]
enum KeyKind {
    Listed(Box<GpuAdapter>),
    Named(String),
}

impl AdapterKey {
    pub(in crate::device) fn choice(&self) -> AdapterChoice {
        match &self.0 {
            KeyKind::Listed(adapter) => AdapterChoice::again(&adapter.0),
            KeyKind::Named(name) => AdapterChoice::best(Some(name.clone()), true),
        }
    }
}

impl From<GpuAdapter> for AdapterKey {
    fn from(listed: GpuAdapter) -> Self {
        Self(KeyKind::Listed(Box::new(listed)))
    }
}

impl From<&GpuAdapter> for AdapterKey {
    fn from(listed: &GpuAdapter) -> Self {
        listed.clone().into()
    }
}

impl From<String> for AdapterKey {
    fn from(name: String) -> Self {
        Self(KeyKind::Named(name))
    }
}

impl From<&str> for AdapterKey {
    fn from(name: &str) -> Self {
        name.to_owned().into()
    }
}
