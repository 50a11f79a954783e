//! Made-up weights, each from its name.

use std::cell::{Cell, RefCell};
use std::collections::HashMap;
use std::time::{Duration, Instant};

use onetrip::{Device, Float, Resident, Result, Shape, f16};

use crate::random::Random;

/// The element types of networks, which made-up numbers are rounded to.
pub trait Real: Float {
    fn of(x: f32) -> Self;
}

impl Real for f32 {
    fn of(x: f32) -> Self {
        x
    }
}

impl Real for f16 {
    fn of(x: f32) -> Self {
        Self::from_f32(x)
    }
}

/// Residents of a device by their names, made when they are first asked for.
pub struct Weights<T: Real = f32> {
    device: Device,
    made: RefCell<HashMap<String, Resident<T>>>,
    time: Cell<Duration>,
}

impl<T: Real> Weights<T> {
    /// No weights yet.
    pub fn new(device: &Device) -> Self {
        Self { device: device.clone(), made: RefCell::default(), time: Cell::default() }
    }

    /// The time that making up numbers took so far, which is not the device's.
    pub fn time(&self) -> Duration {
        self.time.get()
    }

    /// Filters or gates: `shape` starts with their number, and each adds up products with all its elements.
    pub fn filters(&self, name: &str, shape: &[usize]) -> Result<Resident<T>> {
        self.resident(name, shape, spread(6.0, shape[1..].iter().product()), 0.0)
    }

    /// A matrix of `[inputs, outputs]`.
    pub fn matrix(&self, name: &str, shape: [usize; 2]) -> Result<Resident<T>> {
        self.resident(name, &shape, spread(3.0, shape[0]), 0.0)
    }

    /// Numbers around 0.
    pub fn bias(&self, name: &str, len: usize) -> Result<Resident<T>> {
        self.resident(name, &[len], 0.1, 0.0)
    }

    /// Numbers around 1, of which none is near 0.
    pub fn factors(&self, name: &str, len: usize) -> Result<Resident<T>> {
        self.resident(name, &[len], 0.25, 1.0)
    }

    /// Uniform numbers in `middle` ± `spread`.
    pub fn resident(
        &self,
        name: &str,
        shape: &[usize],
        spread: f32,
        middle: f32,
    ) -> Result<Resident<T>> {
        if let Some(made) = self.made.borrow().get(name) {
            return Ok(made.clone());
        }
        let start = Instant::now();
        let data = rounded(numbers(name, shape.iter().product(), spread, middle));
        self.time.set(self.time.get() + start.elapsed());
        self.known(name, shape, &data)
    }

    /// The resident of a name, which holds `data`.
    pub fn known(&self, name: &str, shape: &[usize], data: &[T]) -> Result<Resident<T>> {
        if let Some(made) = self.made.borrow().get(name) {
            return Ok(made.clone());
        }
        let resident = self.device.resident(data, Shape::from(shape))?;
        self.made.borrow_mut().insert(name.to_owned(), resident.clone());
        Ok(resident)
    }
}

/// √(`factor` / `terms`): 3 keeps the variance of sums of so many terms, 6 does so before a relu (He et al., 2015).
pub fn spread(factor: f64, terms: usize) -> f32 {
    (factor / terms as f64).sqrt() as f32
}

/// `len` uniform numbers in `middle` ± `spread`, the same in every language for a name.
pub fn numbers(name: &str, len: usize, spread: f32, middle: f32) -> Vec<f32> {
    let mut data = Random::named(name).floats(len);
    for x in &mut data {
        *x = *x * spread + middle;
    }
    data
}

/// The numbers in the element type of a network.
pub fn rounded<T: Real>(numbers: Vec<f32>) -> Vec<T> {
    numbers.into_iter().map(T::of).collect()
}
