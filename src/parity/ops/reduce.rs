//! Reductions, by element type, shape and axes.

use crate::base::dtype::DType;
use crate::batch::Tensor;
use crate::ops::{Op, Reduction, Tolerance};
use crate::parity::compare::check;
use crate::parity::sample::{FromNumber, Rng, for_dtype, values};

/// Shapes and the axes to reduce: short and long rows, columns, both ends, all, none, one element.
const REDUCED: [(&[usize], &[usize]); 12] = [
    (&[1000], &[0]),
    (&[70_001], &[0]),
    (&[37, 129], &[1]),
    (&[129, 37], &[0]),
    (&[3, 4, 5, 6], &[0, 2]),
    (&[3, 4, 5, 6], &[1, 3]),
    (&[3, 4, 5], &[0, 1, 2]),
    (&[4, 5], &[]),
    (&[1, 1], &[0]),
    (&[2000, 3], &[1]),
    (&[3, 9000], &[0]),
    (&[2, 30_000], &[1]),
];

#[test]
fn every_reduction_by_type_shape_and_axes() {
    let mut rng = Rng::new(3);
    for op in Reduction::ALL {
        for dtype in DType::ALL.into_iter().filter(|&dtype| op.accepts().dtype(dtype)) {
            for (shape, axes) in REDUCED {
                for_dtype!(dtype, T => {
                    let n = shape.iter().product();
                    let data: Vec<T> = reduce_data(&mut rng, op, n);
                    let what = format!("{} {dtype} {shape:?} over {axes:?}", op.name());
                    let keep = rng.below(2) == 0;
                    check(&what, sum_tolerance(op, dtype, n), |batch| {
                        let x = batch.upload_shaped(&data, shape);
                        reduce::<T>(op, x, axes, keep);
                    });
                });
            }
        }
    }
}

#[test]
fn reductions_of_nan_and_infinity() {
    let inf = f32::INFINITY;
    let rows: [[f32; 5]; 8] = [
        [1.0, f32::NAN, 3.0, 2.0, f32::NAN],
        [inf, 1.0, -inf, 0.0, 2.0],
        [-inf, -inf, -inf, -inf, -inf],
        [inf, inf, 0.0, -0.0, 1.0],
        [-0.0, 0.0, -0.0, 0.0, -0.0],
        [1e34, 1e34, 1e34, 1e34, -1e34],
        [2.0, 2.0, 2.0, 2.0, 2.0],
        [-inf, f32::NAN, inf, 1.0, 5.0],
    ];
    for op in Reduction::ALL.into_iter().filter(|op| op.accepts().dtype(DType::F32)) {
        for repeat in [1, 700] {
            // The squares of 1e34 leave the range of `f32`, as they would in NumPy.
            let tame = |x: f32| if op == Reduction::Norm { x.clamp(-1e15, 1e15) } else { x };
            let tame = |x: f32| if x.is_finite() { tame(x) } else { x };
            let data: Vec<f32> = rows.iter().flat_map(|row| row.repeat(repeat)).map(tame).collect();
            check(
                &format!("{} at the edges", op.name()),
                Tolerance { ulp: 8.0, abs: 1e-36 },
                |batch| {
                    let x = batch.upload_shaped(&data, [rows.len(), 5 * repeat]);
                    reduce::<f32>(op, x, &[1], false);
                    let x = batch.transpose(x);
                    reduce::<f32>(op, x, &[0], false);
                },
            );
        }
    }
}

/// Products near 1, so that they stay in range; few truths, so that `any` and `all` vary.
fn reduce_data<T: FromNumber>(rng: &mut Rng, op: Reduction, n: usize) -> Vec<T> {
    match op {
        Reduction::Prod if T::DTYPE.is_float() => values(rng, n, (0.99, 1.01)),
        Reduction::Any => (0..n).map(|_| T::from_number(f64::from(rng.below(40) == 0))).collect(),
        Reduction::All => (0..n).map(|_| T::from_number(f64::from(rng.below(40) != 0))).collect(),
        _ => values(rng, n, (-5.0, 5.0)),
    }
}

fn sum_tolerance(op: Reduction, dtype: DType, n: usize) -> Tolerance {
    let Tolerance { ulp, abs } = op.def().tolerance;
    let root = (n as f64).sqrt();
    // In `f16`, the interpreter's operands are those of the kernel; only the result is rounded.
    let abs = if dtype.is_float() { abs * root } else { 0.0 };
    Tolerance { ulp: ulp * root, abs }
}

fn reduce<T: FromNumber>(op: Reduction, x: Tensor<'_, T>, axes: &[usize], keep: bool) {
    let op = Op::Reduce { op, axes: axes.into(), keep };
    if let Op::Reduce { op: Reduction::Argmax | Reduction::Argmin, .. } = op {
        x.apply::<u32>(op);
    } else {
        x.apply::<T>(op);
    }
}
