//! When a device is measured: asked for, or in the background after the first run that could have gone either way.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::{self, JoinHandle};

#[cfg(feature = "gpu")]
use super::Card;
use super::{Activity, Busy, Device, Inner};
use crate::base::future::BoxFuture;
use crate::base::panic::caught;
use crate::base::process::is_forked_child;
use crate::base::sync::Mutex;
use crate::calibrate::{AtOnce, Progress, Subject, measure};
use crate::cost::DeviceProfile;
use crate::error::{DeviceError, Result, RunError};
#[cfg(feature = "serde")]
use crate::exec::threads::off_thread;

/// The thread that measures.
pub(super) struct Background {
    /// Whether it is still to be started.
    wanted: AtomicBool,
    thread: Mutex<Option<JoinHandle<()>>>,
    activity: Arc<Activity>,
}

impl Background {
    pub fn new(wanted: bool, activity: Arc<Activity>) -> Self {
        Self { wanted: AtomicBool::new(wanted), thread: Mutex::default(), activity }
    }
}

impl Device {
    /// Measures how fast both sides are, in under half a second on a fast machine, reckons with that from now on, and
    /// keeps it on disk unless the cache is off. Other runs on the device meanwhile make the figures worse, and so does
    /// whatever else keeps the machine busy: nothing tells that from a slow machine, and the figures hold until they
    /// are measured again. Call it while the machine is at rest, and look at what it returns.
    ///
    /// A device that chooses between its sides does this by itself, in the background after its first run, unless the
    /// figures were on disk already. It then waits for pauses, and never for long.
    ///
    /// # Errors
    /// [`DeviceError`] if the device fails.
    pub fn calibrate(&self) -> BoxFuture<'_, Result<DeviceProfile>> {
        self.calibrated(Box::new(|_| {}))
    }

    /// As [`calibrate`](Self::calibrate), telling `progress` of each step before it begins.
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
            self.0.background.wanted.store(false, Ordering::Relaxed);
            let _busy = Busy::new(&self.0.activity);
            let mut panicked = None;
            let mut tell = |step| {
                if panicked.is_none() {
                    panicked = caught(|| progress(step)).err();
                }
            };
            let measured = measure(&self.0.subject(), &AtOnce, &mut tell).await?;
            if let Some(message) = panicked {
                return Err(RunError::Panicked(message).into());
            }
            let profile = measured.ok_or_else(|| DeviceError::Profile {
                what: "the time of a probe, as this platform's clock tells it".into(),
            })?;
            self.adopt(&profile).await;
            Ok(profile)
        })
    }

    /// Plans with `profile` from now on, and keeps it on disk.
    async fn adopt(&self, profile: &DeviceProfile) {
        self.0.reckoning.set(profile.clone());
        self.0.plans.forget();
        #[cfg(feature = "serde")]
        if let Some(keep) = &self.0.keep {
            let (disk, reckoning) = (Arc::clone(keep.disk()), Arc::clone(&self.0.reckoning));
            // With what was learned meanwhile.
            off_thread(move || disk.save(|| reckoning.profile())).await;
        }
        #[cfg(not(feature = "serde"))]
        std::future::ready(()).await;
    }

    /// Notes a run under way, until the result is dropped.
    pub(crate) fn busy(&self) -> Busy<'_> {
        Busy::new(&self.0.activity)
    }

    /// After a run that could have gone either way: has the device measured some time, if it was not.
    pub(crate) fn measure_some_time(&self) {
        let background = &self.0.background;
        if !background.wanted.load(Ordering::Relaxed)
            || !background.wanted.swap(false, Ordering::Relaxed)
        {
            return;
        }
        let thread = thread::Builder::new().name("onetrip-calibrate".into());
        // Without a thread, typical figures will do.
        if let Ok(thread) = thread.spawn(self.0.in_background()) {
            *background.thread.lock() = Some(thread);
        }
    }
}

impl Inner {
    fn subject(&self) -> Subject {
        // Probes measure what is there, not what was learned on top of it.
        let targets = self.reckoning.targets().without_learned();
        Subject {
            cpu: targets.cpu.clone(),
            pool: Arc::clone(&self.pool),
            #[cfg(feature = "gpu")]
            gpu: self.card.as_ref().map(Card::opened).zip(targets.gpu.clone()),
        }
    }

    /// What the thread does, which holds on to all but the device itself.
    fn in_background(&self) -> impl FnOnce() + Send + 'static + use<> {
        let subject = self.subject();
        let activity = Arc::clone(&self.activity);
        let reckoning = Arc::clone(&self.reckoning);
        let plans = Arc::clone(&self.plans);
        #[cfg(feature = "serde")]
        let disk = self.keep.as_ref().map(|keep| Arc::clone(keep.disk()));
        move || {
            if !activity.wait_for_pause() {
                return;
            }
            let pace: &Activity = &activity;
            let measured = pollster::block_on(measure(&subject, pace, &mut |_| {}));
            // A device that fails will say so to who uses it.
            if let Ok(Some(profile)) = measured {
                reckoning.set(profile);
                plans.forget();
                #[cfg(feature = "serde")]
                if let Some(disk) = disk {
                    disk.save(|| reckoning.profile());
                }
            }
        }
    }
}

impl Drop for Background {
    /// No thread may use a driver that the process is about to let go of.
    fn drop(&mut self) {
        self.activity.close();
        let thread = self.thread.lock().take();
        if let Some(thread) = thread {
            let _ = thread.join();
        }
    }
}
