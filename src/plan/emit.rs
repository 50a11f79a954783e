//! From a group to a step: the group's values become one expression over operands and scalars.

use std::collections::HashMap;
use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use super::fail::{Sites, failing_position};
use super::form::{
    AttentionForm, Dims, Form, MatMulForm, OwnForm, ReduceForm, RowForm, ScanForm, SortForm,
};
use super::fuse::{Fusion, Group};
use super::ir::{Ir, IrNode, Ix};
use super::lookup;
use super::path::{Path, Views};
use super::reads::{
    attention_dims, attention_spaces, coordinates, epilogue_space, expr_reads, into_epilogue,
    is_heavy, main_order, map_space, matmul_paths, out_space, spread,
};
use super::share::{
    AttentionSchedule, ProductSchedule, ReduceLayout, ReduceSchedule, SortSchedule,
};
use super::step::{Cost, Operand, Source, Space, Step, StepOutput, ValueId};
use crate::dtype::{DType, Scalar, Ty};
use crate::expr::{Builder, E, Expr, Ref};
use crate::ops::{AttentionDims, MatMulDims, Op, Precision, Scores, Side, SortOrder, Sorted};
use crate::shape::{Move, Shape, View};

/// The expression of an elementwise operation over `args` and its parameters.
pub(super) fn apply<'b>(op: &Op, args: &[E<'b>], params: &[E<'b>]) -> E<'b> {
    match op {
        Op::Elementwise(op, _) => op.apply(args, params),
        Op::Cast(dtype) => args[0].cast(*dtype),
        Op::Select => args[0].select(args[1], args[2], args[1]),
        _ => args[0],
    }
}

/// Flops of one element of an elementwise operation over arguments of `dtype`.
pub(super) fn expression_flops(op: &Op, dtype: DType) -> u64 {
    let (arity, params) = match op {
        Op::Elementwise(op, params) => (op.def().arity, params.len()),
        Op::Select => (3, 0),
        _ => (1, 0),
    };
    let ty = |k: usize| {
        let condition = k == 0 && matches!(op, Op::Select);
        if condition { Ty::Bool } else { dtype.lane() }
    };
    let args: SmallVec<[Ty; 3]> = (0..arity).map(ty).collect();
    let (expr, root) = expression(op, &args, &vec![dtype.lane(); params]);
    expr.flops(&[root])
}

/// An elementwise operation over loads and scalars of these types.
pub(super) fn expression(op: &Op, args: &[Ty], params: &[Ty]) -> (Expr, Ref) {
    let builder = Builder::default();
    let root = {
        let args: SmallVec<[_; 3]> =
            args.iter().enumerate().map(|(k, &ty)| builder.load(k as u16, ty)).collect();
        let params: SmallVec<[_; 2]> =
            params.iter().enumerate().map(|(k, &ty)| builder.scalar(k as u16, ty)).collect();
        apply(op, &args, &params).r()
    };
    (builder.finish(), root)
}

/// The step that computes `group`. `values` gives the storage of every stored value.
/// `None` where a path that fusion checked is no view after all.
pub(super) fn step(
    ir: &Ir,
    views: &Views,
    sites: &Sites,
    fusion: &Fusion,
    group: &Group,
    values: &[Option<ValueId>],
) -> Option<Step> {
    let builder = Builder::default();
    let mut emitter = Emitter {
        ir,
        views,
        sites,
        stored: &fusion.stored,
        values,
        builder: &builder,
        anchor: group.anchor.or_else(|| is_heavy(&ir.nodes[group.root].op).then_some(group.root)),
        operands: Vec::new(),
        scalars: Vec::new(),
        known: HashMap::new(),
    };
    let form = emitter.form(group)?;
    let outputs = emitter.outputs(group)?;
    let (operands, scalars) = (emitter.operands, emitter.scalars);
    let mut ops = group.ops.clone();
    ops.sort_unstable();
    ops.dedup();
    Some(Step {
        ops: ops.iter().map(|&ix| ir.nodes[ix].op.name()).collect(),
        place: ir.nodes[group.root].place,
        form,
        expr: builder.finish(),
        operands,
        scalars,
        outputs,
        scratch: None,
        cost: Cost::default(),
    })
}

struct Emitter<'a, 'b> {
    ir: &'a Ir,
    views: &'a Views,
    sites: &'a Sites,
    stored: &'a [bool],
    values: &'a [Option<ValueId>],
    builder: &'b Builder,
    /// The heavy value whose form this is.
    anchor: Option<Ix>,
    operands: Vec<Operand>,
    scalars: Vec<Scalar>,
    /// Values emitted before, by the way from there to the space.
    known: HashMap<(Ix, Path, Space), Ref>,
}

impl<'b> Emitter<'_, 'b> {
    /// The kernel form, with its prologues emitted.
    fn form(&mut self, group: &Group) -> Option<Form> {
        let Some(anchor) = self.anchor else {
            return Some(Form::Map { dims: map_space(self.ir, group.root).dims().into() });
        };
        let node = &self.ir.nodes[anchor];
        let shape_of = |at: usize| &self.ir.nodes[node.inputs[at]].ty.shape;
        match &node.op {
            Op::Reduce { op, axes, .. } => {
                let shape = shape_of(0);
                let x = self.main_operand(anchor)?;
                let prologue = op.before(x).r();
                let outer = out_space(self.ir, anchor).dims().into();
                let inner = axes.iter().map(|&axis| shape[axis]).collect();
                let schedule = ReduceSchedule { layout: ReduceLayout::Group, parts: 1 };
                Some(Form::Reduce(ReduceForm {
                    combine: op.combine(),
                    outer,
                    inner,
                    prologue,
                    schedule,
                }))
            }
            Op::Row { op, axis } => {
                let shape = shape_of(0);
                let prologue = self.main_operand(anchor)?.r();
                let outer = (0..shape.rank()).filter(|a| a != axis).map(|a| shape[a]).collect();
                let epsilon = op.epsilon().map(|epsilon| self.scalar_index(epsilon));
                let (kind, len) = (op.kind(), shape[*axis]);
                Some(Form::Row(RowForm { kind, outer, len, prologue, epsilon, parts: 1 }))
            }
            Op::Scan { op, axis } => {
                let shape = shape_of(0);
                let prologue = self.main_operand(anchor)?.r();
                let outer = (0..shape.rank()).filter(|a| a != axis).map(|a| shape[a]).collect();
                let (combine, len) = (op.combine(), shape[*axis]);
                Some(Form::Scan(ScanForm { combine, outer, len, prologue, parts: 1 }))
            }
            Op::Own(kernel) => {
                let mut inputs = SmallVec::new();
                for &input in &node.inputs {
                    let base = self.views.of(input).0;
                    let (value, ty) = (self.values[base]?, &self.ir.nodes[base].ty);
                    let view = View::contiguous(&ty.shape);
                    inputs.push(self.whole(Source::Table(value), ty.dtype, view));
                }
                let has_elements = |&input: &Ix| self.ir.nodes[input].ty.shape.elements() > 0;
                let runs = !kernel.groups.contains(&0) && node.inputs.iter().all(has_elements);
                let (kernel, dims) = (Arc::clone(kernel), node.ty.shape.dims().into());
                Some(Form::Own(OwnForm { kernel, dims, inputs, runs }))
            }
            Op::Sort { how, .. } => {
                let (shape, dtype) = (shape_of(0), self.ir.nodes[node.inputs[0]].ty.dtype);
                let prologue = self.sorted(anchor)?.r();
                let outer = (0..shape.rank()).filter(|&a| a != how.axis).map(|a| shape[a]);
                let (len, descending) = (shape[how.axis], how.order == SortOrder::Descending);
                let (outer, count) = (outer.collect(), node.ty.shape[how.axis]);
                let schedule = SortSchedule::Group;
                Some(Form::Sort(SortForm {
                    outer,
                    len,
                    count,
                    dtype,
                    prologue,
                    descending,
                    schedule,
                }))
            }
            &Op::MatMul(precision) => {
                let dims = MatMulDims::of(shape_of(0), shape_of(1)).ok()?;
                let (x_base, x_path) = self.views.of(node.inputs[0]).clone();
                let (w_base, w_path) = self.views.of(node.inputs[1]).clone();
                let spread = spread(self.ir, self.views, anchor);
                let (x_path, w_path) = matmul_paths(&x_path, &w_path, spread.as_ref())?;
                let x = self.emit(x_base, &x_path, Space::X)?;
                let w = self.emit(w_base, &w_path, Space::W)?;
                let batch: Dims = dims.batch.dims().into();
                let MatMulDims { m, n, k, .. } = dims;
                let (x, w, acc) = (x.r(), w.r(), x.ty());
                let precision = match node.ty.dtype {
                    // Halves are what they would be rounded to.
                    DType::F16 => Precision::Half,
                    DType::F32 => precision,
                    DType::I32 | DType::U32 | DType::Bool => Precision::Exact,
                };
                let schedule = ProductSchedule::default();
                Some(Form::MatMul(MatMulForm {
                    batch,
                    m,
                    n,
                    k,
                    spread,
                    x,
                    w,
                    acc,
                    precision,
                    schedule,
                }))
            }
            &Op::Attention(Scores { scale, causal }) => {
                let AttentionDims { batch, queries, keys, width, out } =
                    attention_dims(self.ir, anchor)?;
                let mut operands = Vec::new();
                for (at, (space, shape)) in
                    attention_spaces(self.ir, anchor)?.into_iter().enumerate()
                {
                    let (base, path) = self.views.of(node.inputs[at]).clone();
                    operands.push(self.emit(base, &path.broadcast(&shape), space)?.r());
                }
                let &[q, k, v, ..] = &operands[..] else { return None };
                let (mask, scale) = (operands.get(3).copied(), self.scalar_index(scale));
                let (batch, schedule) = (batch.dims().into(), AttentionSchedule::least());
                let halves = node.ty.dtype == DType::F16;
                Some(Form::Attention(AttentionForm {
                    batch,
                    queries,
                    keys,
                    width,
                    out,
                    q,
                    k,
                    v,
                    mask,
                    scale,
                    causal,
                    halves,
                    schedule,
                }))
            }
            _ => None,
        }
    }

    /// The argument of a reduction, row or scan form, over its main space.
    fn main_operand(&mut self, anchor: Ix) -> Option<E<'b>> {
        let node = &self.ir.nodes[anchor];
        let (base, path) = self.views.of(node.inputs[0]).clone();
        let order = main_order(&node.op, path.shape());
        self.emit(base, &path.permuted(&order), Space::Main)
    }

    /// What is sorted, rounded to its type: as it would be stored.
    fn sorted(&mut self, anchor: Ix) -> Option<E<'b>> {
        let argument = self.ir.nodes[anchor].inputs[0];
        let x = self.main_operand(anchor)?;
        let stored = self.stored[self.views.of(argument).0];
        Some(if stored { x } else { x.cast(self.ir.nodes[argument].ty.dtype) })
    }

    /// Where along the sorted axis a point of the main space lies.
    fn sorted_position(&mut self, anchor: Ix) -> E<'b> {
        let node = &self.ir.nodes[anchor];
        let shape = &self.ir.nodes[node.inputs[0]].ty.shape;
        let space: Shape = main_order(&node.op, shape).iter().map(|&axis| shape[axis]).collect();
        let last = space.rank() - 1;
        let mut view = View::contiguous(&space);
        view.strides[..last].fill(0);
        self.iota(view, Space::Main).cast(DType::U32)
    }

    /// The root and all that is stored on the way.
    fn outputs(&mut self, group: &Group) -> Option<SmallVec<[StepOutput; 1]>> {
        let mut outputs: SmallVec<[StepOutput; 1]> = smallvec![];
        for &ix in [group.root].iter().chain(&group.extra) {
            let node = &self.ir.nodes[ix];
            let (space, path) = match self.anchor {
                Some(anchor) => {
                    let start = Path::start(&node.ty.shape);
                    (
                        epilogue_space(&self.ir.nodes[anchor].op),
                        into_epilogue(self.ir, anchor, &start),
                    )
                }
                None => (Space::Main, Path::start(&node.ty.shape)),
            };
            let (root, view) = if let Op::Move { to: Move::Reshape(_), .. } = node.op {
                // The argument in its own order is the result in its own order.
                let (base, path) = self.views.of(node.inputs[0]).clone();
                let view = View::contiguous(path.shape());
                (self.emit(base, &path, space)?, view)
            } else {
                (self.compute(ix, &path, space)?, path.view(&node.ty.shape)?)
            };
            let value = self.values[ix]?;
            outputs.push(StepOutput { value, dtype: node.ty.dtype, root: root.r(), view });
        }
        Some(outputs)
    }

    /// The value of `ix` at the end of `path`: loaded, taken from the form, or computed.
    fn emit(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        if self.stored[ix] { self.load(ix, path, space) } else { self.compute(ix, path, space) }
    }

    fn compute(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        let key = (ix, path.clone(), space);
        if let Some(&r) = self.known.get(&key) {
            return Some(self.builder.handle(r));
        }
        let node = &self.ir.nodes[ix];
        let value = match &node.op {
            Op::Reduce { op, .. } => {
                let argument = self.ir.nodes[node.inputs[0]].ty.clone();
                let ty = op.combine().result(combined_type(op, argument.dtype));
                let count = op.counts().then(|| {
                    let count = reduced(&node.op, &argument.shape);
                    self.scalar(Scalar::new(DType::F32, count as f64))
                });
                op.after(self.builder.acc(ty), count)
            }
            Op::Sort { part: Sorted::Values, .. } => self.sorted(ix)?,
            Op::Sort { part: Sorted::Positions, .. } => self.sorted_position(ix),
            Op::Row { .. } | Op::Scan { .. } | Op::MatMul(_) | Op::Attention(_) | Op::Own(_) => {
                self.builder.acc(node.ty.dtype.lane())
            }
            Op::Full(value) => self.scalar(*value),
            Op::Arange { start, step } => {
                let (start, step) = (*start, *step);
                let index = self.coordinate(&node.ty.shape, 0, path, space)?;
                let index = if step.dtype().is_float() {
                    index.cast(DType::F32)
                } else {
                    index.cast(step.dtype())
                };
                index * self.scalar(step) + self.scalar(start)
            }
            &Op::Random(random) => {
                let position = self.iota(path.view(&node.ty.shape)?, space).cast(DType::U32);
                let scalars: SmallVec<[E<'b>; 5]> =
                    random.scalars().into_iter().map(|scalar| self.scalar(scalar)).collect();
                random.apply(position, &scalars, node.ty.dtype)
            }
            Op::Pad { .. } => self.pad(ix, path, space)?,
            Op::Concat { axis } => self.concat(ix, *axis, path, space)?,
            Op::Gather { .. } | Op::TakeAlong { .. } => self.look_up(ix, path, space)?,
            &Op::SearchSorted { side } => self.search(ix, side, path, space)?,
            &Op::InRange { size, ignored, .. } => self.in_range(ix, size, ignored, path, space)?,
            op => {
                let mut args: SmallVec<[E<'b>; 3]> = smallvec![];
                for (base, way) in expr_reads(self.ir, self.views, ix) {
                    args.push(self.emit(base, &way.followed_by(path), space)?);
                }
                if let Some(site) = self.sites.get(ix) {
                    let nought = args[1].eq(0.0);
                    let fails = self.check(ix, site, nought, path, space)?;
                    args[1] = fails.select(0.0, args[1], args[1]);
                }
                let params: SmallVec<[E<'b>; 2]> = match op {
                    Op::Elementwise(_, params) => params.iter().map(|&p| self.scalar(p)).collect(),
                    _ => smallvec![],
                };
                apply(op, &args, &params)
            }
        };
        self.known.insert(key, value.r());
        Some(value)
    }

    /// The argument where all coordinates are inside of it, else the border's value.
    fn pad(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        let node = &self.ir.nodes[ix];
        let Op::Pad { before, value, .. } = &node.op else { return None };
        let border = self.scalar(*value);
        let Some((base, way)) = expr_reads(self.ir, self.views, ix).pop() else {
            return Some(border);
        };
        let inner = self.ir.nodes[node.inputs[0]].ty.shape.clone();
        let argument = self.emit(base, &way.followed_by(path), space)?;
        let mut result = argument;
        for axis in coordinates(&node.op) {
            let at = self.coordinate(&node.ty.shape, axis, path, space)?;
            let first = self.number(before[axis] as i64);
            let end = self.number((before[axis] + inner[axis]) as i64);
            result = at.ge(first).and(at.lt(end)).select(result, border, argument);
        }
        Some(result)
    }

    /// The input that the coordinate along the axis falls into.
    fn concat(&mut self, ix: Ix, axis: usize, path: &Path, space: Space) -> Option<E<'b>> {
        let node = &self.ir.nodes[ix];
        let at = self.coordinate(&node.ty.shape, axis, path, space)?;
        let sizes = node.inputs.iter().map(|&input| &self.ir.nodes[input].ty.shape);
        let sizes: Vec<usize> = sizes.filter(|s| s.elements() > 0).map(|s| s[axis]).collect();
        let mut parts = Vec::new();
        for (base, way) in expr_reads(self.ir, self.views, ix) {
            parts.push(self.emit(base, &way.followed_by(path), space)?);
        }
        let Some(mut result) = parts.pop() else {
            return Some(self.scalar(Scalar::new(node.ty.dtype, 0.0)));
        };
        let mut end: usize = sizes[..parts.len()].iter().sum();
        for (part, size) in parts.into_iter().zip(&sizes).rev() {
            let boundary = self.number(end as i64);
            result = at.lt(boundary).select(part, result, part);
            end -= size;
        }
        Some(result)
    }

    /// The table's element at the index, which is checked.
    fn look_up(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        let node = &self.ir.nodes[ix];
        let elements = lookup::elements(self.ir, self.views, ix)?;
        let (indices, way) = expr_reads(self.ir, self.views, ix).pop()?;
        let index = self.emit(indices, &way.followed_by(path), space)?;
        let index = self.below(ix, index, elements.size, path, space)?.cast(DType::I32);
        let first = self.iota(path.carried(elements.first)?, space);
        let position = index * self.number(elements.stride) + first;
        let (table, ty) = self.table(node)?;
        Some(self.builder.fetch(table, position, ty))
    }

    /// The index, or 0 where it is ignored. Any other is checked.
    fn in_range(
        &mut self,
        ix: Ix,
        size: usize,
        ignored: Option<Scalar>,
        path: &Path,
        space: Space,
    ) -> Option<E<'b>> {
        let (indices, way) = expr_reads(self.ir, self.views, ix).pop()?;
        let mut index = self.emit(indices, &way.followed_by(path), space)?;
        if let Some(ignored) = ignored {
            index = index.eq(self.scalar(ignored)).select(0.0, index, index);
        }
        self.below(ix, index, size, path, space)
    }

    /// The index where it is below `size`; else 0, and the run fails.
    fn below(
        &mut self,
        ix: Ix,
        index: E<'b>,
        size: usize,
        path: &Path,
        space: Space,
    ) -> Option<E<'b>> {
        // A negative index is a large one.
        let size = self.scalar(Scalar::new(DType::U32, size as f64));
        let outside = index.cast(DType::U32).ge(size);
        let fails = self.check(ix, self.sites.get(ix)?, outside, path, space)?;
        Some(fails.select(0.0, index, index))
    }

    /// The table of a look-up, as an operand, and what its elements are computed in.
    fn table(&mut self, node: &IrNode) -> Option<(u16, Ty)> {
        let (base, _) = lookup::table(self.views, node)?;
        let (value, ty) = (self.values[*base]?, &self.ir.nodes[*base].ty);
        let table = self.whole(Source::Table(value), ty.dtype, View::contiguous(&ty.shape));
        Some((table, ty.dtype.lane()))
    }

    /// How many of the ascending numbers come before the value: found by steps of powers of two, each half of the one
    /// before. NaN comes after all numbers.
    fn search(&mut self, ix: Ix, side: Side, path: &Path, space: Space) -> Option<E<'b>> {
        let node = &self.ir.nodes[ix];
        let elements = lookup::elements(self.ir, self.views, ix)?;
        let (values, way) = expr_reads(self.ir, self.views, ix).pop()?;
        let value = self.emit(values, &way.followed_by(path), space)?;
        let (table, ty) = self.table(node)?;
        let (size, stride) = (self.number(elements.size as i64), self.number(elements.stride));
        // One element before the first.
        let start = self.number(elements.first.offset - elements.stride);
        let mut found = size.literal(0.0);
        for bit in (0..usize::BITS - elements.size.leading_zeros()).rev() {
            let next = found + f64::from(1_u32 << bit);
            let element = self.builder.fetch(table, next * stride + start, ty);
            let before = match side {
                Side::Left => comes_before(element, value),
                Side::Right => !comes_before(value, element),
            };
            found = next.le(size).and(before).select(next, found, found);
        }
        Some(found.cast(DType::U32))
    }

    /// `holds`, and the run fails where it does, which is at the node `ix`.
    fn check(
        &mut self,
        ix: Ix,
        site: u32,
        holds: E<'b>,
        path: &Path,
        space: Space,
    ) -> Option<E<'b>> {
        let at = self.iota(failing_position(self.ir, ix, path)?, space);
        let site = self.scalar(Scalar::new(DType::U32, site.into()));
        let none = View { dims: smallvec![], strides: smallvec![], offset: 0 };
        let failures = self.whole(Source::Failures, DType::U32, none);
        Some(self.builder.check(failures, holds, site, at))
    }

    fn load(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        let ty = &self.ir.nodes[ix].ty;
        let view = path.view(&ty.shape)?;
        let clamp = !view.is_inside(ty.shape.elements());
        let source = Source::Value(self.values[ix]?);
        Some(self.operand(Operand { source, dtype: ty.dtype, space, view, clamp }))
    }

    /// Coordinate `axis` of a tensor of `shape` at the end of `path`, as an `i32`.
    fn coordinate(
        &mut self,
        shape: &Shape,
        axis: usize,
        path: &Path,
        space: Space,
    ) -> Option<E<'b>> {
        Some(self.iota(path.coordinate(shape, axis)?, space))
    }

    /// The index that `view` maps a point of the space to, as an `i32`.
    fn iota(&mut self, view: View, space: Space) -> E<'b> {
        let (source, dtype) = (Source::Iota, DType::I32);
        self.operand(Operand { source, dtype, space, view, clamp: false })
    }

    fn operand(&mut self, operand: Operand) -> E<'b> {
        let ty = operand.dtype.lane();
        let at = self.operand_index(operand);
        self.builder.load(at, ty)
    }

    /// An operand that is there as a whole.
    fn whole(&mut self, source: Source, dtype: DType, view: View) -> u16 {
        self.operand_index(Operand { source, dtype, space: Space::Whole, view, clamp: false })
    }

    fn operand_index(&mut self, operand: Operand) -> u16 {
        let known = self.operands.iter().position(|o| *o == operand);
        let at = known.unwrap_or_else(|| {
            self.operands.push(operand);
            self.operands.len() - 1
        });
        at as u16
    }

    fn number(&mut self, value: i64) -> E<'b> {
        self.scalar(Scalar::new(DType::I32, value as f64))
    }

    fn scalar(&mut self, value: Scalar) -> E<'b> {
        let at = self.scalar_index(value);
        self.builder.scalar(at, value.dtype().lane())
    }

    /// Each number gets a place of its own, so that equal numbers make no other code.
    fn scalar_index(&mut self, value: Scalar) -> u16 {
        self.scalars.push(value);
        self.scalars.len() as u16 - 1
    }
}

/// x < y, where NaN comes after all numbers.
fn comes_before<'b>(x: E<'b>, y: E<'b>) -> E<'b> {
    if x.ty() != Ty::F32 {
        return x.lt(y);
    }
    x.lt(y).or(x.eq(x).and(!y.eq(y)))
}

fn combined_type(op: &crate::ops::Reduction, dtype: DType) -> Ty {
    let builder = Builder::default();
    op.before(builder.load(0, dtype.lane())).ty()
}

/// The number of elements that become one.
fn reduced(op: &Op, shape: &Shape) -> usize {
    match op {
        Op::Reduce { axes, .. } => axes.iter().map(|&axis| shape[axis]).product(),
        _ => 1,
    }
}
