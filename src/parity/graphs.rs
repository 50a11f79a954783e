//! Random graphs: fused = unfused = interpreted.

use half::f16;
use proptest::prelude::*;
use proptest::test_runner::RngSeed;

use super::compare::check;
use super::sample::{Rng, values};
use crate::batch::{GpuCommandBatch, Tensor};
use crate::methods::Axes;
use crate::ops::Tolerance;

/// Values stay within a few units, so that errors do.
pub(super) const TOLERANCE: Tolerance = Tolerance { ulp: 256.0, abs: 2e-5 };

/// Grows a batch by random operations on its values.
pub(super) struct Grower<'a> {
    pub batch: &'a GpuCommandBatch,
    pub rng: Rng,
    /// True if some operations have elements of `f16`.
    pub half: bool,
    pub values: Vec<Tensor<'a, f32>>,
}

impl<'a> Grower<'a> {
    pub fn dims(&self, x: Tensor<'a, f32>) -> Vec<usize> {
        self.batch.shape(x).expect("no mistakes are made").dims().to_vec()
    }

    pub fn upload(&mut self) {
        let rank = 1 + self.rng.below(3);
        let dims: Vec<usize> = (0..rank).map(|_| *self.rng.pick(&[1, 2, 3, 4, 6, 17])).collect();
        let data: Vec<f32> = values(&mut self.rng, dims.iter().product(), (-2.0, 2.0));
        let x = self.batch.upload_shaped(&data, dims);
        self.values.push(x);
    }

    /// One more operation on a recent value.
    pub fn step(&mut self) {
        let x = self.recent();
        let y = match self.rng.below(10) {
            0..=2 if self.half => self.of_half(x),
            0..=2 => self.unary(x),
            3..=4 => self.binary(x),
            5 => self.reduce(x),
            6 => self.row(x),
            7 => self.matmul(x),
            _ => self.movement(x),
        };
        self.values.push(y);
    }

    /// One of the last values.
    pub fn recent(&mut self) -> Tensor<'a, f32> {
        let recent = self.values.len().saturating_sub(4);
        self.values[recent + self.rng.below(self.values.len() - recent)]
    }

    /// Operations on `f16` between casts.
    fn of_half(&mut self, x: Tensor<'a, f32>) -> Tensor<'a, f32> {
        let b = self.batch;
        let h = b.cast::<f32, f16>(x);
        let y = match self.rng.below(6) {
            0 => b.tanh(h),
            1 => b.add(h, b.scale(h, f16::from_f32(0.5))),
            2 => b.select(b.gt(h, f16::ZERO), h, b.neg(h)),
            3 if !self.dims(x).is_empty() => b.softmax(h, -1),
            4 if !self.dims(x).is_empty() => b.amax(h, -1),
            _ => b.clip(h, f16::from_f32(-1.5), f16::from_f32(1.5)),
        };
        b.cast(y)
    }

    fn unary(&mut self, x: Tensor<'a, f32>) -> Tensor<'a, f32> {
        let b = self.batch;
        match self.rng.below(10) {
            0 => b.relu(x),
            1 => b.tanh(x),
            2 => b.sigmoid(x),
            3 => b.scale(x, 0.5),
            4 => b.add_scalar(x, 0.25),
            5 => b.abs(x),
            6 => b.gelu(x),
            7 => b.neg(x),
            8 => b.clip(x, -1.5, 1.5),
            _ => b.silu(x),
        }
    }

    /// With a value that broadcasts, or a reduced form of the same.
    fn binary(&mut self, x: Tensor<'a, f32>) -> Tensor<'a, f32> {
        let shape = self.batch.shape(x).expect("no mistakes are made");
        let fits = |y: &&Tensor<'a, f32>| {
            let other = self.batch.shape(**y).expect("no mistakes are made");
            shape.broadcast(&other).is_some_and(|both| both.elements() <= 5000)
        };
        let others: Vec<Tensor<'a, f32>> = self.values.iter().filter(fits).copied().collect();
        if others.is_empty() {
            return x;
        }
        let y = *self.rng.pick(&others);
        let both = match self.rng.below(4) {
            0 => self.batch.add(x, y),
            1 => self.batch.sub(x, y),
            2 => self.batch.max(x, y),
            _ => self.batch.mul(x, y),
        };
        self.batch.clip(both, -3.0, 3.0)
    }

    fn reduce(&mut self, x: Tensor<'a, f32>) -> Tensor<'a, f32> {
        let rank = self.dims(x).len();
        if rank == 0 {
            return x;
        }
        let axes = Axes::from(self.rng.below(rank) as isize);
        let axes = if self.rng.below(2) == 0 { axes.keep_dims() } else { axes };
        match self.rng.below(4) {
            0 => self.batch.mean(x, axes),
            1 => self.batch.amax(x, axes),
            2 => self.batch.amin(x, axes),
            _ => {
                // Scaled, since the rounding of a sum that cancels is relative to what was summed.
                let largest = self.dims(x).into_iter().max().unwrap_or(1);
                self.batch.sum(x, axes).scale(1.0 / largest as f32)
            }
        }
    }

    fn row(&mut self, x: Tensor<'a, f32>) -> Tensor<'a, f32> {
        let rank = self.dims(x).len();
        if rank == 0 {
            return x;
        }
        let axis = self.rng.below(rank) as isize;
        match self.rng.below(2) {
            0 => self.batch.softmax(x, axis),
            // A large ε, since the variance of equal values is all rounding.
            _ => self.batch.layer_norm(x, axis, 0.1),
        }
    }

    fn matmul(&mut self, x: Tensor<'a, f32>) -> Tensor<'a, f32> {
        let dims = self.dims(x);
        let Some(&k) = dims.last() else { return x };
        let n = *self.rng.pick(&[1, 3, 8]);
        let data: Vec<f32> = values(&mut self.rng, k * n, (-0.5, 0.5));
        let w = if self.rng.below(2) == 0 {
            self.batch.upload_shaped(&data, [k, n])
        } else {
            self.batch.upload_shaped(&data, [n, k]).transpose()
        };
        self.batch.matmul(x, w).clip(-3.0, 3.0)
    }

    fn movement(&mut self, x: Tensor<'a, f32>) -> Tensor<'a, f32> {
        let dims = self.dims(x);
        let count: usize = dims.iter().product();
        match self.rng.below(7) {
            0 if dims.len() >= 2 => self.batch.transpose(x),
            1 => self.batch.reshape(x, [count]),
            2 if count.is_multiple_of(2) => self.batch.reshape(x, [2, count / 2]),
            3 => self.batch.flip(x, ..),
            4 => {
                let border: Vec<_> =
                    dims.iter().map(|_| (self.rng.below(2), self.rng.below(3))).collect();
                self.batch.pad(x, border, 0.5)
            }
            5 if !dims.is_empty() && count < 2000 => {
                let axis = self.rng.below(dims.len()) as isize;
                let y = self.batch.neg(x);
                self.batch.concat([x, y, x], axis)
            }
            _ => {
                let ranges: Vec<_> = dims
                    .iter()
                    .map(|&d| {
                        let start = self.rng.below(d);
                        let end = start + 1 + self.rng.below(d - start);
                        (start..end, *self.rng.pick(&[1, -1, 2, -2]))
                    })
                    .collect();
                self.batch.slice(x, ranges)
            }
        }
    }
}

/// Records the random graph of `seed`; downloads its sinks, or every value.
pub(super) fn grow(batch: &GpuCommandBatch, seed: u64, steps: usize, all: bool) {
    grow_of(batch, seed, steps, all, false);
}

/// As [`grow`], with operations on `f16` if `half` holds.
fn grow_of(batch: &GpuCommandBatch, seed: u64, steps: usize, all: bool, half: bool) {
    let mut grower = Grower { batch, rng: Rng::new(seed), half, values: Vec::new() };
    for _ in 0..2 {
        grower.upload();
    }
    for _ in 0..steps {
        grower.step();
    }
    let values = grower.values.clone();
    if all {
        values.into_iter().for_each(|value| batch.download(value));
    }
}

/// The same graphs in every run: a failure must be the change's.
fn graphs(cases: u32) -> ProptestConfig {
    let rng_seed = RngSeed::Fixed(7);
    ProptestConfig { cases, rng_seed, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(graphs(32))]

    #[test]
    fn graphs_with_halves_are_interpreted(seed: u64, steps in 1_usize..12, all: bool) {
        // A half has 11 bits, and the norms of later operations magnify its rounding.
        let tolerance = Tolerance { ulp: 256.0, abs: 0.05 };
        check(&format!("seed {seed}, {steps} steps, halves"), tolerance, |b| {
            grow_of(b, seed, steps, all, true);
        });
    }
}

proptest! {
    #![proptest_config(graphs(96))]

    #[test]
    fn fused_is_interpreted(seed: u64, steps in 1_usize..24) {
        check(&format!("seed {seed}, {steps} steps"), TOLERANCE, |b| grow(b, seed, steps, false));
    }

    /// Downloading every value keeps most of them from being fused away.
    #[test]
    fn unfused_is_interpreted(seed: u64, steps in 1_usize..16) {
        check(&format!("seed {seed}, {steps} steps, all"), TOLERANCE, |b| grow(b, seed, steps, true));
    }
}
