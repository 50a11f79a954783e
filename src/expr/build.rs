//! Building expressions: a [`Builder`] interns nodes and simplifies as it goes, and an [`E`] is a
//! handle with operators, so that an operation's definition reads like its formula.

use std::cell::RefCell;
use std::ops;

use foldhash::HashMap;

use super::{Binary, Const, Expr, ExprNode, Failure, Ref, Unary};
use crate::base::dtype::{DType, Ty};

/// An arena in which equal nodes are one node.
#[derive(Clone, Default)]
pub(crate) struct Builder(RefCell<Arena>);

#[derive(Clone, Default)]
struct Arena {
    expr: Expr,
    known: HashMap<ExprNode, Ref>,
}

impl Builder {
    pub fn finish(self) -> Expr {
        self.0.into_inner().expr
    }

    /// The handle of a node made before in this builder.
    pub fn handle(&self, r: Ref) -> E<'_> {
        E { builder: self, r }
    }

    pub fn load(&self, operand: u16, ty: Ty) -> E<'_> {
        self.node(ExprNode::Load(operand), ty)
    }

    pub fn acc(&self, ty: Ty) -> E<'_> {
        self.node(ExprNode::Acc, ty)
    }

    pub fn scalar(&self, index: u16, ty: Ty) -> E<'_> {
        self.node(ExprNode::Scalar(index), ty)
    }

    /// The element of `operand` at `position`, an `i32`.
    pub fn fetch(&self, operand: u16, position: E<'_>, ty: Ty) -> E<'_> {
        self.node(ExprNode::Fetch(operand, position.r), ty)
    }

    /// `holds`, of which `operand` is told where it does: element `at` of the operation `site`.
    pub fn check(&self, operand: u16, holds: E<'_>, site: E<'_>, at: E<'_>) -> E<'_> {
        let failure = Failure { holds: holds.r, site: site.r, at: at.r };
        self.node(ExprNode::Check(operand, failure), Ty::Bool)
    }

    fn node(&self, node: ExprNode, ty: Ty) -> E<'_> {
        let mut arena = self.0.borrow_mut();
        let arena = &mut *arena;
        let r = *arena.known.entry(node).or_insert_with(|| {
            arena.expr.nodes.push((node, ty));
            Ref(arena.expr.nodes.len() as u32 - 1)
        });
        E { builder: self, r }
    }

    fn get(&self, r: Ref) -> (ExprNode, Ty) {
        self.0.borrow().expr.nodes[r.index()]
    }
}

/// A value in a [`Builder`]. Numbers in a formula take the type of the value that they meet.
#[derive(Clone, Copy)]
pub(crate) struct E<'b> {
    builder: &'b Builder,
    r: Ref,
}

macro_rules! methods {
    ($($name:ident $op:ident),*) => {$(
        pub fn $name(self) -> Self { self.unary(Unary::$op) }
    )*};
}
macro_rules! binary_methods {
    ($($name:ident $op:ident),*) => {$(
        pub fn $name(self, other: impl RightOperand<'b>) -> Self { self.binary(Binary::$op, other) }
    )*};
}

impl<'b> E<'b> {
    methods! {
        abs Abs, sign Sign, recip Recip, sqrt Sqrt, rsqrt Rsqrt, exp Exp, log Log, log1p Log1p,
        expm1 Expm1, sin Sin, cos Cos, tanh Tanh, erf Erf, floor Floor, ceil Ceil, floor_pow2 FloorPow2, round Round
    }
    binary_methods! {
        min Min, max Max, pow Pow, rem Rem, eq Eq, ne Ne, lt Lt, le Le, gt Gt, ge Ge, and And, or Or,
        mul_high MulHigh, xor Xor, shr Shr
    }

    pub fn r(self) -> Ref {
        self.r
    }

    pub fn ty(self) -> Ty {
        self.builder.get(self.r).1
    }

    /// `value` as a literal of this value's type.
    pub fn literal(self, value: f64) -> Self {
        let ty = self.ty();
        self.builder.node(ExprNode::Const(Const { ty, bits: ty.bits(value) }), ty)
    }

    /// `a` where this truth value holds, else `b`; numbers take the type of `like`.
    pub fn select(self, a: impl RightOperand<'b>, b: impl RightOperand<'b>, like: Self) -> Self {
        let (a, b) = (a.over(like), b.over(like));
        // A condition that can fail is evaluated all the same.
        if a.r == b.r && !self.builder.0.borrow().expr.can_fail(&[self.r]) {
            return a;
        }
        self.builder.node(ExprNode::Select(self.r, a.r, b.r), a.ty())
    }

    /// This value in another element type.
    pub fn cast(self, to: DType) -> Self {
        let ty = to.lane();
        let value =
            if self.ty() == ty { self } else { self.builder.node(ExprNode::Cast(ty, self.r), ty) };
        if to == DType::F16 { value.unary(Unary::RoundF16) } else { value }
    }

    fn unary(self, op: Unary) -> Self {
        // f(f(x)) = f(x), and f(f(x)) = x.
        if let ExprNode::Unary(inner, x) = self.builder.get(self.r).0 {
            let once = matches!(
                op,
                Unary::Abs
                    | Unary::Sign
                    | Unary::Floor
                    | Unary::Ceil
                    | Unary::Round
                    | Unary::FloorPow2
                    | Unary::RoundF16
            );
            if inner == op && once {
                return self;
            }
            if inner == op && matches!(op, Unary::Neg | Unary::Not) {
                return self.builder.handle(x);
            }
        }
        self.builder.node(ExprNode::Unary(op, self.r), self.ty())
    }

    fn binary(self, op: Binary, other: impl RightOperand<'b>) -> Self {
        let other = other.over(self);
        let ty = if op.is_comparison() { Ty::Bool } else { self.ty() };
        let one = |e: Self| e.is_literal(1.0);
        match op {
            Binary::Mul if one(self) => other,
            Binary::Mul | Binary::Div if one(other) => self,
            // Not for floats: (−0) + 0 is 0.
            Binary::Add if ty != Ty::F32 && self.is_literal(0.0) => other,
            Binary::Add | Binary::Sub if ty != Ty::F32 && other.is_literal(0.0) => self,
            Binary::And | Binary::Or | Binary::Min | Binary::Max if self.r == other.r => self,
            _ => self.builder.node(ExprNode::Binary(op, self.r, other.r), ty),
        }
    }

    fn is_literal(self, value: f64) -> bool {
        matches!(self.builder.get(self.r).0, ExprNode::Const(c) if c.bits == c.ty.bits(value))
    }
}

/// The right operand of an operator: a value, or a number.
pub(crate) trait RightOperand<'b> {
    /// The operand as a value of the type of `like`.
    fn over(self, like: E<'b>) -> E<'b>;
}
impl<'b> RightOperand<'b> for E<'b> {
    fn over(self, _like: E<'b>) -> E<'b> {
        self
    }
}
impl<'b> RightOperand<'b> for f64 {
    fn over(self, like: E<'b>) -> E<'b> {
        like.literal(self)
    }
}

macro_rules! operators {
    ($($trait:ident $method:ident),*) => {$(
        impl<'b, R: RightOperand<'b>> ops::$trait<R> for E<'b> {
            type Output = Self;
            fn $method(self, other: R) -> Self { self.binary(Binary::$trait, other) }
        }
        impl<'b> ops::$trait<E<'b>> for f64 {
            type Output = E<'b>;
            fn $method(self, other: E<'b>) -> E<'b> { other.literal(self).binary(Binary::$trait, other) }
        }
    )*};
}
operators!(Add add, Sub sub, Mul mul, Div div);

impl ops::Neg for E<'_> {
    type Output = Self;
    fn neg(self) -> Self {
        self.unary(Unary::Neg)
    }
}
impl ops::Not for E<'_> {
    type Output = Self;
    fn not(self) -> Self {
        self.unary(Unary::Not)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn equal_subtrees_are_one_node_and_identities_vanish() {
        let b = Builder::default();
        let x = b.load(0, Ty::F32);
        assert_eq!((x.exp() + 1.0).r(), (x.exp() + 1.0).r());
        assert_eq!((x * 1.0).r(), x.r());
        assert_eq!((-(-x)).r(), x.r());
        assert_eq!(x.abs().abs().r(), x.abs().r());
        assert_eq!(x.max(x).min(x).r(), x.r());
        assert_ne!((x + 0.0).r(), x.r(), "-0 + 0 is 0");
        let i = b.load(1, Ty::I32);
        assert_eq!((i + 0.0).r(), i.r());
        assert_eq!(i.lt(3.0).ty(), Ty::Bool);
    }
}
