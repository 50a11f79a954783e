//! A step of a plan: one fused kernel, as a value that prints.

use std::panic::Location;

use smallvec::SmallVec;

use crate::base::dtype::{DType, Scalar};
use crate::base::shape::{View, points};
use crate::expr::{Expr, Ref};
use crate::plan::forms::schedule_types::{AttentionSchedule, ProductSchedule, ReduceSchedule};
use crate::plan::forms::{
    AttentionForm, Form, MatMulForm, OwnForm, ReduceForm, RowForm, ScanForm, SortForm,
};

/// A value with storage, by position in [`Plan::values`](super::Plan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ValueId(pub u32);

impl ValueId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One kernel: a form, with expressions in its holes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// The operations that it computes, in the order recorded.
    pub ops: Vec<&'static str>,
    /// Where the last of them was recorded.
    pub place: &'static Location<'static>,
    pub form: Form,
    /// The arena of every expression in this step: prologues and outputs.
    pub expr: Expr,
    /// What [`Node::Load`](crate::expr::Node) refers to.
    pub operands: Vec<Operand>,
    /// What [`Node::Scalar`](crate::expr::Node) refers to.
    pub scalars: Vec<Scalar>,
    /// At least one; all are written for every element of the form's result.
    pub outputs: SmallVec<[StepOutput; 1]>,
    /// Memory of 32-bit words that only this step uses, for partial results.
    pub scratch: Option<Scratch>,
    pub cost: Cost,
}

impl Step {
    /// The step's name in errors, in `explain` and in GPU debuggers: `matmul+add+relu`.
    pub fn label(&self) -> String {
        self.ops.join("+")
    }

    /// The distinct values that the step reads, in order of first use.
    pub fn reads(&self) -> SmallVec<[ValueId; 8]> {
        let mut reads = SmallVec::new();
        for operand in &self.operands {
            if let Some(value) = operand.source.value()
                && !reads.contains(&value)
            {
                reads.push(value);
            }
        }
        reads
    }

    /// Whether the step can fail.
    pub fn can_fail(&self) -> bool {
        self.operands.iter().any(|operand| operand.source == Source::Failures)
    }

    /// How often a GPU is dispatched for the step.
    pub fn dispatches(&self) -> u64 {
        match &self.form {
            _ if self.is_empty() => 0,
            Form::Reduce(ReduceForm { schedule: ReduceSchedule { parts, .. }, .. })
            | Form::Row(RowForm { parts, .. })
            | Form::Scan(ScanForm { parts, .. })
            | Form::Attention(AttentionForm {
                schedule: AttentionSchedule { parts, .. }, ..
            })
            | Form::MatMul(MatMulForm { schedule: ProductSchedule { parts, .. }, .. })
                if *parts > 1 =>
            {
                2
            }
            Form::Sort(SortForm { schedule, dtype, .. }) => schedule.dispatches(*dtype),
            Form::Own(OwnForm { runs, .. }) => 1 + u64::from(*runs),
            _ => 1,
        }
    }

    /// The points of the largest space that the step iterates over, with its partial results.
    pub fn points(&self) -> u64 {
        let count = |dims: &[usize]| points(dims) as u64;
        let form = match &self.form {
            Form::Map { dims } | Form::Own(OwnForm { dims, .. }) => count(dims),
            Form::Reduce(ReduceForm { outer, inner, .. }) => {
                count(outer).saturating_mul(count(inner))
            }
            Form::Row(RowForm { outer, len, .. })
            | Form::Scan(ScanForm { outer, len, .. })
            | Form::Sort(SortForm { outer, len, .. }) => count(outer).saturating_mul(*len as u64),
            Form::MatMul(MatMulForm { batch, m, n, k, .. }) => {
                let sides = [[*m, *k], [*k, *n], [*m, *n]];
                let largest = sides.iter().map(|side| count(side)).max().unwrap_or(0);
                count(batch).saturating_mul(largest)
            }
            Form::Attention(AttentionForm { batch, queries, keys, width, out, .. }) => {
                let (width, most) = (width.max(out), queries.max(keys));
                count(batch).saturating_mul(count(&[*width, *most]))
            }
        };
        form.max(self.scratch.map_or(0, |scratch| scratch.words))
    }

    /// Whether the step has nothing to write.
    pub fn is_empty(&self) -> bool {
        self.outputs[0].view.dims.contains(&0)
    }
}

/// Partial results of a form in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scratch {
    pub words: u64,
    /// The buffer, by position in [`Plan::slots`](super::Plan).
    pub slot: usize,
}

/// The space that an operand's view runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// The main space of a map, reduction, row, scan or sort form.
    Main,
    /// The left operand of a product: `batch ++ [m, k]`.
    X,
    /// The right operand of a product: `batch ++ [k, n]`, or `batch` and the axes that k and n are spread over.
    W,
    /// The queries of an attention: `batch ++ [queries, width]`.
    Query,
    /// Its keys: `batch ++ [keys, width]`.
    Key,
    /// Its values: `batch ++ [keys, out]`.
    Value,
    /// Its mask: `batch ++ [queries, keys]`.
    Scores,
    /// The out space of a reduction (`outer`), product (`batch ++ [m, n]`) or attention (`batch ++ [queries, out]`).
    Out,
    /// None: the operand is there as a whole, for [`Node::Fetch`](crate::expr::Node) and
    /// [`Node::Check`](crate::expr::Node).
    Whole,
}

/// What one [`Node::Load`](crate::expr::Node) reads, or what is there as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    pub source: Source,
    pub dtype: DType,
    pub space: Space,
    /// From a point of the space to an element.
    pub view: View,
    /// Whether the view may point outside the value (where the expression then ignores what was
    /// read), so that the index must be clamped to `0..elements`.
    pub clamp: bool,
}

/// Where a loaded number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Value(ValueId),
    /// The view's index itself, as an `i32`: coordinates as numbers.
    Iota,
    /// Any element of a whole value.
    Table(ValueId),
    /// Where the run's failures are told.
    Failures,
}

impl Source {
    /// The value that is read.
    pub fn value(self) -> Option<ValueId> {
        match self {
            Self::Value(value) | Self::Table(value) => Some(value),
            Self::Iota | Self::Failures => None,
        }
    }
}

/// A result of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepOutput {
    pub value: ValueId,
    pub dtype: DType,
    /// The expression of one element.
    pub root: Ref,
    /// From a point of the out space to an element of the value: a permutation of the
    /// row-major order (which it is for all but row, scan and sort forms over an inner axis).
    pub view: View,
}

/// What a step does and how long that should take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub flops: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Predicted seconds on each side.
    pub cpu_seconds: f64,
    pub gpu_seconds: f64,
}
