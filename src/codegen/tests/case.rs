//! Steps made by hand, with data.

use crate::base::dtype::{DType, Scalar};
use crate::base::place::Place;
use crate::base::shape::{Shape, View};
use crate::codegen::{Dispatch, lower};
use crate::cost::{Backend, Limits};
use crate::expr::{Builder, Ref};
use crate::graph::NodeId;
#[cfg(feature = "gpu")]
use crate::plan::reference::Reference;
use crate::plan::{
    Cost, Form, Home, OperandSource, Plan, Scratch, Space, Step, StepOp, StepOperand, StepOutput,
    Value, ValueId,
};

/// A step and the contents of the values that it reads.
pub(super) struct Case {
    pub plan: Plan,
    pub step: Step,
    /// One entry a value, empty for outputs.
    pub data: Vec<Vec<f64>>,
    /// Allowed error, relative to 1 + |expected|.
    pub tolerance: f64,
}

impl Case {
    /// The dispatches, with the kernels that the plan would choose for maps and windows.
    pub fn lower(&self, limits: &Limits) -> Vec<Dispatch> {
        let mut step = self.step.clone();
        let context = self.step.context(&self.plan.values);
        step.form = match step.form {
            Form::Map(form) => Form::Map(form.scheduled(&context, limits)),
            Form::Reduce(form) => Form::Reduce(form.laned(&context)),
            form => form,
        };
        lower(&self.plan, &step, limits)
    }

    /// The contents of each output.
    #[cfg(feature = "gpu")]
    pub fn expected(&self) -> Vec<Vec<f64>> {
        let values = &self.plan.values;
        let read = |value: ValueId, at: usize| {
            let dtype = values[value.index()].dtype;
            Scalar::new(dtype, self.data[value.index()][at]).into()
        };
        Reference { step: &self.step, values, read: &read }.outputs()
    }
}

/// A [`Case`] in the making: an expression builder with operands.
#[derive(Default)]
pub(super) struct Maker {
    pub expr: Builder,
    values: Vec<(DType, Shape, Vec<f64>)>,
    operands: Vec<StepOperand>,
    scalars: Vec<Scalar>,
    outputs: Vec<StepOutput>,
}

pub(super) fn view(dims: &[usize], strides: &[i64], offset: i64) -> View {
    View { dims: dims.into(), strides: strides.into(), offset }
}

pub(super) fn row_major(dims: &[usize]) -> View {
    View::contiguous(&Shape::new(dims))
}

/// The views of an operand and of an output in order.
pub(super) fn straight(dims: &[usize]) -> [View; 2] {
    [row_major(dims), row_major(dims)]
}

impl Maker {
    /// A value of random data.
    pub fn value(&mut self, dtype: DType, shape: &[usize]) -> ValueId {
        let count = Shape::new(shape).elements();
        let mut seed = 1 + self.values.len() as u64 * 77;
        let data = (0..count).map(|_| Scalar::new(dtype, random(&mut seed, dtype)).value());
        self.value_of(dtype, shape, data.collect())
    }

    /// A value of `data`, rounded to its type.
    pub fn value_of(&mut self, dtype: DType, shape: &[usize], data: Vec<f64>) -> ValueId {
        let data = data.into_iter().map(|x| Scalar::new(dtype, x).value()).collect();
        self.values.push((dtype, Shape::new(shape), data));
        ValueId(self.values.len() as u32 - 1)
    }

    /// The load of a value of random data through `view`.
    pub fn input(&mut self, dtype: DType, shape: &[usize], space: Space, view: View) -> Ref {
        let value = self.value(dtype, shape);
        self.load(value, space, view)
    }

    /// The load of `value` through `view`.
    pub fn load(&mut self, value: ValueId, space: Space, view: View) -> Ref {
        self.operand(value, space, view, false)
    }

    pub fn operand(&mut self, value: ValueId, space: Space, view: View, clamp: bool) -> Ref {
        let dtype = self.values[value.index()].0;
        let source = OperandSource::Value(value);
        self.push(StepOperand { source, dtype, space, view, clamp })
    }

    pub fn iota(&mut self, space: Space, view: View) -> Ref {
        let operand = StepOperand {
            source: OperandSource::Iota,
            dtype: DType::I32,
            space,
            view,
            clamp: false,
        };
        self.push(operand)
    }

    fn push(&mut self, operand: StepOperand) -> Ref {
        let ty = operand.dtype.lane();
        self.operands.push(operand);
        self.expr.load(self.operands.len() as u16 - 1, ty).r()
    }

    pub fn scalar(&mut self, dtype: DType, value: f64) -> Ref {
        self.scalars.push(Scalar::new(dtype, value));
        self.expr.scalar(self.scalars.len() as u16 - 1, dtype.lane()).r()
    }

    /// An output of `shape`, row-major.
    pub fn output(&mut self, dtype: DType, shape: &[usize], root: Ref) {
        self.output_through(dtype, shape, root, row_major(shape));
    }

    pub fn output_through(&mut self, dtype: DType, shape: &[usize], root: Ref, view: View) {
        let value = self.value_of(dtype, shape, Vec::new());
        self.outputs.push(StepOutput { value, dtype, root, view });
    }

    #[track_caller]
    pub fn finish(self, form: Form) -> Case {
        let mut step = Step {
            ops: vec![StepOp { node: NodeId::default(), name: "test" }],
            place: Place::caller(),
            form,
            expr: self.expr.finish(),
            operands: self.operands,
            scalars: self.scalars,
            outputs: self.outputs.into(),
            lookups: Vec::new(),
            borders: Vec::new(),
            joins: Vec::new(),
            scratch: None,
            cost: Cost::default(),
        };
        let (mut values, mut data) = (Vec::new(), Vec::new());
        for (dtype, shape, content) in self.values {
            let (node, home) = (NodeId::default(), Home::Slot(0));
            let (op, place, channels_last) = ("test", Place::caller(), false);
            values.push(Value { node, op, place, dtype, shape, channels_last, home });
            data.push(content);
        }
        step.scratch = Scratch::of(&step.form, &step.context(&values));
        let plan = Plan { values, slots: vec![0], ..Plan::empty(Backend::Gpu) };
        Case { plan, step, data, tolerance: 2e-5 }
    }
}

/// Small numbers: exact sums for integers, no overflow in products and exponentials.
pub(super) fn random(seed: &mut u64, dtype: DType) -> f64 {
    *seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
    let unit = (*seed >> 40) as f64 / (1_u64 << 24) as f64;
    match dtype {
        DType::F32 | DType::F16 => unit * 4.0 - 2.0,
        DType::I32 => (unit * 200.0).floor() - 100.0,
        DType::U32 => (unit * 200.0).floor(),
        DType::Bool => f64::from(u8::from(unit < 0.5)),
    }
}
