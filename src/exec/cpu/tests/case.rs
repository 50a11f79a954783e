//! One-step plans made by hand, run on the cores and compared with their meaning.

use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::dtype::{DType, Element, Scalar};
use crate::base::place::Place;
use crate::base::shape::{Shape, View};
use crate::base::trace::Timeline;
use crate::cost::Backend;
use crate::exec::HostBuffer;
use crate::exec::HostPool;
use crate::exec::cpu::run::run;
use crate::exec::cpu::{CpuProgram, RunData};
use crate::expr::reference::LaneValue;
use crate::expr::{Builder, E, Ref};
use crate::graph::NodeId;
use crate::ops::{Combine, Precision, RowKind};
use crate::plan::reference::Reference;
use crate::plan::{
    AttentionForm, Border, Cost, CustomForm, Dims, Form, Home, MapForm, OperandSource, Plan,
    ProductForm, ProductSchedule, ReduceForm, RowForm, ScanForm, SortForm, Space, Step, StepOp,
    StepOperand, StepOutput, Value as Stored, ValueId,
};

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
    operands: Vec<StepOperand>,
    scalars: Vec<Scalar>,
    uploads: Vec<Arc<HostBuffer>>,
    /// The borders of values that a plan would know of.
    pub borders: Vec<Border>,
    /// The view of the first output, where it is not contiguous.
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
        let source = OperandSource::Value(ValueId(self.uploads.len() as u32 - 1));
        self.operand(b, StepOperand { source, dtype: T::DTYPE, space, view, clamp: false })
    }

    /// Adds an operand; a value must have been loaded before.
    pub fn operand<'b>(&mut self, b: &'b Builder, operand: StepOperand) -> E<'b> {
        let ty = operand.dtype.lane();
        self.operands.push(operand);
        b.load(self.operands.len() as u16 - 1, ty)
    }

    /// Adds a table; returns its position among the operands.
    pub fn table<T: Element>(&mut self, data: &[T]) -> u16 {
        self.uploads.push(Arc::new(HostBuffer::from_slice(data)));
        let source = OperandSource::Table(ValueId(self.uploads.len() as u32 - 1));
        let (dtype, view) = (T::DTYPE, contiguous(&[data.len()]));
        self.operands.push(StepOperand { source, dtype, space: Space::Whole, view, clamp: false });
        self.operands.len() as u16 - 1
    }

    /// Lets the index of the last operand leave its data.
    pub fn clamp(&mut self) {
        self.operands.last_mut().unwrap().clamp = true;
    }

    pub fn scalar<'b>(&mut self, b: &'b Builder, dtype: DType, value: f64) -> E<'b> {
        self.scalars.push(Scalar::new(dtype, value));
        b.scalar(self.scalars.len() as u16 - 1, dtype.lane())
    }

    /// Runs the step with poisoned buffers, and compares every output with its meaning: by at most
    /// `tolerance`, relative to the larger of 1 and the number expected.
    pub fn check(self, b: &Builder, form: Form, outputs: &[(DType, Ref)], tolerance: f64) {
        let (plan, uploads) = self.plan(b, form, outputs);
        let pool = HostPool::default();
        for value in &plan.values[uploads.len()..] {
            let bytes = value.shape.elements() * value.dtype.size();
            pool.give(Arc::new(HostBuffer::from_slice(&vec![0xa5a5_a5a5u32; bytes.div_ceil(4)])));
        }
        let program = CpuProgram::new(Arc::new(plan));
        let given = RunData { uploads: &uploads, ..Default::default() };
        let ran = run(&program, given, &pool, &Timeline::default(), &|| true)
            .expect("a run that is wanted");
        let step = &program.plan().steps[0];
        assert_eq!(ran.dispatches, usize::from(!step.is_empty()));
        let read = |value: ValueId, at: usize| element(&uploads[value.index()], at);
        let values = &program.plan().values;
        let want = Reference { step, values, read: &read }.outputs();
        for ((output, got), want) in step.outputs.iter().zip(&ran.downloads).zip(want) {
            assert_eq!(got.dtype(), output.dtype);
            assert_eq!(got.len(), want.len());
            for (at, &want) in want.iter().enumerate() {
                let got = element(got, at).number();
                let error = (got - want).abs() / want.abs().max(1.0);
                let same = got == want || (got.is_nan() && want.is_nan());
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
            place: Place::caller(),
            dtype,
            shape,
            channels_last: false,
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
                ops: vec![StepOp { node: NodeId::default(), name: "test" }],
                place: Place::caller(),
                form,
                expr: b.clone().finish(),
                operands: self.operands,
                scalars: self.scalars,
                outputs: step_outputs,
                lookups: Vec::new(),
                borders: self.borders,
                joins: Vec::new(),
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
    let (outer, inner) = (outer.into(), inner.into());
    Form::Reduce(ReduceForm { combine, outer, inner, prologue, schedule: None, sliding: None })
}

/// Rows of `len` elements.
pub fn row(kind: RowKind, outer: usize, len: usize, prologue: Ref, epsilon: Option<u16>) -> Form {
    let outer = [outer].as_slice().into();
    Form::Row(RowForm { kind, outer, len, prologue, epsilon, parts: 1 })
}

/// A product with the schedule that the host ignores.
pub fn matmul(batch: &[usize], [m, n, k]: [usize; 3], x: E<'_>, w: E<'_>) -> Form {
    let (batch, precision, schedule) = (batch.into(), Precision::Exact, ProductSchedule::default());
    let (spread, acc, x, w) = (None, x.ty(), x.r(), w.r());
    Form::Product(ProductForm { batch, m, n, k, spread, x, w, acc, precision, schedule })
}

fn out_dims(form: &Form) -> Dims {
    match form {
        Form::Map(MapForm { dims, .. }) | Form::Custom(CustomForm { dims, .. }) => dims.clone(),
        Form::Reduce(ReduceForm { outer, .. }) => outer.clone(),
        Form::Sort(SortForm { outer, count, .. }) => {
            outer.iter().copied().chain([*count]).collect()
        }
        Form::Row(RowForm { outer, len, .. }) | Form::Scan(ScanForm { outer, len, .. }) => {
            outer.iter().copied().chain([*len]).collect()
        }
        Form::Product(ProductForm { batch, m, n, .. }) => {
            batch.iter().copied().chain([*m, *n]).collect()
        }
        Form::Attention(AttentionForm { batch, queries, out, .. }) => {
            batch.iter().copied().chain([*queries, *out]).collect()
        }
    }
}

fn element(buffer: &HostBuffer, at: usize) -> LaneValue {
    let bytes = &buffer.bytes()[at * buffer.dtype().size()..];
    let word = || u32::from_ne_bytes(bytes[..4].try_into().unwrap());
    match buffer.dtype() {
        DType::F16 => LaneValue::F(half::f16::from_ne_bytes([bytes[0], bytes[1]]).to_f64()),
        DType::Bool => {
            assert!(bytes[0] <= 1, "a truth value of {}", bytes[0]);
            LaneValue::B(bytes[0] != 0)
        }
        dtype => LaneValue::from_bits(dtype.lane(), word()),
    }
}
