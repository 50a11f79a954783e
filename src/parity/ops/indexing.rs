//! Reading and writing at computed indices, by element type, shape and axis.

use crate::base::dtype::{DType, Index};
use crate::batch::{GpuCommandBatch, Tensor};
use crate::ops::{SearchSide, Tolerance};
use crate::parity::compare::{EXACT, check};
use crate::parity::sample::{FromNumber, Rng, for_dtype, values};

/// `n` indices below `size`.
fn indices<I: Index + FromNumber>(rng: &mut Rng, n: usize, size: usize) -> Vec<I> {
    (0..n).map(|_| I::from_number(rng.below(size) as f64)).collect()
}

fn upload_indices<'b, I: Index + FromNumber>(
    batch: &'b GpuCommandBatch,
    seed: u64,
    shape: &[usize],
    size: usize,
) -> Tensor<'b, I> {
    let data: Vec<I> = indices(&mut Rng::new(seed), shape.iter().product(), size);
    batch.upload_shaped(&data, shape)
}

/// Tables, the axis, and the shape of the indices.
const GATHERED: [(&[usize], usize, &[usize]); 12] = [
    (&[10, 8], 0, &[5]),
    (&[10, 8], 1, &[5]),
    (&[10, 7], 0, &[3, 2]),
    (&[4, 5, 6], 1, &[3, 3]),
    (&[4, 5, 6], 2, &[]),
    (&[4, 5, 6], 0, &[1]),
    (&[300], 0, &[1001]),
    (&[1, 12], 0, &[9]),
    (&[17, 64], 0, &[33]),
    (&[3, 0], 0, &[4]),
    (&[3, 4], 1, &[0, 2]),
    (&[2, 3, 4, 5], 2, &[6, 2]),
];

#[test]
fn gathers_of_every_type() {
    let mut rng = Rng::new(11);
    for dtype in DType::ALL {
        for (shape, axis, picked) in GATHERED {
            for_dtype!(dtype, T => {
                let data: Vec<T> = values(&mut rng, shape.iter().product(), (-9.0, 9.0));
                check(&format!("gather {dtype} {shape:?} {axis} {picked:?}"), EXACT, |batch| {
                    let table = batch.upload_shaped(&data, shape);
                    let i: Tensor<'_, i32> = upload_indices(batch, 3, picked, shape[axis]);
                    batch.gather(table, i, axis as isize);
                    let u: Tensor<'_, u32> = upload_indices(batch, 4, picked, shape[axis]);
                    batch.gather(table, u, axis as isize - shape.len() as isize);
                });
            });
        }
    }
}

#[test]
fn gathers_from_views_and_among_neighbours() {
    let data: Vec<f32> = values(&mut Rng::new(5), 12 * 20, (-2.0, 2.0));
    check("gathers", Tolerance { ulp: 8.0, abs: 1e-7 }, |batch| {
        let x = batch.upload_shaped(&data, [12, 20]);
        // From a transposed, a sliced and a broadcast table.
        let turned = batch.transpose(x);
        let i: Tensor<'_, i32> = upload_indices(batch, 1, &[7, 3], 12);
        let a = batch.gather(turned, i, 1);
        let part = batch.slice(x, [(2..12, -2), (4..16, 1)]);
        let j: Tensor<'_, u32> = upload_indices(batch, 2, &[9], 5);
        let b = batch.gather(part, j, 0);
        let rows = batch.slice(x, [(3..4, 1), (0..20, 1)]).broadcast_to([6, 20]);
        let k: Tensor<'_, u32> = upload_indices(batch, 3, &[4], 6);
        let c = batch.gather(rows, k, 0);
        // Computed indices, chains, and later operations.
        let doubled = batch.scale(j, 2);
        let e = batch.gather(x, doubled, 0).tanh();
        let chained = batch.gather(doubled, k, 0);
        let f = batch.gather(x, chained, 0);
        let g = batch.sum(f, 1);
        // Views of gathered values; one that leaves elements out.
        let h = batch.transpose(e).slice([(1..19, 3), (0..9, -1)]).pad([(1, 0), (2, 1)], 0.5);
        // From a computed table.
        let m = batch.exp(x).embedding(k).softmax(-1);
        for id in [a, b, c, e, f, g, h, m] {
            batch.download(id);
        }
    });
}

#[test]
fn take_along_axes() {
    const CASES: [(&[usize], usize, &[usize]); 7] = [
        (&[4, 5], 0, &[3, 5]),
        (&[4, 5], 1, &[4, 9]),
        (&[4, 5], 1, &[1, 2]),
        (&[1, 5], 1, &[6, 8]),
        (&[3, 4, 8], 1, &[3, 1, 8]),
        (&[7], 0, &[20]),
        (&[3, 4], 0, &[0, 4]),
    ];
    let mut rng = Rng::new(12);
    for dtype in DType::ALL {
        for (shape, axis, picked) in CASES {
            for_dtype!(dtype, T => {
                let data: Vec<T> = values(&mut rng, shape.iter().product(), (-9.0, 9.0));
                check(&format!("take {dtype} {shape:?} {axis} {picked:?}"), EXACT, |batch| {
                    let x = batch.upload_shaped(&data, shape);
                    let i: Tensor<'_, i32> = upload_indices(batch, 3, picked, shape[axis]);
                    batch.take_along_axis(x, i, axis as isize);
                });
            });
        }
    }
    let data: Vec<f32> = values(&mut Rng::new(5), 6 * 30, (-2.0, 2.0));
    check("the greatest of each row", EXACT, |batch| {
        let x = batch.upload_shaped(&data, [6, 30]);
        let at = batch.argmax(x, crate::Axes::from(1).keep_dims());
        batch.take_along_axis(x, at, 1);
    });
}

#[test]
fn searches_among_neighbours() {
    let mut rng = Rng::new(9);
    let mut sorted: Vec<f32> = values(&mut rng, 37, (-2.0, 2.0));
    sorted.sort_by(f32::total_cmp);
    let data: Vec<f32> = values(&mut rng, 12 * 20, (-3.0, 3.0));
    check("searches", EXACT, |batch| {
        let edges = batch.upload(&sorted);
        let x = batch.upload_shaped(&data, [12, 20]);
        // In a view, of computed numbers; in a reduction, a border and a look-up.
        let some = batch.slice(edges, [(1..37, 3)]);
        let y = batch.neg(x);
        let a = batch.searchsorted(some, y, SearchSide::Right);
        let b = batch.searchsorted(edges, x, SearchSide::Left);
        let c = batch.amax(b, 1);
        let d = batch.pad(b, [(1, 2), (0, 3)], 7);
        let f = batch.scale(edges, 0.5).searchsorted(x, SearchSide::Left);
        for id in [a, c, d, f] {
            batch.download(id);
        }
    });
}
