//! Measures a device: on request, or in the background after the first run that either side could have taken.

use std::sync::Arc;

use super::parts::busy_tracker::{Busy, BusyTracker};
use super::parts::device_gpu::DeviceGpu;
use super::{Device, DeviceInner};
use crate::base::future::BoxFuture;
use crate::base::process::caught;
use crate::base::process::is_forked_child;
use crate::calibrate::{AtOnce, Progress, Subject, measure};
use crate::cost::DeviceProfile;
use crate::error::{DeviceError, Result, RunError};
use crate::exec::threads::off_thread;

/// Measuring.
impl Device {
    /// Measures the speed of both sides, in under half a second on a fast machine, besides the compilation of kernels.
    /// Later plans use the new figures, which are kept on disk unless the cache is off.
    ///
    /// Other runs on the device make the figures worse, and so does any other load of the machine: the measurement cannot
    /// tell a busy machine from a slow one, and the figures hold until they are measured again. Call it while the machine
    /// is at rest, and look at the profile that it returns.
    ///
    /// A rate that no hardware reaches is measured again, and is not used if it stays so. A figure that could not be
    /// measured keeps its typical value, and `tracing` gets a warning.
    ///
    /// A device that chooses between its sides measures itself in the background after its first run, unless the figures
    /// were on disk already. Its probes then wait for pauses between runs, but never for long.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::auto().await?;
    /// let profile = device.calibrate().await?;
    /// println!("{} GB/s in kernels of the GPU", profile.gpu.memory.last() / 1e9);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// [`DeviceError`] if the device fails.
    pub fn calibrate(&self) -> BoxFuture<'_, Result<DeviceProfile>> {
        self.calibrated(Box::new(|_| {}))
    }

    /// As [`calibrate`](Self::calibrate). Calls `progress` before each step.
    ///
    /// ```no_run
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::auto().await?;
    /// device.calibrate_with(|step| eprintln!("{step:?}")).await?;
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`calibrate`](Self::calibrate); [`RunError::Panicked`] if `progress` does, and then nothing has changed.
    pub fn calibrate_with<'a>(
        &'a self,
        progress: impl FnMut(Progress) + Send + 'a,
    ) -> BoxFuture<'a, Result<DeviceProfile>> {
        self.calibrated(Box::new(progress))
    }

    fn calibrated<'a>(
        &'a self,
        mut progress: Box<dyn FnMut(Progress) + Send + 'a>,
    ) -> BoxFuture<'a, Result<DeviceProfile>> {
        Box::pin(async move {
            if is_forked_child() {
                return Err(DeviceError::Forked.into());
            }
            self.0.background.withdraw();
            let _busy = Busy::new(&self.0.busy_tracker);
            let mut panicked = None;
            let mut report = |step| {
                if panicked.is_none() {
                    panicked = caught(|| progress(step)).err();
                }
            };
            let measured = measure(&self.0.subject(), &AtOnce, &mut report).await?;
            if let Some(message) = panicked {
                return Err(RunError::Panicked(message).into());
            }
            let profile = measured.ok_or_else(|| DeviceError::Profile {
                what: "the time of a probe, as this platform's clock tells it".into(),
            })?;
            let (profiles, adopted) = (Arc::clone(&self.0.profiles), profile.clone());
            off_thread(move || profiles.adopt(adopted)).await;
            Ok(profile)
        })
    }

    /// Counts a run as under way until the result is dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        Busy::new(&self.0.busy_tracker)
    }

    /// Starts the background measurement, unless the device was measured. Called after a run whose side was free, or
    /// was fixed only by the location of a resident's data.
    pub(crate) fn measure_some_time(&self) {
        self.0.background.start(|| self.0.in_background());
    }
}

impl DeviceInner {
    fn subject(&self) -> Subject {
        let targets = self.profiles.store.targets();
        Subject {
            cpu: targets.cpu.clone(),
            pool: Arc::clone(&self.pool),
            gpu: self.device_gpu.as_ref().map(DeviceGpu::opened).zip(targets.gpu.clone()),
        }
    }

    /// The work of the thread, which holds all parts of the device but not the device itself.
    fn in_background(&self) -> impl FnOnce() + Send + 'static + use<> {
        let subject = self.subject();
        let busy_tracker = Arc::clone(&self.busy_tracker);
        let profiles = Arc::clone(&self.profiles);
        move || {
            if !busy_tracker.wait_for_pause() {
                return;
            }
            let pace: &BusyTracker = &busy_tracker;
            let measured = pollster::block_on(measure(&subject, pace, &mut |_| {}));
            // The next run reports a device that fails.
            if let Ok(Some(profile)) = measured {
                profiles.adopt(profile);
            }
        }
    }
}
