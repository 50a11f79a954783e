//! Compiles plans: programs for the cores, kernels in WGSL for the GPU of a device. Also whether a device would still run a
//! plan.

use std::sync::Arc;

use super::Device;
use super::parts::counters::Counter;
use super::parts::prepared::{PreparedGraph, PreparedPlan};
use crate::base::clock::Stopwatch;
use crate::base::single_flight::Begin;
use crate::codegen::{Dispatch, lower};
use crate::cost::{Backend, Residence};
use crate::error::DeviceError;
use crate::exec::gpu::{Gpu, Kernels};
use crate::plan::{Phase, Pieces, Plan, Step};

impl PreparedGraph {
    /// Returns whether `device` still has the sides of the plan: a GPU that was lost may have been given up.
    pub fn is_usable(&self, device: &Device) -> bool {
        self.pieces.iter().all(|piece| device.uses(piece.plan.backend))
    }

    /// Returns whether `device` would still run this plan, with the data of residents at these places. Data on the GPU
    /// alone is read there alone.
    pub fn fits(&self, device: &Device, residents: &[Residence]) -> bool {
        let is_current = self.revision == device.0.profiles.store.revision();
        if !is_current || !self.is_usable(device) {
            return false;
        }
        let has_far = residents.iter().any(|residence| residence.is_far());
        if self.is_bound_by_data && !has_far {
            return false;
        }
        let far =
            |at: &u32| residents.get(*at as usize).is_some_and(|residence| residence.is_far());
        match &self.pieces {
            Pieces::Whole(_) => self.backend() == Backend::Gpu || !has_far,
            Pieces::Split(split) => {
                let reads_far = |residents: &[u32]| residents.iter().any(far);
                let mut parts = split.parts.iter();
                parts.all(|part| part.phase == Phase::Gpu || !reads_far(&part.residents))
            }
        }
    }

    pub async fn compile(&self, device: &Device) -> Result<(), DeviceError> {
        for piece in self.pieces.iter() {
            piece.compile(device).await?;
        }
        Ok(())
    }
}

impl PreparedPlan {
    async fn compile(&self, device: &Device) -> Result<(), DeviceError> {
        match (self.plan.backend, device.opened()) {
            (Backend::Cpu, _) => _ = self.on_cpu(),
            (Backend::Gpu, Some(gpu)) => _ = self.kernels(device, &gpu).await?,
            (Backend::Gpu, None) => {}
        }
        Ok(())
    }

    /// The kernels of the plan for `gpu`, and whether this call compiled them. Concurrent calls wait.
    pub async fn kernels(
        &self,
        device: &Device,
        gpu: &Gpu,
    ) -> Result<(Arc<Kernels>, bool), DeviceError> {
        let maker = match self.compiling.begin(&gpu.id(), || self.known(gpu)).await {
            Begin::Made(known) => return Ok((known, false)),
            Begin::Make(maker) => maker,
        };
        let compiling = Stopwatch::started();
        let kernels = gpu.compile(device.dispatches(&self.plan), maker).await?;
        device.counters().add(Counter::Compiled, kernels.compiled.into());
        device.counters().spend(Counter::CompileNanos, compiling.total());
        Ok((self.store(kernels, gpu), true))
    }
}

impl Device {
    /// The kernels of `plan` as text.
    pub(crate) fn dispatches(&self, plan: &Plan) -> Vec<Dispatch> {
        self.dispatches_by_step(plan).into_iter().flatten().collect()
    }

    /// The kernels of each step of `plan` as text.
    pub(crate) fn dispatches_by_step(&self, plan: &Plan) -> Vec<Vec<Dispatch>> {
        let targets = self.targets();
        let limits = &targets.of(plan.backend).limits;
        let lowered = |step: &Step| match step.is_empty() {
            true => Vec::new(),
            false => lower(plan, step, limits),
        };
        plan.steps.iter().map(lowered).collect()
    }
}
