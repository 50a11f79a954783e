//! Attention by sizes, masks and how operands lie.

use half::f16;

use crate::base::dtype::{DType, Float};
use crate::batch::{GpuCommandBatch, Tensor};
use crate::methods::{Attention, AttentionMask, Causal};
use crate::ops::Tolerance;
use crate::parity::compare::check;
use crate::parity::sample::{FromNumber, Rng, values};

const TOLERANCE: Tolerance = Tolerance { ulp: 32.0, abs: 4e-6 };
/// Matrix units take weights as halves, each off by up to 2⁻¹¹ of itself.
const OF_HALVES: Tolerance = Tolerance { ulp: 32.0, abs: 2e-3 };

/// Shapes of queries, keys and values.
const SHAPES: [[&[usize]; 3]; 19] = [
    [&[1, 1], &[1, 1], &[1, 1]],
    [&[5, 4], &[7, 4], &[7, 3]],
    [&[2, 3, 17, 32], &[2, 3, 33, 32], &[2, 3, 33, 32]],
    [&[2, 2, 70, 64], &[2, 2, 70, 64], &[2, 2, 70, 64]],
    [&[130, 20], &[65, 20], &[65, 40]],
    [&[3, 1, 8], &[3, 300, 8], &[3, 300, 16]],
    [&[2, 1, 64], &[2, 1500, 64], &[2, 1500, 64]],
    [&[20, 100], &[40, 100], &[40, 130]],
    [&[64, 128], &[64, 128], &[64, 128]],
    [&[33, 96], &[64, 96], &[64, 96]],
    [&[2, 4, 9, 16], &[2, 1, 9, 16], &[1, 1, 9, 16]],
    [&[2, 6, 9, 16], &[2, 2, 21, 16], &[2, 2, 21, 8]],
    [&[6, 5, 16], &[3, 21, 16], &[3, 21, 8]],
    [&[2, 8, 1, 20], &[2, 2, 130, 20], &[2, 2, 130, 36]],
    [&[0, 4, 8], &[0, 4, 8], &[0, 4, 8]],
    [&[7, 64], &[1050, 64], &[1050, 100]],
    [&[3, 4], &[0, 4], &[0, 5]],
    [&[3, 0], &[4, 0], &[4, 5]],
    [&[0, 4], &[6, 4], &[6, 5]],
];

fn record<'b, T: FromNumber + Float>(
    batch: &'b GpuCommandBatch,
    data: &[Vec<T>; 3],
    shapes: [&[usize]; 3],
    how: impl FnOnce(&'b GpuCommandBatch) -> Attention,
) -> Tensor<'b, T> {
    let [q, k, v] = [0, 1, 2].map(|at| batch.upload_shaped(&data[at], shapes[at]));
    let how = how(batch);
    batch.scaled_dot_product_attention(q, k, v, how)
}

fn random<T: FromNumber>(rng: &mut Rng, shapes: [&[usize]; 3]) -> [Vec<T>; 3] {
    shapes.map(|shape| values(rng, shape.iter().product(), (-2.0, 2.0)))
}

#[test]
fn every_size_and_way_to_hide() {
    let mut rng = Rng::new(21);
    let positions = [Causal::None, Causal::TopLeft, Causal::BottomRight];
    for (at, shapes) in SHAPES.into_iter().enumerate() {
        let causal = positions[at % 3];
        // Halves of many queries are for matrix units, where there are some.
        if at % 4 == 1 || shapes[0].iter().rev().nth(1).is_some_and(|&queries| queries >= 16) {
            attend::<f16>(&mut rng, shapes, causal);
        }
        if at % 4 != 1 {
            attend::<f32>(&mut rng, shapes, causal);
        }
    }
}

fn attend<T: FromNumber + Float>(rng: &mut Rng, shapes: [&[usize]; 3], causal: Causal) {
    let what = format!("attention {} {shapes:?} {causal:?}", T::DTYPE);
    let data = random::<T>(rng, shapes);
    let tolerance = if T::DTYPE == DType::F16 { OF_HALVES } else { TOLERANCE };
    check(&what, tolerance, |batch| {
        record(batch, &data, shapes, |_| Attention { causal, ..Attention::default() });
    });
}

#[test]
fn masks_of_every_shape() {
    let mut rng = Rng::new(22);
    let shapes: [&[usize]; 3] = [&[2, 4, 19, 16], &[2, 2, 70, 16], &[2, 2, 70, 12]];
    let masks: [&[usize]; 7] =
        [&[19, 70], &[70], &[19, 1], &[4, 19, 70], &[1, 19, 70], &[2, 1, 1, 70], &[2, 4, 19, 70]];
    for (at, mask) in masks.into_iter().enumerate() {
        if at % 3 == 0 {
            masked::<f16>(&mut rng, shapes, at, mask);
        }
        masked::<f32>(&mut rng, shapes, at, mask);
    }
}

fn masked<T: FromNumber + Float>(rng: &mut Rng, shapes: [&[usize]; 3], at: usize, mask: &[usize]) {
    let tolerance = if T::DTYPE == DType::F16 { OF_HALVES } else { TOLERANCE };
    let data = random::<T>(rng, shapes);
    let count = mask.iter().product();
    let mut added: Vec<f32> = values(rng, count, (-3.0, 3.0));
    let kept: Vec<bool> = (0..count).map(|_| rng.below(3) > 0).collect();
    // Some rows see nothing.
    added.iter_mut().step_by(5).for_each(|x| *x = f32::NEG_INFINITY);
    let last = mask[mask.len() - 1];
    added[..last].fill(f32::NEG_INFINITY);
    let causal = if at % 3 == 1 { Causal::TopLeft } else { Causal::None };
    check(&format!("mask {mask:?} {causal:?} {}", T::DTYPE), tolerance, |batch| {
        record(batch, &data, shapes, |batch| {
            if at.is_multiple_of(2) {
                let mask = AttentionMask::add(batch, batch.upload_shaped(&added, mask));
                Attention { mask: Some(mask), causal, scale: Some(0.5) }
            } else {
                let mask = AttentionMask::keep(batch, batch.upload_shaped(&kept, mask));
                Attention { mask: Some(mask), causal, scale: None }
            }
        });
    });
}

#[test]
fn operands_and_results_lie_in_any_order() {
    let mut rng = Rng::new(23);
    let x: Vec<f32> = values(&mut rng, 3 * 2 * 21 * 4 * 8, (-2.0, 2.0));
    check("heads last", TOLERANCE, |batch| {
        let x = batch.upload_shaped(&x, [3, 2, 21, 4, 8]);
        let parts = [0, 1, 2].map(|at| {
            let part =
                batch.slice(x, [(at..at + 1, 1), (0..2, 1), (0..21, 1), (0..4, 1), (0..8, 1)]);
            let part = batch.squeeze(part, 0);
            batch.permute(part, [0, 2, 1, 3])
        });
        let [q, k, v] = parts;
        let y = batch.scaled_dot_product_attention(q, k, v, Attention::default());
        batch.permute(y, [0, 2, 1, 3]).reshape([2, 21, 32]);
        // Transposed operands, a scaled query, and an epilogue.
        let (q, v) = (batch.transpose(q), batch.transpose(v));
        let (q, v) = (batch.scale(q, 0.5), batch.transpose(v));
        batch.transpose(q).scaled_dot_product_attention(k, v, Attention::default()).relu().add(k);
    });
}

/// A mask that is computed from coordinates, in the kernel.
#[test]
fn a_window_as_a_mask() {
    let mut rng = Rng::new(24);
    let shapes: [&[usize]; 3] = [&[2, 50, 16], &[2, 50, 16], &[2, 50, 16]];
    let data = random::<f32>(&mut rng, shapes);
    check("window", TOLERANCE, |batch| {
        record(batch, &data, shapes, |batch| {
            let (i, j) = (batch.arange(0, 50, 1), batch.arange(0, 50, 1));
            let distance = batch.unsqueeze(i, 1).sub(j).abs();
            let limit = batch.full([], 5);
            let near = batch.le(distance, limit);
            Attention { mask: Some(AttentionMask::keep(batch, near)), ..Attention::default() }
        });
    });
}

/// Scores that far outgrow those before them in the middle of a row, of which the first tiles may be hidden.
#[test]
fn scores_that_grow_along_a_row() {
    let mut rng = Rng::new(25);
    grow::<f16>(&mut rng, OF_HALVES);
    // Scores of some hundreds are off by 1e-5 in `f32`.
    grow::<f32>(&mut rng, Tolerance { ulp: 32.0, abs: 1e-4 });
}

fn grow<T: FromNumber + Float>(rng: &mut Rng, tolerance: Tolerance) {
    const KEYS: usize = 131;
    let shapes: [&[usize]; 3] = [&[37, 32], &[KEYS, 32], &[KEYS, 32]];
    let factors: [fn(usize) -> f64; 3] = [
        |key| key as f64 / 4.0,
        |key| (KEYS - key) as f64 / 4.0,
        |key| [0.1, 16.0, 1.0, 32.0][key / 33],
    ];
    for (at, factor) in factors.into_iter().enumerate() {
        let [q, _, v] = random::<T>(rng, shapes);
        let number = |i: usize| T::from_number(rng.uniform(-2.0, 2.0) * factor(i / 32));
        let data = [q, (0..KEYS * 32).map(number).collect(), v];
        let hidden = |i: usize| i % KEYS < 70 && (i / KEYS).is_multiple_of(2);
        let added = |i: usize| if hidden(i) { f32::NEG_INFINITY } else { 0.5 };
        let mask: Vec<f32> = (0..37 * KEYS).map(added).collect();
        check(&format!("growth {at} {}", T::DTYPE), tolerance, |batch| {
            record(batch, &data, shapes, |_| Attention::default());
            record(batch, &data, shapes, |batch| {
                let mask = AttentionMask::add(batch, batch.upload_shaped(&mask, [37, KEYS]));
                Attention { mask: Some(mask), causal: Causal::BottomRight, scale: None }
            });
        });
    }
}

/// Rows of halves for matrix units, one of which is NaN, one infinite, and one far from the others.
#[test]
fn rows_of_halves_at_the_edges() {
    let mut rng = Rng::new(26);
    let shapes: [&[usize]; 3] = [&[21, 16], &[40, 16], &[40, 16]];
    let mut data = random::<f16>(&mut rng, shapes);
    data[0][3 * 16] = f16::NAN;
    data[0][7 * 16..8 * 16].fill(f16::from_f32(6e4));
    data[0][20 * 16..].fill(f16::from_f32(-6e4));
    check("a row of NaN among halves", OF_HALVES, |batch| {
        record(batch, &data, shapes, |_| Attention::default());
        record(batch, &data, shapes, |_| Attention { scale: Some(1e30), ..Attention::default() });
    });
    data[1][39 * 16] = f16::INFINITY;
    check("an infinite key among halves", OF_HALVES, |batch| {
        record(batch, &data, shapes, |_| Attention::default());
        // Most rows do not see that key.
        let causal = Causal::BottomRight;
        record(batch, &data, shapes, |_| Attention { causal, ..Attention::default() });
    });
}

#[test]
fn large_scores_nan_and_infinity() {
    let inf = f32::INFINITY;
    let q = [[1.0, 0.0], [f32::NAN, 0.0], [1e4, 0.0], [-1e4, 1e4], [0.0, 0.0], [1e30, 0.0]];
    let k = [[1.0, 2.0], [3.0, -1.0], [0.5, 0.5]];
    let v = [[1.0, 10.0, f32::NAN], [2.0, 20.0, 1.0], [3.0, -inf, 1.0]];
    let data = [q.concat(), k.concat(), v.concat()];
    let shapes: [&[usize]; 3] = [&[6, 2], &[3, 2], &[3, 3]];
    // Past where weights are exactly 0, an infinity times one of them is NaN on some devices.
    let tame =
        [data[0].clone(), data[1].clone(), vec![1.0, 2.0, -3.0, 4.0, 1e30, 0.5, 7.0, 8.0, 9.0]];
    check("attention at the edges", TOLERANCE, |batch| {
        record(batch, &tame, shapes, |_| Attention::default());
        record(batch, &tame, shapes, |_| Attention { scale: Some(-2.0), ..Attention::default() });
    });
    let calm = [vec![0.5; 12], data[1].clone(), data[2].clone()];
    check("attention of infinite values", TOLERANCE, |batch| {
        record(batch, &calm, shapes, |_| Attention::default());
    });
}
