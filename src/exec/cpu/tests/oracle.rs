//! One-step plans made by hand, and their expected results, computed element by element in `f64`.

use std::panic::Location;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use crate::base::dtype::{DType, Element, Scalar, Ty};
use crate::base::shape::{Shape, View};
use crate::base::trace::Timeline;
use crate::cost::Backend;
use crate::exec::HostBuffer;
use crate::exec::cpu::run::run;
use crate::exec::cpu::{CpuPool, CpuProgram, Given};
use crate::expr::reference::{Leaves, Value, evaluate};
use crate::expr::{Builder, E, Ref};
use crate::graph::NodeId;
use crate::ops::{Combine, Precision, RowKind};
use crate::plan::{
    AttentionForm, Cost, Dims, Form, Home, MatMulForm, Operand, OwnForm, Plan, ProductSchedule,
    ReduceForm, ReduceLayout, ReduceSchedule, RowForm, ScanForm, SortForm, Source, Space, Step,
    StepOutput, Value as Stored, ValueId,
};

/// A view from its parts.
pub fn view(dims: &[usize], strides: &[i64], offset: i64) -> View {
    View { dims: dims.into(), strides: strides.into(), offset }
}

pub fn contiguous(dims: &[usize]) -> View {
    View::contiguous(&dims.into())
}

/// Numbers without a pattern, in −3..3.
pub fn floats(len: usize, seed: u32) -> Vec<f32> {
    let mut state = seed.wrapping_mul(747_796_405).wrapping_add(1);
    let mut next = || {
        state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
        (state >> 8) as f32 / (1 << 24) as f32 * 6.0 - 3.0
    };
    (0..len).map(|_| next()).collect()
}

/// A step in the making: its operands and scalars, and the data that they stand for.
#[derive(Default)]
pub struct Case {
    operands: Vec<Operand>,
    scalars: Vec<Scalar>,
    uploads: Vec<Arc<HostBuffer>>,
    /// The view of the first output, if it is not contiguous.
    pub output_view: Option<View>,
}

impl Case {
    /// Adds an operand with data of its own.
    pub fn load<'b, T: Element>(
        &mut self,
        b: &'b Builder,
        data: &[T],
        space: Space,
        view: View,
    ) -> E<'b> {
        self.uploads.push(Arc::new(HostBuffer::from_slice(data)));
        let source = Source::Value(ValueId(self.uploads.len() as u32 - 1));
        self.operand(b, Operand { source, dtype: T::DTYPE, space, view, clamp: false })
    }

    /// Adds an operand; a value must have been loaded before.
    pub fn operand<'b>(&mut self, b: &'b Builder, operand: Operand) -> E<'b> {
        let ty = operand.dtype.lane();
        self.operands.push(operand);
        b.load(self.operands.len() as u16 - 1, ty)
    }

    /// Lets the index of the last operand leave its data.
    pub fn clamp(&mut self) {
        self.operands.last_mut().unwrap().clamp = true;
    }

    pub fn scalar<'b>(&mut self, b: &'b Builder, dtype: DType, value: f64) -> E<'b> {
        self.scalars.push(Scalar::new(dtype, value));
        b.scalar(self.scalars.len() as u16 - 1, dtype.lane())
    }

    /// Runs the step with poisoned buffers, and compares every output with the oracle: by at most
    /// `tolerance`, relative to the larger of 1 and the number expected.
    pub fn check(self, b: &Builder, form: Form, outputs: &[(DType, Ref)], tolerance: f64) {
        let (plan, uploads) = self.plan(b, form, outputs);
        let pool = CpuPool::default();
        for value in &plan.values[uploads.len()..] {
            let bytes = value.shape.elements() * value.dtype.size();
            pool.give(Arc::new(HostBuffer::from_slice(&vec![0xa5a5_a5a5u32; bytes.div_ceil(4)])));
        }
        let program = CpuProgram::new(Arc::new(plan));
        let given = Given { uploads: &uploads, ..Default::default() };
        let ran = run(&program, given, &pool, &Timeline::default(), &|| true)
            .expect("a run that is wanted");
        let step = &program.plan().steps[0];
        assert_eq!(ran.dispatches, usize::from(!step.is_empty()));
        let want = Oracle { step, uploads: &uploads }.outputs();
        for ((output, got), want) in step.outputs.iter().zip(&ran.downloads).zip(want) {
            assert_eq!(got.dtype(), output.dtype);
            assert_eq!(got.len(), want.len());
            for (at, want) in want.iter().enumerate() {
                let got = element(got, at).number();
                let rounded = Scalar::new(output.dtype, *want).value();
                let error = (got - rounded).abs() / rounded.abs().max(1.0);
                let same = got == rounded || (got.is_nan() && rounded.is_nan());
                assert!(same || error <= tolerance, "{:?} [{at}]: {got} for {want}", step.form);
            }
        }
    }

    fn plan(
        self,
        b: &Builder,
        form: Form,
        outputs: &[(DType, Ref)],
    ) -> (Plan, Vec<Arc<HostBuffer>>) {
        let shape = Shape::new(&out_dims(&form));
        let stored = |dtype, shape: Shape, home| Stored {
            node: NodeId::default(),
            op: "test",
            place: Location::caller(),
            dtype,
            shape,
            home,
        };
        let mut values: Vec<Stored> = Vec::new();
        for (input, buffer) in (0..).zip(&self.uploads) {
            let home = Home::Upload { input, slot: None };
            values.push(stored(buffer.dtype(), buffer.len().into(), home));
        }
        let first = values.len() as u32;
        let mut step_outputs = SmallVec::new();
        for (i, &(dtype, root)) in outputs.iter().enumerate() {
            values.push(stored(dtype, shape.clone(), Home::Slot(i)));
            let view = self.output_view.clone().unwrap_or_else(|| View::contiguous(&shape));
            step_outputs.push(StepOutput { value: ValueId(first + i as u32), dtype, root, view });
        }
        let plan = Plan {
            downloads: step_outputs.iter().map(|output: &StepOutput| output.value).collect(),
            values,
            steps: vec![Step {
                ops: vec!["test"],
                place: Location::caller(),
                form,
                expr: b.clone().finish(),
                operands: self.operands,
                scalars: self.scalars,
                outputs: step_outputs,
                scratch: None,
                cost: Cost::default(),
            }],
            slots: outputs.iter().map(|_| 0).collect(),
            ..Plan::empty(Backend::Cpu)
        };
        (plan, self.uploads)
    }
}

/// A reduction with the schedule that the host ignores.
pub fn reduce(combine: Combine, outer: &[usize], inner: &[usize], prologue: Ref) -> Form {
    let schedule = ReduceSchedule { layout: ReduceLayout::Group, parts: 1 };
    Form::Reduce(ReduceForm {
        combine,
        outer: outer.into(),
        inner: inner.into(),
        prologue,
        schedule,
    })
}

/// A product with the schedule that the host ignores.
pub fn matmul(batch: &[usize], [m, n, k]: [usize; 3], x: E<'_>, w: E<'_>) -> Form {
    let (batch, precision, schedule) = (batch.into(), Precision::Exact, ProductSchedule::default());
    let (spread, acc) = (None, x.ty());
    Form::MatMul(MatMulForm {
        batch,
        m,
        n,
        k,
        spread,
        x: x.r(),
        w: w.r(),
        acc,
        precision,
        schedule,
    })
}

fn out_dims(form: &Form) -> Dims {
    match form {
        Form::Map { dims } | Form::Own(OwnForm { dims, .. }) => dims.clone(),
        Form::Reduce(ReduceForm { outer, .. }) => outer.clone(),
        Form::Sort(SortForm { outer, count, .. }) => {
            outer.iter().copied().chain([*count]).collect()
        }
        Form::Row(RowForm { outer, len, .. }) | Form::Scan(ScanForm { outer, len, .. }) => {
            outer.iter().copied().chain([*len]).collect()
        }
        Form::MatMul(MatMulForm { batch, m, n, .. }) => {
            batch.iter().copied().chain([*m, *n]).collect()
        }
        Form::Attention(AttentionForm { batch, queries, out, .. }) => {
            batch.iter().copied().chain([*queries, *out]).collect()
        }
    }
}

/// Element `at` of a buffer as a lane.
fn element(buffer: &HostBuffer, at: usize) -> Value {
    let bytes = &buffer.bytes()[at * buffer.dtype().size()..];
    let word = || u32::from_ne_bytes(bytes[..4].try_into().unwrap());
    match buffer.dtype() {
        DType::F16 => Value::F(half::f16::from_ne_bytes([bytes[0], bytes[1]]).to_f64()),
        DType::Bool => {
            assert!(bytes[0] <= 1, "a truth value of {}", bytes[0]);
            Value::B(bytes[0] != 0)
        }
        dtype => Value::from_bits(dtype.lane(), word()),
    }
}

/// All points of a space, in row-major order.
fn points(dims: &[usize]) -> Vec<SmallVec<[usize; 4]>> {
    let mut points = vec![smallvec![]];
    for &dim in dims {
        let extend = |point: &SmallVec<[usize; 4]>, c| point.iter().copied().chain([c]).collect();
        points = points.iter().flat_map(|point| (0..dim).map(move |c| extend(point, c))).collect();
    }
    points
}

fn index(view: &View, point: &[usize]) -> i64 {
    view.offset + point.iter().zip(&view.strides).map(|(&c, &s)| c as i64 * s).sum::<i64>()
}

struct Oracle<'a> {
    step: &'a Step,
    uploads: &'a [Arc<HostBuffer>],
}

impl Oracle<'_> {
    /// The elements of each output in memory order.
    fn outputs(&self) -> Vec<Vec<f64>> {
        let points = points(&out_dims(&self.step.form));
        let accs: Vec<Option<Value>> = self.accs(&points);
        let mut outputs = Vec::new();
        for output in &self.step.outputs {
            let mut elements = vec![f64::NAN; points.len()];
            for (point, &acc) in points.iter().zip(&accs) {
                let space = match self.step.form {
                    Form::Map { .. } | Form::Row(_) | Form::Scan(_) | Form::Sort(_) => Space::Main,
                    Form::Reduce(_) | Form::MatMul(_) | Form::Attention(_) | Form::Own(_) => {
                        Space::Out
                    }
                };
                let at = index(&output.view, point) as usize;
                elements[at] = self.evaluate(output.root, space, point, acc).number();
            }
            outputs.push(elements);
        }
        outputs
    }

    fn evaluate(&self, root: Ref, space: Space, point: &[usize], acc: Option<Value>) -> Value {
        let load = |operand: &Operand| {
            if operand.space != space {
                return Value::F(f64::NAN);
            }
            let at = index(&operand.view, point);
            match operand.source {
                Source::Iota | Source::Table(_) | Source::Failures => Value::I(at as i32),
                Source::Value(value) => {
                    let buffer = &self.uploads[value.index()];
                    let end = buffer.len() as i64 - 1;
                    let at = if operand.clamp { at.clamp(0, end) } else { at };
                    element(buffer, at as usize)
                }
            }
        };
        let loads: Vec<Value> = self.step.operands.iter().map(load).collect();
        let leaves = Leaves { loads: &loads, acc, scalars: &self.step.scalars };
        evaluate(&self.step.expr, root, leaves).unwrap()
    }

    /// The form's combined value for each point of the out space.
    fn accs(&self, out: &[SmallVec<[usize; 4]>]) -> Vec<Option<Value>> {
        match &self.step.form {
            Form::Map { .. } | Form::Sort(_) => vec![None; out.len()],
            Form::Reduce(ReduceForm { combine, inner, prologue, .. }) => {
                let inner = points(inner);
                let row = |point: &[usize]| -> Vec<Value> {
                    let at = |i: &SmallVec<[usize; 4]>| -> SmallVec<[usize; 8]> {
                        point.iter().chain(i).copied().collect()
                    };
                    inner
                        .iter()
                        .map(|i| self.evaluate(*prologue, Space::Main, &at(i), None))
                        .collect()
                };
                let ty = self.step.expr.ty(*prologue);
                out.iter().map(|point| Some(combined(*combine, ty, &row(point)))).collect()
            }
            Form::Row(RowForm { kind, len, prologue, epsilon, .. }) => {
                let epsilon = epsilon.map_or(0.0, |at| self.step.scalars[usize::from(at)].value());
                let all: Vec<f64> = out
                    .iter()
                    .map(|point| self.evaluate(*prologue, Space::Main, point, None).number())
                    .collect();
                let rows =
                    all.chunks((*len).max(1)).flat_map(|row| normalized(*kind, epsilon, row));
                rows.map(|x| Some(Value::F(x))).collect()
            }
            Form::Scan(ScanForm { combine, len, prologue, .. }) => {
                let ty = self.step.expr.ty(*prologue);
                let all: Vec<Value> = out
                    .iter()
                    .map(|point| self.evaluate(*prologue, Space::Main, point, None))
                    .collect();
                let row = |row: &[Value]| -> Vec<Option<Value>> {
                    (1..=row.len()).map(|end| Some(combined(*combine, ty, &row[..end]))).collect()
                };
                all.chunks((*len).max(1)).flat_map(row).collect()
            }
            Form::Attention(_) | Form::Own(_) => unreachable!("the interpreter of graphs has it"),
            Form::MatMul(MatMulForm { batch, k, x, w, .. }) => {
                let sum = |point: &SmallVec<[usize; 4]>| {
                    let (b, mn) = point.split_at(batch.len());
                    let mut terms = Vec::new();
                    for i in 0..*k {
                        let left: Vec<usize> = b.iter().copied().chain([mn[0], i]).collect();
                        let right: Vec<usize> = b.iter().copied().chain([i, mn[1]]).collect();
                        let left = self.evaluate(*x, Space::X, &left, None);
                        let right = self.evaluate(*w, Space::W, &right, None);
                        terms.push(crate::expr::reference::binary(
                            crate::expr::Binary::Mul,
                            left,
                            right,
                        ));
                    }
                    Some(combined(Combine::Sum, self.step.expr.ty(*x), &terms))
                };
                out.iter().map(sum).collect()
            }
        }
    }
}

/// A reduction by its definition.
fn combined(combine: Combine, ty: Ty, row: &[Value]) -> Value {
    let float = ty == Ty::F32;
    let numbers = || row.iter().map(|x| x.number());
    let integers = || numbers().map(|x| x as i64);
    let wrap = |x: i64| Value::from_bits(ty, x as u32);
    let nan = numbers().position(f64::is_nan);
    let best = |better: fn(f64, f64) -> bool| {
        let better =
            |a: usize, b: usize| if better(row[b].number(), row[a].number()) { b } else { a };
        nan.unwrap_or_else(|| (0..row.len()).reduce(better).unwrap())
    };
    match combine {
        Combine::Sum if float => Value::F(numbers().sum()),
        Combine::Prod if float => Value::F(numbers().product()),
        Combine::Sum => wrap(integers().fold(0, i64::wrapping_add)),
        Combine::Prod => wrap(integers().fold(1, i64::wrapping_mul)),
        Combine::Max => row[best(|b, a| b > a)],
        Combine::Min => row[best(|b, a| b < a)],
        Combine::ArgMax => Value::U(best(|b, a| b > a) as u32),
        Combine::ArgMin => Value::U(best(|b, a| b < a) as u32),
        Combine::LogSumExp => {
            let most = numbers().fold(f64::NEG_INFINITY, f64::max);
            let shift = if most.is_finite() { most } else { 0.0 };
            Value::F(shift + numbers().map(|x| (x - shift).exp()).sum::<f64>().ln())
        }
    }
}

/// A normalisation by its definition.
fn normalized(kind: RowKind, epsilon: f64, row: &[f64]) -> Vec<f64> {
    let count = row.len() as f64;
    let most = row.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    let mean = row.iter().sum::<f64>() / count;
    let sum: f64 = row.iter().map(|x| (x - most).exp()).sum();
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / count;
    let square = row.iter().map(|x| x * x).sum::<f64>() / count;
    let one = |x: &f64| match kind {
        RowKind::Softmax => (x - most).exp() / sum,
        RowKind::LogSoftmax => x - most - sum.ln(),
        RowKind::LayerNorm => (x - mean) / (variance + epsilon).sqrt(),
        RowKind::RmsNorm => x / (square + epsilon).sqrt(),
        RowKind::L2Normalize => {
            let norm = (square * count).sqrt();
            x / if norm < epsilon { epsilon } else { norm }
        }
    };
    row.iter().map(one).collect()
}
