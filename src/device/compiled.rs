//! The kernels of a plan, which the first run that needs them compiles while others that come wait.

use std::sync::{Arc, Mutex, PoisonError, RwLock};

use tokio::sync::watch;

use super::{Counter, Device};
use crate::clock::Stopwatch;
use crate::error::DeviceError;
use crate::plan::Plan;
use crate::run::gpu::{Gpu, Kernels};
use crate::run::threads::is_of_rayon;

/// The kernels of one plan.
#[derive(Default)]
pub(super) struct Compiled {
    /// Empty until the first run.
    kernels: RwLock<Option<Arc<Kernels>>>,
    /// Held open by who compiles them. No lock: who is next to have one, and is not polled, would keep all others
    /// waiting.
    compiling: Mutex<Option<watch::Receiver<()>>>,
}

/// Who is to compile.
enum Compiles {
    /// Whoever asked, who holds this meanwhile.
    Here(watch::Sender<()>),
    /// Somebody else, until this is closed: also where nobody awaits that any more.
    Elsewhere(watch::Receiver<()>),
}

impl Compiled {
    /// The kernels of `plan`, compiled for `gpu` if no run did so before; whether this call did.
    pub async fn kernels(
        &self,
        plan: &Plan,
        device: &Device,
        gpu: &Gpu,
    ) -> Result<(Arc<Kernels>, bool), DeviceError> {
        let held = loop {
            if let Some(known) = self.known(gpu) {
                return Ok((known, false));
            }
            match self.begin() {
                Compiles::Here(held) => break Some(held),
                // It may not have begun: all of rayon's threads might wait for one that is free.
                Compiles::Elsewhere(_) if is_of_rayon() => break None,
                Compiles::Elsewhere(mut closed) => _ = closed.changed().await,
            }
        };
        let compiling = Stopwatch::started();
        let kernels = gpu.compile(device.dispatches(plan), held).await?;
        device.counters().add(Counter::Compiled, kernels.compiled.into());
        device.counters().spend(Counter::CompileNanos, compiling.total());
        Ok((self.keep(kernels, gpu), true))
    }

    /// The kernels, if they were compiled for `gpu`.
    fn known(&self, gpu: &Gpu) -> Option<Arc<Kernels>> {
        let known = self.kernels.read().unwrap_or_else(PoisonError::into_inner).clone();
        known.filter(|kernels| gpu.can_run(kernels))
    }

    fn begin(&self) -> Compiles {
        let mut compiling = self.compiling.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(others) = compiling.as_ref().filter(|others| others.has_changed().is_ok()) {
            return Compiles::Elsewhere(others.clone());
        }
        let (sender, receiver) = watch::channel(());
        *compiling = Some(receiver);
        Compiles::Here(sender)
    }

    /// What all runs use from now on: `made`, unless there are such already, which have their parameters on the device.
    /// Who has compiled is not always polled before somebody else begins.
    fn keep(&self, made: Arc<Kernels>, gpu: &Gpu) -> Arc<Kernels> {
        let mut kernels = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = kernels.as_ref().filter(|known| gpu.can_run(known)) {
            return Arc::clone(known);
        }
        let lost = kernels.replace(Arc::clone(&made));
        drop(kernels);
        lost.into_iter().for_each(Gpu::forget);
        made
    }
}
