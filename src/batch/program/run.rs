//! Runs of programs: compiled, given inputs, timed, limited.

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use super::compiled::Program;
use super::outputs::Outputs;
use super::run_inputs::Fitting;
use crate::base::future::BoxFuture;
use crate::base::trace::{OFF, Timeline, stage};
use crate::batch::GpuCommandBatch;
use crate::batch::input::{Input, Inputs, Lend};
use crate::batch::profile::Profile;
use crate::cost::Placement;
use crate::error::Result;
use crate::exec::deadline;
use crate::plan::Explanation;
use crate::record::{Record, Uploads, Version};
use crate::residents::UpdateOrder;
use crate::session::{RunDone, RunStats};

/// The options of one run.
#[derive(Clone, Copy, Default)]
pub(super) struct RunOptions<'s> {
    /// The time limit, counted from the first poll.
    pub limit: Option<Duration>,
    /// The function that lends the memory of borrowed inputs.
    pub lend: Lend<'s>,
    /// As [`Session::is_on_zeros`](crate::session::Session::is_on_zeros).
    pub is_on_zeros: bool,
}

/// Programs.
impl GpuCommandBatch {
    /// Plans the batch and compiles its kernels, for runs with other data. What is recorded later is not part of the
    /// program.
    ///
    /// Shapes are those recorded. [`Program::run_rows`] serves any number of rows, where no operation mixes them.
    /// Programs that differ only in the leading dimension share most kernels.
    ///
    /// For the cores, it also starts the first helper thread. It allocates and touches the memory of a run, with that of
    /// inputs that runs copy, if this is at most 256 MiB. The device's pool frees memory that no run uses for 20 to 40
    /// seconds. The first program of a structure runs twice on zeros, if a run is predicted to take at most 0.1 ms, and
    /// takes at most 4 MiB. Its residents must lie on the host, no kernel may be the user's own, and a core must be free.
    ///
    /// An adapter that computes on the host's cores, such as Mesa's, compiles again when a kernel first computes. Its
    /// first run may take seconds: make one before runs that have a deadline.
    ///
    /// # Errors
    /// As [`execute`](Self::execute), but inputs need no data yet;
    /// [`RunError::OverBudget`](crate::RunError::OverBudget) if no run of the program could ever have room.
    pub fn compile(&self) -> BoxFuture<'_, Result<Program>> {
        Box::pin(async {
            let (recorded, _) = self.snapshot().checked_record_with_data()?;
            Program::compiled(recorded).await
        })
    }
}

/// Runs.
impl Program {
    /// The same program, on the side that `placement` chooses: planned and compiled anew. Both can run at once.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use onetrip::{Backend, Device, GpuCommandBatch, Placement};
    ///
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = x.relu();
    /// let program = batch.compile().await?.with_placement(Placement::Cpu).await?;
    /// let outputs = program.run([(x, &[1.0, -2.0, 3.0])]).await?;
    /// assert_eq!(outputs.stats().backend, Some(Backend::Cpu));
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`PlanError::NoSuchSide`](crate::PlanError::NoSuchSide) if the device lacks the side; else as
    /// [`GpuCommandBatch::compile`].
    pub fn with_placement(&self, placement: Placement) -> BoxFuture<'_, Result<Self>> {
        Self::compiled(Arc::new(Record { placement, ..(*self.0.recorded).clone() }))
    }

    /// Runs the program. An input that is not given has the data that it had when the program was compiled. The run
    /// reads the data that [residents](GpuCommandBatch::bind) hold when it starts. When it ends, it fills the residents
    /// that the batch [keeps](GpuCommandBatch::keep).
    ///
    /// An input is a pair of a tensor, an id or a name with its data. One is given alone, such as `(x, &data)`; several
    /// are a list or, of different element types, a [tuple](Inputs). 64-bit integers are an [`Input::ids`]. A tensor
    /// borrows its batch, so that a task that outlives the batch takes its [`id`](crate::Tensor::id):
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch, Input};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let table = batch.upload(&[0.5_f32, 1.5, 2.5]);
    /// let (ids, mask) = (batch.input::<i32>("ids", 3), batch.input::<bool>("mask", 3));
    /// let y = mask.select(table.gather(ids, 0), 0.0);
    /// let program = batch.compile().await?;
    /// let (ids, mask, y) = (ids.id(), mask.id(), y.id()); // They are `'static`; tensors borrow the batch.
    /// drop(batch);
    /// let inputs = (Input::ids(ids, &[2, 0, 1]), (mask, &[true, true, false]));
    /// assert_eq!(program.run(inputs).await?.read(y).await?, [2.5, 0.5, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// A program without inputs, or one whose inputs all keep their data, is given `()`. An empty array `[]` has no
    /// element type, so that the compiler asks for one.
    ///
    /// The future is `Send` and may be dropped at any time: memory that a device still uses is used again when that
    /// has finished.
    ///
    /// # Errors
    /// [`DataError`](crate::DataError) for data that does not fit its input, for an input that is given twice, and for
    /// one without data; [`PlanError::EmptyResident`](crate::PlanError::EmptyResident); a failure of the device
    /// ([`DeviceError`](crate::DeviceError)); a [`Fault`](crate::Fault) in the data, and then residents stay as they
    /// were.
    pub fn run<'s, 'a: 's, K>(
        &'s self,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        self.run_fitting(self.0.fitting(&mut inputs.list()), RunOptions::default())
    }

    /// As [`run`](Self::run), with borrowed inputs lent by `lend`.
    #[cfg_attr(not(feature = "blocking"), expect(dead_code, reason = "blocking runs lend inputs"))]
    pub(in crate::batch) fn run_lent<'s, 'a: 's>(
        &'s self,
        inputs: &mut dyn Iterator<Item = Input<'a>>,
        lend: Lend<'s>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        self.run_fitting(self.0.fitting(inputs), RunOptions { lend, ..RunOptions::default() })
    }

    pub(super) fn run_fitting<'s>(
        &'s self,
        inputs: Result<Fitting<'s>>,
        options: RunOptions<'s>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        Box::pin(async move {
            let stage = stage!(OFF, "execute", operations = self.0.recorded.graph.len());
            stage.over(pin!(self.run_timed(inputs?, options, &OFF))).await
        })
    }

    pub(super) async fn run_timed(
        &self,
        inputs: Fitting<'_>,
        options: RunOptions<'_>,
        timeline: &Timeline,
    ) -> Result<Outputs> {
        let program = &*self.0;
        let RunOptions { limit, lend, is_on_zeros } = options;
        let mut stats = RunStats::default();
        let mut lent = Uploads::new();
        let mut inputs = Some(inputs);
        let mut collect = || program.collect(inputs.take().unwrap_or_default(), &mut lent, lend);
        let mut session =
            program.recorded.timed_session(Version::default(), &program.last_choice, timeline);
        (session.limit, session.is_on_zeros) = (limit, is_on_zeros);
        let no_order = UpdateOrder::default();
        let order = if is_on_zeros { &no_order } else { &program.order };
        let done = session.run(order, &mut collect, &mut stats).await;
        lent.into_iter().for_each(|buffer| self.device().pool().give(buffer));
        let RunDone { prepared, results, kept } = done?;
        Ok(Outputs { program: self.clone(), prepared, results, kept, stats })
    }

    /// Runs the program once, and reports the time of each host stage and each kernel beside its prediction. The clock
    /// of a kernel is that of the side that ran it. The results are dropped; residents change as in a run.
    ///
    /// On a GPU each kernel is then a pass of its own, so that its time can be taken: the whole takes longer than
    /// [`run`](Self::run). The first run of a program compiles and allocates for later ones: profile the second. If the
    /// run was [repeated](crate::Recovery), only the last attempt is listed; the stage `execute` spans all attempts.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// let y = x.relu();
    /// let program = batch.compile().await?;
    /// let profile = program.profile([(x, &[1.0, -2.0, 3.0])]).await?;
    /// assert_eq!(profile.kernels[0].kernel, "relu");
    /// println!("{profile}");
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run).
    pub fn profile<'s, 'a: 's, K>(
        &'s self,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Profile>> {
        self.profile_fitting(self.0.fitting(&mut inputs.list()))
    }

    fn profile_fitting<'s>(
        &'s self,
        inputs: Result<Fitting<'s>>,
    ) -> BoxFuture<'s, Result<Profile>> {
        Box::pin(async {
            let inputs = inputs?;
            let timeline = Timeline::begun();
            let stage = stage!(timeline, "execute", operations = self.0.recorded.graph.len());
            let options = RunOptions::default();
            let outputs = stage.over(pin!(self.run_timed(inputs, options, &timeline))).await?;
            let Outputs { prepared, stats, .. } = &outputs;
            let explanation = self
                .0
                .recorded
                .session(Version::default(), &self.0.last_choice)
                .explanation_of(prepared);
            Ok(Profile::new(self.device(), prepared, explanation, stats, &timeline))
        })
    }

    /// The plan of the next run, as [`GpuCommandBatch::explain`] describes it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let mut batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 3);
    /// batch.relu(x);
    /// let program = batch.compile().await?;
    /// assert!(program.explain()?.to_string().contains("relu"));
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`PlanError`](crate::PlanError) if a resident holds no data yet or the graph cannot be planned for the device;
    /// [`DeviceError::ResidentLost`](crate::DeviceError::ResidentLost).
    pub fn explain(&self) -> Result<Explanation> {
        self.0.recorded.session(Version::default(), &self.0.last_choice).explanation()
    }

    /// As [`run`](Self::run), if that takes no longer than `limit`, waiting for the [memory
    /// budget](crate::DeviceBuilder::memory_budget) included. A run that completes at its first poll, such as a short
    /// CPU run, is returned even past `limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    ///
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 2);
    /// let y = x.relu();
    /// let program = batch.compile().await?;
    /// let outputs = program.run_within(Duration::from_secs(2), [(x, &[1.0, -2.0])]).await?;
    /// assert_eq!(outputs.read(y).await?, [1.0, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); [`RunError::Deadline`](crate::RunError::Deadline).
    pub fn run_within<'s, 'a: 's, K>(
        &'s self,
        limit: Duration,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        let options = RunOptions { limit: Some(limit), ..RunOptions::default() };
        self.run_fitting(self.0.fitting(&mut inputs.list()), options)
    }

    /// Runs the program unless `stop` completes first. Each poll polls the run before `stop`, so a run that completes
    /// at the first poll is returned even if `stop` is already complete. Dropping the future of a run stops it too, so that
    /// `tokio::select!` of [`run_within`](Self::run_within) and a signal has both limits.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", 2);
    /// let y = x.relu();
    /// let program = batch.compile().await?;
    /// let caller_left = std::future::pending(); // In a service, a token of cancellation.
    /// let outputs = program.run_unless(caller_left, [(x, &[1.0, -2.0])]).await?;
    /// assert_eq!(outputs.read(y).await?, [1.0, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); [`RunError::Cancelled`](crate::RunError::Cancelled).
    pub async fn run_unless<'s, 'a: 's, K>(
        &'s self,
        stop: impl Future<Output = ()>,
        inputs: impl Inputs<'a, K>,
    ) -> Result<Outputs> {
        deadline::run_unless(stop, self.run(inputs)).await
    }
}
