//! Compile and run a batch, and read what came back.

use std::pin::pin;
use std::sync::Arc;

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::Element;
use crate::base::future::BoxFuture;
use crate::base::trace::{OFF, stage};
use crate::cost::Placement;
use crate::device::{Device, Prepared};
use crate::error::{ReadError, Result};
use crate::plan::{Chooser, Explanation};
use crate::record::Recorded;
use crate::residents::locations;
use crate::session::{HostOrGpuResult, LastPlan, Results, RunStats};

/// What a batch remembers between runs.
#[derive(Debug, Default)]
pub(super) struct Runs {
    plan: LastPlan,
    results: Option<(Arc<Prepared>, Results)>,
    /// Why there are no results, if the last run failed.
    failed: Option<String>,
    stats: RunStats,
}

impl Runs {
    /// The graph changed: plan anew.
    pub fn forget_plan(&mut self) {
        self.plan.clear();
        self.forget_results();
    }

    /// The data changed: run anew.
    pub fn forget_results(&mut self) {
        self.results = None;
        self.failed = None;
    }

    pub fn stats(&self) -> &RunStats {
        &self.stats
    }
}

impl GpuCommandBatch {
    /// Runs the batch: one upload, one submit, one download; only large uploads go in
    /// [several](crate::RunStats::uploads). May be called again, after [`write`](Self::write) with other data.
    ///
    /// The future is `Send` and may be dropped at any time; the batch then holds no results.
    ///
    /// # Errors
    /// Every mistake made while recording ([`Error::Record`](crate::Error::Record)); a graph that the device cannot
    /// hold ([`Error::Plan`](crate::Error::Plan)); an [input](Self::input) without data
    /// ([`Error::Data`](crate::Error::Data)); a failure of the device ([`Error::Device`](crate::Error::Device)); data
    /// that an operation cannot work with, such as an index out of range ([`Error::Fault`](crate::Error::Fault)): then
    /// the run has no results, and residents that it was to fill stay as they were.
    pub async fn execute(&mut self) -> Result<()> {
        self.executed().await
    }

    fn executed(&mut self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            let stage = stage!(OFF, "execute", operations = self.recorded.graph.len());
            let done = stage.over(pin!(self.run_once())).await;
            self.runs.failed = done.as_ref().err().map(ToString::to_string);
            done
        })
    }

    async fn run_once(&mut self) -> Result<()> {
        self.runs.forget_results();
        let mut stats = RunStats { record_time: self.recording.total(), ..RunStats::default() };
        self.check_recorded()?;
        let order = self.recorded.update_order();
        let runs = self.recorded.run_loop(&self.runs.plan);
        let done = runs.run(&order, &mut || self.uploaded(), &mut stats).await?;
        self.runs.results = Some((done.prepared, done.results));
        self.runs.stats = stats;
        Ok(())
    }

    /// What the last run brought back for `id`.
    pub(super) fn found<T: Element>(&self, id: BufferId<T>) -> Result<HostOrGpuResult> {
        let node = self.check(id).map_err(|_| ReadError::Foreign)?;
        let of = || self.recorded.origin(node);
        match (&self.runs.results, &self.runs.failed) {
            (Some((prepared, results)), _) => {
                let found = results.find(prepared, node);
                Ok(found.ok_or_else(|| ReadError::NotDownloaded(of()))?)
            }
            (None, Some(why)) => Err(ReadError::Failed { of: of(), why: why.clone() }.into()),
            (None, None) => Err(ReadError::NotExecuted(of()).into()),
        }
    }

    /// The kernels' WGSL, each with its label, as the GPU would run them.
    ///
    /// # Errors
    /// As [`explain`](Self::explain).
    pub fn shaders(&mut self) -> Result<Vec<(String, String)>> {
        self.check_recorded()?;
        let runs = self.recorded.run_loop(&self.runs.plan);
        let choice = runs.choice(&mut RunStats::default())?;
        let plans = choice.prepared.pieces.iter().map(|piece| &piece.plan);
        let dispatches = plans.flat_map(|plan| self.recorded.device.dispatches(plan));
        Ok(dispatches.map(|dispatch| (dispatch.label, dispatch.wgsl)).collect())
    }

    pub(super) fn explanation(&mut self) -> Result<Explanation> {
        self.check_recorded()?;
        // A plan that was made before may be of a batch that was recorded at other places.
        let Recorded { device, graph, residents, placement, .. } = &self.recorded;
        let residents = locations(graph, residents)?;
        let targets = device.targets();
        let runs = self.recorded.run_loop(&self.runs.plan);
        let wanted = runs.wanted(&residents);
        let (placed, measured) = device.foresee(&wanted, &targets)?;
        let sides = [&targets.cpu].into_iter().chain(&targets.gpu);
        let sides: Vec<_> = sides.filter(|target| device.uses(target.backend)).collect();
        let chooser = match device.placement_now(*placement) {
            Placement::Auto if measured.is_some() => measured,
            Placement::Auto if placed.was_chosen() || placed.too_small.is_some() => {
                Some(Chooser::Times)
            }
            // Of one side there is nothing to choose.
            Placement::Auto if sides.len() < 2 => None,
            Placement::Auto if graph.needs_gpu() => Some(Chooser::Kernel),
            Placement::Auto => {
                residents.iter().any(|residence| residence.is_far()).then_some(Chooser::Data)
            }
            placement => Some(Chooser::Asked(placement)),
        };
        Ok(Explanation::new(&placed, sides, chooser, &residents))
    }
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
        let found = batch.found(result)?;
        drop(batch);
        Ok(found.taken(self.pool()).await)
    }
}
