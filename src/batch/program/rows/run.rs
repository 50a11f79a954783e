//! Runs with any number of rows.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::cut::{RowChunk, cut};
use super::join::Joined;
use super::row_inputs::{RowInputs, of_rows};
use super::time_left::TimeLeft;
use super::traced::Rows;
use crate::base::future::BoxFuture;
use crate::base::shape::Shape;
use crate::batch::input::{Input, Inputs};
use crate::batch::program::compiled::{Inner, Program};
use crate::batch::program::outputs::Outputs;
use crate::batch::program::run::RunOptions;
use crate::error::{DataError, Error, FaultKind, Lookup, Result, RowsError, RunError};
use crate::exec::deadline;
use crate::graph::{Node, NodeId, RowAxis, RowTrace};
use crate::record::Record;
use crate::session::{RunResults, RunStats};

impl Program {
    /// As [`run`](Self::run), with any number of rows, as [`Rows::run`] does for the [`rows`](Self::rows) of all
    /// inputs. The program must be recorded with two rows or more: `batch.input("x", [2, features])`.
    ///
    /// Dropping the future stops the run, which counts as cancelled. A service calls [`Rows::warm_up`] before its first request.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [2, 3]); // Recorded with two rows.
    /// let y = x.sum(1);
    /// let program = batch.compile().await?;
    /// let outputs = program.run_rows([(x, &[1.0; 15])]).await?; // Five rows.
    /// assert_eq!(outputs.read(y).await?, [3.0; 5]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`rows`](Self::rows) and [`Rows::run`].
    pub fn run_rows<'s, 'a: 's, K>(
        &'s self,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        self.run_listed_rows(&mut inputs.list(), None)
    }

    /// As [`run_rows`](Self::run_rows), if that takes no longer than `limit`, as [`Rows::run_within`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    ///
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [8, 2]);
    /// let y = x.relu();
    /// let program = batch.compile().await?;
    /// let outputs = program.run_rows_within(Duration::from_secs(2), [(x, &[1.0, -2.0])]).await?;
    /// assert_eq!(outputs.read(y).await?, [1.0, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`rows`](Self::rows) and [`Rows::run_within`].
    pub fn run_rows_within<'s, 'a: 's, K>(
        &'s self,
        limit: Duration,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        self.run_listed_rows(&mut inputs.list(), Some(limit))
    }

    /// As [`run_rows`](Self::run_rows), unless `stop` completes first, as [`run_unless`](Self::run_unless).
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [8, 2]);
    /// let y = x.relu();
    /// let program = batch.compile().await?;
    /// let caller_left = std::future::pending(); // In a service, a token of cancellation.
    /// let outputs = program.run_rows_unless(caller_left, [(x, &[1.0, -2.0])]).await?;
    /// assert_eq!(outputs.read(y).await?, [1.0, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`run_rows`](Self::run_rows); [`RunError::Cancelled`].
    pub async fn run_rows_unless<'s, 'a: 's, K>(
        &'s self,
        stop: impl Future<Output = ()>,
        inputs: impl Inputs<'a, K>,
    ) -> Result<Outputs> {
        deadline::run_unless(stop, self.run_rows(inputs)).await
    }

    fn run_listed_rows<'s, 'a: 's>(
        &'s self,
        inputs: &mut dyn Iterator<Item = Input<'a>>,
        limit: Option<Duration>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        let given = self.rows().and_then(|rows| Ok((rows.given(inputs)?, rows)));
        Box::pin(async move {
            let (given, rows) = given?;
            rows.run_given(given, limit).await
        })
    }
}

impl Rows {
    /// Runs the program with as many rows as its inputs have, perhaps none. All inputs with rows that a result needs are
    /// given. The results have as many rows, as if the program had been recorded with them.
    ///
    /// Programs are planned for the recorded number of rows, and for powers of two, once each. The largest chunk has 1024
    /// rows, or the recorded number rounded up to a power of two if that is more, and fewer where the memory budget has no
    /// room. More rows are cut: one trip for each chunk, in turn. The last chunk repeats its last row up to a planned
    /// number. Where an output is a sum or a mean, it is cut further instead, so that no padding reaches the result. Sums and
    /// means of chunks are added in `f64`. Each chunk reads residents as they are.
    ///
    /// # Errors
    /// As [`Program::run`], and positions in them count all rows; as [`program`](Self::program), for a size that is run for
    /// the first time. [`RowsError`] for data that is no whole number of rows, and for inputs with different numbers of
    /// rows; also for no rows, if an output is a greatest or least element.
    pub fn run<'s, 'a: 's, K>(
        &'s self,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        self.run_listed(&mut inputs.list(), None)
    }

    /// As [`run`](Self::run), if that takes no longer than `limit`, waiting for the [memory
    /// budget](crate::DeviceBuilder::memory_budget) and for a new size's plan included. Few rows, done at the first poll on
    /// the CPU, are returned even past `limit`.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use std::time::Duration;
    ///
    /// # use onetrip::{Device, Error, GpuCommandBatch, RunError};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [8, 2]);
    /// let y = x.relu();
    /// let program = batch.compile().await?;
    /// let many = vec![1.0; 2 * 5000]; // Of 1024 rows at most a trip.
    /// let late = program.rows()?.run_within(Duration::ZERO, [(x, &many)]).await;
    /// assert!(matches!(late, Err(Error::Run(RunError::Deadline { .. }))));
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); [`RunError::Deadline`].
    pub fn run_within<'s, 'a: 's, K>(
        &'s self,
        limit: Duration,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        self.run_listed(&mut inputs.list(), Some(limit))
    }

    /// Runs as [`run`](Self::run), and stops if `stop` completes first. Polls are in the order that [`Program::run_unless`]
    /// says.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [8, 2]);
    /// let y = x.relu();
    /// let program = batch.compile().await?;
    /// let caller_left = std::future::pending(); // In a service, a token of cancellation.
    /// let outputs = program.rows()?.run_unless(caller_left, [(x, &[1.0, -2.0])]).await?;
    /// assert_eq!(outputs.read(y).await?, [1.0, 0.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`run`](Self::run); [`RunError::Cancelled`].
    pub async fn run_unless<'s, 'a: 's, K>(
        &'s self,
        stop: impl Future<Output = ()>,
        inputs: impl Inputs<'a, K>,
    ) -> Result<Outputs> {
        deadline::run_unless(stop, self.run(inputs)).await
    }

    /// The program for so many rows, with its plan: to compile it before the first request, to
    /// [`explain`](Program::explain) it, or to [`profile`](Program::profile) a run. Its inputs take as many rows, by the
    /// same ids and names. [`run`](Self::run) uses it for runs or chunks of 2ⁿ rows and of the recorded number, which are
    /// compiled once. A program for another number of rows is compiled at each call.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [8, 2]);
    /// x.relu().named("y");
    /// let program = batch.compile().await?;
    /// let of_two = program.rows()?.program(2).await?;
    /// println!("{}", of_two.explain()?);
    /// let profile = of_two.profile([(x, &[1.0, -2.0, 3.0, -4.0])]).await?;
    /// assert_eq!(profile.kernels.len(), 1);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`RowsError::Number`]; as [`GpuCommandBatch::compile`](crate::GpuCommandBatch::compile).
    pub fn program(&self, rows: usize) -> BoxFuture<'_, Result<Program>> {
        Box::pin(self.program_for_rows(rows))
    }

    fn run_listed<'s, 'a: 's>(
        &'s self,
        inputs: &mut dyn Iterator<Item = Input<'a>>,
        limit: Option<Duration>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        let given = self.given(inputs);
        Box::pin(async move { self.run_given(given?, limit).await })
    }

    async fn run_given(&self, given: RowInputs<'_>, limit: Option<Duration>) -> Result<Outputs> {
        let time = TimeLeft::of(&self.program.0.recorded, limit);
        if given.rows == self.plans.recorded_rows {
            return self.run_chunk(&self.program, given.whole(), &given, &time).await;
        }
        loop {
            let most = self.plans.most.load(Ordering::Relaxed);
            let chunks = cut(given.rows, most, self.plans.is_exact);
            match self.run_chunks(&chunks, &given, &time).await {
                Err(Error::Run(RunError::OverBudget { .. })) if most > 1 => {
                    self.plans.most.store(most / 2, Ordering::Relaxed);
                }
                done => return done,
            }
        }
    }

    /// Runs the chunks one after another, and joins their results. A single chunk without padding is the whole.
    async fn run_chunks(
        &self,
        chunks: &[RowChunk],
        given: &RowInputs<'_>,
        time: &TimeLeft<'_>,
    ) -> Result<Outputs> {
        if let &[chunk] = chunks
            && chunk.rows == chunk.planned
        {
            let program = time.within(self.program_for_rows(chunk.planned)).await?;
            return self.run_chunk(&program, chunk, given, time).await;
        }
        let recorded = self.record_for_rows(given.rows)?;
        let (pool, outputs) = (recorded.device.pool(), recorded.graph.outputs());
        let joined = outputs.iter().map(|&id| {
            let ty = &recorded.graph[id].ty;
            let joined = Joined::new(pool, ty, self.plans.trace(id), given.rows);
            joined.map_err(|error| Error::from(error.of(&recorded.origin(id))))
        });
        let mut joined = joined.collect::<Result<Vec<_>>>()?;
        let (mut stats, mut prepared) = (RunStats::default(), None);
        for &chunk in chunks {
            if chunk.start > 0 {
                time.check()?;
            }
            let program = time.within(self.program_for_rows(chunk.planned)).await?;
            let done = self.run_chunk(&program, chunk, given, time).await?;
            stats.add_trip(&done.stats);
            for (joined, &id) in joined.iter_mut().zip(&outputs) {
                let Some(result) = done.results.find(&done.prepared, id) else { continue };
                let ty = &program.0.recorded.graph[id].ty;
                joined.add(chunk, ty, &result.into_host().await?);
            }
            prepared = Some(done.prepared);
        }
        let results = joined.into_iter().map(Joined::done).collect::<Result<_, _>>()?;
        let Some(prepared) = prepared else { return Err(RowsError::NoInput.into()) };
        Ok(Outputs {
            program: Program(Arc::new(Inner::new(Arc::new(recorded)))),
            prepared,
            results: RunResults::Host(results),
            kept: Default::default(),
            stats,
        })
    }

    async fn run_chunk(
        &self,
        program: &Program,
        chunk: RowChunk,
        given: &RowInputs<'_>,
        time: &TimeLeft<'_>,
    ) -> Result<Outputs> {
        let graph = &self.program.0.recorded.graph;
        let inputs = given.inputs.iter().map(|(id, input)| {
            let (dtype, pool) = (graph[*id].ty.dtype, program.device().pool());
            let row = if self.plans.inputs.contains(id) { self.row_elements(*id) } else { 0 };
            if row == 0 {
                let all = input.len(dtype);
                return input.rows_chunk(pool, dtype, 0..all, (0, all));
            }
            let range = chunk.start * row..(chunk.start + chunk.rows) * row;
            input.rows_chunk(pool, dtype, range, (row, chunk.planned * row))
        });
        let fitting = program.0.fitting(&mut inputs.into_iter());
        let options = RunOptions { limit: time.left(), ..RunOptions::default() };
        let done = program.run_fitting(fitting, options).await;
        let whole = |error| self.with_all_rows(time.error_of_trip(error), chunk, given.rows);
        done.map_err(whole)
    }

    /// Elements of a row of an input with rows.
    fn row_elements(&self, input: NodeId) -> usize {
        let shape = &self.program.0.recorded.graph[input].ty.shape;
        RowAxis::of_input(shape).stride(shape)
    }

    /// The error of a chunk, with positions that count all rows.
    fn with_all_rows(&self, mut error: Error, chunk: RowChunk, rows: usize) -> Error {
        let Record { graph, .. } = &*self.program.0.recorded;
        if let Error::Data(DataError::IdRange { of, at, shape, .. }) = &mut error {
            let mut inputs = self.plans.inputs.iter();
            let of_it = inputs.find(|&&id| self.program.0.recorded.origin(id) == *of);
            if let Some(&id) = of_it {
                *at += chunk.start * self.row_elements(id);
                *shape = of_rows(shape, RowAxis::of_input(&graph[id].ty.shape).axis, rows);
            }
        }
        if let Error::Fault(fault) = &mut error {
            let lookup = match &mut fault.what {
                FaultKind::Index { lookup: Some(lookup), .. } => Some(lookup),
                _ => None,
            };
            let found = match lookup {
                Some(lookup) => self.with_rows(lookup, chunk.planned, rows),
                None => {
                    let is_it = |node: &Node| node.place == fault.place && node.name == fault.op;
                    let mut nodes = graph.iter().filter(|(_, node)| is_it(node));
                    nodes.find_map(|(id, node)| {
                        self.row_axis(id).filter(|_| node.ty.shape.rank() == fault.at.len())
                    })
                }
            };
            if let Some(RowAxis { axis, inner }) = found.filter(|_| chunk.planned > 0) {
                let at = fault.at[axis];
                let (outer, row) = (at / inner / chunk.planned, at / inner % chunk.planned);
                fault.at[axis] = ((outer * rows) + chunk.start + row) * inner + at % inner;
            }
        }
        error
    }

    /// Gives the table of a lookup in `planned` rows the shape that it has for all `rows`. Returns the axis of the indices
    /// that has rows.
    fn with_rows(&self, lookup: &mut Lookup, planned: usize, rows: usize) -> Option<RowAxis> {
        let (_, node) = self.program.0.recorded.graph.iter().nth(lookup.operation)?;
        let (table, indices) = (node.inputs[0], node.inputs[1]);
        if let Some(RowAxis { axis, .. }) = self.row_axis(table) {
            let mut dims = lookup.shape.dims().to_vec();
            dims[axis] = dims[axis].checked_div(planned)? * rows;
            lookup.shape = Shape::from(&dims[..]);
        }
        self.row_axis(indices)
    }

    /// The axis of a value that has the rows, if one has them.
    fn row_axis(&self, id: NodeId) -> Option<RowAxis> {
        match self.plans.trace(id) {
            RowTrace::Each(at) => Some(at),
            RowTrace::Fixed | RowTrace::Reduced(..) => None,
        }
    }

    /// The program for so many rows.
    pub(super) async fn program_for_rows(&self, rows: usize) -> Result<Program> {
        if rows == self.plans.recorded_rows {
            return Ok(self.program.clone());
        }
        if let Some(program) = self.plans.programs.lock().get(&rows) {
            return Ok(program.clone());
        }
        let program = Program::compiled(Arc::new(self.record_for_rows(rows)?)).await?;
        if rows > 0 && !rows.is_power_of_two() {
            return Ok(program);
        }
        Ok(self.plans.programs.lock().entry(rows).or_insert(program).clone())
    }

    fn record_for_rows(&self, rows: usize) -> Result<Record> {
        let recorded = &*self.program.0.recorded;
        let made = recorded.graph.of_rows(&self.plans.traces, self.plans.recorded_rows, rows);
        let graph = made.map_err(|(node, why)| {
            let (of, why) = (recorded.origin(node), why.to_string());
            RowsError::Number { of, rows, why }
        })?;
        Ok(Record { graph: Arc::new(graph), ..recorded.clone() })
    }
}
