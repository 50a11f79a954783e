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
impl FromNumber for f32 {
    fn from_number(x: f64) -> Self {
        x as Self
    }
}
impl FromNumber for f16 {
    fn from_number(x: f64) -> Self {
        Self::from_f64(x)
    }
}
impl FromNumber for i32 {
    fn from_number(x: f64) -> Self {
        x as Self
    }
}
impl FromNumber for u32 {
    fn from_number(x: f64) -> Self {
        x.abs() as Self
    }
}
impl FromNumber for bool {
    fn from_number(x: f64) -> Self {
        (x * 2.0) as i32 % 2 != 0
    }
}

/// Floats where formulas break.
pub(super) const EDGES: [f64; 22] = [
    0.0,
    -0.0,
    1.0,
    -1.0,
    0.5,
    -0.5,
    2.5,
    -1.5,
    f64::NAN,
    f64::INFINITY,
    f64::NEG_INFINITY,
    1e-3,
    -1e-3,
    88.0,
    -88.0,
    104.0,
    -104.0,
    3.402_823_466_385_288_6e38,
    -3.402_823_466_385_288_6e38,
    1.175_494_350_822_287_5e-38,
    1e5,
    -16_777_216.0,
];

/// Integers where arithmetic wraps.
pub(super) const INTEGER_EDGES: [f64; 12] = [
    0.0,
    1.0,
    -1.0,
    2.0,
    -2.0,
    3.0,
    31.0,
    -31.0,
    2_147_483_647.0,
    -2_147_483_648.0,
    4_294_967_295.0,
    65_536.0,
];

/// The edge values of a type.
pub(super) fn edges(dtype: DType) -> Vec<f64> {
    let all: &[f64] = if dtype.is_float() { &EDGES } else { &INTEGER_EDGES };
    all.iter().map(|&x| Scalar::new(dtype, x).value()).collect()
}

/// Runs `$body` with `$T` as the Rust type of `$dtype`.
macro_rules! for_dtype {
    ($dtype:expr, $T:ident => $body:expr) => {
        match $dtype {
            crate::DType::F32 => {
                type $T = f32;
                $body
            }
            crate::DType::F16 => {
                type $T = half::f16;
                $body
            }
            crate::DType::I32 => {
                type $T = i32;
                $body
            }
            crate::DType::U32 => {
                type $T = u32;
                $body
            }
            crate::DType::Bool => {
                type $T = bool;
                $body
            }
        }
    };
}
pub(super) use for_dtype;
