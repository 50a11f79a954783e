//! The inputs and the outputs of a program, with their types, and the values that keys find.

use super::compiled::{Inner, Program};
use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::batch::ValueKey;
use crate::batch::resident::Resident;
use crate::batch::values::key::IdOrName;
use crate::error::{DataError, Origin, Result, RowsError};
use crate::graph::NodeId;
use crate::ops::Op;
use crate::record::Record;
use crate::residents::Handle;

/// Inputs, outputs and residents by name.
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

    /// The name, element type and shape of each result that runs download. Those without a name are read by their ids,
    /// or by their [`output_names`](Self::output_names).
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

    /// The name by which each of the [`outputs`](Self::outputs) is read. Of several names it is the first in order. An
    /// output without a name has `output` and its position, as in the program's [file](Self::save).
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 2);
    /// batch.outputs((x.relu().named("y"), x.neg()));
    /// let program = batch.compile().await?;
    /// assert_eq!(program.output_names(), ["y", "output1"]);
    /// let outputs = program.run([("x", &[1.0_f32, 2.0])]).await?;
    /// assert_eq!(outputs.read::<f32>("output1").await?, [-1.0, -2.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn output_names(&self) -> Vec<String> {
        let recorded = &*self.0.recorded;
        recorded.names.outputs(&recorded.graph.outputs())
    }

    /// The resident behind a name: of a value that the program binds, or of one that its runs keep or update. A tensor of
    /// `Weights` has its name in the file, too. So the state of a loaded program can be read and written.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let batch = GpuCommandBatch::new(&device);
    /// let count = device.resident(&[0_u32], [])?;
    /// let next = batch.bind(&count).named("count") + 1;
    /// batch.update(&count, next);
    /// batch.outputs(next);
    /// let program = batch.compile().await?;
    /// let state = program.resident::<u32>("count")?;
    /// state.write(&[7]).await?;
    /// program.run(()).await?;
    /// assert_eq!(state.read().await?, [8]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`DataError::UnknownResident`] lists those with a name; [`DataError::DType`] if it holds elements of another type.
    pub fn resident<T: Element>(&self, name: &str) -> Result<Resident<T>> {
        let recorded = &*self.0.recorded;
        let named = || self.0.held(recorded.names.get(name)?);
        let Some(handle) = named().or_else(|| self.0.held_by_own_name(name)) else {
            let mut there = recorded.names.of(|node| self.0.held(node).is_some());
            there.extend(self.0.own_names());
            there.sort_unstable();
            there.dedup();
            return Err(DataError::UnknownResident { name: name.to_owned(), there }.into());
        };
        let (given, expected) = (T::DTYPE, handle.ty().dtype);
        if given != expected {
            let of = Origin { name: Some(name.into()), ..handle.origin() };
            return Err(DataError::DType { of, expected, given }.into());
        }
        Ok(Resident::of(handle.clone()))
    }
}

impl Inner {
    /// The names that one resident alone has of its own, such as those of a file's tensors.
    fn own_names(&self) -> Vec<String> {
        let mut names: Vec<&str> =
            self.recorded.residents.iter().filter_map(Handle::name).collect();
        names.sort_unstable();
        let alone = names.chunk_by(PartialEq::eq).filter(|same| same.len() == 1);
        alone.map(|same| same[0].to_owned()).collect()
    }

    /// The one resident that has this name of its own.
    fn held_by_own_name(&self, name: &str) -> Option<&Handle> {
        let mut named = self.recorded.residents.iter().filter(|handle| handle.name() == Some(name));
        named.next().filter(|_| named.next().is_none())
    }

    /// The resident that a value comes from, or that runs leave it in.
    fn held(&self, id: NodeId) -> Option<&Handle> {
        let Record { graph, residents, keeps, .. } = &*self.recorded;
        if let Op::Resident(at) = graph[id].op {
            return residents.get(at as usize);
        }
        if let Some(at) = graph.keeps.iter().position(|&kept| kept == id) {
            return keeps.get(at).map(|keep| &keep.handle);
        }
        // The whole value of a resident whose slice is written stands among the updates.
        let at = graph.updates.iter().position(|&whole| whole == id)?;
        keeps.iter().filter(|keep| keep.patch.is_some()).nth(at).map(|keep| &keep.handle)
    }

    pub(super) fn find(&self, key: ValueKey<'_>) -> Result<NodeId, Unknown> {
        let name = match key.0 {
            IdOrName::Id(value) => {
                let unknown = Unknown::Id { id_of: value.batch_id };
                return self.recorded.node(value).ok_or(unknown);
            }
            IdOrName::Name(name) => name,
        };
        self.recorded.names.get(name).ok_or_else(|| Unknown::Name(name.to_owned()))
    }

    /// The value behind a key, or the output that has the key for want of a name.
    pub(super) fn find_result(&self, key: ValueKey<'_>) -> Result<NodeId, Unknown> {
        let unnamed = |name: &str| {
            let outputs = self.recorded.graph.outputs();
            let at = self.recorded.names.outputs(&outputs).iter().position(|one| one == name)?;
            Some(outputs[at])
        };
        self.find(key).or_else(|unknown| match unknown {
            Unknown::Name(name) => unnamed(&name).ok_or(Unknown::Name(name)),
            unknown @ Unknown::Id { .. } => Err(unknown),
        })
    }

    /// The node of an input.
    pub(super) fn input_node(&self, key: ValueKey<'_>) -> Result<NodeId> {
        let id = self.find_result(key).map_err(|unknown| match unknown {
            Unknown::Id { id_of } => self.recorded.foreign_upload(id_of),
            Unknown::Name(name) => {
                DataError::UnknownName { name, there: self.recorded.upload_names() }
            }
        })?;
        self.recorded.upload(id)?;
        Ok(id)
    }

    /// As [`input_node`](Self::input_node), for an input that is to have rows.
    pub(super) fn input_with_rows(&self, key: ValueKey<'_>) -> Result<NodeId> {
        let Record { graph, residents, .. } = &*self.recorded;
        let resident = match self.find(key) {
            Ok(id) => matches!(graph[id].op, Op::Resident(_)).then(|| self.recorded.source(id)),
            Err(Unknown::Name(name)) => {
                let mut all = residents.iter().map(Handle::origin);
                all.find(|of| of.name.as_deref() == Some(&name))
            }
            Err(Unknown::Id { .. }) => None,
        };
        match resident {
            Some(of) => {
                Err(RowsError::Resident { of, inputs: self.recorded.upload_names() }.into())
            }
            None => self.input_node(key),
        }
    }

    /// The names by which the values that runs download or keep are read.
    pub(super) fn result_names(&self) -> Vec<String> {
        let Record { graph, names, .. } = &*self.recorded;
        let outputs = graph.outputs();
        let mut all = names.of(|node| outputs.contains(&node) || graph.keeps.contains(&node));
        all.extend(names.outputs(&outputs).into_iter().filter(|name| names.get(name).is_none()));
        all
    }

    /// The names of values that operations make, and that runs neither download nor keep.
    pub(super) fn other_names(&self) -> Vec<String> {
        let Record { graph, names, .. } = &*self.recorded;
        let outputs = graph.outputs();
        let is_result = |node| outputs.contains(&node) || graph.keeps.contains(&node);
        names.of(|node| !is_result(node) && !graph[node].op.is_source())
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
