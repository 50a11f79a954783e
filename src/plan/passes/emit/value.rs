//! The value of a node as an expression: loaded, taken from the form, or computed.

use smallvec::{SmallVec, smallvec};

use super::Emitter;
use crate::base::dtype::{DType, Scalar, Ty};
use crate::expr::{Builder, E};
use crate::ops::{Op, Reduction, Sorted};
use crate::plan::passes::expression::apply;
use crate::plan::passes::ir::Ix;
use crate::plan::passes::reads::{Read, coordinates, expr_reads};
use crate::plan::step_parts::{Border, Join, OperandSource, StepOperand};

impl<'b> Emitter<'_, 'b> {
    /// A value at the end of its path: loaded, taken from the form, or computed.
    pub(super) fn emit(&mut self, read: &Read) -> Option<E<'b>> {
        let is_there = self.stored[read.base] && !self.extra.contains(&read.base);
        if is_there { self.load(read) } else { self.compute(read) }
    }

    /// The values that the expression of a node reads, in the space in which the node is read.
    pub(super) fn arguments(&mut self, read: &Read) -> Option<SmallVec<[E<'b>; 3]>> {
        let mut arguments = smallvec![];
        for (base, way) in expr_reads(self.ir, self.views, read.base) {
            let path = way.followed_by(&read.path);
            arguments.push(self.emit(&Read { base, path, space: read.space })?);
        }
        Some(arguments)
    }

    /// A value at the end of its path: taken from the form, or computed.
    pub(super) fn compute(&mut self, read: &Read) -> Option<E<'b>> {
        if let Some(&r) = self.known.get(read) {
            return Some(self.builder.handle(r));
        }
        let (ix, node) = (read.base, &self.ir.nodes[read.base]);
        let value = match &node.op {
            Op::Reduce { op, axes, .. } => self.reduced(ix, *op, axes),
            Op::Sort { part: Sorted::Values, .. } => self.sorted(ix)?,
            Op::Sort { part: Sorted::Positions, .. } => self.sorted_position(ix),
            Op::Row { .. } | Op::Scan { .. } | Op::MatMul(_) | Op::Attention(_) | Op::Custom(_) => {
                self.builder.acc(node.ty.dtype.lane())
            }
            Op::Full(value) => self.leaves.scalar(*value),
            &Op::Arange { start, step } => {
                let index = self.coordinate(read, 0)?;
                let ty = if step.dtype().is_float() { DType::F32 } else { step.dtype() };
                index.cast(ty) * self.leaves.scalar(step) + self.leaves.scalar(start)
            }
            &Op::Random(random) => {
                let position = self.leaves.iota(read.path.view(&node.ty.shape)?, read.space);
                let scalars: SmallVec<[E<'b>; 5]> =
                    random.scalars().into_iter().map(|x| self.leaves.scalar(x)).collect();
                random.apply(position.cast(DType::U32), &scalars, node.ty.dtype)
            }
            Op::Pad { .. } => self.pad(read)?,
            Op::Concat { axis } => self.concat(read, *axis)?,
            Op::Gather { .. } | Op::TakeAlong { .. } => self.look_up(read)?,
            &Op::SearchSorted { side } => self.search(read, side)?,
            &Op::InRange { size, ignored, .. } => self.in_range(read, size, ignored)?,
            op => self.elementwise(read, op)?,
        };
        self.known.insert(read.clone(), value.r());
        Some(value)
    }

    /// The result from the combination of a reduction's elements.
    fn reduced(&mut self, ix: Ix, op: Reduction, axes: &[usize]) -> E<'b> {
        let argument = &self.ir.nodes[self.ir.nodes[ix].inputs[0]].ty;
        let combined = op.def().combine.result(combined_type(op, argument.dtype));
        let count = op.counts().then(|| {
            let count: usize = axes.iter().map(|&axis| argument.shape[axis]).product();
            self.leaves.scalar(Scalar::new(DType::F32, count as f64))
        });
        op.after(self.builder.acc(combined), count)
    }

    /// An operation of its arguments' elements. A divisor that can be 0 is checked.
    fn elementwise(&mut self, read: &Read, op: &Op) -> Option<E<'b>> {
        let mut args = self.arguments(read)?;
        if let Some(site) = self.sites.get(read.base) {
            let nought = args[1].eq(0.0);
            let fails = self.check(read, site, nought)?;
            args[1] = fails.select(0.0, args[1], args[1]);
        }
        let params: SmallVec<[E<'b>; 2]> = match op {
            Op::Elementwise(_, params) => params.iter().map(|&p| self.leaves.scalar(p)).collect(),
            _ => smallvec![],
        };
        Some(apply(op, &args, &params))
    }

    /// The argument where all coordinates are inside of it, else the border's value.
    fn pad(&mut self, read: &Read) -> Option<E<'b>> {
        let node = &self.ir.nodes[read.base];
        let Op::Pad { before, value, .. } = &node.op else { return None };
        let number = self.leaves.scalar_index(*value);
        let around = self.builder.scalar(number, value.dtype().lane());
        let Some(argument) = self.arguments(read)?.pop() else { return Some(around) };
        let inner = &self.ir.nodes[node.inputs[0]].ty.shape;
        let (mut padded, mut inside) = (argument, smallvec![]);
        for axis in coordinates(&node.op) {
            let range = before[axis] as i64..(before[axis] + inner[axis]) as i64;
            let (counter, at) = self.counter(read, axis)?;
            let (first, end) = (self.leaves.number(range.start), self.leaves.number(range.end));
            padded = at.ge(first).and(at.lt(end)).select(padded, around, argument);
            inside.push((counter, range));
        }
        let (element, number) = (argument.r(), number.into());
        self.borders.push(Border { padded: padded.r(), element, number, inside });
        Some(padded)
    }

    /// The input that the coordinate along the axis falls into.
    fn concat(&mut self, read: &Read, axis: usize) -> Option<E<'b>> {
        let node = &self.ir.nodes[read.base];
        let (counter, at) = self.counter(read, axis)?;
        let shapes = node.inputs.iter().map(|&input| &self.ir.nodes[input].ty.shape);
        let sizes = shapes.filter(|shape| shape.elements() > 0).map(|shape| shape[axis] as i64);
        let ends = sizes.scan(0, |end, size| {
            *end += size;
            Some(*end)
        });
        let values: Vec<(E<'b>, i64)> = self.arguments(read)?.into_iter().zip(ends).collect();
        let Some((&(last, _), before)) = values.split_last() else {
            return Some(self.leaves.scalar(Scalar::new(node.ty.dtype, 0.0)));
        };
        let joined = before.iter().rev().fold(last, |later, &(value, end)| {
            at.lt(self.leaves.number(end)).select(value, later, value)
        });
        // Equal values are one, whose expression may be that of a join inside.
        if before.iter().any(|(value, _)| value.r() != last.r()) {
            let values = values.iter().map(|&(value, end)| (value.r(), end)).collect();
            self.joins.push(Join { joined: joined.r(), counter, values });
        }
        Some(joined)
    }

    fn load(&mut self, read: &Read) -> Option<E<'b>> {
        let ty = &self.ir.nodes[read.base].ty;
        let view = read.path.view(&ty.shape)?;
        let clamp = !view.is_inside(ty.shape.elements());
        let source = OperandSource::Value(self.values[read.base]?);
        let (dtype, space) = (ty.dtype, read.space);
        Some(self.leaves.load(StepOperand { source, dtype, space, view, clamp }))
    }

    /// The coordinate of a node along `axis`, as an `i32`.
    fn coordinate(&mut self, read: &Read, axis: usize) -> Option<E<'b>> {
        Some(self.counter(read, axis)?.1)
    }

    /// The operand that counts the coordinate of a node along `axis`, and its load.
    fn counter(&mut self, read: &Read, axis: usize) -> Option<(usize, E<'b>)> {
        let view = read.path.coordinate(&self.ir.nodes[read.base].ty.shape, axis)?;
        Some(self.leaves.counter(view, read.space))
    }
}

/// The values that a reduction combines of elements of `dtype`.
fn combined_type(op: Reduction, dtype: DType) -> Ty {
    let builder = Builder::default();
    op.before(builder.load(0, dtype.lane())).ty()
}
