//! Windows that the cores lay out once and combine by one loop: borders, phases, blocks, repeated images, and the
//! operations around them.

use onetrip::{Conv1d, Conv2d, Device, GpuCommandBatch, Numeric, Pool1d, Pool2d, Tensor, f16};

use crate::float64::places;
use crate::{Rng, near, run};

/// A convolution of filters of one channel each, and the sums of sizes, in double precision.
pub fn depthwise(
    [images, channels, h, w]: [usize; 4],
    times: usize,
    [kh, kw]: [usize; 2],
    conv: &Conv2d,
    x: &[f32],
    filters: &[f32],
) -> (Vec<f64>, f64) {
    let along = |axis: usize, len: usize, size: usize| {
        places([len, size, conv.stride[axis], conv.dilation[axis]], conv.padding[axis])
    };
    let (rows, columns) = (along(0, h, kh), along(1, w, kw));
    let (mut sums, mut largest) = (Vec::new(), 1.0_f64);
    for (image, filter) in
        (0..images).flat_map(|n| (0..channels * times).map(move |f| (n * channels + f / times, f)))
    {
        for row in &rows {
            for column in &columns {
                let (mut sum, mut size) = (0.0, 0.0);
                for (i, &r) in row.iter().enumerate() {
                    for (j, &c) in column.iter().enumerate() {
                        let (Some(r), Some(c)) = (r, c) else { continue };
                        let x = f64::from(x[(image * h + r) * w + c]);
                        let product = x * f64::from(filters[(filter * kh + i) * kw + j]);
                        (sum, size) = (sum + product, size + product.abs());
                    }
                }
                sums.push(sum);
                largest = largest.max(size);
            }
        }
    }
    (sums, largest)
}

fn explained(record: impl FnOnce(&GpuCommandBatch) -> Tensor<'_, f32>) -> String {
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch).download();
    batch.explain().expect("a plan").to_string()
}

#[tokio::test]
async fn filters_of_one_channel_of_any_kind() {
    let (cpu, mut rng) = (Device::cpu(), Rng(21));
    for case in 0..80 {
        let [kh, kw] = [0; 2].map(|_| 1 + rng.below(6));
        let pick = |rng: &mut Rng, end: usize| [1 + rng.below(end), 1 + rng.below(end)];
        let conv = Conv2d {
            stride: pick(&mut rng, 4),
            dilation: pick(&mut rng, 3),
            padding: [0; 2].map(|_| (rng.below(5), rng.below(5))),
            groups: 1 + rng.below(4),
            ..Conv2d::default()
        };
        let reach = [(kh - 1) * conv.dilation[0] + 1, (kw - 1) * conv.dilation[1] + 1];
        let [h, w] = [0, 1].map(|axis| {
            let padded = conv.padding[axis].0 + conv.padding[axis].1;
            (reach[axis].saturating_sub(padded)).max(1) + rng.below([3, 40][case % 2])
        });
        let (images, times) = (1 + rng.below(3), 1 + rng.below(4));
        let dims = [images, conv.groups, h, w];
        let filters = conv.groups * times;
        let (x, weights) = (rng.numbers(dims.iter().product()), rng.numbers(filters * kh * kw));
        let (want, largest) = depthwise(dims, times, [kh, kw], &conv, &x, &weights);
        let (_, got, kernels) = run(&cpu, |b| {
            let weights = b.upload_shaped(&weights, [filters, 1, kh, kw]);
            b.upload_shaped(&x, dims).conv2d(weights, None, conv)
        })
        .await;
        let what = format!("{conv:?} of {dims:?}, {kh} × {kw}, {times} times");
        near(&what, &got, &want, 1e-6 * largest);
        assert!(kernels <= 1 + u64::from(kh * kw == 1), "{what}: {kernels} kernels");
    }
}

#[tokio::test]
async fn images_are_cut_into_blocks() {
    let (cpu, mut rng) = (Device::cpu(), Rng(22));
    let conv = Conv2d { padding: [(2, 1), (1, 3)], groups: 2, ..Conv2d::default() };
    for (dims, stride) in [([1, 2, 301, 217], 1), ([3, 2, 130, 259], 2), ([1, 2, 3, 20_001], 3)] {
        let conv = Conv2d { stride: [stride; 2], ..conv };
        let (x, weights) = (rng.numbers(dims.iter().product()), rng.numbers(2 * 3 * 4));
        let (want, largest) = depthwise(dims, 1, [3, 4], &conv, &x, &weights);
        let (_, got, _) = run(&cpu, |b| {
            let weights = b.upload_shaped(&weights, [2, 1, 3, 4]);
            b.upload_shaped(&x, dims).conv2d(weights, None, conv)
        })
        .await;
        near(&format!("{dims:?}"), &got, &want, 1e-6 * largest);
    }
    for stride in [1, 2, 5] {
        let (x, weights) = (rng.numbers(2 * 100_003), rng.numbers(2 * 9));
        let conv = Conv2d {
            stride: [1, stride],
            padding: [(0, 0), (4, 3)],
            dilation: [1, 2],
            groups: 2,
            ..Conv2d::default()
        };
        let (want, largest) = depthwise([1, 2, 1, 100_003], 1, [1, 9], &conv, &x, &weights);
        let line = Conv1d {
            stride: [stride],
            padding: [(4, 3)],
            dilation: [2],
            groups: 2,
            ..Conv1d::default()
        };
        let (_, got, _) = run(&cpu, |b| {
            let weights = b.upload_shaped(&weights, [2, 1, 9]);
            b.upload_shaped(&x, [1, 2, 100_003]).conv1d(weights, None, line)
        })
        .await;
        near(&format!("along one axis by {stride}"), &got, &want, 1e-6 * largest);
    }
}

/// The greatest of some numbers by their order, in which −0 comes before 0, and NaN is greater than all.
fn greatest(x: impl Iterator<Item = f32>) -> f32 {
    x.fold(f32::NEG_INFINITY, |most, x| {
        if most.is_nan() || most.total_cmp(&x).is_ge() && !x.is_nan() { most } else { x }
    })
}

#[tokio::test]
async fn zeros_infinities_and_nan_in_windows() {
    const SPECIAL: [f32; 6] = [f32::NAN, f32::INFINITY, f32::NEG_INFINITY, -0.0, 0.0, -f32::NAN];
    let (cpu, mut rng) = (Device::cpu(), Rng(23));
    for (size, step, dilation, padding) in [
        (3, 1, 1, (1, 1)),
        (3, 2, 1, (1, 0)),
        (2, 2, 1, (0, 0)),
        (4, 3, 2, (2, 2)),
        (13, 1, 1, (6, 6)),
    ] {
        let len = 257;
        let signed_zeros = |rng: &mut Rng| [-0.0, 0.0, -1.0][rng.below(3)];
        let x: Vec<f32> = (0..3 * len)
            .map(|at| match (at / len, rng.below(9)) {
                (0, 0) => SPECIAL[rng.below(6)],
                (1, _) => signed_zeros(&mut rng),
                _ => rng.numbers(1)[0],
            })
            .collect();
        let windows = places([len, size, step, dilation], padding);
        let combined = |sign: f32| -> Vec<f32> {
            let row = |row: &[f32]| -> Vec<f32> {
                let of = |window: &Vec<Option<usize>>| {
                    greatest(window.iter().flatten().map(|&at| sign * row[at]))
                };
                windows.iter().map(|window| sign * of(window)).collect()
            };
            x.chunks(len).flat_map(row).collect()
        };
        let same = |got: &[f32], want: &[f32], what: &str| {
            assert_eq!(got.len(), want.len(), "{what}");
            for (at, (got, want)) in got.iter().zip(want).enumerate() {
                let fits = got.to_bits() == want.to_bits() || (got.is_nan() && want.is_nan());
                assert!(fits, "{what}, windows of {size} by {step}: {got} for {want} at {at}");
            }
        };
        let pool = Pool1d {
            stride: Some([step]),
            padding: [padding],
            dilation: [dilation],
            ..Pool1d::new([size])
        };
        let (_, got, _) = run(&cpu, |b| b.max_pool1d(b.upload_shaped(&x, [3, len]), pool)).await;
        same(&got, &combined(1.0), "greatest");
        if padding == (0, 0) {
            let least = |b: &GpuCommandBatch| {
                b.upload_shaped(&x, [3, len]).unfold(1, size, step).amin(-1).id()
            };
            let b = GpuCommandBatch::new(&cpu);
            let least = least(&b);
            b.execute().await.unwrap();
            same(&b.read(least).await.unwrap(), &combined(-1.0), "least");
        }
    }
}

#[tokio::test]
async fn large_windows_overlap() {
    let (cpu, mut rng) = (Device::cpu(), Rng(24));
    let [h, w] = [61, 83];
    let x = rng.numbers(2 * h * w);
    for (size, step) in [([13, 13], [1, 1]), ([40, 7], [3, 1]), ([8, 8], [8, 8]), ([61, 2], [1, 2])]
    {
        let pool = Pool2d { stride: Some(step), ..Pool2d::new(size) };
        let [rows, columns] =
            [0, 1].map(|axis| places([[h, w][axis], size[axis], step[axis], 1], (0, 0)));
        let (mut most, mut means) = (Vec::new(), Vec::new());
        for image in x.chunks(h * w) {
            for row in &rows {
                for column in &columns {
                    let all = row
                        .iter()
                        .flatten()
                        .flat_map(|r| column.iter().flatten().map(move |c| r * w + c));
                    let all: Vec<f64> = all.map(|at| f64::from(image[at])).collect();
                    most.push(all.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                    means.push(all.iter().sum::<f64>() / all.len() as f64);
                }
            }
        }
        let image = [2, h, w];
        let (_, got, _) = run(&cpu, |b| b.upload_shaped(&x, image).max_pool2d(pool)).await;
        near(&format!("greatest of {size:?}"), &got, &most, 0.0);
        let (_, got, _) = run(&cpu, |b| b.upload_shaped(&x, image).avg_pool2d(pool)).await;
        near(&format!("means of {size:?}"), &got, &means, 1e-6);
    }
}

#[tokio::test]
async fn operations_around_windows_and_views_of_images() {
    let (cpu, mut rng) = (Device::cpu(), Rng(25));
    let [c, h, w] = [3, 19, 23];
    let (x, weights) = (rng.numbers(c * h * w), rng.numbers(c * 9));
    let (rest, bias) = (rng.numbers(c * h * w), rng.numbers(c));
    let conv = Conv2d { padding: [(1, 1); 2], groups: c, ..Conv2d::default() };
    // The image is stored with its axes turned, and each element is scaled.
    let turned: Vec<f32> =
        (0..w * c * h).map(|at| x[(at / h % c * h + at % h) * w + at / (c * h)]).collect();
    let scaled: Vec<f32> = x.iter().map(|x| x.tanh()).collect();
    let (sums, _) = depthwise([1, c, h, w], 1, [3, 3], &conv, &scaled, &weights);
    let want = sums
        .iter()
        .enumerate()
        .map(|(at, sum)| (sum + f64::from(bias[at / (h * w)]) + f64::from(rest[at])).max(0.0));
    let want: Vec<f64> = want.collect();
    let record = |b: &GpuCommandBatch| {
        let x = b.upload_shaped(&turned, [w, c, h]).permute([1, 2, 0]).reshape([1, c, h, w]).tanh();
        let y = x.conv2d(b.upload_shaped(&weights, [c, 1, 3, 3]), b.upload(&bias), conv);
        (y + b.upload_shaped(&rest, [1, c, h, w])).relu().id()
    };
    let b = GpuCommandBatch::new(&cpu);
    let y = record(&b);
    b.execute().await.unwrap();
    near("around", &b.read(y).await.unwrap(), &want, 1e-5);
}

/// Products of integers wrap, and halves are added up in single precision.
#[tokio::test]
async fn integers_and_halves() {
    async fn convolved<T: Numeric>(x: &[T], weights: &[T]) -> Vec<T> {
        let b = GpuCommandBatch::new(&Device::cpu());
        let conv = Conv1d { padding: [(1, 1)], groups: 2, ..Conv1d::default() };
        let y = b
            .upload_shaped(x, [2, 2, 5])
            .conv1d(b.upload_shaped(weights, [2, 1, 3]), None, conv)
            .id();
        b.execute().await.unwrap();
        b.read(y).await.unwrap()
    }
    let numbers: Vec<i32> = (0..20_i32).map(|i| i.wrapping_mul(123_456_789)).collect();
    let weights = [3, -5, 7, i32::MAX, 2, -1];
    let x =
        |row: usize, at: i32| if (0..5).contains(&at) { numbers[row * 5 + at as usize] } else { 0 };
    let want: Vec<i32> = (0..20)
        .map(|at| {
            let term = |i: i32| {
                x(at / 5, at as i32 % 5 + i - 1).wrapping_mul(weights[at / 5 % 2 * 3 + i as usize])
            };
            term(0).wrapping_add(term(1)).wrapping_add(term(2))
        })
        .collect();
    assert_eq!(convolved(&numbers, &weights).await, want);
    let halves: Vec<f16> = (0..20).map(|i| f16::from_f32(i as f32 - 8.0)).collect();
    let ones = [f16::from_f32(1.0); 6];
    let sum = |at: i32| {
        (0..3)
            .map(|i| at % 5 + i - 1)
            .filter(|p| (0..5).contains(p))
            .map(|p| (at / 5 * 5 + p - 8) as f32)
            .sum::<f32>()
    };
    let want: Vec<f16> = (0..20).map(|at| f16::from_f32(sum(at))).collect();
    assert_eq!(convolved(&halves, &ones).await, want);
}

#[tokio::test]
async fn a_plan_names_sliding_windows_and_rows_stay_rows() {
    let slides = |text: &str| text.contains("(reduce, sliding windows)");
    let pool = Pool2d { stride: Some([2; 2]), padding: [(1, 1); 2], ..Pool2d::new([3, 3]) };
    let image = || vec![1.0_f32; 2 * 9 * 9];
    for page in [
        explained(|b| b.upload_shaped(image(), [1, 2, 9, 9]).max_pool2d(pool)),
        explained(|b| b.upload_shaped(image(), [1, 2, 9, 9]).avg_pool2d(pool)),
        explained(|b| b.upload_shaped(image(), [18, 9]).unfold(1, 3, 1).sum(-1)),
    ] {
        assert!(slides(&page) && page.contains("1 kernel,"), "{page}");
    }
    let rows = explained(|b| b.upload_shaped(image(), [18, 9]).sum(1));
    assert!(rows.contains("(reduce, short rows)"), "{rows}");
    for page in [
        explained(|b| b.upload_shaped(image(), [1, 2, 9, 9]).global_avg_pool()),
        explained(|b| b.upload_shaped(image(), [18, 9]).sum(0)),
        explained(|b| b.upload_shaped(image(), [2, 81]).amax(1)),
        explained(|b| b.upload_shaped(image(), [2, 9, 9]).sum(1)),
    ] {
        assert!(!slides(&page), "{page}");
    }
}
