//! The pass *scale*: operands of split products by powers of two, so that all of their bits fit in two `f16`.

use smallvec::{SmallVec, smallvec};

use super::Target;
use super::ir::{Ir, IrNode, Ix};
use crate::cost::Backend;
use crate::dtype::{DType, Scalar};
use crate::ops::{Elementwise, Op, Precision, Reduction, Type};
use crate::shape::Shape;

/// The power of two below which the largest element of an operand is brought: elements of f16 reach to 2¹⁶.
const LARGEST: f64 = 32_768.0;
/// Operands are taken for no smaller than this, so that scales stay finite.
const LEAST: f64 = 7.888_609_052_210_118e-31; // 2⁻¹⁰⁰

/// The same outputs, each split product between scales. Where there are no matrix units to split for, products are
/// exact instead.
pub(super) fn scale(ir: Ir, target: &Target) -> Ir {
    let units = target.backend == Backend::Gpu && target.limits.units.is_some();
    let mut out = Ir::default();
    let mut at: Vec<Ix> = Vec::with_capacity(ir.nodes.len());
    for mut node in ir.nodes {
        node.inputs.iter_mut().for_each(|input| *input = at[*input]);
        let splits = matches!(node.op, Op::MatMul(Precision::Split)) && node.ty.dtype == DType::F32;
        let ix = match node.op {
            Op::MatMul(_) if splits && units => product(&mut out, &node),
            Op::MatMul(_) if !units => {
                push(&mut out, IrNode { op: Op::MatMul(Precision::Exact), ..node })
            }
            _ => push(&mut out, node),
        };
        at.push(ix);
    }
    out.downloads = ir.downloads.iter().map(|&ix| at[ix]).collect();
    out.keeps = ir.keeps.iter().map(|&ix| at[ix]).collect();
    out
}

fn push(out: &mut Ir, node: IrNode) -> Ix {
    out.nodes.push(node);
    out.nodes.len() - 1
}

/// ((x·s)·(w·t)) / s / t, where the powers of two s and t bring the largest elements near [`LARGEST`].
fn product(out: &mut Ir, node: &IrNode) -> Ix {
    let [x, w] = [node.inputs[0], node.inputs[1]];
    let mut maker = Maker { out, like: node };
    let [s, t] = [x, w].map(|side| maker.scale(side));
    let inputs = [(x, s), (w, t)].map(|(side, s)| maker.binary(Elementwise::Mul, side, s));
    let inner = push(maker.out, IrNode { inputs: inputs[..].into(), ..node.clone() });
    let y = maker.binary(Elementwise::Div, inner, s);
    maker.binary(Elementwise::Div, y, t)
}

struct Maker<'a> {
    out: &'a mut Ir,
    /// Whose place new nodes take.
    like: &'a IrNode,
}

impl Maker<'_> {
    fn node(&mut self, op: Op, inputs: SmallVec<[Ix; 3]>, shape: Shape) -> Ix {
        let ty = Type { dtype: DType::F32, shape };
        push(self.out, IrNode { op, inputs, ty, ..self.like.clone() })
    }

    fn shape(&self, ix: Ix) -> Shape {
        self.out.nodes[ix].ty.shape.clone()
    }

    fn unary(&mut self, op: Elementwise, x: Ix) -> Ix {
        let shape = self.shape(x);
        self.node(Op::Elementwise(op, smallvec![]), smallvec![x], shape)
    }

    /// Of the shape of `x`, which `y` is broadcast to.
    fn binary(&mut self, op: Elementwise, x: Ix, y: Ix) -> Ix {
        let shape = self.shape(x);
        self.node(Op::Elementwise(op, smallvec![]), smallvec![x, y], shape)
    }

    fn full(&mut self, value: f64) -> Ix {
        self.node(Op::Full(Scalar::new(DType::F32, value)), smallvec![], Shape::new(&[]))
    }

    /// The power of two that brings the elements of `x` to [`LARGEST`] at most, as a scalar.
    fn scale(&mut self, x: Ix) -> Ix {
        let axes = (0..self.shape(x).rank()).collect();
        let sizes = self.unary(Elementwise::Abs, x);
        let op = Op::Reduce { op: Reduction::Max, axes, keep: false };
        let largest = self.node(op, smallvec![sizes], Shape::new(&[]));
        let least = self.full(LEAST);
        let largest = self.binary(Elementwise::Max, largest, least);
        let power = self.unary(Elementwise::FloorPow2, largest);
        let near = Scalar::new(DType::F32, 2.0 / LARGEST);
        let scaled = Op::Elementwise(Elementwise::Scale, smallvec![near]);
        let inverse = self.node(scaled, smallvec![power], Shape::new(&[]));
        // One chain, so that the number itself is what the reduction leaves.
        self.unary(Elementwise::Recip, inverse)
    }
}
