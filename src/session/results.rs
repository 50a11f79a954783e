//! The results of a run, and of one piece of it.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::HostOrGpuResult;
use crate::device::PreparedGraph;
use crate::exec::HostBuffer;
use crate::exec::gpu::GpuRunResults;
use crate::graph::NodeId;
use crate::plan::PartValue;
use crate::residents::KeptValues;

/// The end of a run that did not fail.
pub(crate) struct RunDone {
    pub prepared: Arc<PreparedGraph>,
    pub results: RunResults,
    /// In the order of the graph's keeps. After *commit*, residents hold the values; slice updates are empty here.
    pub kept: KeptValues,
}

pub(super) struct PieceDone {
    pub results: RunResults,
    /// In the order of the plan's keeps.
    pub kept: KeptValues,
    /// The first element that failed.
    pub failed: Option<(NodeId, u32)>,
}

pub(crate) enum RunResults {
    Host(SmallVec<[Arc<HostBuffer>; 1]>),
    Gpu(Box<GpuRunResults>),
    Split(Box<SplitResults>),
}

pub(crate) struct SplitResults {
    pub parts: Vec<RunResults>,
    pub downloads: Vec<PartValue>,
}

impl RunResults {
    /// The value of `node`, if it was brought back.
    pub fn find(&self, prepared: &PreparedGraph, node: NodeId) -> Option<HostOrGpuResult> {
        let at = prepared.outputs.iter().position(|&output| output == node)?;
        Some(self.get(at))
    }

    pub fn get(&self, at: usize) -> HostOrGpuResult {
        match self {
            Self::Host(buffers) => HostOrGpuResult::Host(Arc::clone(&buffers[at])),
            Self::Gpu(run) => HostOrGpuResult::Gpu(run.download(at)),
            Self::Split(split) => {
                let PartValue { part, at } = split.downloads[at];
                split.parts[part].get(at)
            }
        }
    }
}

impl fmt::Debug for RunResults {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Host(buffers) => write!(f, "Results({} on the host)", buffers.len()),
            Self::Gpu(run) => write!(f, "Results({} from the GPU)", run.len()),
            Self::Split(split) => split.parts.fmt(f),
        }
    }
}
