//! Graphs that are ready to run: plans with what is compiled for them.

use std::sync::{Arc, OnceLock};

#[cfg(feature = "gpu")]
use super::compiled::PlanKernels;
use super::{Device, Targets};
use crate::cost::{Backend, Residence, Way};
use crate::error::DeviceError;
use crate::exec::cpu::CpuProgram;
#[cfg(feature = "gpu")]
use crate::exec::gpu::{Gpu, Kernels};
use crate::graph::{Graph, NodeId};
use crate::plan::{Made, Placed, Plan, Planned, Split, SplitPart, Stage, Supply, Ways};

/// What runs of a graph have in common, shared by all batches and programs of the same structure.
pub(crate) struct Prepared {
    pub pieces: CompiledPieces,
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
    /// Whether only the place of a resident's data, on the GPU alone, kept prediction from choosing the side.
    pub is_bound_by_data: bool,
    /// The way that it goes, and others that it may be tried beside.
    pub ways: Ways,
    /// The way that was asked for, where it was not left to prediction.
    pub asked: Option<Way>,
    /// Which [`Targets`] it was made for.
    revision: u64,
}

/// What runs.
pub(crate) enum CompiledPieces {
    /// All on one side.
    Whole(CompiledPlan),
    /// Some on either.
    Split(CompiledSplit),
}

/// The pieces of a graph that runs on both sides, and how they hang together.
pub(crate) struct CompiledSplit {
    /// In an order in which they can run.
    pub parts: Vec<CompiledPart>,
    /// Where the graph's outputs are made, in their order.
    pub downloads: Vec<Made>,
    /// Where what it keeps is made.
    pub keeps: Vec<Made>,
}

/// One piece, and how it is tied to the others.
pub(crate) struct CompiledPart {
    pub piece: CompiledPlan,
    pub stage: Stage,
    /// What its uploads are, by position.
    pub uploads: Vec<Supply>,
    /// The graph's residents that its residents are, by position.
    pub residents: Vec<u32>,
}

/// A plan with what is compiled for it.
pub(crate) struct CompiledPlan {
    pub plan: Arc<Plan>,
    /// With what the CPU compiles for the plan; empty until the first run, and on a GPU for good.
    on_cpu: OnceLock<Arc<CpuProgram>>,
    /// Empty on the CPU for good.
    #[cfg(feature = "gpu")]
    on_gpu: PlanKernels,
}

impl Prepared {
    pub(super) fn new(
        graph: &Graph,
        placed: Placed,
        asked: Option<Way>,
        targets: &Targets,
    ) -> Self {
        let (was_chosen, seconds) = (placed.was_chosen(), placed.seconds());
        let Placed { planned, ways, .. } = placed;
        let pieces = CompiledPieces::of(planned);
        let total = |of: fn(&Plan) -> u64| {
            pieces.iter().map(|piece| of(&piece.plan)).fold(0, u64::saturating_add)
        };
        Self {
            bytes: total(|plan| plan.held_bytes),
            peak_bytes: total(|plan| plan.peak_bytes),
            pieces,
            outputs: graph.outputs(),
            was_chosen,
            seconds,
            is_bound_by_data: false,
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

    /// Whether `device` still has the sides of the plan: a GPU that was lost may have been given up.
    pub fn is_usable(&self, device: &Device) -> bool {
        self.pieces.iter().all(|piece| device.uses(piece.plan.backend))
    }

    /// Whether it is still what `device` would run where the data of residents lies so: what lies on the GPU alone is
    /// read there alone.
    pub fn fits(&self, device: &Device, residents: &[Residence]) -> bool {
        let is_current = self.revision == device.0.reckoning.revision();
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
            CompiledPieces::Whole(_) => self.backend() == Backend::Gpu || !has_far,
            CompiledPieces::Split(CompiledSplit { parts, .. }) => {
                parts.iter().all(|part| part.stage == Stage::Gpu || !part.residents.iter().any(far))
            }
        }
    }

    /// Compiles what a run will need.
    pub async fn compile(&self, device: &Device) -> Result<(), DeviceError> {
        for piece in self.pieces.iter() {
            piece.compile(device).await?;
        }
        Ok(())
    }
}

impl CompiledPieces {
    fn of(planned: Planned) -> Self {
        match planned {
            Planned::Whole(plan) => Self::Whole(CompiledPlan::new(plan)),
            Planned::Split(Split { parts, downloads, keeps, .. }) => Self::Split(CompiledSplit {
                parts: parts.into_iter().map(CompiledPart::of).collect(),
                downloads,
                keeps,
            }),
        }
    }

    pub fn iter(&self) -> impl Iterator<Item = &CompiledPlan> {
        let (whole, parts) = match self {
            Self::Whole(piece) => (Some(piece), &[][..]),
            Self::Split(split) => (None, &split.parts[..]),
        };
        whole.into_iter().chain(parts.iter().map(|part| &part.piece))
    }
}

impl CompiledPart {
    fn of(part: SplitPart) -> Self {
        let SplitPart { stage, plan, uploads, residents } = part;
        Self { piece: CompiledPlan::new(plan), stage, uploads, residents }
    }
}

impl CompiledPlan {
    fn new(plan: Plan) -> Self {
        Self {
            plan: Arc::new(plan),
            on_cpu: OnceLock::new(),
            #[cfg(feature = "gpu")]
            on_gpu: PlanKernels::default(),
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

    /// The kernels of the plan, compiled if no run did so before; whether this call did. Runs that come meanwhile wait.
    #[cfg(feature = "gpu")]
    pub async fn kernels(
        &self,
        device: &Device,
        gpu: &Gpu,
    ) -> Result<(Arc<Kernels>, bool), DeviceError> {
        self.on_gpu.kernels(&self.plan, device, gpu).await
    }
}

impl std::fmt::Debug for Prepared {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each =
            self.pieces.iter().map(|CompiledPlan { plan, .. }| (plan.steps.len(), plan.backend));
        let each = each.map(|(steps, side)| format!("{steps} steps for {side}"));
        write!(f, "Prepared({})", each.collect::<Vec<_>>().join(", "))
    }
}
