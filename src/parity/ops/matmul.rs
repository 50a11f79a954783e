//! Products, by element type, precision, shape and order in memory.

use crate::base::dtype::DType;
use crate::batch::{GpuCommandBatch, Tensor};
use crate::device::Device;
use crate::ops::{Op, Precision, Tolerance};
use crate::parity::compare::check;
use crate::parity::sample::{FromNumber, Rng, for_dtype, values};

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
                        batch.record::<T>(Op::MatMul(Precision::Exact), &[x.value(), w.value()]);
                    });
                });
            }
        }
    }
}

/// Later runs find panels of weights that did not change, and may take other ways than the first.
#[tokio::test]
async fn each_run_gives_the_same_bits() {
    let mut rng = Rng::new(6);
    let device = Device::cpu();
    for m in [1, 2, 3, 8, 12, 13, 70, 130] {
        for [k, n] in [[30, 40], [300, 130], [1000, 33], [257, 1025]] {
            let x: Vec<f32> = values(&mut rng, m * k, (-3.0, 3.0));
            let w: Vec<f32> = values(&mut rng, k * n, (-3.0, 3.0));
            for transposed in [false, true] {
                let shape = if transposed { [n, k] } else { [k, n] };
                let resident = device.resident(&w, shape).unwrap();
                for is_resident in [false, true] {
                    let batch = GpuCommandBatch::new(&device);
                    let (x, w) = (batch.upload_shaped(&x, [m, k]), &w);
                    let w = match is_resident {
                        true => batch.bind(&resident),
                        false => batch.upload_shaped(w, shape),
                    };
                    let w = if transposed { w.transpose() } else { w };
                    // The first is nothing but sums, the second has an epilogue.
                    let results = [x.matmul(w), x.scale(0.5).matmul(w).relu()];
                    results.iter().for_each(|y| batch.download(y.id()));
                    let mut first = Vec::new();
                    for run in 0..3 {
                        batch.execute().await.unwrap();
                        let mut bits = Vec::new();
                        for y in results {
                            bits.extend(batch.read(y).await.unwrap().into_iter().map(f32::to_bits));
                        }
                        if run == 0 {
                            first = bits;
                        } else {
                            let what = format!("{m} {n} {k} {transposed} {is_resident}");
                            assert!(bits == first, "{what}: run {run} differs");
                        }
                    }
                }
            }
        }
    }
}

/// These products run on matrix units if there are any.
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
                    batch.record::<f32>(product, &[x.value(), w.value()]).relu();
                });
            }
        }
    }
}

/// A tensor of `shape`, which lies in memory with its last two axes swapped if `transposed`.
fn stored<'b, T: FromNumber>(
    batch: &'b GpuCommandBatch,
    data: &[T],
    shape: &[usize],
    transposed: bool,
) -> Tensor<'b, T> {
    if !transposed || shape.len() < 2 {
        return batch.upload_shaped(data, shape);
    }
    let mut swapped = shape.to_vec();
    let last = swapped.len() - 1;
    swapped.swap(last, last - 1);
    batch.upload_shaped(data, swapped).transpose()
}
