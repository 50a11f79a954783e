//! Plans that were made before: a batch that is recorded anew with the same structure is not planned again.

#[cfg(feature = "gpu")]
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, OnceLock, PoisonError};

use super::Device;
use crate::codegen::{Dispatch, lower};
use crate::cost::{Backend, Limits, Placement};
use crate::error::{DeviceError, Result};
use crate::graph::{Fingerprint, Graph, NodeId};
use crate::lru::Lru;
use crate::plan::{Home, Placed, Plan, Step};
use crate::run::cpu::CpuProgram;
#[cfg(feature = "gpu")]
use crate::run::gpu::{Gpu, Kernels};

/// Plans kept.
const PLANS: usize = 1024;

/// A plan with what runs of it have in common, shared by all batches and programs of the same structure.
pub(crate) struct Prepared {
    pub plan: Arc<Plan>,
    /// What is downloaded, in the order of the plan's downloads.
    pub outputs: Vec<NodeId>,
    /// With what the CPU compiles for the plan; empty until the first run, and on a GPU for good.
    on_cpu: OnceLock<Arc<CpuProgram>>,
    /// Whether the other side could have run it as well.
    pub was_chosen: bool,
    /// Bytes that a run holds until it is done: its slots, what it keeps, and on a GPU what the host copies from and
    /// to.
    pub bytes: u64,
    /// Of the GPU on which it ran last; empty until the first run, and on the CPU for good.
    #[cfg(feature = "gpu")]
    kernels: RwLock<Option<Arc<Kernels>>>,
}

impl Prepared {
    fn new(graph: &Graph, placed: Placed, limits: &Limits) -> Self {
        let plan = placed.plan;
        let bound = plan.values.iter().filter(|value| matches!(value.home, Home::Resident(_)));
        let bound: u64 = bound.map(|value| value.bytes(limits)).sum();
        let transfers = match plan.backend {
            Backend::Cpu => 0,
            Backend::Gpu => plan.bytes_up + plan.bytes_down,
        };
        Self {
            bytes: plan.peak_bytes.saturating_sub(bound) + transfers,
            plan: Arc::new(plan),
            was_chosen: placed.other.is_some(),
            outputs: graph.outputs(),
            on_cpu: OnceLock::new(),
            #[cfg(feature = "gpu")]
            kernels: RwLock::default(),
        }
    }

    /// The plan for a run on the CPU.
    pub fn on_cpu(&self) -> Arc<CpuProgram> {
        let new = || Arc::new(CpuProgram::new(Arc::clone(&self.plan)));
        Arc::clone(self.on_cpu.get_or_init(new))
    }

    /// Compiles what a run will need.
    pub async fn compile(&self, device: &Device) -> Result<(), DeviceError> {
        #[cfg(feature = "gpu")]
        if self.plan.backend == Backend::Gpu
            && let Some(gpu) = device.opened()
        {
            self.kernels(device, &gpu).await?;
        }
        #[cfg(not(feature = "gpu"))]
        let _ = device;
        Ok(())
    }

    /// The kernels of the plan, compiled if no run did so before; whether this call did.
    #[cfg(feature = "gpu")]
    pub async fn kernels(
        &self,
        device: &Device,
        gpu: &Gpu,
    ) -> Result<(Arc<Kernels>, bool), DeviceError> {
        let known = self.kernels.read().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some(kernels) = known.filter(|kernels| gpu.can_run(kernels)) {
            return Ok((kernels, false));
        }
        let kernels = gpu.compile(device.dispatches(&self.plan)).await?;
        let mut known = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        // Those that another run compiled meanwhile have their parameters on the device already.
        let kernels = known.take().filter(|known| gpu.can_run(known)).unwrap_or(kernels);
        Ok((Arc::clone(known.insert(kernels)), true))
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Prepared({} steps for {})", self.plan.steps.len(), self.plan.backend)
    }
}

/// A structure, how its side is chosen, and the side that bound data pins it to.
type Key = (Fingerprint, Placement, Option<Backend>);

/// The plans of one device.
pub(super) struct Plans {
    plans: Mutex<Lru<Key, Arc<Prepared>>>,
    hits: AtomicU64,
    misses: AtomicU64,
}

impl Default for Plans {
    fn default() -> Self {
        Self {
            plans: Mutex::new(Lru::new(PLANS)),
            hits: AtomicU64::new(0),
            misses: AtomicU64::new(0),
        }
    }
}

impl Plans {
    fn find(&self, key: &Key) -> Option<Arc<Prepared>> {
        let found = self.plans.lock().unwrap_or_else(PoisonError::into_inner).get(key).cloned();
        let count = if found.is_some() { &self.hits } else { &self.misses };
        count.fetch_add(1, Ordering::Relaxed);
        found
    }

    /// Plans anew from now on.
    pub fn forget(&self) {
        *self.plans.lock().unwrap_or_else(PoisonError::into_inner) = Lru::new(PLANS);
    }

    /// How often a plan was found and not found, and how many there are.
    pub fn counts(&self) -> (u64, u64, usize) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner).len();
        (count(&self.hits), count(&self.misses), plans)
    }

    fn keep(&self, key: Key, prepared: &Arc<Prepared>) {
        let mut plans = self.plans.lock().unwrap_or_else(PoisonError::into_inner);
        plans.insert(key, Arc::clone(prepared));
    }
}

impl Device {
    /// A plan of `graph`, which is sound, for the side that is predicted to be done first, and whether it was
    /// made before. With `pinned`, data lives on a side and the graph runs there.
    pub(crate) fn prepare(
        &self,
        graph: &Graph,
        placement: Placement,
        pinned: Option<Backend>,
    ) -> Result<(Arc<Prepared>, bool)> {
        let placement = if self.gave_up_its_gpu() { Placement::Cpu } else { placement };
        let key = (graph.fingerprint(), placement, pinned);
        if let Some(prepared) = self.0.plans.find(&key) {
            return Ok((prepared, true));
        }
        debug_assert_eq!(graph.verify(), Ok(()));
        let placed = self.place(graph, &placement, pinned)?;
        let targets = self.targets();
        let limits = &targets.of(placed.plan.backend).limits;
        let prepared = Arc::new(Prepared::new(graph, placed, limits));
        self.0.plans.keep(key, &prepared);
        Ok((prepared, false))
    }

    /// What a GPU runs for `plan`.
    pub(crate) fn dispatches(&self, plan: &Plan) -> Vec<Dispatch> {
        self.dispatches_by_step(plan).into_iter().flatten().collect()
    }

    /// As [`dispatches`](Self::dispatches), apart for each step.
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
