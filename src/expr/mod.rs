//! The scalar expression language: the computation of one element of a fused kernel.
//!
//! An operation is written once as a tree over some forty primitives (see [`crate::ops`]). Fusion builds larger trees
//! in one [`Builder`]; equal subtrees become one node there. From the finished [`Expr`] come the WGSL text ([`wgsl`]),
//! the SIMD tape of the CPU ([`crate::exec`]), the `f64` reference ([`mod@reference`]) and the flop count.

mod build;
pub(crate) mod reference;
pub(crate) mod wgsl;

use std::collections::BTreeSet;

pub(crate) use build::{Builder, E};

use crate::base::dtype::Ty;

/// A node of an [`Expr`], by position. Operands always come before their users.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Ref(pub u32);

impl Ref {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// A primitive of one argument.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Unary {
    /// Wraps on integers.
    Neg,
    /// Wraps on `i32::MIN`.
    Abs,
    /// −1, 0 or 1; NaN stays NaN.
    Sign,
    Recip,
    Sqrt,
    Rsqrt,
    Exp,
    Log,
    Log1p,
    Expm1,
    Sin,
    Cos,
    Tanh,
    Erf,
    Floor,
    Ceil,
    /// 2^⌊log₂|x|⌋; 0 below the least normal number, NaN at NaN and ±∞.
    FloorPow2,
    /// Half to even.
    Round,
    /// Truth values only.
    Not,
    /// To the nearest `f16`, half to even, kept in an `f32` lane.
    RoundF16,
}

/// A primitive of two arguments of one type.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Binary {
    /// Integers wrap, here and in `Sub` and `Mul`.
    Add,
    Sub,
    Mul,
    /// Integers truncate; x / 0 = 0 (where that is a failure, a [`ExprNode::Check`] tells) and `i32::MIN` / −1 = `i32::MIN`.
    Div,
    /// NaN if either is NaN.
    Min,
    /// NaN if either is NaN.
    Max,
    /// Integers wrap; a negative exponent truncates 1 / xⁿ, with 0 for x = 0.
    Pow,
    /// The sign of the dividend, as Rust's `%`; integers: x % 0 = 0.
    Rem,
    Eq,
    Ne,
    Lt,
    Le,
    Gt,
    Ge,
    And,
    Or,
    /// The upper 32 bits of the product of two `u32`.
    MulHigh,
    /// Bit by bit, of two `u32`.
    Xor,
    /// A `u32` shifted right by fewer than 32 bits.
    Shr,
}

impl Binary {
    /// True if the result is a truth value for arguments of any type.
    pub fn is_comparison(self) -> bool {
        matches!(self, Self::Eq | Self::Ne | Self::Lt | Self::Le | Self::Gt | Self::Ge)
    }
}

/// A literal that belongs to an operation's definition. A user's number is a [`ExprNode::Scalar`].
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Const {
    pub ty: Ty,
    /// The lane's 32 bits.
    pub bits: u32,
}

/// One node of an expression.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ExprNode {
    /// The element of operand `n` at this point of the iteration.
    Load(u16),
    /// The value that the kernel form computed before its epilogue: a sum, a product, a normalised value.
    Acc,
    /// The step's scalar `n`: a number given at record time, passed as data.
    Scalar(u16),
    Const(Const),
    Unary(Unary, Ref),
    Binary(Binary, Ref, Ref),
    /// `Select(c, a, b)`: a where c, else b.
    Select(Ref, Ref, Ref),
    /// To another lane type. Float to integer saturates, NaN becomes 0; to bool is `!= 0`.
    Cast(Ty, Ref),
    /// The element of operand `n`, a whole value, at the position that an `i32` gives; a position outside is
    /// moved to the value's nearest end.
    Fetch(u16, Ref),
    /// A truth value as it is. Where it holds, the run has failed: operand `n` is told.
    Check(u16, Failure),
}

/// The failure that a [`ExprNode::Check`] reports.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Failure {
    /// True if it has happened.
    pub holds: Ref,
    /// The number of the operation among those of the plan that can fail, a `u32`.
    pub site: Ref,
    /// The element that fails, an `i32`.
    pub at: Ref,
}

impl ExprNode {
    /// The nodes that this one reads.
    pub fn operands(self) -> impl Iterator<Item = Ref> {
        let (a, b, c) = match self {
            Self::Load(_) | Self::Acc | Self::Scalar(_) | Self::Const(_) => (None, None, None),
            Self::Unary(_, a) | Self::Cast(_, a) | Self::Fetch(_, a) => (Some(a), None, None),
            Self::Binary(_, a, b) => (Some(a), Some(b), None),
            Self::Select(a, b, c) => (Some(a), Some(b), Some(c)),
            Self::Check(_, Failure { holds, site, at }) => (Some(holds), Some(site), Some(at)),
        };
        [a, b, c].into_iter().flatten()
    }

    /// Returns whether the node takes a polynomial, and not an instruction or two.
    pub fn is_transcendental(self) -> bool {
        self.flops() >= 10
    }

    /// Arithmetic cost of the node in flops; a transcendental counts as the dozen or so
    /// operations that it takes.
    pub fn flops(self) -> u64 {
        match self {
            Self::Load(_) | Self::Acc | Self::Scalar(_) | Self::Const(_) => 0,
            Self::Unary(op, _) => match op {
                Unary::Neg
                | Unary::Abs
                | Unary::Sign
                | Unary::Floor
                | Unary::Ceil
                | Unary::Round
                | Unary::FloorPow2
                | Unary::Not => 1,
                Unary::Recip | Unary::Sqrt | Unary::Rsqrt | Unary::RoundF16 => 4,
                Unary::Exp | Unary::Log => 10,
                Unary::Log1p
                | Unary::Expm1
                | Unary::Sin
                | Unary::Cos
                | Unary::Tanh
                | Unary::Erf => 20,
            },
            Self::Binary(Binary::Div | Binary::Rem, _, _) => 4,
            Self::Binary(Binary::MulHigh, _, _) => 8,
            Self::Binary(Binary::Pow, _, _) => 30,
            Self::Binary(..) | Self::Select(..) | Self::Cast(..) | Self::Check(..) => 1,
            Self::Fetch(..) => 2,
        }
    }
}

/// A finished expression: nodes in dependency order, each with the type of its lane. The holder of an expression knows
/// which nodes are results.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub(crate) struct Expr {
    nodes: Vec<(ExprNode, Ty)>,
}

impl Expr {
    pub fn node(&self, r: Ref) -> ExprNode {
        self.nodes[r.index()].0
    }

    pub fn nodes(&self) -> impl Iterator<Item = ExprNode> {
        self.nodes.iter().map(|&(node, _)| node)
    }

    pub fn ty(&self, r: Ref) -> Ty {
        self.nodes[r.index()].1
    }

    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Makes of a node the load of an operand.
    pub fn load_instead(&mut self, r: Ref, operand: u16) {
        self.nodes[r.index()].0 = ExprNode::Load(operand);
    }

    /// The nodes that `roots` need, in dependency order.
    pub fn reachable(&self, roots: &[Ref]) -> Vec<Ref> {
        let mut needed = vec![false; self.nodes.len()];
        for root in roots {
            needed[root.index()] = true;
        }
        for index in (0..self.nodes.len()).rev() {
            if needed[index] {
                for operand in self.nodes[index].0.operands() {
                    needed[operand.index()] = true;
                }
            }
        }
        (0..self.nodes.len() as u32).map(Ref).filter(|r| needed[r.index()]).collect()
    }

    /// The operand that `root` only loads, by position.
    pub fn loaded(&self, root: Ref) -> Option<usize> {
        match self.node(root) {
            ExprNode::Load(operand) => Some(operand.into()),
            _ => None,
        }
    }

    /// The operands that `roots` load, each once.
    pub fn loads(&self, roots: &[Ref]) -> Vec<usize> {
        self.reachable(roots).into_iter().filter_map(|r| self.loaded(r)).collect()
    }

    /// The operands that `roots` fetch from or tell of failures.
    pub fn whole_operands(&self, roots: &[Ref]) -> impl Iterator<Item = usize> {
        self.reachable(roots).into_iter().filter_map(|r| match self.node(r) {
            ExprNode::Fetch(operand, _) | ExprNode::Check(operand, _) => Some(operand.into()),
            _ => None,
        })
    }

    /// True if evaluating `roots` can fail.
    pub fn can_fail(&self, roots: &[Ref]) -> bool {
        self.reachable(roots).into_iter().any(|r| matches!(self.node(r), ExprNode::Check(..)))
    }

    /// The number of operations whose failures `roots` report.
    pub fn sites(&self, roots: &[Ref]) -> usize {
        let sites = self.reachable(roots).into_iter().filter_map(|r| match self.node(r) {
            ExprNode::Check(_, Failure { site, .. }) => Some(site),
            _ => None,
        });
        sites.collect::<BTreeSet<Ref>>().len()
    }

    /// Flops of one evaluation of `roots`.
    pub fn flops(&self, roots: &[Ref]) -> u64 {
        self.reachable(roots).iter().map(|&r| self.node(r).flops()).sum()
    }

    /// The part of the [`flops`](Self::flops) that is spent in transcendental functions.
    pub fn transcendental_flops(&self, roots: &[Ref]) -> u64 {
        let nodes = self.reachable(roots).into_iter().map(|r| self.node(r));
        nodes.filter(|node| node.is_transcendental()).map(ExprNode::flops).sum()
    }
}
