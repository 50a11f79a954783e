//! Compile and run a batch, and read what came back.

use std::sync::Arc;

use super::launch::{Results, Run, admit};
use super::read::Found;
use super::resident;
use super::state::Turns;
use super::stats::RunStats;
use super::{BufferId, GpuCommandBatch};
use crate::clock::Stopwatch;
use crate::cost::{Backend, Placement};
use crate::device::{Device, Prepared};
use crate::dtype::Element;
use crate::error::{ReadError, Result};
use crate::graph::Graph;
use crate::plan::Explanation;

/// What a batch remembers between runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    prepared: Option<Arc<Prepared>>,
    results: Option<Results>,
    stats: RunStats,
}

impl Runs {
    /// The graph changed: plan anew.
    pub fn forget_plan(&mut self) {
        self.prepared = None;
        self.results = None;
    }

    /// The data changed: run anew.
    pub fn forget_results(&mut self) {
        self.results = None;
    }

    pub fn stats(&self) -> &RunStats {
        &self.stats
    }
}

impl GpuCommandBatch {
    /// Runs the batch: one upload, one submit, one download. May be called again, after
    /// [`write`](Self::write) with other data.
    ///
    /// The future is `Send` and may be dropped at any time; the batch then holds no results.
    ///
    /// # Errors
    /// Every mistake made while recording ([`Error::Record`](crate::Error::Record)); a graph that the device cannot hold
    /// ([`Error::Plan`](crate::Error::Plan)); an [input](Self::input) without data ([`Error::Data`](crate::Error::Data)); a failure of the device
    /// ([`Error::Device`](crate::Error::Device)); data that an operation cannot work with, such as an index out of range
    /// ([`Error::Fault`](crate::Error::Fault)): then the run has no results, and residents that it was to fill stay as
    /// they were.
    pub async fn execute(&mut self) -> Result<()> {
        self.runs.results = None;
        let mut stats = RunStats { record_time: self.recording.total(), ..RunStats::default() };
        let _turns = Turns::of(&self.residents, &self.kept).take().await;
        let prepared = self.prepared(&mut stats)?;
        let uploads = self.uploaded()?;
        let run = Run {
            device: &self.device,
            prepared: &prepared,
            graph: &self.graph,
            uploads,
            residents: &self.residents,
            permit: admit(&self.device, &prepared, &mut stats).await?,
        };
        let (results, kept) = run.finish(&mut stats).await?;
        for (handle, storage) in self.kept.iter().zip(kept) {
            handle.fill(storage);
        }
        self.runs.results = Some(results);
        self.runs.stats = stats;
        Ok(())
    }

    /// What the last run brought back for `id`.
    pub(super) fn found<T: Element>(&self, id: BufferId<T>) -> Result<Found> {
        let node = if id.brand == self.brand { self.graph.get(id.node) } else { None };
        if node.is_none() {
            return Err(ReadError::Foreign.into());
        }
        let (Some(prepared), Some(results)) = (&self.runs.prepared, &self.runs.results) else {
            return Err(ReadError::NotExecuted.into());
        };
        results.find(prepared, &self.graph, id.node)
    }

    /// The kernels' WGSL, each with its label, as the GPU would run them.
    ///
    /// # Errors
    /// As [`explain`](Self::explain).
    pub fn shaders(&mut self) -> Result<Vec<(String, String)>> {
        let prepared = self.prepared(&mut RunStats::default())?;
        let dispatches = self.device.dispatches(&prepared.plan);
        Ok(dispatches.into_iter().map(|dispatch| (dispatch.label, dispatch.wgsl)).collect())
    }

    pub(super) fn explanation(&mut self) -> Result<Explanation> {
        self.check_recorded()?;
        // A plan that was made before may be of a batch that was recorded at other places.
        let pinned = resident::pinned(&self.graph, &self.residents, self.placement)?;
        let placed = self.device.place(&self.graph, &self.placement, pinned)?;
        let targets = self.device.targets();
        let limits = &targets.of(placed.plan.backend).limits;
        let why = match (pinned, &self.placement) {
            (Some(_), Placement::Auto) => Some("data that lies there alone".to_owned()),
            (None, Placement::Auto) if placed.other.is_none() => None,
            (_, placement) => Some(placement.to_string()),
        };
        Ok(Explanation::new(&placed, limits, why.as_deref()))
    }

    /// The plan of the batch as it stands, made once.
    pub(super) fn prepared(&mut self, stats: &mut RunStats) -> Result<Arc<Prepared>> {
        self.check_recorded()?;
        let pinned = resident::pinned(&self.graph, &self.residents, self.placement)?;
        if let Some(prepared) = &self.runs.prepared
            && pinned.is_none_or(|side| side == prepared.plan.backend)
        {
            return Ok(Arc::clone(prepared));
        }
        let prepared = prepare(&self.device, &self.graph, self.placement, pinned, stats)?;
        self.runs.prepared = Some(Arc::clone(&prepared));
        Ok(prepared)
    }
}

/// A plan of `graph`, made now or before.
pub(super) fn prepare(
    device: &Device,
    graph: &Graph,
    placement: Placement,
    pinned: Option<Backend>,
    stats: &mut RunStats,
) -> Result<Arc<Prepared>> {
    let planning = Stopwatch::started();
    let (prepared, known) = device.prepare(graph, placement, pinned)?;
    if known {
        stats.plan_hits = 1;
    } else {
        stats.plan_time = planning.total();
    }
    Ok(prepared)
}

impl Device {
    /// Runs one result in a batch of its own: the form of one call per operation.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// let device = onetrip::Device::cpu();
    /// let y = device.eval(|b| {
    ///     let x = b.upload(&[1.0_f32, -2.0]);
    ///     b.relu(x)
    /// });
    /// assert_eq!(y.await?, [1.0, 0.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// # Errors
    /// As [`GpuCommandBatch::execute`] and [`GpuCommandBatch::read`].
    pub async fn eval<T: Element>(
        &self,
        record: impl FnOnce(&mut GpuCommandBatch) -> BufferId<T>,
    ) -> Result<Vec<T>> {
        let mut batch = GpuCommandBatch::new(self);
        let result = record(&mut batch);
        batch.download(result);
        batch.execute().await?;
        batch.read(result).await
    }
}
