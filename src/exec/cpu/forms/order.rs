//! Orders of elements as orders of unsigned numbers.

use crate::base::dtype::Ty;

/// A map from lanes to unsigned keys, the greatest of which is the one looked for. Its parts are
/// masks, so that it is one formula without branches for all types.
#[derive(Clone, Copy)]
pub(in crate::exec::cpu) struct Order {
    /// Bits that the sign of a float inverts.
    magnitude: u32,
    /// Bits that are inverted in any case.
    flip: u32,
    /// The greatest magnitude that is a number.
    infinity: u32,
    /// What stands for 0 too.
    zero: u32,
}

/// Which element has the greatest key but for NaN.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(in crate::exec::cpu) enum First {
    Greatest,
    Least,
}

/// The key of NaN, which wins over all.
const NAN_KEY: u32 = u32::MAX;
const SIGN: u32 = 1 << 31;

impl Order {
    /// By value; −0 comes before 0.
    pub fn by_value(ty: Ty, first: First) -> Self {
        let inverted = match first {
            First::Greatest => 0,
            First::Least => u32::MAX,
        };
        match ty {
            Ty::F32 => Self {
                magnitude: !SIGN,
                flip: SIGN ^ inverted,
                infinity: f32::INFINITY.to_bits(),
                zero: 0,
            },
            Ty::I32 => Self { magnitude: 0, flip: SIGN ^ inverted, infinity: u32::MAX, zero: 0 },
            Ty::U32 | Ty::Bool => {
                Self { magnitude: 0, flip: inverted, infinity: u32::MAX, zero: 0 }
            }
        }
    }

    /// As [`by_value`](Self::by_value), but −0 and 0 are equal.
    pub fn by_number(ty: Ty, first: First) -> Self {
        let zero = if ty == Ty::F32 { SIGN } else { 0 };
        Self { zero, ..Self::by_value(ty, first) }
    }

    /// The key of a lane.
    #[inline(always)]
    pub fn key(self, bits: u32) -> u32 {
        let bits = if bits == self.zero { 0 } else { bits };
        let negative = (bits.cast_signed() >> 31).cast_unsigned();
        let key = bits ^ (negative & self.magnitude) ^ self.flip;
        if bits & !SIGN > self.infinity { NAN_KEY } else { key }
    }

    /// The lane of a key.
    #[inline(always)]
    pub fn lane(self, key: u32) -> u32 {
        if key == NAN_KEY && self.magnitude != 0 {
            return f32::NAN.to_bits();
        }
        let bits = key ^ self.flip;
        let negative = (bits.cast_signed() >> 31).cast_unsigned();
        bits ^ (negative & self.magnitude)
    }
}
