//! Softmax and norms, by element type, shape and axis.

use crate::base::dtype::{DType, Scalar};
use crate::ops::{Normalization, Op, RowKind, Tolerance};
use crate::parity::compare::check;
use crate::parity::sample::{Rng, for_dtype, values};

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
                    check(&what, kind.def().tolerance, |batch| {
                        let x = batch.upload_shaped(&data, shape);
                        let op = Op::Row { op: kind.with(Scalar::new(DType::F32, 1e-5)), axis };
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
            // The variance of 1e30 leaves the range of `f32` on a GPU, as it would in NumPy.
            let has_variance = kind == RowKind::LayerNorm;
            let data: Vec<f32> = data
                .iter()
                .map(|&x| if has_variance && x.abs() == 1e30 { 1e15 } else { x })
                .collect();
            // If all elements are equal, the rounding of the mean is what there is to divide by √ε.
            let tolerance = Tolerance { abs: 1e-4, ..kind.def().tolerance };
            check(&format!("{} at the edges", kind.name()), tolerance, |batch| {
                let x = batch.upload_shaped(&data, [6, 4 * repeat]);
                let op = Op::Row { op: kind.with(Scalar::new(DType::F32, 1e-5)), axis: 1 };
                x.apply::<f32>(op);
            });
        }
    }
}

/// Rows whose squares are no `f32`: both sides divide by the norm that the exact squares have.
#[test]
fn norms_at_the_ends_of_f32() {
    let rows = [
        [f32::MAX, -f32::MAX, 1.0, 0.0],
        [f32::MAX, f32::MAX, f32::MAX, f32::MAX],
        [1e30, -2e30, 3e19, 1e-30],
        [4e12, -5e12, 1e12, 0.0],
        [1.0, -3.0, 1e-20, 0.5],
        [1e-20, -3e-20, 2e-20, 0.0],
        [1e-30, -3e-30, 2e-30, 0.0],
    ];
    for epsilon in [0.0, 1e-5] {
        let epsilon = Scalar::new(DType::F32, epsilon);
        for op in [Normalization::RmsNorm(epsilon), Normalization::L2Normalize(epsilon)] {
            for repeat in [1, 90, 1100, 5000] {
                let data: Vec<f32> = rows.iter().flat_map(|row| row.repeat(repeat)).collect();
                let what = format!("{} of {} at the ends of f32", op.name(), 4 * repeat);
                check(&what, op.kind().def().tolerance, |batch| {
                    let x = batch.upload_shaped(&data, [rows.len(), 4 * repeat]);
                    let op = Op::Row { op, axis: 1 };
                    x.apply::<f32>(op);
                });
            }
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
                batch.upload_shaped(&x, [1, count]).layer_norm(-1, 1e-5);
            });
        }
    }
}
