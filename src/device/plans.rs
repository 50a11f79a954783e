//! Plans that were made before: a batch that is recorded anew with the same structure is not planned again.

#[cfg(feature = "gpu")]
use std::sync::RwLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};

use smallvec::SmallVec;

#[cfg(feature = "gpu")]
use super::Counter;
use super::{Device, Targets, Wanted};
#[cfg(feature = "gpu")]
use crate::clock::Stopwatch;
use crate::codegen::{Dispatch, lower};
use crate::cost::{Backend, Placement, Residence, Way};
use crate::error::{DeviceError, Result};
use crate::graph::{Fingerprint, Graph, NodeId};
use crate::lru::Lru;
use crate::plan::{Made, Placed, Plan, Planned, SplitPart, Stage, Step, Supply, Ways};
use crate::run::cpu::CpuProgram;
#[cfg(feature = "gpu")]
use crate::run::gpu::{Gpu, Kernels};

/// Plans kept.
const PLANS: usize = 1024;

/// What runs of a graph have in common, shared by all batches and programs of the same structure.
pub(crate) struct Prepared {
    /// One, or the parts of a graph that runs on both sides, in an order in which they can run.
    pub pieces: Vec<Piece>,
    /// How the pieces hang together, where there are several.
    pub links: Option<Links>,
    /// What is downloaded, in the order of the plan's downloads.
    pub outputs: Vec<NodeId>,
    /// Whether another side could have run it as well.
    pub was_chosen: bool,
    /// Bytes that a run holds until it is done: its slots, what it keeps, and on a GPU what the host copies from and
    /// to.
    pub bytes: u64,
    /// Device memory that a run holds at once.
    pub peak_bytes: u64,
    /// Predicted seconds of a run.
    pub seconds: f64,
    /// Those of them that a run would save if what it binds were on the host too, where it lies on the GPU alone.
    pub saved_near: f64,
    /// The way that it goes, and others that it may be tried beside.
    pub ways: Ways,
    /// The way that was asked for, where it was not left to prediction.
    pub asked: Option<Way>,
    /// Which [`Targets`] it was made for.
    revision: u64,
}

/// A plan with what is compiled for it.
pub(crate) struct Piece {
    pub plan: Arc<Plan>,
    /// With what the CPU compiles for the plan; empty until the first run, and on a GPU for good.
    on_cpu: OnceLock<Arc<CpuProgram>>,
    /// Empty until the first run, and on the CPU for good.
    #[cfg(feature = "gpu")]
    kernels: RwLock<Option<Arc<Kernels>>>,
}

/// How the pieces of a graph hang together.
pub(crate) struct Links {
    /// By piece.
    pub ties: Vec<Tie>,
    /// Where the graph's outputs are made, in their order.
    pub downloads: Vec<Made>,
    /// Where what it keeps is made.
    pub keeps: Vec<Made>,
}

/// How one piece is tied to the others.
pub(crate) struct Tie {
    pub stage: Stage,
    /// What its uploads are, by position.
    pub uploads: Vec<Supply>,
    /// The graph's residents that its residents are, by position.
    pub residents: Vec<u32>,
}

impl Prepared {
    fn new(graph: &Graph, placed: Placed, asked: Option<Way>, targets: &Targets) -> Self {
        let (was_chosen, ways) = (placed.was_chosen(), placed.ways);
        let (seconds, plans, links) = match placed.planned {
            Planned::Whole(plan) => (plan.seconds, vec![plan], None),
            Planned::Split(split) => {
                let (ties, plans) = split.parts.into_iter().map(Tie::of).unzip();
                let links = Links { ties, downloads: split.downloads, keeps: split.keeps };
                (split.seconds, plans, Some(links))
            }
        };
        let total = |of: fn(&Plan) -> u64| plans.iter().map(of).fold(0, u64::saturating_add);
        Self {
            bytes: total(|plan| plan.held_bytes),
            peak_bytes: total(|plan| plan.peak_bytes),
            pieces: plans.into_iter().map(Piece::new).collect(),
            links,
            outputs: graph.outputs(),
            was_chosen,
            seconds,
            saved_near: 0.0,
            ways,
            asked,
            revision: targets.revision,
        }
    }

    /// The GPU, if some of it runs there.
    pub fn backend(&self) -> Backend {
        let on_gpu = self.pieces.iter().any(|piece| piece.plan.backend == Backend::Gpu);
        if on_gpu { Backend::Gpu } else { Backend::Cpu }
    }

    /// Whether it was made for `targets`.
    pub fn is_for(&self, targets: &Targets) -> bool {
        self.revision == targets.revision
    }

    /// Whether it is still what `device` would run where the data of residents lies so: what lies on the GPU alone is
    /// read there alone.
    pub fn fits(&self, device: &Device, residents: &[Residence]) -> bool {
        let usable = |piece: &Piece| device.uses(piece.plan.backend);
        let is_current = self.revision == device.0.reckoning.revision();
        if !is_current || !self.pieces.iter().all(usable) {
            return false;
        }
        if self.saved_near > 0.0 && !residents.contains(&Residence::Gpu) {
            return false;
        }
        let far = |at: &u32| residents.get(*at as usize) == Some(&Residence::Gpu);
        match &self.links {
            None => self.backend() == Backend::Gpu || !residents.contains(&Residence::Gpu),
            Some(Links { ties, .. }) => {
                ties.iter().all(|tie| tie.stage == Stage::Gpu || !tie.residents.iter().any(far))
            }
        }
    }

    /// Compiles what a run will need.
    pub async fn compile(&self, device: &Device) -> Result<(), DeviceError> {
        for piece in &self.pieces {
            piece.compile(device).await?;
        }
        Ok(())
    }
}

impl Tie {
    fn of(part: SplitPart) -> (Self, Plan) {
        let SplitPart { stage, plan, uploads, residents } = part;
        (Self { stage, uploads, residents }, plan)
    }
}

impl Piece {
    fn new(plan: Plan) -> Self {
        Self {
            plan: Arc::new(plan),
            on_cpu: OnceLock::new(),
            #[cfg(feature = "gpu")]
            kernels: RwLock::default(),
        }
    }

    /// The plan for a run on the CPU.
    pub fn on_cpu(&self) -> &Arc<CpuProgram> {
        self.on_cpu.get_or_init(|| Arc::new(CpuProgram::new(Arc::clone(&self.plan))))
    }

    async fn compile(&self, device: &Device) -> Result<(), DeviceError> {
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
        let compiling = Stopwatch::started();
        let kernels = gpu.compile(device.dispatches(&self.plan)).await?;
        device.counters().add(Counter::Compiled, kernels.compiled.into());
        device.counters().spend(Counter::CompileNanos, compiling.total());
        let mut known = self.kernels.write().unwrap_or_else(PoisonError::into_inner);
        // Those that another run compiled meanwhile have their parameters on the device already.
        if let Some(known) = known.as_ref().filter(|known| gpu.can_run(known)) {
            return Ok((Arc::clone(known), true));
        }
        let lost = known.replace(Arc::clone(&kernels));
        drop(known);
        lost.into_iter().for_each(Gpu::forget);
        Ok((kernels, true))
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each = self.pieces.iter().map(|Piece { plan, .. }| (plan.steps.len(), plan.backend));
        let each = each.map(|(steps, side)| format!("{steps} steps for {side}"));
        write!(f, "Prepared({})", each.collect::<Vec<_>>().join(", "))
    }
}

/// What a plan is made for.
#[derive(Clone, PartialEq, Eq, Hash)]
struct Key {
    graph: Fingerprint,
    placement: Placement,
    /// The way that it goes, where that is not left to prediction.
    way: Option<Way>,
    /// Where the data lies that it binds.
    residents: SmallVec<[Residence; 8]>,
    /// Of the [`Targets`].
    revision: u64,
}

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
        let _gone = self.plans().extract(|_| true);
    }

    /// Forgets the plans of `graph` for other ways than the one that is `kept`, where it is left to the planner.
    pub fn forget_ways(&self, graph: Fingerprint, kept: Option<Way>) {
        let goes =
            |key: &Key| key.graph == graph && key.placement == Placement::Auto && key.way != kept;
        let _gone = self.plans().extract(goes);
    }

    /// How often a plan was found and not found, and how many there are.
    pub fn counts(&self) -> (u64, u64, usize) {
        let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        let plans = self.plans().len();
        (count(&self.hits), count(&self.misses), plans)
    }

    fn keep(&self, key: Key, prepared: &Arc<Prepared>) {
        let _forgotten = self.plans().insert(key, Arc::clone(prepared));
    }

    fn plans(&self) -> MutexGuard<'_, Lru<Key, Arc<Prepared>>> {
        self.plans.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Device {
    /// The plan for a graph with this fingerprint, and whether it was made before: for a way, or for the one that the
    /// placement or prediction chooses.
    pub(super) fn prepared(
        &self,
        wanted: &Wanted<'_>,
        graph: Fingerprint,
        way: Option<Way>,
    ) -> Result<(Arc<Prepared>, bool)> {
        let targets = self.targets();
        let key = Key {
            graph,
            placement: self.placement_now(wanted.placement),
            way,
            residents: SmallVec::from_slice(wanted.residents),
            revision: targets.revision,
        };
        if let Some(prepared) = self.0.plans.find(&key) {
            return Ok((prepared, true));
        }
        debug_assert_eq!(wanted.graph.verify(), Ok(()));
        let placed = self.place(wanted, &targets, way)?;
        let saved_near = self.saved_near(wanted, &targets, placed.seconds())?;
        let prepared = Prepared::new(wanted.graph, placed, way, &targets);
        let prepared = Arc::new(Prepared { saved_near, ..prepared });
        self.0.plans.keep(key, &prepared);
        Ok((prepared, false))
    }

    /// Seconds that a run that takes so many `seconds` would save if all residents were on the host too.
    fn saved_near(&self, wanted: &Wanted<'_>, targets: &Targets, seconds: f64) -> Result<f64> {
        let Wanted { placement, residents, .. } = *wanted;
        let is_free = self.placement_now(placement) == Placement::Auto && self.uses(Backend::Cpu);
        if !is_free || !residents.contains(&Residence::Gpu) {
            return Ok(0.0);
        }
        let near = |&residence: &Residence| match residence {
            Residence::Gpu => Residence::Both,
            other => other,
        };
        let near: SmallVec<[Residence; 8]> = residents.iter().map(near).collect();
        let near = self.place(&Wanted { residents: &near, ..*wanted }, targets, None)?;
        Ok((seconds - near.seconds()).max(0.0))
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
