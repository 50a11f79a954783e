//! Reductions, row operations, products and movement, by element type, shape and axes.

use half::f16;

use super::compare::check;
use super::sample::{FromNumber, Rng, edges, for_dtype, values};
use crate::batch::{BufferId, GpuCommandBatch};
use crate::dtype::{DType, Scalar};
use crate::graph::NodeId;
use crate::ops::{Normalization, Op, Precision, Reduction, RowKind, Scan, SortOrder, Tolerance};

const EXACT: Tolerance = Tolerance { ulp: 0.0, abs: 0.0 };

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
                        reduce::<T>(batch, op, x.node, axes, keep);
                    });
                });
            }
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
    let Tolerance { ulp, abs } = op.tolerance();
    let root = (n as f64).sqrt();
    // In `f16`, the interpreter's operands are those of the kernel; only the result is rounded.
    let abs = if dtype.is_float() { abs * root } else { 0.0 };
    Tolerance { ulp: ulp * root, abs }
}

fn reduce<T: FromNumber>(
    batch: &mut GpuCommandBatch,
    op: Reduction,
    x: NodeId,
    axes: &[usize],
    keep: bool,
) {
    let op = Op::Reduce { op, axes: axes.into(), keep };
    if let Op::Reduce { op: Reduction::Argmax | Reduction::Argmin, .. } = op {
        let _: BufferId<u32> = batch.record(op, &[Ok(x)]);
    } else {
        let _: BufferId<T> = batch.record(op, &[Ok(x)]);
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
                    reduce::<f32>(batch, op, x.node, &[1], false);
                    let x = batch.transpose(x);
                    reduce::<f32>(batch, op, x.node, &[0], false);
                },
            );
        }
    }
}

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
                        let _: BufferId<T> = batch.record(op, &[Ok(x.node)]);
                    });
                });
            }
        }
    }
}

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
                    let Tolerance { ulp, abs } = op.tolerance();
                    let tolerance = Tolerance { ulp: ulp * root, abs: abs * root };
                    check(&what, tolerance, |batch| {
                        let x = batch.upload_shaped(&data, shape);
                        let _: BufferId<T> = batch.record(Op::Scan { op, axis }, &[Ok(x.node)]);
                    });
                });
            }
        }
    }
}

#[test]
fn scans_between_other_operations() {
    let mut rng = Rng::new(10);
    let data: Vec<f32> = values(&mut rng, 4 * 90 * 6, (-2.0, 2.0));
    check("scans in a graph", Tolerance { ulp: 64.0, abs: 2e-6 }, |batch| {
        let x = batch.upload_shaped(&data, [4, 90, 6]);
        let squares = batch.square(x);
        let sums = batch.cumsum(squares, 1);
        let roots = batch.sqrt(sums);
        let turned = batch.permute(roots, [2, 0, 1]);
        let most = batch.cummax(turned, -1);
        batch.mul(most, turned);
        let back = batch.flip(x, 1);
        let back = batch.cumsum(back, 1);
        batch.flip(back, 1);
        batch.cumprod(x, 2);
    });
}

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
                    let x = batch.upload_shaped(&data, shape);
                    let turned = batch.flip(x, at);
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
        let x = batch.upload_shaped(&data, [6, 90, 4]);
        let sizes = batch.abs(x);
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
        let halves = batch.mul(halves, halves);
        let halves = batch.sort(halves, 0, SortOrder::Ascending);
        batch.download(at);
        batch.download(doubled);
        for id in [sums, values, best, both] {
            batch.download(id);
        }
        batch.download(halves);
    });
}

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
        let turned = batch.transpose(noise);
        let turned = batch.flip(turned, 1);
        let sum = batch.add(x, turned);
        let sums = batch.cumsum(sum, 0);
        let padded = batch.pad(noise, [(1, 2), (0, 3)], 0.5);
        batch.mean(padded, 1);
        let w = batch.random_uniform::<f32>([30, 8], 7, 3);
        let product = batch.matmul(sums, w);
        let dropped = batch.dropout(product, 0.5, 7, 4);
        batch.relu(dropped);
        let row = batch.random_uniform::<f32>([30], 7, 5);
        batch.mul(x, row);
        let folded = batch.reshape(noise, [6, 120]);
        batch.softmax(folded, -1);
    });
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
            let x = batch.upload_shaped(&data, [1, 12 * repeat]);
            let _: BufferId<f32> = batch.record(Op::Scan { op, axis: 1 }, &[Ok(x.node)]);
        });
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
                let _: BufferId<f32> = batch.record(op, &[Ok(x.node)]);
            });
        }
    }
}

/// Shapes of x and w, and whether each is stored transposed.
const PRODUCTS: [(&[usize], &[usize]); 18] = [
    (&[5], &[5]),
    (&[5], &[5, 3]),
    (&[4, 5], &[5]),
    (&[4, 5], &[5, 3]),
    (&[1, 1], &[1, 1]),
    (&[64, 64], &[64, 64]),
    (&[65, 33], &[33, 129]),
    (&[1, 300], &[300, 70]),
    (&[130, 7], &[7, 1]),
    (&[16, 100], &[100, 200]),
    (&[3, 4, 5], &[5, 6]),
    (&[2, 1, 4, 5], &[3, 5, 2]),
    (&[3, 4, 5], &[5]),
    (&[5], &[3, 5, 2]),
    (&[4, 0], &[0, 3]),
    (&[0, 4], &[4, 3]),
    (&[200, 150], &[150, 140]),
    (&[1, 1000], &[1000, 1]),
];

#[test]
fn products_by_type_shape_and_order() {
    let mut rng = Rng::new(5);
    for dtype in [DType::F32, DType::F16, DType::I32, DType::U32] {
        for (x_shape, w_shape) in PRODUCTS {
            for transposed in 0..4 {
                for_dtype!(dtype, T => {
                    let x: Vec<T> = values(&mut rng, x_shape.iter().product(), (-3.0, 3.0));
                    let w: Vec<T> = values(&mut rng, w_shape.iter().product(), (-3.0, 3.0));
                    let what = format!("matmul {dtype} {x_shape:?} {w_shape:?} order {transposed}");
                    let k = x_shape[x_shape.len() - 1] as f64;
                    let tolerance = Tolerance { ulp: 4.0, abs: 2e-8 * k + 1e-7 };
                    check(&what, tolerance, |batch| {
                        let x = stored::<T>(batch, &x, x_shape, transposed & 1 != 0);
                        let w = stored::<T>(batch, &w, w_shape, transposed & 2 != 0);
                        let _: BufferId<T> = batch.record(Op::MatMul(Precision::Exact), &[Ok(x), Ok(w)]);
                    });
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
                let x = batch.upload_shaped(&x, [1, count]);
                batch.layer_norm(x, -1, 1e-5);
            });
        }
    }
}

/// Wherever there are matrix units, these run on them.
#[test]
fn products_of_every_precision() {
    let shapes: [(&[usize], &[usize]); 7] = [
        (&[128, 64], &[64, 128]),
        (&[200, 150], &[150, 140]),
        (&[65, 333], &[333, 129]),
        (&[130, 7], &[7, 1]),
        (&[3, 20, 48], &[48, 72]),
        (&[64, 2000], &[2000, 64]),
        (&[9, 0], &[0, 3]),
    ];
    let mut rng = Rng::new(8);
    for (x_shape, w_shape) in shapes {
        for transposed in 0..4 {
            // Elements of any size keep their bits in two parts; rounded to f16, they must be in its range.
            for (precision, size, other) in [
                (Precision::Split, 1.0, 3.0),
                (Precision::Split, 1e-9, 3.0),
                (Precision::Split, 1e12, 3.0),
                (Precision::Split, 1e34, 1e-30),
                (Precision::Split, 1e-30, 1e34),
                (Precision::Half, 1.0, 3.0),
            ] {
                let x: Vec<f32> = values(&mut rng, x_shape.iter().product(), (-size, size));
                let w: Vec<f32> = values(&mut rng, w_shape.iter().product(), (-other, other));
                let what = format!("{precision:?} {x_shape:?} {w_shape:?} order {transposed}");
                let k = x_shape[x_shape.len() - 1] as f64;
                let abs = match precision {
                    Precision::Half => other * size * k.sqrt() * 2_f64.powi(-9),
                    Precision::Split | Precision::Exact => other * size * (4e-8 * k + 4e-7),
                };
                check(&what, Tolerance { ulp: 8.0, abs }, |batch| {
                    let x = stored::<f32>(batch, &x, x_shape, transposed & 1 != 0);
                    let w = stored::<f32>(batch, &w, w_shape, transposed & 2 != 0);
                    let product = Op::MatMul(precision);
                    let y: BufferId<f32> = batch.record(product, &[Ok(x), Ok(w)]);
                    batch.relu(y);
                });
            }
        }
    }
}

/// A tensor of `shape`, which lies in memory with its last two axes swapped if `transposed`.
fn stored<T: FromNumber>(
    batch: &mut GpuCommandBatch,
    data: &[T],
    shape: &[usize],
    transposed: bool,
) -> NodeId {
    if !transposed || shape.len() < 2 {
        return batch.upload_shaped(data, shape).node;
    }
    let mut swapped = shape.to_vec();
    let last = swapped.len() - 1;
    swapped.swap(last, last - 1);
    let x = batch.upload_shaped(data, swapped);
    batch.transpose(x).node
}

#[test]
fn movement_of_every_type() {
    let mut rng = Rng::new(6);
    for dtype in DType::ALL {
        for_dtype!(dtype, T => {
            let x: Vec<T> = values(&mut rng, 60, (-9.0, 9.0));
            let y: Vec<T> = values(&mut rng, 24, (-9.0, 9.0));
            let border = T::from_number(7.0);
            check(&format!("movement {dtype}"), EXACT, |batch| {
                let x = batch.upload_shaped(&x, [3, 4, 5]);
                let y = batch.upload_shaped(&y, [3, 4, 2]);
                let permuted = batch.permute(x, [2, 0, 1]);
                batch.reshape(permuted, [5, 12]);
                batch.reshape(permuted, [60]);
                let sliced = batch.slice(x, [(0..3, -1), (1..4, 2), (0..5, 3)]);
                batch.flip(sliced, [0, 2]);
                let joined = batch.concat(&[x, y, x], -1);
                batch.slice(joined, [(0..3, 1), (0..4, 1), (3..9, 2)]);
                let padded = batch.pad(x, [(1, 2), (0, 1), (3, 0)], border);
                let turned = batch.transpose(padded);
                batch.reshape(turned, [6 * 8, 5]);
                let row = batch.slice(x, [(1..2, 1), (0..4, 1), (4..5, 1)]);
                let row = batch.squeeze(row, 0);
                let row = batch.unsqueeze(row, 1);
                batch.broadcast_to(row, [2, 4, 6, 1]);
                batch.full([2, 3], border);
                batch.concat(&[y; 20], 1);
            });
        });
    }
    check("ranges", Tolerance { ulp: 2.0, abs: 0.0 }, |batch| {
        batch.arange(0_i32, 10, 3);
        batch.arange(5_u32, 1000, 1);
        batch.arange(1.0_f32, -1.0, -0.125);
        batch.arange(f16::from_f32(0.0), f16::from_f32(100.0), f16::from_f32(0.5));
        batch.arange(3_i32, 3, 1);
    });
}
