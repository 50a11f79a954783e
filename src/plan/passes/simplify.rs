//! The pass *simplify*: identities, constants and common subexpressions.

use std::hash::BuildHasher;

use foldhash::fast::RandomState;
use foldhash::{HashMap, HashMapExt};
use smallvec::{SmallVec, smallvec};

use super::ir::{Ir, IrNode, Ix};
use crate::base::dtype::Scalar;
use crate::base::shape::{Move, Shape};
use crate::ops::{Elementwise, Op, Type};

/// The same outputs from fewer and simpler nodes. No kernel reads more than `max_reads` values, so a
/// concatenation of more becomes a tree of them.
pub(crate) fn simplify(ir: Ir, max_reads: usize) -> Ir {
    let (mut known, hasher) = (HashMap::with_capacity(ir.nodes.len()), RandomState::default());
    let add = |out: &mut Ir, node| {
        Simplifier { out, known: &mut known, hasher: &hasher }.add(node, max_reads)
    };
    ir.rebuilt(add).swept()
}

struct Simplifier<'a> {
    out: &'a mut Ir,
    /// Nodes by the hash of their key. Of two keys with one hash, the second is not found.
    known: &'a mut HashMap<u64, Ix>,
    hasher: &'a RandomState,
}

/// The parts of a node that are equal in two nodes of one value.
fn key(node: &IrNode) -> (&Op, &[Ix], &Type) {
    (&node.op, &node.inputs, &node.ty)
}

/// The simplified form of a node.
enum Simpler {
    /// Another node's value.
    Same(Ix),
    /// Another operation over other inputs.
    Other(Op, SmallVec<[Ix; 3]>),
}

impl Simplifier<'_> {
    /// The position of a node with this value.
    fn add(&mut self, mut node: IrNode, max_reads: usize) -> Ix {
        if let Op::Concat { axis } = node.op {
            while node.inputs.len() > max_reads {
                self.split_concat(&mut node, axis, max_reads);
            }
        }
        // Every rewrite makes the node simpler, so this ends.
        while let Some(simpler) = self.rewrite(&node) {
            match simpler {
                Simpler::Same(ix) => return ix,
                Simpler::Other(op, inputs) => (node.op, node.inputs) = (op, inputs),
            }
        }
        let hash = self.hasher.hash_one(key(&node));
        let next = self.out.nodes.len();
        let ix = *self.known.entry(hash).or_insert(next);
        if self.out.nodes.get(ix).is_some_and(|known| key(known) == key(&node)) {
            return ix;
        }
        self.out.push(node)
    }

    /// Joins each run of `max_reads` inputs into one.
    fn split_concat(&mut self, node: &mut IrNode, axis: usize, max_reads: usize) {
        let inputs = std::mem::take(&mut node.inputs);
        for part in inputs.chunks(max_reads) {
            if let &[single] = part {
                node.inputs.push(single);
                continue;
            }
            let mut ty = node.ty.clone();
            let joined = part.iter().map(|&ix| self.shape(ix)[axis]).sum();
            let whole = &node.ty.shape;
            let dim = |at| if at == axis { joined } else { whole[at] };
            ty.shape = (0..whole.rank()).map(dim).collect();
            let part = IrNode { inputs: part.into(), ty, ..node.clone() };
            let ix = self.add(part, max_reads);
            node.inputs.push(ix);
        }
    }

    fn shape(&self, ix: Ix) -> &Shape {
        &self.out.nodes[ix].ty.shape
    }

    fn rewrite(&self, node: &IrNode) -> Option<Simpler> {
        if let Some(value) = self.of_nothing(node).or_else(|| self.fold(node)) {
            return Some(Simpler::Other(Op::Full(value), smallvec![]));
        }
        let &x = node.inputs.first()?;
        let before = &self.out.nodes[x];
        match &node.op {
            Op::Move { to, name } => self.rewrite_move(node, x, name, to),
            Op::Cast(dtype) if before.ty.dtype == *dtype => Some(Simpler::Same(x)),
            Op::Concat { .. } if node.inputs.len() == 1 => Some(Simpler::Same(x)),
            Op::Elementwise(op, params) => self.rewrite_elementwise(node, *op, params),
            _ => None,
        }
    }

    fn rewrite_elementwise(
        &self,
        node: &IrNode,
        op: Elementwise,
        params: &[Scalar],
    ) -> Option<Simpler> {
        let x = node.inputs[0];
        let before = &self.out.nodes[x];
        let inner = match before.op {
            Op::Elementwise(inner, _) => Some(inner),
            _ => None,
        };
        let same = |ix: Ix| (*self.shape(ix) == node.ty.shape).then_some(Simpler::Same(ix));
        let param = |value: f64| params.first().is_some_and(|p| p.value() == value);
        match op {
            Elementwise::Scale if param(1.0) => Some(Simpler::Same(x)),
            Elementwise::PowScalar if param(1.0) => Some(Simpler::Same(x)),
            Elementwise::PowScalar if param(2.0) => Some(Simpler::Other(
                Op::Elementwise(Elementwise::Square, smallvec![]),
                node.inputs.clone(),
            )),
            // Not for floats: (−0) + 0 is 0.
            Elementwise::AddScalar if param(0.0) && !node.ty.dtype.is_float() => {
                Some(Simpler::Same(x))
            }
            Elementwise::Relu | Elementwise::Abs if inner == Some(op) => Some(Simpler::Same(x)),
            Elementwise::Neg | Elementwise::Not if inner == Some(op) => {
                Some(Simpler::Same(before.inputs[0]))
            }
            Elementwise::Mul if self.is_full(node.inputs[1], 1.0) => same(x),
            Elementwise::Mul if self.is_full(x, 1.0) => same(node.inputs[1]),
            Elementwise::Div if self.is_full(node.inputs[1], 1.0) => same(x),
            Elementwise::Sub if self.is_full(node.inputs[1], 0.0) => same(x),
            _ => None,
        }
    }

    fn rewrite_move(&self, node: &IrNode, x: Ix, name: &'static str, to: &Move) -> Option<Simpler> {
        let before = &self.out.nodes[x];
        if to.is_identity(&before.ty.shape) {
            return Some(Simpler::Same(x));
        }
        let Op::Move { to: first, .. } = &before.op else { return None };
        let joined = match (first, to) {
            (Move::Reshape(_), Move::Reshape(_)) => to.clone(),
            (Move::Permute(first), Move::Permute(second)) => {
                Move::Permute(second.iter().map(|&axis| first[axis]).collect())
            }
            (Move::Slice(first), Move::Slice(second)) => {
                Move::Slice(first.iter().zip(second).map(|(a, b)| a.then(*b)).collect())
            }
            (Move::Broadcast(first), Move::Broadcast(_))
                if first.rank() == node.ty.shape.rank() =>
            {
                to.clone()
            }
            _ => return None,
        };
        Some(Simpler::Other(Op::Move { name, to: joined }, before.inputs.clone()))
    }

    fn is_full(&self, ix: Ix, value: f64) -> bool {
        self.full(ix).is_some_and(|scalar| {
            scalar.value() == value && !(value == 0.0 && scalar.value().is_sign_negative())
        })
    }

    /// The one value of a node that holds one value everywhere.
    fn full(&self, ix: Ix) -> Option<Scalar> {
        match self.out.nodes[ix].op {
            Op::Full(value) => Some(value),
            _ => None,
        }
    }

    /// The one value of a node that combines no elements.
    fn of_nothing(&self, node: &IrNode) -> Option<Scalar> {
        let shape = self.shape(*node.inputs.first()?);
        let value = match &node.op {
            Op::Reduce { op, axes, .. } if axes.iter().any(|&axis| shape[axis] == 0) => {
                op.def().of_nothing?
            }
            Op::MatMul(_) if shape.dims().last() == Some(&0) => 0.0,
            // No keys.
            Op::Attention(_) if self.shape(node.inputs[1]).rows() == 0 => 0.0,
            _ => return None,
        };
        Some(Scalar::new(node.ty.dtype, value))
    }

    /// The one value of a node over constants.
    fn fold(&self, node: &IrNode) -> Option<Scalar> {
        let values: Vec<Scalar> =
            node.inputs.iter().map(|&ix| self.full(ix)).collect::<Option<_>>()?;
        let first = *values.first()?;
        match &node.op {
            // A division by 0 fails when it runs.
            Op::Elementwise(Elementwise::Div | Elementwise::Rem, _)
                if !node.ty.dtype.is_float() && values[1].value() == 0.0 =>
            {
                None
            }
            Op::Move { .. } => Some(first),
            Op::Cast(_) | Op::Select | Op::Elementwise(..) => {
                super::expression::evaluate_element(&node.op, node.ty.dtype, &values)
            }
            _ => None,
        }
    }
}
