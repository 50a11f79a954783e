//! The GPU of a device: the one that is open now, and its recovery from a loss.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::Device;
use super::recovery::{DeviceLoss, Listeners, Recovery};
use crate::base::disk_cache::Store;
use crate::base::single_flight::{Begin, SingleFlight};
use crate::base::sync::RwLock;
use crate::error::{DeviceError, Error, Result};
use crate::exec::gpu::{AdapterChoice, Gpu};

/// An adapter, with the device that was opened on it last.
pub(crate) struct GpuSlot {
    current: RwLock<Current>,
    recovery: Recovery,
    /// Opens this adapter and no other.
    choice: AdapterChoice,
    store: Option<Arc<Store>>,
    reopening: SingleFlight,
    pub(super) listeners: Listeners,
    losses: AtomicU64,
}

struct Current {
    gpu: Gpu,
    /// True if its loss was reported.
    is_reported: bool,
}

impl GpuSlot {
    pub fn new(gpu: Gpu, recovery: Recovery, store: Option<Arc<Store>>) -> Self {
        let choice = AdapterChoice::again(gpu.info());
        Self {
            current: RwLock::new(Current { gpu, is_reported: false }),
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
        self.current.read().gpu.clone()
    }

    /// Returns whether runs may use the GPU.
    pub fn is_usable(&self) -> bool {
        let current = self.current.read();
        self.recovery != Recovery::Cpu || !current.is_reported
    }

    pub fn losses(&self) -> u64 {
        self.losses.load(Ordering::Relaxed)
    }

    /// Recovers from a loss. Returns if the lost work may be repeated.
    ///
    /// # Errors
    /// [`DeviceError::NotReopened`], or `error` if the recovery is to fail.
    pub async fn recover(&self, error: Error) -> Result<()> {
        self.report();
        match self.recovery {
            Recovery::Fail => Err(error),
            Recovery::Cpu => Ok(()),
            Recovery::Reopen => self.reopen().await,
        }
    }

    /// Reports a loss, once.
    pub(super) fn report(&self) {
        let mut current = self.current.write();
        let Some(reason) = current.gpu.loss().map(str::to_owned) else { return };
        if std::mem::replace(&mut current.is_reported, true) {
            return;
        }
        drop(current);
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
        let Some(reason) = lost.loss().map(str::to_owned) else { return Ok(()) };
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
        let mut current = self.current.write();
        // Another task may have opened it meanwhile.
        if current.gpu.loss().is_none() {
            return Ok(());
        }
        let lost = std::mem::replace(&mut *current, Current { gpu, is_reported: false });
        drop(current);
        lost.gpu.close();
        Ok(())
    }

    /// Returns whether the device that was opened last is not known to be lost.
    fn is_sound(&self) -> bool {
        self.opened().loss().is_none()
    }
}

impl Device {
    /// The GPU, as long as there is one to use.
    pub(crate) fn opened(&self) -> Option<Gpu> {
        self.gpu_slot().filter(|gpu_slot| gpu_slot.is_usable()).map(GpuSlot::opened)
    }

    pub(super) fn gpu_slot(&self) -> Option<&GpuSlot> {
        self.0.gpu_slot.as_ref()
    }

    /// Returns whether runs under way are repeated after a loss of the GPU.
    pub(crate) fn recovers(&self) -> bool {
        self.gpu_slot().is_some_and(|gpu_slot| gpu_slot.recovery != Recovery::Fail)
    }
}

#[cfg(all(test, feature = "gpu"))]
mod tests {
    use super::*;
    use crate::base::test_device::found;

    #[tokio::test]
    async fn an_adapter_that_is_gone_is_told_with_the_loss() {
        let builder = Device::builder().without_cache().recovery(Recovery::Fail);
        let Some(device) = found(builder.gpu().await) else { return };
        let gpu = device.opened().unwrap();
        let mut gpu_slot = GpuSlot::new(gpu, Recovery::Reopen, None);
        gpu_slot.choice = AdapterChoice::best(Some("no such card".into()), true);
        device.simulate_loss();
        let lost = device.eval(|b| b.full(1, 1.0_f32)).await.unwrap_err();
        for _ in 0..2 {
            let error = gpu_slot.recover(lost.clone()).await.unwrap_err();
            let told = matches!(&error, Error::Device(DeviceError::NotReopened { .. }));
            assert!(told && error.to_string().contains("no such card"), "{error}");
        }
        assert_eq!(gpu_slot.losses(), 1);
    }
}
