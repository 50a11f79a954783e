//! Runs of a batch: the record that a run takes, the results of the last run, the text of its kernels, and runs of one
//! result without a batch.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::last_run::RunEnd;
use super::{BufferId, GpuCommandBatch, Tensor};
use crate::base::dtype::Element;
use crate::base::future::BoxFuture;
use crate::base::place::Place;
use crate::base::trace::{OFF, stage};
use crate::device::Device;
use crate::error::{DataError, ReadError, Result};
use crate::record::{Record, Version};
use crate::session::{HostOrGpuResult, RunStats};

/// The record of a batch at one moment.
pub(super) struct Snapshot {
    recorded: Arc<Record>,
    version: Version,
    mistakes: Result<()>,
    /// The reason why the data of an upload is not whole.
    half_changed: Option<DataError>,
    record_time: Duration,
}

impl Snapshot {
    /// The record and its version.
    ///
    /// # Errors
    /// Every mistake in it; [`PlanError::Empty`](crate::PlanError::Empty).
    pub fn checked_record(self) -> Result<(Arc<Record>, Version)> {
        self.mistakes?;
        self.recorded.check_not_empty()?;
        Ok((self.recorded, self.version))
    }

    /// The record and its version, for a run of its data.
    ///
    /// # Errors
    /// As [`checked_record`](Self::checked_record); [`DataError::BeingChanged`] and [`DataError::Panicked`].
    pub fn checked_record_with_data(self) -> Result<(Arc<Record>, Version)> {
        match self.half_changed {
            Some(error) => self.mistakes.and(Err(error.into())),
            None => self.checked_record(),
        }
    }
}

/// Runs and results.
impl GpuCommandBatch {
    /// Runs the batch: one upload, one submit, one download; only large uploads go in
    /// [several](crate::RunStats::uploads). May be called again, after [`write`](Self::write) with other data.
    ///
    /// The future is `Send` and may be dropped at any time; the batch then holds no results. Runs of one batch take
    /// turns. A run uses what was recorded and written by the time its turn comes.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1.0_f32, -2.0]);
    /// let y = (x * 3.0).relu();
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?, [3.0, 0.0]);
    /// batch.write(x, &[-1.0, 4.0])?;
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?, [0.0, 12.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// - [`Error::Record`](crate::Error::Record): every mistake made while recording.
    /// - [`Error::Plan`](crate::Error::Plan): there is nothing to compute, the device cannot hold the graph, or the
    ///   [placement](Self::set_placement) asks for a side that it lacks.
    /// - [`Error::Data`](crate::Error::Data): an [input](Self::input) has no data, or a call of
    ///   [`write_with`](Self::write_with) is changing an upload, or panicked while it did.
    /// - [`Error::Run`](crate::Error::Run): the run can never fit the memory budget.
    /// - [`Error::Device`](crate::Error::Device): the device failed.
    /// - [`Error::Fault`](crate::Error::Fault): an operation cannot work with its data, such as an index out of range.
    ///   The run then has no results, and residents that it was to fill stay as they were.
    pub async fn execute(&self) -> Result<()> {
        self.executed().await
    }

    fn executed(&self) -> BoxFuture<'_, Result<()>> {
        Box::pin(async {
            // Without a wait where there is none: a short run is done at the first poll.
            let _running = match self.running.try_lock() {
                Ok(running) => running,
                Err(_) => self.running.lock().await,
            };
            let stage = stage!(OFF, "execute", operations = self.recorded().graph.len());
            stage.over(pin!(self.run_once())).await
        })
    }

    async fn run_once(&self) -> Result<()> {
        let (recorded, version, mut stats) = self.begin()?;
        let order = recorded.update_order();
        let uploads = &mut || recorded.all_given(recorded.uploads.iter().cloned());
        let session = recorded.session(version, &self.last_choice);
        let done = session.run(&order, uploads, &mut stats).await;
        let mut last = self.last.lock();
        let done = done.inspect_err(|error| last.fail(version, error))?;
        last.ran = Some((version, RunEnd::Done(done.prepared, done.results)));
        last.stats = stats;
        Ok(())
    }

    /// The record for a run that begins. The batch has no results until that ends.
    fn begin(&self) -> Result<(Arc<Record>, Version, RunStats)> {
        let snapshot = self.snapshot();
        let (version, record_time) = (snapshot.version, snapshot.record_time);
        let mut last = self.last.lock();
        last.ran = None;
        let checked = snapshot.checked_record_with_data();
        let (recorded, _) = checked.inspect_err(|error| last.fail(version, error))?;
        Ok((recorded, version, RunStats { record_time, ..RunStats::default() }))
    }

    #[cfg(test)]
    pub(crate) fn uploaded(&self) -> Result<crate::record::Uploads> {
        let recorded = self.recorded();
        recorded.all_given(recorded.uploads.iter().cloned())
    }

    /// The record so far.
    ///
    /// # Errors
    /// Every mistake in it.
    #[cfg(feature = "safetensors")]
    pub(crate) fn checked_record(&self) -> Result<Arc<Record>> {
        Ok(self.snapshot().checked_record_with_data()?.0)
    }

    /// The record at one moment: another thread may go on recording.
    pub(super) fn snapshot(&self) -> Snapshot {
        let recorder = self.recorder.lock();
        Snapshot {
            recorded: Arc::clone(recorder.recorded()),
            version: recorder.version(),
            mistakes: recorder.check_mistakes(),
            half_changed: recorder.half_changed(),
            record_time: recorder.recording.total(),
        }
    }

    /// The result of the last run for `id`, unless the batch was changed since.
    pub(super) fn last_result<T: Element>(&self, id: BufferId<T>) -> Result<HostOrGpuResult> {
        let recorder = self.recorder.lock();
        let recorded = recorder.recorded();
        let foreign = || recorded.foreign_result(id.batch_id);
        let node = recorded.node(id.value()).ok_or_else(foreign)?;
        let of = || recorded.origin(node);
        let last = self.last.lock();
        let ran = last.ran.as_ref().filter(|(version, _)| *version == recorder.version());
        match ran.map(|(_, ran)| ran) {
            Some(RunEnd::Done(prepared, results)) => {
                let found = results.find(prepared, node);
                Ok(found.ok_or_else(|| ReadError::NotDownloaded(of()))?)
            }
            Some(RunEnd::Failed(why)) => {
                Err(ReadError::Failed { of: of(), why: why.clone() }.into())
            }
            // `execute` would return the mistakes.
            None => {
                recorder.check_mistakes()?;
                Err(ReadError::NotExecuted(of()).into())
            }
        }
    }

    /// The WGSL of each kernel of the chosen plan, with its label. A plan for the cores has WGSL too, and may differ from
    /// that for a GPU.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// batch.upload(&[1.0_f32, -2.0]).relu().exp();
    /// let shaders = batch.shaders()?;
    /// let [(label, wgsl)] = &shaders[..] else { panic!("one kernel") };
    /// assert_eq!(label, "relu+exp");
    /// assert!(wgsl.contains("@compute"));
    /// # Ok::<_, onetrip::Error>(())
    /// ```
    ///
    /// # Errors
    /// As [`explain`](Self::explain).
    pub fn shaders(&self) -> Result<Vec<(String, String)>> {
        let (recorded, version) = self.snapshot().checked_record()?;
        let session = recorded.session(version, &self.last_choice);
        let chosen = session.choice(&mut RunStats::default())?;
        let plans = chosen.prepared.pieces.iter().map(|piece| &piece.plan);
        let dispatches = plans.flat_map(|plan| self.device.dispatches(plan));
        Ok(dispatches.map(|dispatch| (dispatch.label, dispatch.wgsl)).collect())
    }
}

/// Results without a batch.
impl Device {
    /// Runs one result in a batch of its own: the form of one call per operation.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// let device = onetrip::Device::cpu();
    /// let y = device.eval(|b| b.relu(b.upload(&[1.0_f32, -2.0])));
    /// assert_eq!(y.await?, [1.0, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`GpuCommandBatch::execute`] and [`GpuCommandBatch::read`].
    #[track_caller]
    pub fn eval<T: Element>(
        &self,
        record: impl for<'b> FnOnce(&'b GpuCommandBatch) -> Tensor<'b, T>,
    ) -> impl Future<Output = Result<Vec<T>>> {
        let place = Place::caller();
        async move {
            let batch = GpuCommandBatch::made_at(self, place);
            let result = record(&batch).id();
            batch.download(result);
            batch.execute().await?;
            let found = batch.last_result(result)?;
            drop(batch);
            Ok(found.into_vec_without_copy(self.pool()).await)
        }
    }
}
