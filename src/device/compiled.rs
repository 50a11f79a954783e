//! The kernels of a plan, which the first run that needs them compiles while others that come wait.

use std::sync::Arc;

use super::making::{Make, Making};
use super::{Counter, Device};
use crate::base::clock::Stopwatch;
use crate::base::sync::RwLock;
use crate::error::DeviceError;
use crate::exec::gpu::{Gpu, GpuId, Kernels};
use crate::plan::Plan;

/// The kernels of one plan.
#[derive(Default)]
pub(super) struct PlanKernels {
    /// Empty until the first run.
    kernels: RwLock<Option<Arc<Kernels>>>,
    compiling: Making<GpuId>,
}

impl PlanKernels {
    /// The kernels of `plan`, compiled for `gpu` if no run did so before; whether this call did.
    pub async fn kernels(
        &self,
        plan: &Plan,
        device: &Device,
        gpu: &Gpu,
    ) -> Result<(Arc<Kernels>, bool), DeviceError> {
        let held = match self.compiling.begin(&gpu.id(), || self.known(gpu)).await {
            Make::Made(known) => return Ok((known, false)),
            Make::Here(held) => held,
        };
        let compiling = Stopwatch::started();
        let kernels = gpu.compile(device.dispatches(plan), held).await?;
        device.counters().add(Counter::Compiled, kernels.compiled.into());
        device.counters().spend(Counter::CompileNanos, compiling.total());
        Ok((self.keep(kernels, gpu), true))
    }

    /// The kernels, if they were compiled for `gpu`.
    fn known(&self, gpu: &Gpu) -> Option<Arc<Kernels>> {
        let known = self.kernels.read().clone();
        known.filter(|kernels| gpu.can_run(kernels))
    }

    /// What all runs use from now on: `made`, unless there are such already, which have their parameters on the device.
    /// Who has compiled is not always polled before somebody else begins.
    fn keep(&self, made: Arc<Kernels>, gpu: &Gpu) -> Arc<Kernels> {
        let mut kernels = self.kernels.write();
        if let Some(known) = kernels.as_ref().filter(|known| gpu.can_run(known)) {
            return Arc::clone(known);
        }
        let lost = kernels.replace(Arc::clone(&made));
        drop(kernels);
        lost.into_iter().for_each(Gpu::forget);
        made
    }
}
