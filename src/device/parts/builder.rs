//! The options of a device, as its opener gives them.

use std::path::PathBuf;
use std::sync::Arc;

use super::adapter::AdapterKey;
use super::info::OpenedSides;
use super::loss::Recovery;
use crate::base::disk::cache::{Store, user_folder};
use crate::cost::{Backend, DeviceProfile, Placement};
use crate::error::{DeviceError, Result};

/// The options of a device, from [`Device::builder`](crate::Device::builder).
///
/// # The cache
///
/// A driver compiles each kernel once for each process, in some milliseconds. If the backend hands out compiled kernels
/// (Vulkan), they are kept on disk, and the next process finds them there. Files are keyed by adapter, driver and
/// version of this crate, checked before they are used, written by a thread of their own, and take at most 128 MiB.
/// They may be deleted at any time.
///
/// They lie in the folder `onetrip` in the user's cache folder (`$XDG_CACHE_HOME` or `~/.cache`, `~/Library/Caches`,
/// `%LOCALAPPDATA%`), unless [`cache_folder`](Self::cache_folder) or [`without_cache`](Self::without_cache) says
/// otherwise; if neither does, `ONETRIP_CACHE` may name a folder or say `off`. Name only folders that nobody but the
/// user can write to: their files are handed to the driver. A folder that cannot be made, read or written keeps nothing, and
/// is no error.
///
/// The [measured](crate::Device::calibrate) profile of a device is kept there too. Without a cache nothing is measured unless
/// asked for.
///
/// # Examples
///
/// ```
/// use onetrip::{Device, Placement};
///
/// let folder = std::env::temp_dir().join("onetrip-of-my-service");
/// let device = Device::builder()
///     .cache_folder(folder)
///     .placement(Placement::Cpu) // where batches do not say otherwise
///     .without_learning() // no trials of both sides
///     .cpu()?;
/// assert!(!device.is_gpu());
/// # Ok::<_, onetrip::Error>(())
/// ```
#[derive(Clone, Debug, Default)]
#[must_use = "a builder opens nothing until `auto`, `gpu`, `cpu` or `wgpu` is called"]
pub struct DeviceBuilder {
    cache: Cache,
    pub(in crate::device) adapter: Option<AdapterKey>,
    pub(in crate::device) profile: Option<DeviceProfile>,
    pub(in crate::device) placement: Placement,
    pub(in crate::device) memory_budget: Option<u64>,
    pub(in crate::device) learns_nothing: bool,
    pub(in crate::device) recovery: Recovery,
}

/// The place of compiled kernels and profiles.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
enum Cache {
    /// The place that the environment names, else the user's folder.
    #[default]
    Usual,
    Off,
    Folder(PathBuf),
}

/// Options.
impl DeviceBuilder {
    /// Keeps compiled kernels and profiles in `folder`, which is made if need be.
    pub fn cache_folder(self, folder: impl Into<PathBuf>) -> Self {
        Self { cache: Cache::Folder(folder.into()), ..self }
    }

    /// Opens this adapter and no other: one that [`Device::gpus`](crate::Device::gpus) listed, or the best one whose name
    /// contains the text, ignoring case, or whose PCI bus ID it is. A software adapter will do. `ONETRIP_ADAPTER` is not
    /// read then.
    ///
    /// Opening fails with [`DeviceError::NoAdapter`], which lists the adapters that are there, if none is meant. Then
    /// [`auto`](Self::auto) does not fall back to the cores: match the error, and take [`cpu`](Self::cpu), which opens
    /// no adapter.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// use onetrip::Device;
    ///
    /// // A device for each card of the host.
    /// let mut devices = Vec::new();
    /// for gpu in Device::gpus().await?.iter().filter(|gpu| !gpu.is_software()) {
    ///     devices.push(Device::builder().adapter(gpu).auto().await?);
    /// }
    /// let named = Device::builder().adapter("0000:01:00.0").auto().await?;
    /// # let _ = named;
    /// # Ok(())
    /// # }
    /// ```
    pub fn adapter(self, adapter: impl Into<AdapterKey>) -> Self {
        Self { adapter: Some(adapter.into()), ..self }
    }

    /// Keeps nothing on disk.
    pub fn without_cache(self) -> Self {
        Self { cache: Cache::Off, ..self }
    }

    /// Uses `profile`, and measures nothing unless [`Device::calibrate`](crate::Device::calibrate) is called.
    ///
    /// Opening fails with [`DeviceError::Profile`] if the profile holds a number that is no time or rate.
    pub fn with_profile(self, profile: DeviceProfile) -> Self {
        Self { profile: Some(profile), ..self }
    }

    /// Tries no graph on both sides: each graph runs where it is predicted to be done first.
    ///
    /// Without this call, a graph whose sides are predicted to take about as long is tried on both, and stays where it was
    /// faster, as [`Placement::Auto`] describes. Trials begin once the profile was measured or given by hand. The results
    /// of the first runs may differ from later ones by as much as the sides differ: within tolerances.
    ///
    /// Runs that compile kernels, allocate memory or run beside others do not count. Trials are part of the profile
    /// once they have begun, are kept on disk with it, and are [forgotten](crate::Device::forget_learned) on demand.
    /// The trials of a profile that is [given](Self::with_profile) still hold.
    pub fn without_learning(self) -> Self {
        Self { learns_nothing: true, ..self }
    }

    /// The placement of batches unless they [say otherwise](crate::GpuCommandBatch::set_placement).
    ///
    /// Opening fails with [`DeviceError::OtherSide`] where that is a side that the device would not use:
    /// [`Placement::Gpu`] for [`cpu`](Self::cpu), [`Placement::Cpu`] for [`gpu`](Self::gpu). With [`Placement::Gpu`],
    /// [`auto`](Self::auto) does not fall back to the cores, and says why there is no GPU.
    pub fn placement(self, placement: Placement) -> Self {
        Self { placement, ..self }
    }

    /// Limits the bytes that concurrent runs hold: their intermediates, the values that they keep, and on a GPU the
    /// memory that the host copies from and to. Runs that would exceed it wait, in the order in which they came; a run
    /// that could never fit is [`RunError::OverBudget`](crate::RunError::OverBudget), for a program when it is
    /// compiled. Residents, and results of finished runs, do not count. Without a budget no run waits for another.
    /// A graph goes to the side on which it fits the budget, unless a side is named. Opening fails with
    /// [`DeviceError::NoBudget`] where it is 0.
    /// [`Explanation::budget_bytes`](crate::Explanation::budget_bytes) says what one run takes.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::builder().memory_budget(1 << 20).cpu()?;
    /// let too_large = device.eval(|b| b.arange(0.0_f32, 1e6, 1.0)).await;
    /// assert!(matches!(too_large, Err(onetrip::Error::Run(onetrip::RunError::OverBudget { .. }))));
    /// # Ok(())
    /// # }
    /// ```
    pub fn memory_budget(self, bytes: u64) -> Self {
        Self { memory_budget: Some(bytes), ..self }
    }

    /// The recovery of runs from a lost GPU.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// use onetrip::{Device, Recovery};
    ///
    /// let device = Device::builder().recovery(Recovery::Reopen).auto().await?;
    /// device.on_lost(|loss| eprintln!("{loss}"));
    /// # device.simulate_loss();
    /// # assert_eq!(device.eval(|b| b.full(2, 1.0_f32)).await?, [1.0; 2]);
    /// # Ok(())
    /// # }
    /// ```
    pub fn recovery(self, recovery: Recovery) -> Self {
        Self { recovery, ..self }
    }

    /// Fails unless the options suit a device that is to use `sides`.
    pub(in crate::device) fn checked(self, sides: OpenedSides) -> Result<Self> {
        if let Some(profile) = &self.profile {
            profile.check()?;
        }
        if self.memory_budget == Some(0) {
            return Err(DeviceError::NoBudget.into());
        }
        let other = match (sides, self.placement) {
            (OpenedSides::Cpu, Placement::Gpu) => Some([Backend::Cpu, Backend::Gpu]),
            (OpenedSides::Gpu, Placement::Cpu) => Some([Backend::Gpu, Backend::Cpu]),
            _ => None,
        };
        match other {
            Some([opened, placed]) => Err(DeviceError::OtherSide { opened, placed }.into()),
            None => Ok(self),
        }
    }

    pub(in crate::device) fn store(&self) -> Option<Arc<Store>> {
        self.cache.store()
    }
}

impl Cache {
    fn store(&self) -> Option<Arc<Store>> {
        let folder = match self {
            Self::Usual => match Self::from_environment() {
                Self::Usual => user_folder(),
                cache => return cache.store(),
            },
            Self::Off => None,
            Self::Folder(folder) => Some(folder.clone()),
        };
        Some(Store::new(folder?).into())
    }

    fn from_environment() -> Self {
        match std::env::var_os("ONETRIP_CACHE") {
            Some(off) if off.eq_ignore_ascii_case("off") => Self::Off,
            Some(folder) if !folder.is_empty() => Self::Folder(folder.into()),
            _ => Self::Usual,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_the_caller_says_of_the_cache_goes_first() {
        assert!(DeviceBuilder::default().without_cache().cache.store().is_none());
        let named = DeviceBuilder::default().without_cache().cache_folder("here").cache.store();
        assert!(format!("{named:?}").contains("\"here\""), "{named:?}");
    }
}
