//! The opening of devices, by choices of the caller and of the environment.

use super::Device;
use super::parts::adapter::{AdapterKey, GpuAdapter};
use super::parts::builder::DeviceBuilder;
use super::parts::info::OpenedSides;
use crate::base::future::BoxFuture;
use crate::base::process::is_forked_child;
use crate::cost::{Backend, Placement};
use crate::error::{DeviceError, Result};
use crate::exec::gpu::{AdapterChoice, Gpu};

/// Opening.
impl Device {
    /// The best GPU together with the host's cores: each graph runs where it is predicted to be done
    /// first. Without a hardware GPU that can be opened, the cores alone;
    /// [`DeviceInfo::fallback`](crate::DeviceInfo::fallback) then says why.
    ///
    /// `ONETRIP_BACKEND=cpu` or `=gpu` overrides the choice; with `gpu`, a software adapter will
    /// do. `ONETRIP_ADAPTER` picks the GPU whose name contains it, ignoring case, or whose PCI bus ID it is.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::auto().await?;
    /// if let Some(reason) = &device.info().fallback {
    ///     eprintln!("on the cores alone: {reason}");
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DeviceError`](crate::DeviceError) if a variable is not understood, or asks for a GPU that is not there.
    pub fn auto() -> BoxFuture<'static, Result<Self>> {
        Self::builder().auto()
    }

    /// The host's cores. A profile that was [measured](Self::calibrate) of them before is found in the
    /// [cache](DeviceBuilder#the-cache), as for every device.
    #[must_use]
    pub fn cpu() -> Self {
        Self::on_cpu(None, Self::builder())
    }

    /// A GPU for everything: the best there is, a software adapter only if there is no hardware.
    /// `ONETRIP_ADAPTER` picks the one whose name contains it, ignoring case, or whose PCI bus ID it is.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::gpu().await?;
    /// println!("{}, {}", device.info().name, device.info().driver);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`NoAdapter`](crate::DeviceError::NoAdapter) if there is none, with those that were found;
    /// [`Open`](crate::DeviceError::Open) if the adapter gives no device;
    /// [`NoGpuSupport`](crate::DeviceError::NoGpuSupport) in a build without the feature `gpu`.
    pub fn gpu() -> BoxFuture<'static, Result<Self>> {
        Self::builder().gpu()
    }

    /// The GPUs of this host, software adapters too, the fastest kind first: the first is the one that
    /// [`gpu`](Self::gpu) opens if the environment names none. [`DeviceBuilder::adapter`] chooses one.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// for gpu in onetrip::Device::gpus().await? {
    ///     println!("{gpu}"); // Its name, API, driver and PCI bus ID.
    /// }
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`NoGpuSupport`](crate::DeviceError::NoGpuSupport) in a build without the feature `gpu`;
    /// [`Forked`](crate::DeviceError::Forked) in a forked child.
    pub fn gpus() -> BoxFuture<'static, Result<Vec<GpuAdapter>>> {
        Box::pin(async {
            check_support()?;
            Ok(Gpu::list().await?.into_iter().map(GpuAdapter).collect())
        })
    }

    /// Opens a device with an adapter, a profile, a placement, a memory budget, a recovery from lost GPUs or a cache
    /// folder of the caller's choice.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::builder().without_cache().auto().await?;
    /// # let _ = device;
    /// # Ok(())
    /// # }
    /// ```
    pub fn builder() -> DeviceBuilder {
        DeviceBuilder::default()
    }
}

/// Opening.
impl DeviceBuilder {
    /// The host's cores, as [`Device::cpu`].
    ///
    /// # Errors
    /// [`DeviceError::Profile`]; [`DeviceError::OtherSide`].
    pub fn cpu(self) -> Result<Device> {
        Ok(Device::on_cpu(None, self.checked(OpenedSides::Cpu)?))
    }

    /// Opens the device that [`Device::auto`] describes.
    ///
    /// # Errors
    /// As [`Device::auto`]; [`DeviceError::Profile`]; [`DeviceError::OtherSide`]. With [`Placement::Gpu`], as
    /// [`gpu`](Self::gpu).
    pub fn auto(self) -> BoxFuture<'static, Result<Device>> {
        Box::pin(async {
            match backend_from_environment()? {
                Some(Backend::Cpu) => self.cpu(),
                Some(Backend::Gpu) => self.gpu().await,
                None => self.best().await,
            }
        })
    }

    /// Opens the device that [`Device::gpu`] describes.
    ///
    /// # Errors
    /// As [`Device::gpu`]; [`DeviceError::Profile`]; [`DeviceError::OtherSide`].
    pub fn gpu(self) -> BoxFuture<'static, Result<Device>> {
        Box::pin(self.any_gpu(OpenedSides::Gpu))
    }

    /// Both sides, a software adapter too.
    #[cfg(all(test, feature = "gpu"))]
    pub(crate) async fn both(self) -> Result<Device> {
        self.any_gpu(OpenedSides::Both).await
    }

    /// A GPU, a software adapter too.
    async fn any_gpu(self, sides: OpenedSides) -> Result<Device> {
        check_support()?;
        let choice = self.named_adapter();
        let choice = choice.unwrap_or_else(|| AdapterChoice::best(None, true));
        let start = self.checked(sides)?;
        Ok(Device::with_gpu(Gpu::open(&choice, start.store(), ()).await?, sides, start))
    }

    async fn best(self) -> Result<Device> {
        if !cfg!(feature = "gpu") && self.placement != Placement::Gpu {
            return Ok(Device::on_cpu(None, self.checked(OpenedSides::Both)?));
        }
        let named = self.named_adapter();
        let start = self.checked(OpenedSides::Both)?;
        check_support()?;
        let falls_back = named.is_none() && start.placement != Placement::Gpu;
        let choice = named.unwrap_or_else(|| AdapterChoice::best(None, false));
        match Gpu::open(&choice, start.store(), ()).await {
            Ok(gpu) => Ok(Device::with_gpu(gpu, OpenedSides::Both, start)),
            Err(error) if !falls_back => Err(error.into()),
            Err(error) => Ok(Device::on_cpu(Some(error.to_string()), start)),
        }
    }
}

impl DeviceBuilder {
    /// The adapter that the caller or the environment names. A user who names one means it, even if it is a software one.
    fn named_adapter(&self) -> Option<AdapterChoice> {
        let given = self.adapter.as_ref().map(AdapterKey::choice);
        given.or_else(|| Some(AdapterChoice::best(Some(adapter_from_environment()?), true)))
    }
}

/// The side that `ONETRIP_BACKEND` asks for; `None` where it leaves that open.
fn backend_from_environment() -> Result<Option<Backend>, DeviceError> {
    let variable = "ONETRIP_BACKEND";
    let value = match std::env::var(variable) {
        Ok(value) => value,
        Err(std::env::VarError::NotPresent) => return Ok(None),
        Err(std::env::VarError::NotUnicode(value)) => value.to_string_lossy().into_owned(),
    };
    match value.to_lowercase().as_str() {
        "" | "auto" => Ok(None),
        "cpu" => Ok(Some(Backend::Cpu)),
        "gpu" => Ok(Some(Backend::Gpu)),
        _ => Err(DeviceError::Environment { variable, value, expected: "auto, cpu or gpu" }),
    }
}

/// Fails in a build without the feature `gpu`, and in a forked child, where no driver works.
fn check_support() -> Result<(), DeviceError> {
    if !cfg!(feature = "gpu") {
        return Err(DeviceError::NoGpuSupport);
    }
    if is_forked_child() { Err(DeviceError::Forked) } else { Ok(()) }
}

fn adapter_from_environment() -> Option<String> {
    let name = std::env::var_os("ONETRIP_ADAPTER").filter(|name| !name.is_empty());
    name.map(|name| name.to_string_lossy().into_owned())
}
