//! The GPU of a device: the one that is open now, and its recovery from a loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::loss::{DeviceLoss, Listeners, Recovery};
use crate::base::disk::cache::Store;
use crate::base::single_flight::{Begin, SingleFlight};
use crate::base::sync::RwLock;
use crate::error::{DeviceError, Error, Result};
use crate::exec::gpu::{AdapterChoice, Gpu};

/// An adapter, with the device that was opened on it last.
pub(crate) struct DeviceGpu {
    last: RwLock<LastOpened>,
    recovery: Recovery,
    /// Opens this adapter and no other.
    choice: AdapterChoice,
    store: Option<Arc<Store>>,
    reopening: SingleFlight,
    pub(in crate::device) listeners: Listeners,
    losses: AtomicU64,
}

/// The device that was opened last. The device itself knows whether it is lost.
struct LastOpened {
    gpu: Gpu,
    /// True if its loss was reported to the listeners.
    loss_is_reported: bool,
}

impl LastOpened {
    fn new(gpu: Gpu) -> Self {
        Self { gpu, loss_is_reported: false }
    }
}

impl DeviceGpu {
    pub fn new(gpu: Gpu, recovery: Recovery, store: Option<Arc<Store>>) -> Self {
        let choice = AdapterChoice::again(gpu.info());
        Self {
            last: RwLock::new(LastOpened::new(gpu)),
            recovery,
            choice,
            store,
            reopening: SingleFlight::default(),
            listeners: Listeners::default(),
            losses: AtomicU64::new(0),
        }
    }

    /// The device that was opened last, lost or not.
    pub fn opened(&self) -> Gpu {
        self.last.read().gpu.clone()
    }

    /// Returns whether runs may use the GPU: after a reported loss, the host's cores may take its place.
    pub fn is_usable(&self) -> bool {
        self.recovery != Recovery::Cpu || !self.last.read().loss_is_reported
    }

    /// Returns whether runs under way are repeated after a loss.
    pub fn recovers(&self) -> bool {
        self.recovery != Recovery::Fail
    }

    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Recovers from a loss. Returns if the lost work may be repeated.
    ///
    /// # Errors
    /// [`DeviceError::NotReopened`], or `error` if the recovery is to fail.
    pub async fn recover(&self, error: Error) -> Result<()> {
        self.report_loss();
        match self.recovery {
            Recovery::Fail => Err(error),
            Recovery::Cpu => Ok(()),
            Recovery::Reopen => self.reopen().await,
        }
    }

    /// Reports a loss to the listeners, unless that was done.
    pub(in crate::device) fn report_loss(&self) {
        let mut last = self.last.write();
        let reason = last.gpu.loss_reason().filter(|_| !last.loss_is_reported);
        let Some(reason) = reason.map(str::to_owned) else { return };
        last.loss_is_reported = true;
        drop(last);
        let losses = self.losses.fetch_add(1, Ordering::Relaxed) + 1;
        self.listeners.call(&DeviceLoss { reason, recovery: self.recovery, losses });
    }

    /// Opens the adapter again, unless somebody else does.
    async fn reopen(&self) -> Result<()> {
        let maker = match self.reopening.begin(&(), || self.is_sound().then_some(())).await {
            Begin::Made(()) => return Ok(()),
            Begin::Make(maker) => maker,
        };
        let lost = self.opened();
        let Some(reason) = lost.loss_reason().map(str::to_owned) else { return Ok(()) };
        let not_reopened = |why: String| DeviceError::NotReopened { reason: reason.clone(), why };
        let gpu = match Gpu::open(&self.choice, self.store.clone(), maker).await {
            Ok(gpu) => gpu,
            Err(DeviceError::Ending) => return Err(DeviceError::Ending.into()),
            Err(error) => return Err(not_reopened(error.to_string()).into()),
        };
        if gpu.info() != lost.info() || gpu.limits() != lost.limits() {
            // Possible if the lost device was the caller's own.
            let why = "a new one has other limits or features than the lost one";
            return Err(not_reopened(why.into()).into());
        }
        let mut last = self.last.write();
        // Another task may have opened it meanwhile.
        if last.gpu.loss_reason().is_none() {
            return Ok(());
        }
        let lost = std::mem::replace(&mut *last, LastOpened::new(gpu));
        drop(last);
        lost.gpu.close();
        Ok(())
    }

    /// Returns whether the device that was opened last is not known to be lost.
    fn is_sound(&self) -> bool {
        self.opened().loss_reason().is_none()
    }
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use super::*;
    use crate::base::test_device::found;
    use crate::device::Device;

    #[tokio::test]
    async fn an_adapter_that_is_gone_is_told_with_the_loss() {
        let builder = Device::builder().without_cache().recovery(Recovery::Fail);
        let Some(device) = found(builder.gpu().await) else { return };
        let gpu = device.opened().unwrap();
        let mut device_gpu = DeviceGpu::new(gpu, Recovery::Reopen, None);
        device_gpu.choice = AdapterChoice::best(Some("no such card".into()), true);
        device.simulate_loss();
        let lost = device.eval(|b| b.full(1, 1.0_f32)).await.unwrap_err();
        for _ in 0..2 {
            let error = device_gpu.recover(lost.clone()).await.unwrap_err();
            let told = matches!(&error, Error::Device(DeviceError::NotReopened { .. }));
            assert!(told && error.to_string().contains("no such card"), "{error}");
        }
        assert_eq!(device_gpu.losses(), 1);
    }
}
