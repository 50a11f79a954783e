//! Scans, by element type, shape and axis.

use crate::base::dtype::DType;
use crate::ops::{Op, Scan, Tolerance};
use crate::parity::compare::{EXACT, check};
use crate::parity::sample::{Rng, for_dtype, values};

#[test]
fn every_scan_by_type_shape_and_axis() {
    let mut rng = Rng::new(9);
    let shapes: [(&[usize], usize); 12] = [
        (&[1], 0),
        (&[5, 7], 1),
        (&[5, 7], 0),
        (&[0, 3], 0),
        (&[3, 0], 0),
        (&[3, 300], 1),
        (&[300, 3], 0),
        (&[2, 3, 4], 1),
        (&[70_001], 0),
        (&[2, 30_000], 1),
        (&[9000, 3], 0),
        (&[2, 400, 50], 1),
    ];
    for op in Scan::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| op.accepts().dtype(dtype)) {
            for (shape, axis) in shapes {
                for_dtype!(dtype, T => {
                    let count = shape.iter().product();
                    let data: Vec<T> = match op {
                        Scan::Prod if dtype.is_float() => values(&mut rng, count, (0.99, 1.01)),
                        _ => values(&mut rng, count, (-5.0, 5.0)),
                    };
                    let what = format!("{} {dtype} {shape:?} along {axis}", op.name());
                    let root = (shape[axis] as f64).sqrt();
                    let Tolerance { ulp, abs } = op.def().tolerance;
                    let tolerance = Tolerance { ulp: ulp * root, abs: abs * root };
                    check(&what, tolerance, |batch| {
                        batch.upload_shaped(&data, shape).apply::<T>(Op::Scan { op, axis });
                    });
                });
            }
        }
    }
}

/// NaN stays from where it first is, infinities cancel to NaN.
#[test]
fn scans_of_nan_and_infinity() {
    let inf = f32::INFINITY;
    let row = [0.0, -0.0, 1.0, inf, 2.0, -inf, 3.0, f32::NAN, 4.0, -inf, inf, 0.5];
    for (op, repeat) in Scan::ALL.into_iter().flat_map(|op| [(op, 1), (op, 2000)]) {
        let mut data = vec![1.0; 12 * repeat];
        data[7 * repeat..][..12.min(5 * repeat)].copy_from_slice(&row[..12.min(5 * repeat)]);
        if repeat == 1 {
            data.copy_from_slice(&row);
        }
        check(&format!("{} at the edges", op.name()), EXACT, |batch| {
            batch.upload_shaped(&data, [1, 12 * repeat]).apply::<f32>(Op::Scan { op, axis: 1 });
        });
    }
}

#[test]
fn scans_between_other_operations() {
    let mut rng = Rng::new(10);
    let data: Vec<f32> = values(&mut rng, 4 * 90 * 6, (-2.0, 2.0));
    check("scans in a graph", Tolerance { ulp: 64.0, abs: 2e-6 }, |batch| {
        let x = batch.upload_shaped(&data, [4, 90, 6]);
        let turned = batch.square(x).cumsum(1).sqrt().permute([2, 0, 1]);
        batch.cummax(turned, -1).mul(turned);
        batch.flip(x, 1).cumsum(1).flip(1);
        batch.cumprod(x, 2);
    });
}
