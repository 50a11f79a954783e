//! The record of a batch or a program: graph, data and residents.

use std::fmt;
use std::sync::Arc;

use smallvec::SmallVec;

use super::batch_ids::made_at;
use super::names::Names;
use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::cost::Placement;
use crate::device::Device;
use crate::error::{DataError, DeviceError, Origin, PlanError, ReadError, Result};
use crate::exec::HostBuffer;
use crate::graph::{Graph, NodeId};
use crate::ops::{CpuFunction, Op, Type};
use crate::residents::{Handle, Keep, UpdateOrder};

/// The id of a value without its element type.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct UntypedId {
    pub(crate) node: NodeId,
    /// The batch that it belongs to.
    pub(crate) batch_id: u64,
}

impl fmt::Debug for UntypedId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?} of batch {}", self.node, self.batch_id)
    }
}

/// The data of all uploads, by position.
pub(crate) type Uploads = SmallVec<[Arc<HostBuffer>; 4]>;

/// A graph with its data, for one device.
#[derive(Clone, Debug)]
pub(crate) struct Record {
    pub(crate) device: Device,
    /// The number by which a batch knows its own ids.
    pub batch_id: u64,
    /// The place where the batch was made; `None` for a program from a file.
    pub(crate) made_at: Option<Place>,
    /// Shared with explanations: a change copies it while they hold it.
    pub graph: Arc<Graph>,
    pub(crate) names: Names,
    /// The uploads by position; `None` for an [input](crate::batch::GpuCommandBatch::input) that no run was given yet.
    pub(crate) uploads: Vec<Option<Arc<HostBuffer>>>,
    /// The functions that compute kernels of the user's own on the CPU.
    pub(crate) functions: Vec<CpuFunction>,
    pub(crate) residents: Vec<Handle>,
    /// In the order of the graph's keeps.
    pub(crate) keeps: Vec<Keep>,
    pub(crate) placement: Placement,
}

impl Record {
    pub(crate) fn new(device: &Device, batch_id: u64, made_at: Place) -> Self {
        Self {
            device: device.clone(),
            batch_id,
            made_at: Some(made_at),
            graph: Arc::default(),
            names: Names::default(),
            uploads: Vec::new(),
            functions: Vec::new(),
            residents: Vec::new(),
            keeps: Vec::new(),
            placement: device.placement(),
        }
    }

    /// The graph, to change it.
    pub(crate) fn graph_mut(&mut self) -> &mut Graph {
        Arc::make_mut(&mut self.graph)
    }

    /// The node behind an id of this record's batch.
    pub(crate) fn node(&self, value: UntypedId) -> Option<NodeId> {
        let is_own = value.batch_id == self.batch_id && self.graph.get(value.node).is_some();
        is_own.then_some(value.node)
    }

    /// # Errors
    /// [`PlanError::Empty`].
    pub(crate) fn check_not_empty(&self) -> Result<(), PlanError> {
        match &self.made_at {
            // The program of a file is not empty.
            Some(made_at) if self.graph.len() == 0 => {
                Err(PlanError::Empty { made_at: made_at.clone() })
            }
            _ => Ok(()),
        }
    }

    /// The error for data that is given to an id of the batch numbered `id_of`.
    pub(crate) fn foreign_upload(&self, id_of: u64) -> DataError {
        let (id_made_at, made_at) = (made_at(id_of), self.made_at.clone());
        DataError::Foreign { id_of, id_made_at, batch: self.batch_id, made_at }
    }

    /// The error for a read by an id of the batch numbered `id_of`.
    pub(crate) fn foreign_result(&self, id_of: u64) -> ReadError {
        let (id_made_at, made_at) = (made_at(id_of), self.made_at.clone());
        ReadError::Foreign { id_of, id_made_at, batch: self.batch_id, made_at }
    }

    pub(crate) fn upload(&self, node: NodeId) -> Result<usize, DataError> {
        match self.graph[node].op {
            Op::Upload(position) => Ok(position as usize),
            _ => Err(DataError::NotAnUpload {
                of: self.origin(node),
                is_output: self.graph.outputs().contains(&node),
                there: self.upload_names(),
            }),
        }
    }

    /// The names of the uploads that have one.
    pub(crate) fn upload_names(&self) -> Vec<String> {
        self.names.of(|node| matches!(self.graph[node].op, Op::Upload(_)))
    }

    /// The name of a value in messages.
    pub(crate) fn origin(&self, node: NodeId) -> Origin {
        self.names.origin(&self.graph, node)
    }

    /// As [`origin`](Self::origin), but of the resident behind a value, since the node has the name of the method that
    /// bound it.
    pub(crate) fn source(&self, node: NodeId) -> Origin {
        let origin = self.origin(node);
        match self.graph[node].op {
            Op::Resident(at) => {
                let resident = self.residents[at as usize].origin();
                Origin { name: origin.name.or(resident.name), ..resident }
            }
            _ => origin,
        }
    }

    /// As [`source`](Self::source), of an operand. The node of a number has the name of the method that took it.
    pub(crate) fn operand(&self, node: NodeId) -> Origin {
        let origin = self.source(node);
        match (&self.graph[node].op, self.graph[node].ty.shape.rank()) {
            (Op::Full(_), 0) => Origin { op: "number", ..origin },
            _ => origin,
        }
    }

    /// The name of the whole in messages: that of the value that it downloads or keeps first.
    pub(crate) fn first_result(&self) -> Origin {
        let outputs = self.graph.outputs();
        let first = outputs.first().or(self.graph.keeps.first());
        let unknown = || Origin::unnamed("nothing", Place::caller());
        first.map_or_else(unknown, |&node| self.origin(node))
    }

    /// Has each run leave a value in a resident.
    pub(crate) fn keep(&mut self, node: NodeId, keep: Keep) {
        self.graph_mut().keeps.push(node);
        self.keeps.push(keep);
    }

    /// The order in which runs take turns that update its residents.
    pub(crate) fn update_order(&self) -> UpdateOrder {
        UpdateOrder::of(&self.residents, &self.keeps)
    }

    /// `uploads`, of which each that a result needs must have data by now. Nothing stands in place of the others.
    pub(crate) fn all_given(
        &self,
        uploads: impl IntoIterator<Item = Option<Arc<HostBuffer>>>,
    ) -> Result<Uploads> {
        let (mut given, mut missing) = (Uploads::new(), Vec::new());
        for (at, data) in uploads.into_iter().enumerate() {
            given.push(match data {
                Some(data) => data,
                None => {
                    let node = self.upload_node(at);
                    missing.push(node.ok_or_else(|| DeviceError::broken("an upload has no node"))?);
                    Arc::new(HostBuffer::try_zeroed(DType::F32, 0)?)
                }
            });
        }
        match self.needed_of(missing) {
            needed if needed.is_empty() => Ok(given),
            needed => Err(DataError::NotGiven(needed).into()),
        }
    }

    /// The origins of the `nodes` that a result needs.
    pub(crate) fn needed_of(&self, nodes: Vec<NodeId>) -> Vec<Origin> {
        if nodes.is_empty() {
            return Vec::new();
        }
        let live = self.graph.live();
        let needed = nodes.into_iter().filter(|&node| live.contains_key(node));
        needed.map(|node| self.origin(node)).collect()
    }

    /// The uploads that have no data yet, with their types.
    pub(crate) fn open_inputs(&self) -> impl Iterator<Item = (NodeId, &Type)> {
        let is_open =
            |op: &Op| matches!(*op, Op::Upload(at) if self.uploads[at as usize].is_none());
        let open = self.graph.iter().filter(move |(_, node)| is_open(&node.op));
        open.map(|(id, node)| (id, &node.ty))
    }

    /// The node of the upload at `position`.
    pub(super) fn upload_node(&self, position: usize) -> Option<NodeId> {
        let mut nodes = self.graph.iter();
        let (node, _) = nodes.find(|(_, node)| node.op == Op::Upload(position as u32))?;
        Some(node)
    }
}
