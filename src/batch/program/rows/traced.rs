//! The trace of rows through a program.

use std::fmt;
use std::sync::Arc;

use super::plans::RowPlans;
use crate::base::shape::Shape;
use crate::batch::ValueKey;
use crate::batch::program::compiled::Program;
use crate::error::{Result, RowsError, quoted};
use crate::graph::{Mixing, NodeId, RowAxis, RowReduction, RowTrace};
use crate::ops::Op;
use crate::record::Record;

/// A program that runs with any number of rows, from [`Program::rows`]. Some inputs have rows along one axis, mostly the
/// leading one, and no operation mixes rows. Cheap to clone.
#[derive(Clone)]
pub struct Rows {
    pub(super) program: Program,
    pub(super) plans: Arc<RowPlans<Program>>,
}

/// The way in which an output of a program depends on rows.
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

/// Programs with any number of rows.
impl Program {
    /// Traces rows through the program: the leading axis of all inputs without data of their own that have axes. Another
    /// input may have its rows behind leading axes of size 1, along the first longer axis: the state `[1, rows, width]` of
    /// a recurrent layer. Other inputs, residents, uploads and constants have no rows; a constant such as `full` that is
    /// the same for all rows may be as long as there are.
    ///
    /// Each output is then per row, or reduced over rows by `sum`, `mean`, `amax` or `amin`, perhaps followed by moves,
    /// the same reduction or a factor. A constant computed from the recorded number of rows stays as it is: for a mean
    /// record `mean`, not a sum divided by that number. [`Rows::run`] computes a sum of each chunk in the output's type, with
    /// its factor: in `f16` it may overflow where the whole would not.
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
        let Record { graph, uploads, .. } = &*self.0.recorded;
        let has_rows = |op: &Op, shape: &Shape| match op {
            Op::Upload(at) => uploads[*at as usize].is_none() && shape.rank() > 0,
            _ => false,
        };
        let inputs = graph.iter().filter(|(_, node)| has_rows(&node.op, &node.ty.shape));
        let rows = self.traced(inputs.map(|(id, _)| id).collect())?;
        let plans = self.0.rows.get_or_init(|| rows.plans);
        Ok(Rows { program: self.clone(), plans: Arc::clone(plans) })
    }

    /// As [`rows`](Self::rows), for the inputs of these names, ids or tensors alone. Other inputs are given whole. Each call
    /// traces the program anew, and the [`Rows`] that it returns have plans of their own: keep them.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [4, 3]);
    /// let w = batch.input::<f32>("w", [3, 2]); // The same for all rows.
    /// x.matmul(w).named("y");
    /// let program = batch.compile().await?;
    /// assert_eq!(program.rows_of(["x"])?.recorded_rows(), 4);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`rows`](Self::rows); [`RowsError::Resident`] for a weight, [`DataError`](crate::DataError) for another key of no
    /// input.
    pub fn rows_of<'a>(
        &self,
        inputs: impl IntoIterator<Item = impl Into<ValueKey<'a>>>,
    ) -> Result<Rows> {
        let nodes = inputs.into_iter().map(|key| self.0.input_with_rows(key.into()));
        self.traced(nodes.collect::<Result<_>>()?)
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
        let shape = |id: NodeId| &graph[id].ty.shape;
        // A leading axis of size 1 tells nothing: the rows of such an input may be one, or along the next axis.
        let first = inputs.iter().copied().find(|&id| shape(id)[0] != 1).unwrap_or(first);
        let rows = shape(first)[0];
        if rows < 2 {
            let shape = Box::new(shape(first).clone());
            return Err(RowsError::Few { of: of(first), shape, rows }.into());
        }
        for &id in &inputs {
            let (shape, axis) = (shape(id), RowAxis::of_input(shape(id)).axis);
            if shape[axis] != rows {
                let (first, second, shape) = (of(first), of(id), Box::new(shape.clone()));
                return Err(RowsError::Leading { first, rows, second, shape, axis }.into());
            }
        }
        if let Some(&kept) = graph.keeps.first() {
            return Err(RowsError::Keeps(of(kept)).into());
        }
        let mixes = |mixing: Mixing| match mixing {
            Mixing::Rows { node, reason } => {
                let needed = graph.needed_for(node);
                let reached = inputs.iter().filter(|&&input| needed.contains_key(input));
                let inputs = reached.map(|&input| {
                    let shape = shape(input);
                    (of(input), shape.clone(), RowAxis::of_input(shape).axis)
                });
                let (of, inputs) = (of(node), inputs.collect());
                RowsError::Mixes { of, why: reason.why, inputs, cure: reason.cure }
            }
            Mixing::Long { node, operand, axis } => {
                let shape = Box::new(shape(operand).clone());
                RowsError::Long { of: of(node), operand: of(operand), shape, axis }
            }
        };
        let traces = graph.rows(&inputs, rows).map_err(mixes)?;
        let plans = RowPlans::new(traces, inputs, rows, &graph.outputs());
        Ok(Rows { program: self.clone(), plans: Arc::new(plans) })
    }
}

impl Rows {
    /// The number of rows that the program was recorded with.
    #[must_use]
    pub fn recorded_rows(&self) -> usize {
        self.plans.recorded_rows
    }

    /// The name of each input with rows, if it has one, and the axis of its rows: the first one whose size is not 1. If
    /// an axis of time comes first, it is taken for the axis of rows.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let (x, state) = (batch.input::<f32>("x", [4, 3]), batch.input::<f32>("state", [1, 4, 3]));
    /// (x + state.squeeze(0)).named("y");
    /// let rows = batch.compile().await?.rows()?;
    /// assert_eq!(rows.inputs().collect::<Vec<_>>(), [(Some("x"), 0), (Some("state"), 1)]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn inputs(&self) -> impl Iterator<Item = (Option<&str>, usize)> {
        let Record { graph, names, .. } = &*self.program.0.recorded;
        self.plans.inputs.iter().map(|&id| {
            let RowAxis { axis, .. } = RowAxis::of_input(&graph[id].ty.shape);
            (names.first(id).map(|name| &**name), axis)
        })
    }

    /// The name of each output, if it has one, and how it depends on rows.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch, RowResult};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let y = batch.input::<f32>("x", [4, 3]).relu().named("y");
    /// y.sum(0).named("sum");
    /// batch.outputs([y]);
    /// let rows = batch.compile().await?.rows()?;
    /// assert_eq!(rows.outputs().next(), Some((Some("y"), RowResult::PerRow { axis: 0 })));
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn outputs(&self) -> impl Iterator<Item = (Option<&str>, RowResult)> {
        let Record { graph, names, .. } = &*self.program.0.recorded;
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
}

impl fmt::Debug for Rows {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (program, recorded) = (&self.program, self.plans.recorded_rows);
        write!(f, "Rows({program:?}, recorded with {recorded}")?;
        for (name, axis) in self.inputs() {
            write!(f, ", axis {axis} of {}", name.map_or_else(|| "an input".into(), quoted))?;
        }
        f.write_str(")")
    }
}
