//! Results of one run of a program.

use std::collections::HashMap;
use std::fmt;
use std::sync::Arc;

use super::compiled::Program;
use super::signature::Unknown;
use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::batch::KeyOf;
use crate::batch::read::{ReadView, check_length};
use crate::batch::resident::Resident;
use crate::device::PreparedGraph;
use crate::error::{Origin, ReadError, Result};
use crate::graph::NodeId;
use crate::record::Record;
use crate::residents::KeptValues;
use crate::session::{HostOrGpuResult, RunResults, RunStats};

/// The results of one run of a [`Program`].
pub struct Outputs {
    pub(super) program: Program,
    pub(super) prepared: Arc<PreparedGraph>,
    pub(super) results: RunResults,
    /// In the order of the graph's keeps.
    pub(super) kept: KeptValues,
    pub(super) stats: RunStats,
}

impl Outputs {
    /// A result in a vector of its own, in row-major order. Costs as
    /// [`GpuCommandBatch::read`](crate::GpuCommandBatch::read).
    ///
    /// # Errors
    /// [`ReadError`] if no value has this key, if the program does not download the value, or if its elements are of another
    /// type.
    pub async fn read<T: Element>(&self, key: impl KeyOf<T>) -> Result<Vec<T>> {
        Ok(self.found::<T>(key)?.0.into_vec().await)
    }

    /// Like [`read`](Self::read), but consumes the outputs. A result of the CPU with 32-bit elements is returned
    /// without a copy if nobody else holds it, as a [view](Self::read_view) does.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = x.relu().download();
    /// let program = batch.compile().await?;
    /// let y = program.run([(x, &[1.0, -2.0, 3.0])]).await?.into_vec(y).await?;
    /// assert_eq!(y, [1.0, 0.0, 3.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub async fn into_vec<T: Element>(self, key: impl KeyOf<T>) -> Result<Vec<T>> {
        let (found, _) = self.found::<T>(key)?;
        let Self { program, results, kept, .. } = self;
        drop((results, kept));
        Ok(found.into_vec_without_copy(program.device().pool()).await)
    }

    /// Copies a result to `out`, in row-major order. Costs as
    /// [`GpuCommandBatch::read_into`](crate::GpuCommandBatch::read_into).
    ///
    /// # Errors
    /// As [`read`](Self::read); [`ReadError::Length`] if `out` has not as many elements as the result.
    pub async fn read_into<T: Element>(&self, key: impl KeyOf<T>, out: &mut [T]) -> Result<()> {
        let (found, node) = self.found::<T>(key)?;
        let recorded = &*self.program.0.recorded;
        check_length(|| recorded.origin(node), &recorded.graph[node].ty.shape, out)?;
        found.copy_yielding(out).await;
        Ok(())
    }

    /// A result where the run left it, as [`GpuCommandBatch::read_view`](crate::GpuCommandBatch::read_view).
    ///
    /// # Errors
    /// As [`read`](Self::read).
    pub fn read_view<T: Element>(&self, key: impl KeyOf<T>) -> Result<ReadView<T>> {
        Ok(ReadView::of(self.found::<T>(key)?.0))
    }

    /// The data that this run left on the device for a value that the batch [keeps](crate::GpuCommandBatch::keep),
    /// unaffected by data that later runs leave in the resident that `keep` returned.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 2);
    /// let y = x * 2.0;
    /// let _last = y.keep();
    /// let program = batch.compile().await?;
    /// let first = program.run([(x, &[1.0, 2.0])]).await?.kept(y)?;
    /// program.run([(x, &[3.0, 4.0])]).await?;
    /// assert_eq!(first.read().await?, [2.0, 4.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`ReadError`] if the program does not keep the value, or it is of another type.
    pub fn kept<T: Element>(&self, key: impl KeyOf<T>) -> Result<Resident<T>> {
        let node = self.node::<T>(key)?;
        let recorded = &*self.program.0.recorded;
        let Record { device, graph, .. } = recorded;
        let mut kept = graph.keeps.iter().zip(&self.kept);
        let kept = kept.find(|&(&kept, storage)| kept == node && !storage.is_empty());
        let (_, storage) = kept.ok_or_else(|| ReadError::NotKept(recorded.origin(node)))?;
        let Origin { name, place, .. } = recorded.origin(node);
        let of = Origin::resident(name, place);
        Ok(Resident::holding(device, graph[node].ty.clone(), of, storage.clone()))
    }

    /// The shape of a value.
    ///
    /// # Errors
    /// [`ReadError`] if the program has no such value, or it is of another type.
    pub fn shape<T: Element>(&self, key: impl KeyOf<T>) -> Result<Shape> {
        Ok(self.program.0.recorded.graph[self.node::<T>(key)?].ty.shape.clone())
    }

    /// The names of all results, each with its element type, in the order of [`Program::outputs`]. A result that has
    /// several names comes once by each, one that has none by its [`output_names`](Program::output_names).
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let y = batch.input::<f32>("x", 2).relu().named("y").named("positive");
    /// batch.outputs((y, y.sum(0).named("sum")));
    /// let outputs = batch.compile().await?.run([("x", &[-1.0_f32, 3.0])]).await?;
    /// let names: Vec<_> = outputs.names().map(|(name, dtype)| format!("{name}: {dtype}")).collect();
    /// assert_eq!(names, ["positive: f32", "y: f32", "sum: f32"]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn names(&self) -> impl Iterator<Item = (String, DType)> {
        let Record { graph, names, .. } = &*self.program.0.recorded;
        let outputs = graph.outputs();
        let first = names.outputs(&outputs).into_iter().enumerate();
        let positions: HashMap<NodeId, usize> =
            outputs.iter().enumerate().map(|(at, &id)| (id, at)).collect();
        let others =
            names.iter().filter_map(|(name, id)| Some((*positions.get(&id)?, name.to_owned())));
        let mut all: Vec<_> = first.chain(others).collect();
        all.sort_unstable();
        all.dedup();
        all.into_iter().map(move |(at, name)| (name, graph[outputs[at]].ty.dtype))
    }

    /// The counters of the run.
    #[must_use]
    pub fn stats(&self) -> &RunStats {
        &self.stats
    }

    fn found<T: Element>(&self, key: impl KeyOf<T>) -> Result<(HostOrGpuResult, NodeId)> {
        let node = self.node::<T>(key)?;
        let found = self.results.find(&self.prepared, node);
        let missing = || ReadError::NotDownloaded(self.program.0.recorded.origin(node));
        Ok((found.ok_or_else(missing)?, node))
    }

    /// The node behind a key, whose elements are of type `T`.
    fn node<T: Element>(&self, key: impl KeyOf<T>) -> Result<NodeId, ReadError> {
        let program = &*self.program.0;
        let recorded = &*program.recorded;
        let node = program.find_result(key.key()).map_err(|unknown| match unknown {
            Unknown::Id { id_of } => recorded.foreign_result(id_of),
            Unknown::Name(name) => {
                let (there, not_downloaded) = (program.result_names(), program.other_names());
                ReadError::UnknownName { name, there, not_downloaded }
            }
        })?;
        let (found, asked) = (recorded.graph[node].ty.dtype, T::DTYPE);
        if found == asked {
            return Ok(node);
        }
        Err(ReadError::DType { of: recorded.origin(node), found, asked })
    }
}

impl fmt::Debug for Outputs {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Outputs({:?}, {})", self.results, self.stats)
    }
}
