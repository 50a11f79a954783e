//! Random data, the same in every run.

use half::f16;

use crate::base::dtype::{DType, Element, Scalar};

/// A small generator of random numbers (xorshift64*: Vigna, 2016).
#[derive(Clone, Debug)]
pub(super) struct Rng(u64);

impl Rng {
    pub fn new(seed: u64) -> Self {
        Self(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1)
    }

    pub fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_f491_4f6c_dd1d)
    }

    /// Below `n`, which is not 0.
    pub fn below(&mut self, n: usize) -> usize {
        (self.next() >> 33) as usize % n
    }

    /// Uniform in `low..high`.
    pub fn uniform(&mut self, low: f64, high: f64) -> f64 {
        low + (high - low) * ((self.next() >> 11) as f64 / (1_u64 << 53) as f64)
    }

    pub fn pick<'a, T>(&mut self, from: &'a [T]) -> &'a T {
        &from[self.below(from.len())]
    }
}

/// `n` values in an interval; unsigned types take its magnitude.
pub(super) fn values<T: FromNumber>(rng: &mut Rng, n: usize, (low, high): (f64, f64)) -> Vec<T> {
    (0..n).map(|_| T::from_number(rng.uniform(low, high))).collect()
}

/// An element from the number nearest to it.
pub(super) trait FromNumber: Element {
    fn from_number(x: f64) -> Self;
}
macro_rules! from_number {
    ($($element:ident: $from:expr;)*) => {$(
        impl FromNumber for $element {
            fn from_number(x: f64) -> Self {
                let from: fn(f64) -> Self = $from;
                from(x)
            }
        }
    )*};
}
from_number! {
    f32: |x| x as Self;
    f16: f16::from_f64;
    i32: |x| x as Self;
    u32: |x| x.abs() as Self;
    bool: |x| (x * 2.0) as i32 % 2 != 0;
}

const NAN: f64 = f64::NAN;
const INF: f64 = f64::INFINITY;
/// The largest and the least normal `f32`.
const MAX: f64 = f32::MAX as f64;
const MIN: f64 = f32::MIN_POSITIVE as f64;

/// 2²⁴, past which `f32` has no odd integers.
const TWO_24: f64 = 16_777_216.0;
const I32_MAX: f64 = i32::MAX as f64;
const I32_MIN: f64 = i32::MIN as f64;
const U32_MAX: f64 = u32::MAX as f64;

/// Floats where formulas break.
pub(super) const EDGES: [f64; 22] = [
    0.0, -0.0, 1.0, -1.0, 0.5, -0.5, 2.5, -1.5, NAN, INF, -INF, 1e-3, -1e-3, 88.0, -88.0, 104.0,
    -104.0, MAX, -MAX, MIN, 1e5, -TWO_24,
];

/// Integers where arithmetic wraps.
pub(super) const INTEGER_EDGES: [f64; 12] =
    [0.0, 1.0, -1.0, 2.0, -2.0, 3.0, 31.0, -31.0, I32_MAX, I32_MIN, U32_MAX, 65_536.0];

/// The edge values of a type.
pub(super) fn edges(dtype: DType) -> Vec<f64> {
    let all: &[f64] = if dtype.is_float() { &EDGES } else { &INTEGER_EDGES };
    all.iter().map(|&x| Scalar::new(dtype, x).value()).collect()
}

/// Runs `$body` with `$T` as the Rust type of `$dtype`.
macro_rules! for_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        for_dtype!($dtype, $T => $body, F32 f32, F16 half::f16, I32 i32, U32 u32, Bool bool)
    };
    ($dtype:expr, $T:ident => $body:expr, $($variant:ident $element:ty),*) => {
        match $dtype {
            $(crate::DType::$variant => {
                type $T = $element;
                $body
            })*
        }
    };
}
pub(super) use for_dtype;
