//! The value of a node as an expression: loaded, taken from the form, or computed.

use smallvec::{SmallVec, smallvec};

use super::Emitter;
use crate::base::dtype::{DType, Scalar, Ty};
use crate::base::shape::Shape;
use crate::expr::{Builder, E};
use crate::ops::{Op, Reduction, Sorted};
use crate::plan::passes::expression::apply;
use crate::plan::passes::ir::Ix;
use crate::plan::passes::path::Path;
use crate::plan::passes::reads::{coordinates, expr_reads};
use crate::plan::step_parts::{Operand, Source, Space};

impl<'b> Emitter<'_, 'b> {
    /// The value of `ix` at the end of `path`: loaded, taken from the form, or computed.
    pub(super) fn emit(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        if self.stored[ix] { self.load(ix, path, space) } else { self.compute(ix, path, space) }
    }

    /// The value of `ix` at the end of `path`: taken from the form, or computed.
    pub(super) fn compute(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        let key = (ix, path.clone(), space);
        if let Some(&r) = self.known.get(&key) {
            return Some(self.builder.handle(r));
        }
        let node = &self.ir.nodes[ix];
        let value = match &node.op {
            Op::Reduce { op, axes, .. } => self.reduced(ix, *op, axes),
            Op::Sort { part: Sorted::Values, .. } => self.sorted(ix)?,
            Op::Sort { part: Sorted::Positions, .. } => self.sorted_position(ix),
            Op::Row { .. } | Op::Scan { .. } | Op::MatMul(_) | Op::Attention(_) | Op::Own(_) => {
                self.builder.acc(node.ty.dtype.lane())
            }
            Op::Full(value) => self.leaves.scalar(*value),
            &Op::Arange { start, step } => {
                let index = self.coordinate(&node.ty.shape, 0, path, space)?;
                let ty = if step.dtype().is_float() { DType::F32 } else { step.dtype() };
                index.cast(ty) * self.leaves.scalar(step) + self.leaves.scalar(start)
            }
            &Op::Random(random) => {
                let position = self.leaves.iota(path.view(&node.ty.shape)?, space).cast(DType::U32);
                let scalars: SmallVec<[E<'b>; 5]> =
                    random.scalars().into_iter().map(|x| self.leaves.scalar(x)).collect();
                random.apply(position, &scalars, node.ty.dtype)
            }
            Op::Pad { .. } => self.pad(ix, path, space)?,
            Op::Concat { axis } => self.concat(ix, *axis, path, space)?,
            Op::Gather { .. } | Op::TakeAlong { .. } => self.look_up(ix, path, space)?,
            &Op::SearchSorted { side } => self.search(ix, side, path, space)?,
            &Op::InRange { size, ignored, .. } => self.in_range(ix, size, ignored, path, space)?,
            op => self.elementwise(ix, op, path, space)?,
        };
        self.known.insert(key, value.r());
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
    fn elementwise(&mut self, ix: Ix, op: &Op, path: &Path, space: Space) -> Option<E<'b>> {
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
            Op::Elementwise(_, params) => params.iter().map(|&p| self.leaves.scalar(p)).collect(),
            _ => smallvec![],
        };
        Some(apply(op, &args, &params))
    }

    /// The argument where all coordinates are inside of it, else the border's value.
    fn pad(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        let node = &self.ir.nodes[ix];
        let Op::Pad { before, value, .. } = &node.op else { return None };
        let border = self.leaves.scalar(*value);
        let Some((base, way)) = expr_reads(self.ir, self.views, ix).pop() else {
            return Some(border);
        };
        let inner = self.ir.nodes[node.inputs[0]].ty.shape.clone();
        let argument = self.emit(base, &way.followed_by(path), space)?;
        let mut result = argument;
        for axis in coordinates(&node.op) {
            let at = self.coordinate(&node.ty.shape, axis, path, space)?;
            let first = self.leaves.number(before[axis] as i64);
            let end = self.leaves.number((before[axis] + inner[axis]) as i64);
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
            return Some(self.leaves.scalar(Scalar::new(node.ty.dtype, 0.0)));
        };
        let mut end: usize = sizes[..parts.len()].iter().sum();
        for (part, size) in parts.into_iter().zip(&sizes).rev() {
            let boundary = self.leaves.number(end as i64);
            result = at.lt(boundary).select(part, result, part);
            end -= size;
        }
        Some(result)
    }

    fn load(&mut self, ix: Ix, path: &Path, space: Space) -> Option<E<'b>> {
        let ty = &self.ir.nodes[ix].ty;
        let view = path.view(&ty.shape)?;
        let clamp = !view.is_inside(ty.shape.elements());
        let source = Source::Value(self.values[ix]?);
        Some(self.leaves.load(Operand { source, dtype: ty.dtype, space, view, clamp }))
    }

    /// Coordinate `axis` of a tensor of `shape` at the end of `path`, as an `i32`.
    fn coordinate(
        &mut self,
        shape: &Shape,
        axis: usize,
        path: &Path,
        space: Space,
    ) -> Option<E<'b>> {
        Some(self.leaves.iota(path.coordinate(shape, axis)?, space))
    }
}

/// The values that a reduction combines of elements of `dtype`.
fn combined_type(op: Reduction, dtype: DType) -> Ty {
    let builder = Builder::default();
    op.before(builder.load(0, dtype.lane())).ty()
}
