//! Descriptions of programs that are files.

use std::collections::HashMap;
use std::fmt;

use super::document::{Document, place_of};
use super::load::{opened, unreadable};
use super::reason::Unreadable;
use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::batch::{Program, Weights};
use crate::error::Result;
use crate::graph::{Graph, NodeId};
use crate::ops::{Op, Type};

/// The description of a [`Program`] that is a file. Prints as a list.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ProgramInfo {
    /// The version of onetrip that wrote the file.
    pub written_by: String,
    /// The program's [fingerprint](Program::fingerprint) in that version.
    pub fingerprint: u128,
    /// The number of operations.
    pub operations: usize,
    /// The number of kernels in WGSL that the file brings.
    pub own_kernels: usize,
    /// The inputs that each run must be given.
    pub inputs: Vec<ValueInfo>,
    /// The values that each run downloads.
    pub outputs: Vec<ValueInfo>,
    /// The values that each run leaves in residents.
    pub kept: Vec<ValueInfo>,
    /// The tensors that uploads and residents hold at first, by their names in the file.
    pub tensors: Vec<ValueInfo>,
}

/// A value of a program.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub struct ValueInfo {
    /// Its name.
    pub name: String,
    /// The type of its elements.
    pub dtype: DType,
    /// Its shape.
    pub shape: Shape,
    /// The place where it was recorded.
    pub place: Place,
}

/// Descriptions of files.
impl Program {
    /// Describes the program in a file. No device is needed, and no tensor is read.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch, Program, Weights};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// batch.input::<f32>("x", [2, 3]).relu().named("y");
    /// let file = Weights::from_bytes(batch.to_bytes().await?)?;
    /// let info = Program::describe(&file)?;
    /// assert_eq!((&*info.inputs[0].name, info.inputs[0].shape.dims()), ("x", &[2, 3][..]));
    /// assert_eq!(info.outputs[0].name, "y");
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DataError::File`](crate::DataError::File) if the file holds no program, a damaged one, or one of a later
    /// version.
    pub fn describe(file: &Weights) -> Result<ProgramInfo> {
        let document = opened(file)?;
        let (graph, nodes) = document.graph().map_err(|reason| unreadable(file, reason))?;
        described(&document, graph, &nodes).map_err(|reason| unreadable(file, reason))
    }
}

fn described(
    document: &Document,
    mut graph: Graph,
    nodes: &[NodeId],
) -> Result<ProgramInfo, Unreadable> {
    let there = |&at: &u32| nodes.get(at as usize).copied().ok_or(format!("there is no node {at}"));
    let downloads = document.downloads.iter().map(there);
    graph.downloads = downloads.collect::<Result<_, _>>()?;
    let kept = document.keeps.iter().map(|keep| there(&keep.value));
    graph.keeps = kept.collect::<Result<_, _>>()?;
    let mut names: HashMap<NodeId, &str> = HashMap::with_capacity(document.names.len());
    for (name, at) in &document.names {
        names.entry(there(at)?).or_insert(name);
    }
    let value = |name: &str, Type { dtype, shape }: &Type, place: &Place| ValueInfo {
        name: name.to_owned(),
        dtype: *dtype,
        shape: shape.clone(),
        place: place.clone(),
    };
    let of = |id: NodeId| {
        let name = names.get(&id).copied().unwrap_or_default();
        value(name, &graph[id].ty, &graph[id].place)
    };
    let (mut inputs, mut tensors) = (Vec::new(), Vec::new());
    for (id, node) in graph.iter() {
        let Op::Upload(at) = node.op else { continue };
        match &document.uploads[at as usize] {
            None => inputs.push(of(id)),
            Some(tensor) => tensors.push(value(tensor, &node.ty, &node.place)),
        }
    }
    for form in &document.residents {
        let ty = super::document::type_of(&form.dtype, &form.shape)?;
        tensors
            .extend(form.tensor.as_ref().map(|tensor| value(tensor, &ty, &place_of(&form.place))));
    }
    let is_custom = |op: &Op| matches!(op, Op::Custom(_));
    Ok(ProgramInfo {
        written_by: document.onetrip.clone(),
        fingerprint: document.fingerprint()?,
        operations: graph.len(),
        own_kernels: graph.iter().filter(|(_, node)| is_custom(&node.op)).count(),
        inputs,
        outputs: graph.outputs().into_iter().map(of).collect(),
        kept: graph.keeps.iter().map(|&id| of(id)).collect(),
        tensors,
    })
}

impl fmt::Display for ProgramInfo {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { written_by, fingerprint, operations, .. } = self;
        write!(f, "program {fingerprint:032x}, {operations} operations, by onetrip {written_by}")?;
        let lists = [
            ("input", &self.inputs),
            ("output", &self.outputs),
            ("kept", &self.kept),
            ("tensor", &self.tensors),
        ];
        for (kind, values) in lists {
            for ValueInfo { name, dtype, shape, place } in values {
                write!(f, "\n  {kind} {name:?}: {dtype}{shape} ({place})")?;
            }
        }
        Ok(())
    }
}
