//! Links: binary operations on the result of the one before. Each rounds as it would alone.

use crate::exec::cpu::vectors::SimdVector;
use crate::expr::Binary;

/// A binary operation on the result `t` before it and a second operand `z`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Link {
    Add,
    Mul,
    /// t − z.
    Sub,
    /// z − t.
    SubFrom,
    /// min(t, z). The order decides which zero is the lesser.
    Min,
    /// min(z, t).
    MinOf,
    /// max(t, z).
    Max,
    /// max(z, t).
    MaxOf,
}

impl Link {
    /// Returns `op` as a link. `t_is_first` says that `t` is its first argument.
    pub fn of(op: Binary, t_is_first: bool) -> Option<Self> {
        Some(match (op, t_is_first) {
            (Binary::Add, _) => Self::Add,
            (Binary::Mul, _) => Self::Mul,
            (Binary::Sub, true) => Self::Sub,
            (Binary::Sub, false) => Self::SubFrom,
            (Binary::Min, true) => Self::Min,
            (Binary::Min, false) => Self::MinOf,
            (Binary::Max, true) => Self::Max,
            (Binary::Max, false) => Self::MaxOf,
            _ => return None,
        })
    }
}

/// A link over lanes, or five merged ones.
#[derive(Clone, Copy)]
pub(crate) enum LaneLink<'s> {
    One(Link, LaneOperand<'s>),
    AffineClamp(AffineClamp),
}

/// The second operand of a link.
#[derive(Clone, Copy)]
pub(crate) enum LaneOperand<'s> {
    Splat(f32),
    Lanes(&'s [f32]),
    /// The result `t` itself.
    Result,
}

/// Five links with numbers, one after the other: t − `sub`, t · `mul`, t + `add`, max(t, `low`), min(t, `high`). A batch norm
/// and a clip have this form. Each link rounds. `low` and `high` are not NaN. [`IDENTITY`](Self::IDENTITY) changes nothing.
#[derive(Clone, Copy, Debug)]
pub(crate) struct AffineClamp<N = f32> {
    pub sub: N,
    pub mul: N,
    pub add: N,
    pub low: N,
    pub high: N,
}

impl AffineClamp {
    pub const IDENTITY: Self =
        Self { sub: 0.0, mul: 1.0, add: -0.0, low: f32::NEG_INFINITY, high: f32::INFINITY };

    /// The numbers in the order of their links.
    pub fn numbers(self) -> [f32; 5] {
        let Self { sub, mul, add, low, high } = self;
        [sub, mul, add, low, high]
    }

    /// The numbers as vectors.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    pub unsafe fn splat<V: SimdVector>(&self) -> AffineClamp<V> {
        let &Self { sub, mul, add, low, high } = self;
        // SAFETY: as the caller promises.
        unsafe {
            let [sub, mul, add] = [V::splat(sub), V::splat(mul), V::splat(add)];
            AffineClamp { sub, mul, add, low: V::splat(low), high: V::splat(high) }
        }
    }
}

impl<V: SimdVector> AffineClamp<V> {
    /// Replaces `values` by the results of the links.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    pub unsafe fn apply<const N: usize>(&self, values: &mut [V; N]) {
        let &Self { sub, mul, add, low, high } = self;
        for value in values {
            // SAFETY: as the caller promises.
            *value = unsafe { value.sub(sub).mul(mul).add(add).greater(low).lesser(high) };
        }
    }
}

impl LaneLink<'_> {
    /// Returns whether the operand has at least `len` lanes, or is no slice.
    pub fn reaches(&self, len: usize) -> bool {
        !matches!(self, Self::One(_, LaneOperand::Lanes(lanes)) if lanes.len() < len)
    }
}

#[cfg(test)]
impl Link {
    /// The result of one lane.
    pub fn of_lanes(self, t: f32, z: f32) -> f32 {
        // The zeros of the first argument win, as in all loops.
        let lesser = |a: f32, b: f32| if b < a || b.is_nan() { b } else { a };
        let greater = |a: f32, b: f32| if b > a || b.is_nan() { b } else { a };
        match self {
            Self::Add => t + z,
            Self::Mul => t * z,
            Self::Sub => t - z,
            Self::SubFrom => z - t,
            Self::Min => lesser(t, z),
            Self::MinOf => lesser(z, t),
            Self::Max => greater(t, z),
            Self::MaxOf => greater(z, t),
        }
    }
}
