//! Random numbers, by shape and seed.

use half::f16;

use crate::ops::Tolerance;
use crate::parity::compare::check;
use crate::parity::sample::{Rng, values};

#[test]
fn random_numbers_are_those_of_their_positions() {
    // Past 2¹⁶ elements, where products of halves carry; seeds and streams of two words.
    let tolerance = Tolerance { ulp: 8.0, abs: 3e-6 };
    for (shape, seed, stream) in [
        (&[3, 1000][..], 0, 0),
        (&[70_001], 0x1234_5678_9abc_def0, 0xffff_ffff_0000_0001),
        (&[0, 4], 1, 2),
        (&[], 5, u64::MAX),
    ] {
        check(&format!("random {shape:?}"), tolerance, |batch| {
            batch.random_bits(shape, seed, stream);
            batch.random_uniform::<f32>(shape, seed, stream);
            batch.random_uniform::<f16>(shape, seed, stream);
            batch.random_normal::<f32>(shape, seed, stream);
            batch.random_normal::<f16>(shape, seed, stream);
            batch.random_bernoulli(shape, 0.3, seed, stream);
        });
    }
}

#[test]
fn random_numbers_in_other_operations() {
    let mut rng = Rng::new(11);
    let data: Vec<f32> = values(&mut rng, 24 * 30, (-2.0, 2.0));
    check("random numbers in a graph", Tolerance { ulp: 16.0, abs: 1e-6 }, |batch| {
        let x = batch.upload_shaped(&data, [24, 30]);
        batch.dropout(x, 0.25, 7, 1);
        let noise = batch.random_uniform::<f32>([30, 24], 7, 2);
        let turned = batch.transpose(noise).flip(1);
        let sums = batch.add(x, turned).cumsum(0);
        batch.pad(noise, [(1, 2), (0, 3)], 0.5).mean(1);
        let w = batch.random_uniform::<f32>([30, 8], 7, 3);
        batch.matmul(sums, w).dropout(0.5, 7, 4).relu();
        let row = batch.random_uniform::<f32>([30], 7, 5);
        batch.mul(x, row);
        batch.reshape(noise, [6, 120]).softmax(-1);
    });
}
