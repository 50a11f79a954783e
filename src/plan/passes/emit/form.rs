//! The kernel form of a step, with its prologues.

use std::sync::Arc;

use smallvec::SmallVec;

use super::Emitter;
use crate::base::dtype::DType;
use crate::base::shape::{Shape, View};
use crate::expr::E;
use crate::ops::{
    AttentionDims, CustomKernel, MatMulDims, Normalization, Op, Precision, Reduction, Scan, Scores,
    Sort, SortOrder,
};
use crate::plan::forms::{
    AttentionForm, CustomForm, Dims, Form, MapForm, ProductForm, ReduceForm, RowForm, ScanForm,
    SortForm,
};
use crate::plan::forms::{AttentionSchedule, ProductSchedule, SortSchedule};
use crate::plan::passes::fuse::Group;
use crate::plan::passes::ir::Ix;
use crate::plan::passes::reads::{
    attention_dims, main_order, map_space, out_space, root_reads, spread,
};
use crate::plan::step_parts::{OperandSource, Space};

impl<'a, 'b> Emitter<'a, 'b> {
    /// The kernel form, with its prologues emitted.
    pub(super) fn form(&mut self, group: &Group) -> Option<Form> {
        let Some(anchor) = self.anchor else {
            return Some(Form::Map(MapForm::new(map_space(self.ir, group.root).dims().into())));
        };
        let ir = self.ir;
        match &ir.nodes[anchor].op {
            Op::Reduce { op, axes, .. } => self.reduce(anchor, *op, axes).map(Form::Reduce),
            Op::Row { op, axis } => self.row(anchor, *op, *axis).map(Form::Row),
            Op::Scan { op, axis } => self.scan(anchor, *op, *axis).map(Form::Scan),
            Op::Sort { how, .. } => self.sort(anchor, *how).map(Form::Sort),
            Op::MatMul(precision) => self.product(anchor, *precision).map(Form::Product),
            Op::Attention(scores) => self.attention(anchor, *scores).map(Form::Attention),
            Op::Custom(kernel) => self.custom(anchor, kernel).map(Form::Custom),
            _ => None,
        }
    }

    fn reduce(&mut self, anchor: Ix, op: Reduction, axes: &[usize]) -> Option<ReduceForm> {
        let shape = self.input_shape(anchor, 0);
        let x = self.main_operand(anchor)?;
        Some(ReduceForm {
            combine: op.def().combine,
            outer: out_space(self.ir, anchor).dims().into(),
            inner: axes.iter().map(|&axis| shape[axis]).collect(),
            prologue: op.before(x).r(),
            schedule: None,
            sliding: None,
        })
    }

    fn row(&mut self, anchor: Ix, op: Normalization, axis: usize) -> Option<RowForm> {
        let shape = self.input_shape(anchor, 0);
        let prologue = self.main_operand(anchor)?.r();
        let epsilon = op.epsilon().map(|epsilon| self.leaves.scalar_index(epsilon));
        let (outer, len) = (all_but(shape, axis), shape[axis]);
        Some(RowForm { kind: op.kind(), outer, len, prologue, epsilon, parts: 1 })
    }

    fn scan(&mut self, anchor: Ix, op: Scan, axis: usize) -> Option<ScanForm> {
        let shape = self.input_shape(anchor, 0);
        let prologue = self.main_operand(anchor)?.r();
        let (outer, len) = (all_but(shape, axis), shape[axis]);
        Some(ScanForm { combine: op.def().combine, outer, len, prologue, parts: 1 })
    }

    fn sort(&mut self, anchor: Ix, how: Sort) -> Option<SortForm> {
        let node = &self.ir.nodes[anchor];
        let shape = self.input_shape(anchor, 0);
        Some(SortForm {
            outer: all_but(shape, how.axis),
            len: shape[how.axis],
            count: node.ty.shape[how.axis],
            dtype: self.ir.nodes[node.inputs[0]].ty.dtype,
            prologue: self.sorted(anchor)?.r(),
            descending: how.order == SortOrder::Descending,
            schedule: SortSchedule::Group,
        })
    }

    fn product(&mut self, anchor: Ix, precision: Precision) -> Option<ProductForm> {
        let node = &self.ir.nodes[anchor];
        let MatMulDims { batch, m, n, k, .. } =
            MatMulDims::of(self.input_shape(anchor, 0), self.input_shape(anchor, 1)).ok()?;
        let spread = spread(self.ir, self.views, anchor);
        let [x, w] = &root_reads(self.ir, self.views, anchor)[..] else { return None };
        let (x, w) = (self.emit(x)?, self.emit(w)?);
        let precision = match node.ty.dtype {
            // Operands of `f16` lose nothing.
            DType::F16 => Precision::Half,
            DType::F32 => precision,
            DType::I32 | DType::U32 | DType::Bool => Precision::Exact,
        };
        Some(ProductForm {
            batch: batch.dims().into(),
            m,
            n,
            k,
            spread,
            x: x.r(),
            w: w.r(),
            acc: x.ty(),
            precision,
            schedule: ProductSchedule::default(),
        })
    }

    fn attention(&mut self, anchor: Ix, Scores { scale, causal }: Scores) -> Option<AttentionForm> {
        let node = &self.ir.nodes[anchor];
        let AttentionDims { batch, queries, keys, width, out } = attention_dims(self.ir, anchor)?;
        let mut operands = Vec::new();
        for read in root_reads(self.ir, self.views, anchor) {
            operands.push(self.emit(&read)?.r());
        }
        let &[q, k, v, ..] = &operands[..] else { return None };
        Some(AttentionForm {
            batch: batch.dims().into(),
            queries,
            keys,
            width,
            out,
            q,
            k,
            v,
            mask: operands.get(3).copied(),
            scale: self.leaves.scalar_index(scale),
            causal,
            halves: node.ty.dtype == DType::F16,
            schedule: AttentionSchedule::least(),
        })
    }

    fn custom(&mut self, anchor: Ix, kernel: &Arc<CustomKernel>) -> Option<CustomForm> {
        let node = &self.ir.nodes[anchor];
        let mut inputs = SmallVec::new();
        for &input in &node.inputs {
            let base = self.views.of(input).0;
            let (value, ty) = (self.values[base]?, &self.ir.nodes[base].ty);
            let view = View::contiguous(&ty.shape);
            inputs.push(self.leaves.whole(OperandSource::Table(value), ty.dtype, view));
        }
        let has_elements = |&input: &Ix| self.ir.nodes[input].ty.shape.elements() > 0;
        let runs = !kernel.groups.contains(&0) && node.inputs.iter().all(has_elements);
        let (kernel, dims) = (Arc::clone(kernel), node.ty.shape.dims().into());
        Some(CustomForm { kernel, dims, inputs, runs })
    }

    fn input_shape(&self, ix: Ix, at: usize) -> &'a Shape {
        let ir = self.ir;
        &ir.nodes[ir.nodes[ix].inputs[at]].ty.shape
    }

    /// The argument of a reduction, row or scan form, over its main space.
    fn main_operand(&mut self, anchor: Ix) -> Option<E<'b>> {
        self.emit(root_reads(self.ir, self.views, anchor).first()?)
    }

    /// The elements to sort, rounded to their type as they would be stored.
    pub(super) fn sorted(&mut self, anchor: Ix) -> Option<E<'b>> {
        let argument = self.ir.nodes[anchor].inputs[0];
        let x = self.main_operand(anchor)?;
        let stored = self.stored[self.views.of(argument).0];
        Some(if stored { x } else { x.cast(self.ir.nodes[argument].ty.dtype) })
    }

    /// The position of a point of the main space along the sorted axis.
    pub(super) fn sorted_position(&mut self, anchor: Ix) -> E<'b> {
        let shape = self.input_shape(anchor, 0);
        let order = main_order(&self.ir.nodes[anchor].op, shape);
        let space: Shape = order.iter().map(|&axis| shape[axis]).collect();
        let last = space.rank() - 1;
        let mut view = View::contiguous(&space);
        view.strides[..last].fill(0);
        self.leaves.iota(view, Space::Main).cast(DType::U32)
    }
}

/// The sizes of all axes but one.
fn all_but(shape: &Shape, axis: usize) -> Dims {
    (0..shape.rank()).filter(|&a| a != axis).map(|a| shape[a]).collect()
}
