//! The inputs and the outputs of a program, with their types, and the values that keys find.

use super::compiled::{Inner, Program};
use crate::base::dtype::DType;
use crate::base::shape::Shape;
use crate::batch::input::ValueKey;
use crate::graph::NodeId;
use crate::ops::Op;

impl Program {
    /// The name, element type and shape of each input, in the order of recording. Uploads with a name are among them:
    /// one that a run is not given keeps its data.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{DType, Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let (x, ids) = (batch.input::<f32>("x", [4, 2]), batch.input::<u32>("ids", 3));
    /// x.gather(ids, 0).named("rows").download();
    /// let program = batch.compile().await?;
    /// let inputs: Vec<_> = program.inputs().collect();
    /// assert_eq!(inputs, [("x", DType::F32, &[4, 2].into()), ("ids", DType::U32, &[3].into())]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn inputs(&self) -> impl Iterator<Item = (&str, DType, &Shape)> {
        let recorded = &*self.0.recorded;
        let uploads = recorded.graph.iter().filter(|(_, node)| matches!(node.op, Op::Upload(_)));
        uploads.filter_map(|(id, node)| {
            let name = recorded.names.first(id)?;
            Some((&**name, node.ty.dtype, &node.ty.shape))
        })
    }

    /// The name, element type and shape of each result that runs download. Those without a name are read by their ids.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{DType, Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let shares = batch.input::<f32>("x", [4, 10]).softmax(1).named("shares");
    /// batch.outputs((shares, shares.argmax(1)));
    /// let program = batch.compile().await?;
    /// let outputs: Vec<_> = program.outputs().collect();
    /// let shares = (Some("shares"), DType::F32, &[4, 10].into());
    /// assert_eq!(outputs, [shares, (None, DType::U32, &[4].into())]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn outputs(&self) -> impl Iterator<Item = (Option<&str>, DType, &Shape)> {
        let recorded = &*self.0.recorded;
        recorded.graph.outputs().into_iter().map(|id| {
            let node = &recorded.graph[id];
            (recorded.names.first(id).map(|name| &**name), node.ty.dtype, &node.ty.shape)
        })
    }
}

impl Inner {
    pub(super) fn find(&self, key: ValueKey<'_>) -> Result<NodeId, Unknown> {
        let name = match key {
            ValueKey::Id(value) => {
                let unknown = Unknown::Id { id_of: value.brand };
                return self.recorded.node(value).ok_or(unknown);
            }
            ValueKey::Name(name) => name,
        };
        self.recorded.names.get(name).ok_or_else(|| Unknown::Name(name.to_owned()))
    }

    pub(super) fn input_names(&self) -> Vec<String> {
        let is_upload = |node: NodeId| matches!(self.recorded.graph[node].op, Op::Upload(_));
        self.recorded.names.of(is_upload)
    }

    /// The names of the values that runs download or keep.
    pub(super) fn result_names(&self) -> Vec<String> {
        let graph = &self.recorded.graph;
        let outputs = graph.outputs();
        self.recorded.names.of(|node| outputs.contains(&node) || graph.keeps.contains(&node))
    }
}

/// A key of no value.
pub(super) enum Unknown {
    Id {
        /// The batch that made it.
        id_of: u64,
    },
    Name(String),
}
