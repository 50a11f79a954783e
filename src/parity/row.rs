//! Softmax and norms, by element type, shape and axis.

use super::compare::check;
use super::sample::{Rng, for_dtype, values};
use crate::base::dtype::{DType, Scalar};
use crate::ops::{Normalization, Op, RowKind, Tolerance};

#[test]
fn every_row_operation_by_type_shape_and_axis() {
    let mut rng = Rng::new(4);
    let shapes: [(&[usize], usize); 10] = [
        (&[5, 7], 1),
        (&[5, 7], 0),
        (&[3, 300], 1),
        (&[300, 3], 0),
        (&[2, 5000], 1),
        (&[2, 3, 4], 1),
        (&[1], 0),
        (&[6, 1], 1),
        (&[0, 3], 1),
        (&[40, 4096], 1),
    ];
    for kind in RowKind::ALL {
        for dtype in [DType::F32, DType::F16] {
            for (shape, axis) in shapes {
                for_dtype!(dtype, T => {
                    let data: Vec<T> = values(&mut rng, shape.iter().product(), (-4.0, 4.0));
                    let what = format!("{} {dtype} {shape:?} along {axis}", kind.name());
                    check(&what, kind.tolerance(), |batch| {
                        let x = batch.upload_shaped(&data, shape);
                        let op = Op::Row { op: normalization(kind), axis };
                        x.apply::<T>(op);
                    });
                });
            }
        }
    }
}

#[test]
fn rows_of_nan_and_infinity() {
    let inf = f32::INFINITY;
    let data = [
        [1.0, f32::NAN, 3.0, 2.0],
        [1.0, -inf, 3.0, 2.0],
        [-inf, -inf, -inf, -inf],
        [1.0, inf, 2.0, 0.0],
        [1e30, -1e30, 0.0, 1.0],
        [2.0, 2.0, 2.0, 2.0],
    ];
    for kind in RowKind::ALL {
        for repeat in [1, 90, 1100] {
            let data: Vec<f32> = data.iter().flat_map(|row| row.repeat(repeat)).collect();
            // Squares of 1e30 leave the range of `f32`, as they would in NumPy.
            let data: Vec<f32> = data
                .iter()
                .map(|&x| if kind.has_epsilon() && x.abs() == 1e30 { 1e15 } else { x })
                .collect();
            // Where all are equal, the rounding of the mean is what there is to divide by √ε.
            let tolerance = Tolerance { abs: 1e-4, ..kind.tolerance() };
            check(&format!("{} at the edges", kind.name()), tolerance, |batch| {
                let x = batch.upload_shaped(&data, [6, 4 * repeat]);
                let op = Op::Row { op: normalization(kind), axis: 1 };
                x.apply::<f32>(op);
            });
        }
    }
}

/// Elements that differ by less than what rounding does to their mean.
#[test]
fn norms_of_nearly_equal_elements() {
    for row in [[-30_000.0, -29_999.998], [4096.0, 4096.0005], [0.1, 0.1], [100.0, 100.0]] {
        for count in [2, 1000, 4097] {
            let x: Vec<f32> = row.into_iter().cycle().take(count).collect();
            let tolerance = Tolerance { ulp: 8.0, abs: 1e-4 };
            check(&format!("layer_norm {row:?} × {count}"), tolerance, |batch| {
                let x = batch.upload_shaped(&x, [1, count]);
                batch.layer_norm(x, -1, 1e-5);
            });
        }
    }
}

fn normalization(kind: RowKind) -> Normalization {
    let epsilon = Scalar::new(DType::F32, 1e-5);
    match kind {
        RowKind::Softmax => Normalization::Softmax,
        RowKind::LogSoftmax => Normalization::LogSoftmax,
        RowKind::LayerNorm => Normalization::LayerNorm(epsilon),
        RowKind::RmsNorm => Normalization::RmsNorm(epsilon),
        RowKind::L2Normalize => Normalization::L2Normalize(epsilon),
    }
}
