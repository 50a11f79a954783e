//! Sorts, by element type, shape and axis.

use half::f16;

use crate::base::dtype::DType;
use crate::ops::{SortOrder, Tolerance};
use crate::parity::compare::{EXACT, check};
use crate::parity::sample::{FromNumber, Rng, edges, for_dtype, values};

/// Rows that are sorted in workgroup memory, by selection and by digits, of each type; few values, so that there are
/// equal ones.
#[test]
fn sorts_by_type_shape_and_axis() {
    let mut rng = Rng::new(12);
    let shapes: [(&[usize], usize); 8] = [
        (&[1], 0),
        (&[5, 7], 1),
        (&[5, 7], 0),
        (&[0, 3], 0),
        (&[3, 0], 0),
        (&[3, 2, 300], 2),
        (&[2, 7000], 1),
        (&[5000, 2], 0),
    ];
    for (round, dtype) in DType::ALL.into_iter().enumerate() {
        for (turn, (shape, axis)) in shapes.into_iter().enumerate() {
            let order = [SortOrder::Descending, SortOrder::Ascending][(round + turn) % 2];
            for_dtype!(dtype, T => {
                let mut data: Vec<T> = values(&mut rng, shape.iter().product(), (-900.0, 900.0));
                let edges = edges(dtype);
                for x in &mut data {
                    if rng.below(20) == 0 {
                        *x = T::from_number(*rng.pick(&edges));
                    }
                }
                let what = format!("sorts {dtype} {shape:?} along {axis}, {order:?}");
                let at = axis as isize;
                check(&what, EXACT, |batch| {
                    let x = batch.upload_shaped(&data, shape);
                    batch.sort(x, at, order);
                    batch.argsort(x, at, order);
                });
                check(&format!("the first of {what}"), EXACT, |batch| {
                    let turned = batch.upload_shaped(&data, shape).flip(at);
                    batch.top_k(turned, shape[axis].min(33), at, order);
                });
            });
        }
    }
}

#[test]
fn sorts_between_other_operations() {
    let mut rng = Rng::new(13);
    let data: Vec<f32> = values(&mut rng, 6 * 90 * 4, (-2.0, 2.0));
    check("sorts in a graph", Tolerance { ulp: 4.0, abs: 1e-7 }, |batch| {
        let sizes = batch.upload_shaped(&data, [6, 90, 4]).abs();
        let order = batch.argsort(sizes, 1, SortOrder::Descending);
        let doubled = batch.scale(order, 2);
        let values = batch.sort(sizes, 1, SortOrder::Descending);
        let turned = batch.transpose(values);
        let sums = batch.cumsum(turned, -1);
        let (best, at) = batch.top_k(turned, 3, 0, SortOrder::Ascending);
        let best = batch.sum(best, 0);
        let both = batch.cast::<u32, f32>(order);
        let both = batch.add(both, values);
        let halves = batch.cast::<f32, f16>(values);
        let halves = batch.mul(halves, halves).sort(0, SortOrder::Ascending);
        batch.download(at);
        batch.download(doubled);
        for id in [sums, values, best, both] {
            batch.download(id);
        }
        batch.download(halves);
    });
}
