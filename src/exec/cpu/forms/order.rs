//! Orders of elements as orders of unsigned numbers.

use crate::base::dtype::Ty;

/// A map from lanes to unsigned keys. The greatest key belongs to the wanted element. The fields are masks, so that one
/// formula without branches serves all types.
#[derive(Clone, Copy)]
pub(crate) struct KeyOrder {
    /// Bits that the sign of a float inverts.
    magnitude: u32,
    /// Bits that are always inverted.
    flip: u32,
    /// The greatest magnitude that is a number.
    infinity: u32,
    /// Bits that stand for 0 too.
    zero: u32,
}

/// The end of the order that has the greatest key, but for NaN.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Extremum {
    Greatest,
    Least,
}

/// The key of NaN, which wins over all.
const NAN_KEY: u32 = u32::MAX;
const SIGN: u32 = 1 << 31;

impl KeyOrder {
    /// Orders elements by value; −0 comes before 0.
    pub fn by_value(ty: Ty, extremum: Extremum) -> Self {
        let inverted = match extremum {
            Extremum::Greatest => 0,
            Extremum::Least => u32::MAX,
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
    pub fn by_number(ty: Ty, extremum: Extremum) -> Self {
        let zero = if ty == Ty::F32 { SIGN } else { 0 };
        Self { zero, ..Self::by_value(ty, extremum) }
    }

    /// The extremum that has the greatest key among floats. `None` if elements are integers.
    pub fn of_floats(self) -> Option<Extremum> {
        let is_greatest = self.flip == SIGN;
        let extremum = if is_greatest { Extremum::Greatest } else { Extremum::Least };
        (self.magnitude != 0).then_some(extremum)
    }

    #[inline(always)]
    pub fn key(self, bits: u32) -> u32 {
        let bits = if bits == self.zero { 0 } else { bits };
        let negative = (bits.cast_signed() >> 31).cast_unsigned();
        let key = bits ^ (negative & self.magnitude) ^ self.flip;
        if bits & !SIGN > self.infinity { NAN_KEY } else { key }
    }

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
