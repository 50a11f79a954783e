//! Random data, and comparison with float64 at sampled positions.

use std::error::Error;

use onetrip::{Element, Float, f16};

pub use crate::random::Random;

/// Positions that are compared.
const SAMPLES: usize = 64;

/// An `f32` or `f16` that can be made from and read as a number.
pub trait Number: Element + Float + onetrip::Numeric {
    /// The nearest value.
    fn number(x: f32) -> Self;
    /// The value.
    fn float(self) -> f64;
}
impl Number for f32 {
    fn number(x: f32) -> Self {
        x
    }
    fn float(self) -> f64 {
        f64::from(self)
    }
}
impl Number for f16 {
    fn number(x: f32) -> Self {
        Self::from_f32(x)
    }
    fn float(self) -> f64 {
        self.to_f64()
    }
}

impl Random {
    /// `n` numbers of another type.
    pub fn numbers<T: Number>(&mut self, n: usize) -> Vec<T> {
        self.floats(n).into_iter().map(T::number).collect()
    }
}

/// Fails where a sampled element is further than `tolerance` from `exact`.
pub fn check(
    what: &str,
    got: Option<Vec<f32>>,
    tolerance: f64,
    exact: impl Fn(usize) -> f64,
) -> Result<(), Box<dyn Error>> {
    let Some(got) = got else { return Ok(()) };
    let mut random = Random::new(99);
    for _ in 0..SAMPLES {
        let at = (random.bits() % got.len() as u64) as usize;
        let (got, want) = (f64::from(got[at]), exact(at));
        if (got - want).abs() > tolerance || got.is_nan() {
            return Err(format!("{what}: element {at} is {got}, not {want}").into());
        }
    }
    Ok(())
}

/// ‖got − exact‖ / ‖exact‖ over sampled elements.
pub fn relative_error(got: &[f32], exact: impl Fn(usize) -> f64) -> f64 {
    let mut random = Random::new(98);
    let (mut error, mut norm) = (0.0, 0.0);
    for _ in 0..SAMPLES {
        let at = (random.bits() % got.len() as u64) as usize;
        let want = exact(at);
        error += (f64::from(got[at]) - want).powi(2);
        norm += want * want;
    }
    (error / norm).sqrt()
}
