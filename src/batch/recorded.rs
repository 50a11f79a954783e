//! What was recorded: what a batch goes on with, and what a program is made of.

use std::panic::Location;
use std::sync::Arc;

use super::names::Names;
use super::residence::Handle;
use super::state::{Kept, Turns};
use crate::cost::Placement;
use crate::device::Device;
use crate::error::{DataError, DeviceError, Error, Origin, Result};
use crate::exec::HostBuffer;
use crate::graph::{Graph, NodeId};
use crate::ops::{Function, Op};

/// A graph with its data, for one device.
#[derive(Clone, Debug)]
pub(crate) struct Recorded {
    pub(super) device: Device,
    /// By which its ids are known.
    pub brand: u64,
    pub graph: Graph,
    pub(super) names: Names,
    /// By position; `None` for an [input](super::GpuCommandBatch::input) that no run was given yet.
    pub(super) uploads: Vec<Option<Arc<HostBuffer>>>,
    /// What kernels of the user's own compute on the CPU.
    pub(super) functions: Vec<Function>,
    /// By position of the graph's residents.
    pub(super) residents: Vec<Handle>,
    /// In the order of the graph's keeps.
    pub(super) kept: Vec<Kept>,
    pub(super) placement: Placement,
}

impl Recorded {
    /// Nothing yet.
    pub(super) fn new(device: &Device, brand: u64) -> Self {
        Self {
            device: device.clone(),
            brand,
            graph: Graph::default(),
            names: Names::default(),
            uploads: Vec::new(),
            functions: Vec::new(),
            residents: Vec::new(),
            kept: Vec::new(),
            placement: device.placement(),
        }
    }

    /// How messages name a value.
    pub(super) fn origin(&self, node: NodeId) -> Origin {
        self.names.origin(&self.graph, node)
    }

    /// How messages name all of it: by what it downloads or keeps first.
    pub(super) fn first_result(&self) -> Origin {
        let outputs = self.graph.outputs();
        let first = outputs.first().or(self.graph.keeps.first());
        let unknown = || Origin::unnamed("nothing", Location::caller());
        first.map_or_else(unknown, |&node| self.origin(node))
    }

    /// Has each run leave a value in a resident.
    pub(super) fn keep(&mut self, node: NodeId, kept: Kept) {
        self.graph.keeps.push(node);
        self.kept.push(kept);
    }

    /// The residents for which its runs take turns.
    pub(super) fn turns(&self) -> Turns {
        Turns::of(&self.residents, &self.kept)
    }

    /// `uploads`, of which each must have data by now.
    pub(super) fn all_given(
        &self,
        uploads: impl IntoIterator<Item = Option<Arc<HostBuffer>>>,
    ) -> Result<Vec<Arc<HostBuffer>>> {
        let given = uploads.into_iter().enumerate();
        given.map(|(at, data)| data.ok_or_else(|| self.not_given(at))).collect()
    }

    /// The error for an upload without data.
    fn not_given(&self, upload: usize) -> Error {
        let missing = || DeviceError::broken("an upload has no node").into();
        self.upload_origin(upload).map_or_else(missing, |of| DataError::NotGiven(of).into())
    }

    /// `error`, of the memory for an upload.
    pub(super) fn no_room(&self, upload: usize, error: DeviceError) -> DeviceError {
        match self.upload_origin(upload) {
            Some(of) => error.of(&of),
            None => error,
        }
    }

    fn upload_origin(&self, upload: usize) -> Option<Origin> {
        let mut nodes = self.graph.iter();
        let it = nodes.find(|(_, node)| node.op == Op::Upload(upload as u32));
        it.map(|(node, _)| self.origin(node))
    }
}
