//! Graphs that are ready to run: plans with their compiled kernels.

use std::sync::{Arc, OnceLock};

use super::profile_store::Targets;
use crate::base::single_flight::SingleFlight;
use crate::base::sync::RwLock;
use crate::cost::{Backend, Route};
use crate::exec::cpu::CpuProgram;
use crate::exec::gpu::{self, Gpu, GpuId, Kernels};
use crate::graph::{Graph, NodeId};
use crate::plan::{Pieces, PlacedGraph, Plan};

/// The plan of a graph and its kernels, shared by all batches and programs of the same structure.
pub(crate) struct PreparedGraph {
    /// The plan, the predicted times of the sides, and the routes that may be tried.
    pub placed: Arc<PlacedGraph>,
    /// The plans of `placed`, each with its kernels.
    pub pieces: Pieces<PreparedPlan>,
    /// The downloaded nodes, in the order of the plan's downloads.
    pub outputs: Vec<NodeId>,
    /// Bytes that a run holds until its end: slots, kept results, and on a GPU the staging memory of the host.
    pub bytes: u64,
    /// Device memory that a run holds at once.
    pub peak_bytes: u64,
    /// True if the side would have been predicted, had no resident its data on the GPU alone.
    pub is_bound_by_data: bool,
    /// The route that was asked for, if it was not left to prediction.
    pub asked: Option<Route>,
    /// The revision of the [`Targets`] that it was made for.
    pub(in crate::device) revision: u64,
}

/// The plan of one piece, with its kernels once they are compiled.
pub(crate) struct PreparedPlan {
    pub plan: Arc<Plan>,
    /// The program for the cores; empty until it is compiled or first runs there.
    on_cpu: OnceLock<Arc<CpuProgram>>,
    /// The kernels for a GPU; empty until the first run there.
    on_gpu: RwLock<Option<Arc<Kernels>>>,
    pub(in crate::device) compiling: SingleFlight<GpuId>,
}

impl PreparedGraph {
    pub(in crate::device) fn new(
        graph: &Graph,
        placed: PlacedGraph,
        asked: Option<Route>,
        is_bound_by_data: bool,
        targets: &Targets,
    ) -> Self {
        Self {
            pieces: placed.pieces.clone().map(PreparedPlan::new),
            outputs: graph.outputs(),
            bytes: placed.held_bytes(),
            peak_bytes: placed.peak_bytes(),
            is_bound_by_data,
            placed: Arc::new(placed),
            asked,
            revision: targets.revision,
        }
    }

    /// The GPU, if any part runs there.
    pub fn backend(&self) -> Backend {
        let on_gpu = self.pieces.iter().any(|piece| piece.plan.backend == Backend::Gpu);
        if on_gpu { Backend::Gpu } else { Backend::Cpu }
    }
}

impl PreparedPlan {
    fn new(plan: Arc<Plan>) -> Self {
        Self {
            plan,
            on_cpu: OnceLock::new(),
            on_gpu: RwLock::default(),
            compiling: SingleFlight::default(),
        }
    }

    pub fn on_cpu(&self) -> &Arc<CpuProgram> {
        self.on_cpu.get_or_init(|| Arc::new(CpuProgram::new(Arc::clone(&self.plan))))
    }

    /// The kernels, if they were compiled for `gpu`.
    pub(in crate::device) fn known(&self, gpu: &Gpu) -> Option<Arc<Kernels>> {
        let known = self.on_gpu.read().clone();
        known.filter(|kernels| gpu.can_run(kernels))
    }

    /// Stores the kernels `made` for later runs, and returns them. Kernels that are there already stay, since their
    /// parameters are on the device: another task may have compiled before this one was polled.
    pub(in crate::device) fn store(&self, made: Arc<Kernels>, gpu: &Gpu) -> Arc<Kernels> {
        let mut kernels = self.on_gpu.write();
        if let Some(known) = kernels.as_ref().filter(|known| gpu.can_run(known)) {
            return Arc::clone(known);
        }
        let lost = kernels.replace(Arc::clone(&made));
        drop(kernels);
        lost.into_iter().for_each(gpu::close);
        made
    }
}

impl std::fmt::Debug for PreparedGraph {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let each =
            self.pieces.iter().map(|PreparedPlan { plan, .. }| (plan.steps.len(), plan.backend));
        let each = each.map(|(steps, side)| format!("{steps} steps for {side}"));
        write!(f, "PreparedGraph({})", each.collect::<Vec<_>>().join(", "))
    }
}
