//! The meaning of an expression: floats in `f64`, integers exactly. Tests compare both runners with
//! it, and the planner folds constants by it.

use half::f16;

use super::{Binary, Expr, ExprNode, Ref, Unary};
use crate::base::dtype::{Scalar, Ty};

/// The value of one lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum LaneValue {
    F(f64),
    I(i32),
    U(u32),
    B(bool),
}

impl LaneValue {
    /// A lane's 32 bits, read as `ty`.
    pub fn from_bits(ty: Ty, bits: u32) -> Self {
        match ty {
            Ty::F32 => Self::F(f64::from(f32::from_bits(bits))),
            Ty::I32 => Self::I(bits.cast_signed()),
            Ty::U32 => Self::U(bits),
            Ty::Bool => Self::B(bits != 0),
        }
    }

    /// The value as a number; exact.
    pub fn number(self) -> f64 {
        match self {
            Self::F(x) => x,
            Self::I(x) => f64::from(x),
            Self::U(x) => f64::from(x),
            Self::B(x) => f64::from(u8::from(x)),
        }
    }

    #[cfg(test)]
    pub fn ty(self) -> Ty {
        match self {
            Self::F(_) => Ty::F32,
            Self::I(_) => Ty::I32,
            Self::U(_) => Ty::U32,
            Self::B(_) => Ty::Bool,
        }
    }

    /// As [`ExprNode::Cast`]: an integer becomes the nearest `f32`.
    pub fn cast(self, to: Ty) -> Self {
        match (to, self) {
            (Ty::F32, Self::F(_)) => self,
            (Ty::F32, _) => Self::F(f64::from(self.number() as f32)),
            (Ty::I32, Self::F(x)) => Self::I(x as i32),
            (Ty::U32, Self::F(x)) => Self::U(x as u32),
            (Ty::I32, _) => Self::I(self.integer() as i32),
            (Ty::U32, _) => Self::U(self.integer() as u32),
            (Ty::Bool, _) => Self::B(self.number() != 0.0),
        }
    }

    fn integer(self) -> i64 {
        match self {
            Self::F(x) => x as i64,
            Self::I(x) => i64::from(x),
            Self::U(x) => i64::from(x),
            Self::B(x) => i64::from(x),
        }
    }

    fn truth(self) -> bool {
        self.integer() != 0
    }

    /// `x` modulo 2³² as this value's type.
    fn wrapped(self, x: i64) -> Self {
        match self {
            Self::F(_) => Self::F(x as f64),
            Self::I(_) => Self::I(x as i32),
            Self::U(_) => Self::U(x as u32),
            Self::B(_) => Self::B(x != 0),
        }
    }
}

impl From<Scalar> for LaneValue {
    fn from(scalar: Scalar) -> Self {
        Self::from_bits(scalar.dtype().lane(), scalar.lane_bits())
    }
}

/// The values of an expression's leaves at one element.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct LeafValues<'a> {
    /// The value of each operand.
    pub loads: &'a [LaneValue],
    pub acc: Option<LaneValue>,
    pub scalars: &'a [Scalar],
}

/// The value of `root`, or `None` if it needs a leaf that is not given, or looks up a table.
pub(crate) fn evaluate(expr: &Expr, root: Ref, leaves: LeafValues<'_>) -> Option<LaneValue> {
    evaluate_with(expr, root, leaves, &|_, _| None)
}

/// As [`evaluate`]. `fetch` looks up the element of an operand at a position, if it can.
pub(crate) fn evaluate_with(
    expr: &Expr,
    root: Ref,
    leaves: LeafValues<'_>,
    fetch: &dyn Fn(u16, LaneValue) -> Option<LaneValue>,
) -> Option<LaneValue> {
    let mut values: Vec<Option<LaneValue>> = vec![None; root.index() + 1];
    for r in expr.reachable(&[root]) {
        let get = |r: Ref| values[r.index()];
        values[r.index()] = Some(match expr.node(r) {
            ExprNode::Load(n) => *leaves.loads.get(usize::from(n))?,
            ExprNode::Acc => leaves.acc?,
            ExprNode::Scalar(n) => LaneValue::from(*leaves.scalars.get(usize::from(n))?),
            ExprNode::Const(c) => LaneValue::from_bits(c.ty, c.bits),
            ExprNode::Unary(op, a) => unary(op, get(a)?),
            ExprNode::Binary(op, a, b) => binary(op, get(a)?, get(b)?),
            ExprNode::Select(c, a, b) => {
                if get(c)?.truth() {
                    get(a)?
                } else {
                    get(b)?
                }
            }
            ExprNode::Cast(ty, a) => get(a)?.cast(ty),
            ExprNode::Fetch(operand, position) => fetch(operand, get(position)?)?,
            ExprNode::Check(_, failure) => get(failure.holds)?,
        });
    }
    values[root.index()]
}

/// One primitive of one argument.
pub(crate) fn unary(op: Unary, x: LaneValue) -> LaneValue {
    match x {
        LaneValue::F(x) => LaneValue::F(float_unary(op, x)),
        LaneValue::B(x) => LaneValue::B(if op == Unary::Not { !x } else { x }),
        LaneValue::I(_) | LaneValue::U(_) => {
            let i = x.integer();
            x.wrapped(match op {
                Unary::Neg => -i,
                Unary::Abs => i.abs(),
                Unary::Sign => i.signum(),
                Unary::Not => !i,
                _ => i,
            })
        }
    }
}

fn float_unary(op: Unary, x: f64) -> f64 {
    match op {
        Unary::Neg => -x,
        Unary::Abs => x.abs(),
        Unary::Sign => {
            if x == 0.0 || x.is_nan() {
                x
            } else {
                x.signum()
            }
        }
        Unary::Recip => x.recip(),
        Unary::Sqrt => x.sqrt(),
        Unary::Rsqrt => x.sqrt().recip(),
        Unary::Exp => x.exp(),
        Unary::Log => x.ln(),
        Unary::Log1p => x.ln_1p(),
        Unary::Expm1 => x.exp_m1(),
        Unary::Sin => x.sin(),
        Unary::Cos => x.cos(),
        Unary::Tanh => x.tanh(),
        Unary::Erf => libm::erf(x),
        Unary::Floor => x.floor(),
        Unary::Ceil => x.ceil(),
        Unary::Round => x.round_ties_even(),
        Unary::FloorPow2 if !x.is_finite() => f64::NAN,
        Unary::FloorPow2 if x.abs() < f64::from(f32::MIN_POSITIVE) => 0.0,
        Unary::FloorPow2 => f64::from_bits(x.to_bits() & (0x7ff << 52)),
        Unary::Not => f64::from(u8::from(x == 0.0)),
        Unary::RoundF16 => f16::from_f64(x).to_f64(),
    }
}

/// One primitive of two arguments of one type.
pub(crate) fn binary(op: Binary, x: LaneValue, y: LaneValue) -> LaneValue {
    match (op, x, y) {
        (Binary::Eq, ..) => LaneValue::B(x.number() == y.number()),
        (Binary::Ne, ..) => LaneValue::B(x.number() != y.number()),
        (Binary::Lt, ..) => LaneValue::B(x.number() < y.number()),
        (Binary::Le, ..) => LaneValue::B(x.number() <= y.number()),
        (Binary::Gt, ..) => LaneValue::B(x.number() > y.number()),
        (Binary::Ge, ..) => LaneValue::B(x.number() >= y.number()),
        (_, LaneValue::F(x), LaneValue::F(y)) => LaneValue::F(float_binary(op, x, y)),
        _ => x.wrapped(integer_binary(op, x.integer(), y.integer())),
    }
}

fn float_binary(op: Binary, x: f64, y: f64) -> f64 {
    match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x * y,
        Binary::Div => x / y,
        Binary::Min | Binary::Max if x.is_nan() || y.is_nan() => f64::NAN,
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::Pow => x.powf(y),
        Binary::Rem => x % y,
        _ => f64::NAN,
    }
}

/// The low 32 bits without a sign.
fn unsigned(x: i64) -> u64 {
    u64::from(x as u32)
}

/// The low 32 bits are those of 32-bit arithmetic that wraps.
fn integer_binary(op: Binary, x: i64, y: i64) -> i64 {
    match op {
        Binary::Add => x + y,
        Binary::Sub => x - y,
        Binary::Mul => x.wrapping_mul(y),
        Binary::Div => x.checked_div(y).unwrap_or(0),
        Binary::Rem => x.checked_rem(y).unwrap_or(0),
        Binary::Min => x.min(y),
        Binary::Max => x.max(y),
        Binary::Pow => match u32::try_from(y) {
            Ok(y) => x.wrapping_pow(y),
            Err(_) if x == 1 || (x == -1 && y % 2 == 0) => 1,
            Err(_) if x == -1 => -1,
            Err(_) => 0,
        },
        Binary::And => x & y,
        Binary::Or => x | y,
        Binary::Xor => x ^ y,
        Binary::MulHigh => ((unsigned(x) * unsigned(y)) >> 32) as i64,
        Binary::Shr => (unsigned(x) >> (y & 31)) as i64,
        Binary::Eq | Binary::Ne | Binary::Lt | Binary::Le | Binary::Gt | Binary::Ge => 0,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::dtype::DType;
    use crate::expr::Builder;

    #[test]
    fn integers_wrap_as_documented() {
        let i = |op, x, y| binary(op, LaneValue::I(x), LaneValue::I(y));
        assert_eq!(i(Binary::Add, i32::MAX, 1), LaneValue::I(i32::MIN));
        assert_eq!(i(Binary::Mul, 65_536, 65_536), LaneValue::I(0));
        assert_eq!(i(Binary::Div, i32::MIN, -1), LaneValue::I(i32::MIN));
        assert_eq!(i(Binary::Div, 7, 0), LaneValue::I(0));
        assert_eq!(i(Binary::Div, -7, 2), LaneValue::I(-3));
        assert_eq!(i(Binary::Rem, -7, 2), LaneValue::I(-1));
        assert_eq!(i(Binary::Rem, 7, 0), LaneValue::I(0));
        assert_eq!(i(Binary::Pow, 3, 21), LaneValue::I(3i32.wrapping_pow(21)));
        assert_eq!(i(Binary::Pow, 0, -1), LaneValue::I(0));
        assert_eq!(i(Binary::Pow, -1, -3), LaneValue::I(-1));
        assert_eq!(i(Binary::Pow, 2, -1), LaneValue::I(0));
        let u = |op, x, y| binary(op, LaneValue::U(x), LaneValue::U(y));
        assert_eq!(u(Binary::Sub, 0, 1), LaneValue::U(u32::MAX));
        assert_eq!(u(Binary::Mul, u32::MAX, u32::MAX), LaneValue::U(1));
        assert_eq!(u(Binary::Pow, 0, 0), LaneValue::U(1));
        assert_eq!(unary(Unary::Neg, LaneValue::I(i32::MIN)), LaneValue::I(i32::MIN));
        assert_eq!(unary(Unary::Abs, LaneValue::I(i32::MIN)), LaneValue::I(i32::MIN));
    }

    #[test]
    fn casts_saturate() {
        assert_eq!(LaneValue::F(f64::NAN).cast(Ty::I32), LaneValue::I(0));
        assert_eq!(LaneValue::F(-1e20).cast(Ty::I32), LaneValue::I(i32::MIN));
        assert_eq!(LaneValue::F(-3.0).cast(Ty::U32), LaneValue::U(0));
        assert_eq!(LaneValue::I(-1).cast(Ty::U32), LaneValue::U(u32::MAX));
        assert_eq!(LaneValue::U(16_777_217).cast(Ty::F32), LaneValue::F(16_777_216.0));
        assert_eq!(LaneValue::F(f64::NAN).cast(Ty::Bool), LaneValue::B(true));
    }

    #[test]
    fn nan_propagates_and_a_missing_leaf_is_none() {
        for op in [Binary::Min, Binary::Max] {
            assert!(binary(op, LaneValue::F(1.0), LaneValue::F(f64::NAN)).number().is_nan());
        }
        let b = Builder::default();
        let root = (b.load(0, Ty::F32).exp() + b.scalar(0, Ty::F32)).cast(DType::F16).r();
        let expr = b.finish();
        let scalars = [Scalar::new(DType::F32, 2.0)];
        let loads = [LaneValue::F(1.0)];
        let leaves = LeafValues { loads: &loads, acc: None, scalars: &scalars };
        let want = f16::from_f64(1f64.exp() + 2.0).to_f64();
        assert_eq!(evaluate(&expr, root, leaves), Some(LaneValue::F(want)));
        assert_eq!(evaluate(&expr, root, LeafValues { loads: &[], ..leaves }), None);
    }
}
