//! The pass *scale*: operands of split products by powers of two, so that all of their bits fit in two `f16`.

use smallvec::{SmallVec, smallvec};

use super::ir::{Ir, IrNode, Ix};
use crate::base::dtype::{DType, Scalar};
use crate::base::shape::Shape;
use crate::cost::Backend;
use crate::ops::{Elementwise, Op, Precision, Reduction, Type};
use crate::plan::forms::product::STRIP_ROWS;
use crate::plan::target::Target;

/// The power of two below which the largest element of an operand is brought: elements of f16 reach to 2¹⁶.
const LARGEST: f64 = 32_768.0;
/// Operands are taken for no smaller than this, so that scales stay finite.
const LEAST: f64 = 7.888_609_052_210_118e-31; // 2⁻¹⁰⁰

/// The same outputs, each split product between scales. Where matrix units are missing or of no use, products are
/// exact instead.
pub(crate) fn scale(mut ir: Ir, target: &Target) -> Ir {
    let has_units = target.backend == Backend::Gpu && target.limits.units.is_some();
    for at in 0..ir.nodes.len() {
        let is_product = matches!(ir.nodes[at].op, Op::MatMul(_));
        if is_product && !(has_units && is_worth_units(&ir.nodes[at], &ir)) {
            ir.nodes[at].op = Op::MatMul(Precision::Exact);
        }
    }
    let is_split =
        |node: &IrNode| node.op == Op::MatMul(Precision::Split) && node.ty.dtype == DType::F32;
    if !ir.nodes.iter().any(is_split) {
        return ir;
    }
    ir.rebuilt(|out, node| if is_split(&node) { product(out, &node) } else { out.push(node) })
}

/// ((x·s)·(w·t)) / s / t, where the powers of two s and t bring the largest elements near [`LARGEST`]. First by the
/// larger of both, so that nothing overflows on the way that does not at its end.
fn product(out: &mut Ir, node: &IrNode) -> Ix {
    let [x, w] = [node.inputs[0], node.inputs[1]];
    let mut maker = NodeMaker { out, like: node };
    // A scale for each matrix, or one where a vector is multiplied.
    let matrices = [x, w].iter().all(|&side| maker.shape(side).rank() >= 2);
    let [s, t] = [x, w].map(|side| maker.scale(side, matrices));
    let inputs = [(x, s), (w, t)].map(|(side, s)| maker.elementwise(Elementwise::Mul, &[side, s]));
    let inner = maker.out.push(IrNode { inputs: inputs[..].into(), ..node.clone() });
    let shape = if matrices { single(&node.ty.shape) } else { Shape::new(&[]) };
    let [larger, smaller] = [Elementwise::Max, Elementwise::Min]
        .map(|op| maker.node(Op::Elementwise(op, smallvec![]), smallvec![s, t], shape.clone()));
    let y = maker.elementwise(Elementwise::Div, &[inner, larger]);
    maker.elementwise(Elementwise::Div, &[y, smaller])
}

/// The shape with one row and one column.
fn single(shape: &Shape) -> Shape {
    let batch = &shape.dims()[..shape.rank() - 2];
    batch.iter().copied().chain([1, 1]).collect()
}

/// True if a product has rows enough for matrix units, and operands that have a largest element.
fn is_worth_units(product: &IrNode, ir: &Ir) -> bool {
    let shape = |side: usize| &ir.nodes[product.inputs[side]].ty.shape;
    shape(0).rows() > STRIP_ROWS && (0..2).all(|side| shape(side).elements() > 0)
}

struct NodeMaker<'a> {
    out: &'a mut Ir,
    /// The node whose place new nodes take.
    like: &'a IrNode,
}

impl NodeMaker<'_> {
    fn node(&mut self, op: Op, inputs: SmallVec<[Ix; 3]>, shape: Shape) -> Ix {
        let ty = Type { dtype: DType::F32, shape };
        self.out.push(IrNode { op, inputs, ty, ..self.like.clone() })
    }

    fn shape(&self, ix: Ix) -> Shape {
        self.out.nodes[ix].ty.shape.clone()
    }

    /// A node of the shape of its first input, to which a second is broadcast.
    fn elementwise(&mut self, op: Elementwise, inputs: &[Ix]) -> Ix {
        let shape = self.shape(inputs[0]);
        self.node(Op::Elementwise(op, smallvec![]), inputs.into(), shape)
    }

    fn full(&mut self, value: f64) -> Ix {
        self.node(Op::Full(Scalar::new(DType::F32, value)), smallvec![], Shape::new(&[]))
    }

    /// The power of two that brings the elements of `x` to [`LARGEST`] at most: one for each matrix, or a scalar.
    fn scale(&mut self, x: Ix, matrices: bool) -> Ix {
        let shape = self.shape(x);
        let sizes = self.elementwise(Elementwise::Abs, &[x]);
        let first = if matrices { shape.rank() - 2 } else { 0 };
        let axes = (first..shape.rank()).collect();
        let op = Op::Reduce { op: Reduction::Max, axes, keep: matrices };
        let shape = if matrices { single(&shape) } else { Shape::new(&[]) };
        let largest = self.node(op, smallvec![sizes], shape.clone());
        let least = self.full(LEAST);
        let largest = self.elementwise(Elementwise::Max, &[largest, least]);
        let power = self.elementwise(Elementwise::FloorPow2, &[largest]);
        let near = Scalar::new(DType::F32, 2.0 / LARGEST);
        let scaled = Op::Elementwise(Elementwise::Scale, smallvec![near]);
        let inverse = self.node(scaled, smallvec![power], shape);
        // One chain, so that the number itself is what the reduction leaves.
        self.elementwise(Elementwise::Recip, &[inverse])
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::cost::{DeviceProfile, Limits, MatrixUnits};
    use crate::device::Device;

    /// The number of reductions that a split product of these shapes gets on an adapter with matrix units.
    fn reductions(x: [usize; 2], w: [usize; 2]) -> usize {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let (x, w) = (batch.full(x, 1.0_f32), batch.full(w, 1.0));
        batch.matmul_with(x, w, Precision::Split);
        let units = Some(MatrixUnits { side: 16, subgroup: 32 });
        let target = Target {
            backend: Backend::Gpu,
            limits: Limits { units, ..Limits::webgpu() },
            profile: Arc::new(DeviceProfile::typical(1)),
        };
        crate::plan::plan(&batch.recorded().graph, &target).expect("a sound graph");
        let ir = scale(Ir::prune(&batch.recorded().graph), &target);
        ir.nodes.iter().filter(|node| matches!(node.op, Op::Reduce { .. })).count()
    }

    #[test]
    fn only_products_of_something_have_a_largest_element() {
        assert_eq!(reductions([40, 16], [16, 24]), 2);
        assert_eq!(reductions([40, 0], [0, 24]), 0);
        assert_eq!(reductions([40, 16], [16, 0]), 0);
        assert_eq!(reductions([0, 16], [16, 24]), 0);
    }
}
