//! Programs with any number of rows: cut, padded to a few sizes, joined.

mod cut;
mod join;

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use self::cut::{RowPart, cut};
use self::join::Joined;
use super::{Inner, Outputs, Program};
use crate::base::future::BoxFuture;
use crate::base::shape::Shape;
use crate::base::sync::Mutex;
use crate::batch::input::{Input, Inputs, ValueKey};
use crate::error::{DataError, Error, Result, RowsError, RunError};
use crate::graph::{Graph, NodeId, RowAxis, RowReduction, RowTrace, Traces};
use crate::ops::Op;
use crate::record::Recorded;
use crate::session::{RunResults, RunStats};

/// Rows that the largest part of a run has at least, if memory allows.
const MOST: usize = 1024;

/// A program that runs with any number of rows, from [`Program::rows`]: the leading axis of some inputs, which no
/// operation mixes. Cheap to clone.
#[derive(Clone)]
pub struct Rows {
    program: Program,
    plans: Arc<RowPlans>,
}

/// How an output of a program depends on rows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RowResult {
    /// Each row of it depends on the same row of the inputs. This axis of it has the rows; it is longer than their
    /// number if it has other axes merged with them.
    PerRow {
        /// The axis.
        axis: usize,
    },
    /// It is a sum over all rows.
    Sum,
    /// It is a mean over all rows.
    Mean,
    /// It has greatest elements of all rows.
    Max,
    /// It has least elements of all rows.
    Min,
    /// It does not depend on rows.
    Constant,
}

/// The traced rows of a program, and its plans for numbers of them.
pub(super) struct RowPlans {
    traces: Traces,
    /// The nodes of the inputs with rows.
    inputs: Vec<NodeId>,
    recorded: usize,
    /// Padding would reach a result.
    is_exact: bool,
    /// Rows of the largest part; less once a budget of memory allowed no more.
    most: AtomicUsize,
    sized: Mutex<BTreeMap<usize, Program>>,
}

/// Inputs of a run, and the number of their rows.
struct Given<'a> {
    rows: usize,
    /// Each with its node.
    inputs: Vec<(NodeId, Input<'a>)>,
}

/// Programs with any number of rows.
impl Program {
    /// Traces rows through the program: the leading axis of all inputs without data of their own that have axes. Other
    /// inputs, residents, uploads and constants have no rows; a constant such as `full` that is the same for all rows
    /// may be as long as there are.
    ///
    /// Each output is then per row, or reduced over rows by `sum`, `mean`, `amax` or `amin`, perhaps followed by moves,
    /// the same reduction or a factor.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use onetrip::{Device, GpuCommandBatch, RowResult};
    ///
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [8, 3]);
    /// let y = x.softmax(1).named("shares");
    /// batch.outputs((y, y.mean(0).named("average")));
    /// let program = batch.compile().await?;
    /// let results: Vec<_> = program.rows()?.outputs().map(|(_, result)| result).collect();
    /// assert_eq!(results, [RowResult::PerRow { axis: 0 }, RowResult::Mean]);
    ///
    /// let outputs = program.run_rows([(x, &[1.0, 2.0, 3.0])]).await?; // One row.
    /// assert_eq!(outputs.read(y).await?.len(), 3);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// [`RowsError`]: an operation that mixes rows, with the place where it was recorded; inputs of several leading
    /// sizes, for which [`rows_of`](Self::rows_of) names those with rows; fewer than two recorded rows; values that runs
    /// keep.
    pub fn rows(&self) -> Result<Rows> {
        if let Some(plans) = self.0.rows.get() {
            return Ok(Rows { program: self.clone(), plans: Arc::clone(plans) });
        }
        let Recorded { graph, uploads, .. } = &*self.0.recorded;
        let has_rows = |op: &Op, shape: &Shape| match op {
            Op::Upload(at) => uploads[*at as usize].is_none() && shape.rank() > 0,
            _ => false,
        };
        let inputs = graph.iter().filter(|(_, node)| has_rows(&node.op, &node.ty.shape));
        let rows = self.traced(inputs.map(|(id, _)| id).collect())?;
        let plans = self.0.rows.get_or_init(|| rows.plans);
        Ok(Rows { program: self.clone(), plans: Arc::clone(plans) })
    }

    /// As [`rows`](Self::rows), for the inputs of these names, ids or tensors alone. Other inputs are given whole.
    ///
    /// # Errors
    /// As [`rows`](Self::rows); [`DataError`] for a key of no input.
    pub fn rows_of<'a>(
        &self,
        inputs: impl IntoIterator<Item = impl Into<ValueKey<'a>>>,
    ) -> Result<Rows> {
        let nodes = inputs.into_iter().map(|key| self.0.input_node(key.into()));
        self.traced(nodes.collect::<Result<_>>()?)
    }

    /// As [`run`](Self::run), with any number of rows, as [`Rows::run`] does for the [`rows`](Self::rows) of all
    /// inputs.
    ///
    /// # Errors
    /// As [`rows`](Self::rows) and [`Rows::run`].
    pub fn run_rows<'s, 'a: 's, K>(
        &'s self,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        let given = self.rows().and_then(|rows| Ok((rows.given(&mut inputs.list())?, rows)));
        Box::pin(async move {
            let (given, rows) = given?;
            rows.run_given(given).await
        })
    }

    fn traced(&self, inputs: Vec<NodeId>) -> Result<Rows> {
        let recorded = &*self.0.recorded;
        let (graph, of) = (&recorded.graph, |id| recorded.origin(id));
        let Some(&first) = inputs.first() else { return Err(RowsError::NoInput.into()) };
        for &id in &inputs {
            if graph[id].ty.shape.rank() == 0 {
                return Err(RowsError::Scalar(of(id)).into());
            }
        }
        let leading = |id: NodeId| graph[id].ty.shape[0];
        let rows = leading(first);
        if let Some(&second) = inputs.iter().find(|&&id| leading(id) != rows) {
            let (first, others) = (of(first), leading(second));
            return Err(RowsError::Leading { first, rows, second: of(second), others }.into());
        }
        if rows < 2 {
            return Err(RowsError::Few { of: of(first), rows }.into());
        }
        if let Some(&kept) = graph.keeps.first() {
            return Err(RowsError::Keeps(of(kept)).into());
        }
        let mixed = graph.rows(&inputs, rows);
        let traces =
            mixed.map_err(|mixing| RowsError::Mixes { of: of(mixing.node), why: mixing.why })?;
        let is_padded_badly = |id: &NodeId| {
            let by = RowReduction::Sum;
            matches!(traces.get(*id), Some(RowTrace::Reduced(of, _)) if *of == by || *of == RowReduction::Mean)
        };
        let plans = RowPlans {
            is_exact: graph.outputs().iter().any(is_padded_badly),
            traces,
            inputs,
            recorded: rows,
            most: AtomicUsize::new(MOST.max(rows.next_power_of_two())),
            sized: Mutex::default(),
        };
        Ok(Rows { program: self.clone(), plans: Arc::new(plans) })
    }
}

impl Rows {
    /// The number of rows that the program was recorded with.
    #[must_use]
    pub fn recorded(&self) -> usize {
        self.plans.recorded
    }

    /// The name of each output, if it has one, and how it depends on rows.
    pub fn outputs(&self) -> impl Iterator<Item = (Option<&str>, RowResult)> {
        let Recorded { graph, names, .. } = &*self.program.0.recorded;
        graph.outputs().into_iter().map(|id| {
            let result = match self.plans.trace(id) {
                RowTrace::Fixed => RowResult::Constant,
                RowTrace::Each(RowAxis { axis, .. }) => RowResult::PerRow { axis },
                RowTrace::Reduced(RowReduction::Sum, _) => RowResult::Sum,
                RowTrace::Reduced(RowReduction::Mean, _) => RowResult::Mean,
                RowTrace::Reduced(RowReduction::Max, _) => RowResult::Max,
                RowTrace::Reduced(RowReduction::Min, _) => RowResult::Min,
            };
            (names.first(id).map(|name| &**name), result)
        })
    }

    /// Runs the program with as many rows as its inputs have, perhaps none. All inputs with rows must be given. The
    /// results have as many rows, as if the program had been recorded with them.
    ///
    /// Programs are planned for numbers of rows that are powers of two, once each, up to 1024 or the recorded number,
    /// and for the recorded one. More rows are cut, one trip for each part, one after another. The last part repeats
    /// its last row up to such a number; where an output is a sum or a mean, it is cut further instead, so that no
    /// padding reaches the result. Sums and means of parts are added in `f64`.
    ///
    /// # Errors
    /// As [`Program::run`], and positions in them count all rows; [`RowsError`] for data that is no whole number of
    /// rows, for inputs with different numbers, and for no rows where an output is a greatest or least element.
    pub fn run<'s, 'a: 's, K>(
        &'s self,
        inputs: impl Inputs<'a, K>,
    ) -> BoxFuture<'s, Result<Outputs>> {
        let given = self.given(&mut inputs.list());
        Box::pin(async move { self.run_given(given?).await })
    }

    /// Checks inputs and counts their rows.
    fn given<'s, 'a: 's>(&self, list: &mut dyn Iterator<Item = Input<'a>>) -> Result<Given<'s>> {
        let Inner { recorded, .. } = &*self.program.0;
        let (mut rows, mut inputs) = (None, Vec::new());
        for input in list {
            let (_, id) = self.program.0.typed_upload(&input)?;
            if inputs.iter().any(|&(given, _)| given == id) {
                return Err(DataError::GivenTwice(recorded.origin(id)).into());
            }
            let ty = &recorded.graph[id].ty;
            if let Some(why) = input.misfit(ty.dtype) {
                return Err(self.program.0.unfilled(id, why));
            }
            if !self.plans.inputs.contains(&id) {
                self.program.0.check_size(id, &ty.shape, &input)?;
                inputs.push((id, input));
                continue;
            }
            let row = Shape::from(&ty.shape.dims()[1..]);
            let given = input.len(ty.dtype);
            let own = match &input.shape {
                Some(shape) if shape.rank() > 0 => shape[0],
                _ => given.checked_div(row.elements()).unwrap_or(0),
            };
            if own.checked_mul(row.elements()) != Some(given) {
                return Err(RowsError::Part { of: recorded.origin(id), row, given }.into());
            }
            let whole = of_rows(&ty.shape, own);
            self.program.0.check_size(id, &whole, &input)?;
            let (first, count) = *rows.get_or_insert((id, own));
            if count != own {
                let [first, second] = [first, id].map(|id| recorded.origin(id));
                let others = own;
                return Err(RowsError::Counts { first, rows: count, second, others }.into());
            }
            inputs.push((id, input));
        }
        let missing =
            self.plans.inputs.iter().find(|&id| !inputs.iter().any(|(given, _)| given == id));
        match (missing, rows) {
            (Some(&id), _) => Err(DataError::NotGiven(recorded.origin(id)).into()),
            (None, Some((_, rows))) => Ok(Given { rows, inputs }),
            (None, None) => Err(RowsError::NoInput.into()),
        }
    }

    async fn run_given(&self, given: Given<'_>) -> Result<Outputs> {
        if given.rows == self.plans.recorded {
            return self.run_part(&self.program, given.whole(), &given).await;
        }
        loop {
            let most = self.plans.most.load(Ordering::Relaxed);
            let parts = cut(given.rows, most, self.plans.is_exact);
            let done = match parts[..] {
                [part] if part.rows == part.planned => {
                    let program = self.sized(part.planned).await;
                    match program {
                        Ok(program) => self.run_part(&program, part, &given).await,
                        Err(error) => Err(error),
                    }
                }
                _ => self.run_parts(&parts, &given).await,
            };
            match done {
                Err(Error::Run(RunError::OverBudget { .. })) if most > 1 => {
                    self.plans.most.store(most / 2, Ordering::Relaxed);
                }
                done => return done,
            }
        }
    }

    /// Runs the parts one after another, and joins their results.
    async fn run_parts(&self, parts: &[RowPart], given: &Given<'_>) -> Result<Outputs> {
        let recorded = self.recorded_for(given.rows)?;
        let (pool, outputs) = (recorded.device.pool(), recorded.graph.outputs());
        let joined = outputs.iter().map(|&id| {
            let ty = &recorded.graph[id].ty;
            let joined = Joined::new(pool, ty, self.plans.trace(id), given.rows);
            joined.map_err(|error| Error::from(error.of(&recorded.origin(id))))
        });
        let mut joined = joined.collect::<Result<Vec<_>>>()?;
        let (mut stats, mut prepared) = (RunStats::default(), None);
        for &part in parts {
            let program = self.sized(part.planned).await?;
            let done = self.run_part(&program, part, given).await?;
            stats.add_trip(&done.stats);
            for (joined, &id) in joined.iter_mut().zip(&outputs) {
                let Some(result) = done.results.find(&done.prepared, id) else { continue };
                let ty = &program.0.recorded.graph[id].ty;
                joined.add(part, ty, &result.into_host().await?);
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

    async fn run_part(
        &self,
        program: &Program,
        part: RowPart,
        given: &Given<'_>,
    ) -> Result<Outputs> {
        let graph = &self.program.0.recorded.graph;
        let inputs = given.inputs.iter().map(|(id, input)| {
            let ty = &graph[*id].ty;
            let row = match self.plans.inputs.contains(id) {
                true => ty.shape.dims()[1..].iter().product(),
                false => 0,
            };
            let pool = program.device().pool();
            if row == 0 {
                let all = input.len(ty.dtype);
                return input.part(pool, ty.dtype, 0..all, (0, all));
            }
            let range = part.start * row..(part.start + part.rows) * row;
            input.part(pool, ty.dtype, range, (row, part.planned * row))
        });
        let done =
            program.run_fitting(program.0.fitting(&mut inputs.into_iter()), None, None).await;
        done.map_err(|error| self.with_all_rows(error, part, given.rows))
    }

    /// The error of a part, with positions that count all rows.
    fn with_all_rows(&self, mut error: Error, part: RowPart, rows: usize) -> Error {
        let Recorded { graph, .. } = &*self.program.0.recorded;
        if let Error::Data(DataError::IdRange { of, at, .. }) = &mut error {
            let mut inputs = self.plans.inputs.iter();
            let of_it = inputs.find(|&&id| self.program.0.recorded.origin(id) == *of);
            let row = of_it.map_or(0, |&id| graph[id].ty.shape.dims()[1..].iter().product());
            *at += part.start * row;
        }
        if let Error::Fault(fault) = &mut error {
            let positions = graph.iter().filter_map(|(id, node)| match node.op {
                _ if node.place != fault.place || node.name != fault.op => None,
                Op::Gather { .. } | Op::TakeAlong { .. } => Some(node.inputs[1]),
                _ => Some(id),
            });
            let mut traces = positions.map(|id| (self.plans.trace(id), graph[id].ty.shape.rank()));
            let found = traces.find_map(|(trace, rank)| match trace {
                RowTrace::Each(at) if rank == fault.at.len() => Some(at),
                _ => None,
            });
            if let Some(RowAxis { axis, inner }) = found.filter(|_| part.planned > 0) {
                let at = fault.at[axis];
                let (outer, row) = (at / inner / part.planned, at / inner % part.planned);
                fault.at[axis] = ((outer * rows) + part.start + row) * inner + at % inner;
            }
        }
        error
    }

    /// The program for so many rows.
    async fn sized(&self, rows: usize) -> Result<Program> {
        if rows == self.plans.recorded {
            return Ok(self.program.clone());
        }
        if let Some(program) = self.plans.sized.lock().get(&rows) {
            return Ok(program.clone());
        }
        let program = Program::compiled(Arc::new(self.recorded_for(rows)?)).await?;
        Ok(self.plans.sized.lock().entry(rows).or_insert(program).clone())
    }

    fn recorded_for(&self, rows: usize) -> Result<Recorded> {
        let recorded = &*self.program.0.recorded;
        let made: Result<Graph, _> =
            recorded.graph.of_rows(&self.plans.traces, self.plans.recorded, rows);
        let graph = made.map_err(|(node, why)| {
            let (of, why) = (recorded.origin(node), why.to_string());
            RowsError::Number { of, rows, why }
        })?;
        Ok(Recorded { graph, ..recorded.clone() })
    }
}

impl RowPlans {
    fn trace(&self, id: NodeId) -> RowTrace {
        self.traces.get(id).copied().unwrap_or(RowTrace::Fixed)
    }
}

impl Given<'_> {
    /// All rows as one part.
    fn whole(&self) -> RowPart {
        RowPart { start: 0, rows: self.rows, planned: self.rows }
    }
}

/// The shape of `rows` rows.
fn of_rows(shape: &Shape, rows: usize) -> Shape {
    let rest = shape.dims()[1..].iter().copied();
    std::iter::once(rows).chain(rest).collect()
}

impl std::fmt::Debug for Rows {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Rows({:?}, recorded with {})", self.program, self.plans.recorded)
    }
}
