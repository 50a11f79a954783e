//! The meaning of an expression: floats in `f64`, integers exactly. Tests compare both runners with
//! it, and the planner folds constants by it.

use half::f16;

use super::{Binary, Expr, Node, Ref, Unary};
use crate::base::dtype::{Scalar, Ty};

/// The value of one lane.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) enum Value {
    F(f64),
    I(i32),
    U(u32),
    B(bool),
}

impl Value {
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

    /// As [`Node::Cast`]: an integer becomes the nearest `f32`.
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

impl From<Scalar> for Value {
    fn from(scalar: Scalar) -> Self {
        Self::from_bits(scalar.dtype().lane(), scalar.lane_bits())
    }
}

/// The values of an expression's leaves at one element.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Leaves<'a> {
    /// By operand.
    pub loads: &'a [Value],
    pub acc: Option<Value>,
    pub scalars: &'a [Scalar],
}

/// The value of `root`, or `None` if it needs a leaf that is not given, or looks up a table.
pub(crate) fn evaluate(expr: &Expr, root: Ref, leaves: Leaves<'_>) -> Option<Value> {
    evaluate_with(expr, root, leaves, &|_, _| None)
}

/// As [`evaluate`]. `fetch` looks up the element of an operand at a position, if it can.
pub(crate) fn evaluate_with(
    expr: &Expr,
    root: Ref,
    leaves: Leaves<'_>,
    fetch: &dyn Fn(u16, Value) -> Option<Value>,
) -> Option<Value> {
    let mut values: Vec<Option<Value>> = vec![None; root.index() + 1];
    for r in expr.reachable(&[root]) {
        let get = |r: Ref| values[r.index()];
        values[r.index()] = Some(match expr.node(r) {
            Node::Load(n) => *leaves.loads.get(usize::from(n))?,
            Node::Acc => leaves.acc?,
            Node::Scalar(n) => Value::from(*leaves.scalars.get(usize::from(n))?),
            Node::Const(c) => Value::from_bits(c.ty, c.bits),
            Node::Unary(op, a) => unary(op, get(a)?),
            Node::Binary(op, a, b) => binary(op, get(a)?, get(b)?),
            Node::Select(c, a, b) => {
                if get(c)?.truth() {
                    get(a)?
                } else {
                    get(b)?
                }
            }
            Node::Cast(ty, a) => get(a)?.cast(ty),
            Node::Fetch(operand, position) => fetch(operand, get(position)?)?,
            Node::Check(_, failure) => get(failure.holds)?,
        });
    }
    values[root.index()]
}

/// One primitive of one argument.
pub(crate) fn unary(op: Unary, x: Value) -> Value {
    match x {
        Value::F(x) => Value::F(float_unary(op, x)),
        Value::B(x) => Value::B(if op == Unary::Not { !x } else { x }),
        Value::I(_) | Value::U(_) => {
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
pub(crate) fn binary(op: Binary, x: Value, y: Value) -> Value {
    match (op, x, y) {
        (Binary::Eq, ..) => Value::B(x.number() == y.number()),
        (Binary::Ne, ..) => Value::B(x.number() != y.number()),
        (Binary::Lt, ..) => Value::B(x.number() < y.number()),
        (Binary::Le, ..) => Value::B(x.number() <= y.number()),
        (Binary::Gt, ..) => Value::B(x.number() > y.number()),
        (Binary::Ge, ..) => Value::B(x.number() >= y.number()),
        (_, Value::F(x), Value::F(y)) => Value::F(float_binary(op, x, y)),
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
        let i = |op, x, y| binary(op, Value::I(x), Value::I(y));
        assert_eq!(i(Binary::Add, i32::MAX, 1), Value::I(i32::MIN));
        assert_eq!(i(Binary::Mul, 65_536, 65_536), Value::I(0));
        assert_eq!(i(Binary::Div, i32::MIN, -1), Value::I(i32::MIN));
        assert_eq!(i(Binary::Div, 7, 0), Value::I(0));
        assert_eq!(i(Binary::Div, -7, 2), Value::I(-3));
        assert_eq!(i(Binary::Rem, -7, 2), Value::I(-1));
        assert_eq!(i(Binary::Rem, 7, 0), Value::I(0));
        assert_eq!(i(Binary::Pow, 3, 21), Value::I(3i32.wrapping_pow(21)));
        assert_eq!(i(Binary::Pow, 0, -1), Value::I(0));
        assert_eq!(i(Binary::Pow, -1, -3), Value::I(-1));
        assert_eq!(i(Binary::Pow, 2, -1), Value::I(0));
        let u = |op, x, y| binary(op, Value::U(x), Value::U(y));
        assert_eq!(u(Binary::Sub, 0, 1), Value::U(u32::MAX));
        assert_eq!(u(Binary::Mul, u32::MAX, u32::MAX), Value::U(1));
        assert_eq!(u(Binary::Pow, 0, 0), Value::U(1));
        assert_eq!(unary(Unary::Neg, Value::I(i32::MIN)), Value::I(i32::MIN));
        assert_eq!(unary(Unary::Abs, Value::I(i32::MIN)), Value::I(i32::MIN));
    }

    #[test]
    fn casts_saturate() {
        assert_eq!(Value::F(f64::NAN).cast(Ty::I32), Value::I(0));
        assert_eq!(Value::F(-1e20).cast(Ty::I32), Value::I(i32::MIN));
        assert_eq!(Value::F(-3.0).cast(Ty::U32), Value::U(0));
        assert_eq!(Value::I(-1).cast(Ty::U32), Value::U(u32::MAX));
        assert_eq!(Value::U(16_777_217).cast(Ty::F32), Value::F(16_777_216.0));
        assert_eq!(Value::F(f64::NAN).cast(Ty::Bool), Value::B(true));
    }

    #[test]
    fn nan_propagates_and_a_missing_leaf_is_none() {
        for op in [Binary::Min, Binary::Max] {
            assert!(binary(op, Value::F(1.0), Value::F(f64::NAN)).number().is_nan());
        }
        let b = Builder::default();
        let root = (b.load(0, Ty::F32).exp() + b.scalar(0, Ty::F32)).cast(DType::F16).r();
        let expr = b.finish();
        let scalars = [Scalar::new(DType::F32, 2.0)];
        let loads = [Value::F(1.0)];
        let leaves = Leaves { loads: &loads, acc: None, scalars: &scalars };
        let want = f16::from_f64(1f64.exp() + 2.0).to_f64();
        assert_eq!(evaluate(&expr, root, leaves), Some(Value::F(want)));
        assert_eq!(evaluate(&expr, root, Leaves { loads: &[], ..leaves }), None);
    }
}
