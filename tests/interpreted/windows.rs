//! Windows over images: convolutions of each kind, and pooling.

use onetrip::{Conv2d, Device, GpuCommandBatch, Pool2d, Tensor};

use crate::float64::{near, places};
use crate::numbers;

/// Images: their number, channels, height and width.
type Dims = [usize; 4];

/// A convolution of `filters` of `[high, wide]`, in double precision, and the shape of its results.
fn convolved(x: (&[f64], Dims), w: (&[f32], [usize; 3]), conv: Conv2d) -> (Vec<f64>, Dims) {
    let ((x, [images, channels, height, width]), (w, [filters, high, wide])) = (x, w);
    let along = |axis: usize, len, size| {
        places([len, size, conv.stride[axis], conv.dilation[axis]], conv.padding[axis])
    };
    let (rows, columns) = (along(0, height, high), along(1, width, wide));
    let (own, per) = (channels / conv.groups, filters / conv.groups);
    let mut sums = Vec::new();
    for (image, filter) in (0..images).flat_map(|i| (0..filters).map(move |f| (i, f))) {
        for (row, column) in rows.iter().flat_map(|r| columns.iter().map(move |c| (r, c))) {
            let mut sum = 0.0;
            for channel in 0..own {
                let plane = image * channels + filter / per * own + channel;
                for (i, &r) in row.iter().enumerate() {
                    for (j, &c) in column.iter().enumerate() {
                        let (Some(r), Some(c)) = (r, c) else { continue };
                        let tap = w[((filter * own + channel) * high + i) * wide + j];
                        sum += x[(plane * height + r) * width + c] * f64::from(tap);
                    }
                }
            }
            sums.push(sum);
        }
    }
    (sums, [images, filters, rows.len(), columns.len()])
}

fn wide(numbers: &[f32]) -> Vec<f64> {
    numbers.iter().map(|&x| f64::from(x)).collect()
}

/// A convolution with `stride`, as many elements of border on each side, and `groups`.
fn conv(stride: usize, padding: usize, groups: usize) -> Conv2d {
    Conv2d { stride: [stride; 2], padding: [(padding, padding); 2], groups, ..Conv2d::default() }
}

/// Checks convolutions of residents with a bias and what follows, in several runs of one batch.
async fn check(cases: &[(Dims, [usize; 3], Conv2d, Vec<f32>)]) {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let mut all = Vec::new();
    for (dims, [filters, high, long], conv, xs) in cases {
        let own = dims[1] / conv.groups;
        let (ws, bias) = (numbers(filters * own * high * long, 2), numbers(*filters, 3));
        let w = device.resident(&ws, [*filters, own, *high, *long]).expect("a host with memory");
        let x = batch.upload_shaped(xs, *dims);
        let y = x.conv2d(&w, batch.upload(&bias), *conv).relu();
        let (sums, [_, _, down, along]) =
            convolved((&wide(xs), *dims), (&ws, [*filters, *high, *long]), *conv);
        let of_bias = |at: usize| f64::from(bias[at / (down * along) % filters]);
        let want: Vec<f64> =
            sums.iter().enumerate().map(|(at, sum)| (sum + of_bias(at)).max(0.0)).collect();
        all.push((format!("{dims:?} {filters} {high} {long} {conv:?}"), y, want));
    }
    check_runs(&batch, &all, 3, 1e-5).await;
}

/// Checks the results of several runs, each with the name of its case.
async fn check_runs(
    batch: &GpuCommandBatch,
    all: &[(String, Tensor<'_, f32>, Vec<f64>)],
    runs: usize,
    tolerance: f64,
) {
    for _ in 0..runs {
        batch.execute().await.expect("a host with memory");
        for (case, y, want) in all {
            near(case, &batch.read(*y).await.expect("a result"), want, tolerance);
        }
    }
}

/// The case of images of numbers without a pattern.
fn case(dims: Dims, filters: [usize; 3], conv: Conv2d) -> (Dims, [usize; 3], Conv2d, Vec<f32>) {
    (dims, filters, conv, numbers(dims.iter().product(), 1))
}

#[tokio::test]
async fn convolutions_of_several_channels() {
    check(&[
        case([2, 3, 6, 5], [5, 3, 3], conv(1, 1, 1)),
        case([1, 4, 7, 5], [6, 3, 2], conv(2, 1, 2)),
        case([2, 6, 3, 5], [9, 1, 1], conv(1, 0, 1)),
    ])
    .await;
}

/// The filters are transformed once. Where sums are infinite, they are added up without transforms.
#[tokio::test]
async fn convolutions_by_transforms() {
    let finite = case([1, 4, 7, 6], [5, 3, 3], conv(1, 1, 1));
    let mut infinite = finite.clone();
    infinite.3[50] = f32::INFINITY;
    check(&[finite, infinite]).await;
}

/// There is a loop for the windows of all but the last.
#[tokio::test]
async fn convolutions_of_single_channels() {
    check(&[
        case([2, 3, 5, 6], [3, 3, 3], conv(1, 1, 3)),
        case([1, 2, 7, 8], [2, 5, 5], conv(2, 2, 2)),
        case([1, 3, 6, 5], [6, 4, 3], conv(1, 2, 3)),
    ])
    .await;
}

/// Two products of single elements around depthwise windows: small images are stored channels last, and larger ones
/// are never stored as a whole.
#[tokio::test]
async fn depthwise_windows_between_products() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let mut all = Vec::new();
    // Images of a few rows, blocks of rows, and blocks of planes.
    for (dims, middle, conv) in [
        ([2, 2, 3, 4], 33, conv(1, 1, 33)),
        ([1, 2, 5, 9], 24, conv(1, 1, 24)),
        ([1, 1, 4, 5], 60, conv(2, 1, 60)),
    ] {
        let [_, channels, ..] = dims;
        let xs = numbers(dims.iter().product(), 1);
        let expand = numbers(middle * channels, 2);
        let windows = numbers(middle * 9, 3);
        let project = numbers(3 * middle, 4);
        let plain = Conv2d::default();
        let (sums, shape) = convolved((&wide(&xs), dims), (&expand, [middle, 1, 1]), plain);
        let sums: Vec<f64> = sums.iter().map(|sum| sum.clamp(-0.5, 1.5)).collect();
        let (sums, shape) = convolved((&sums, shape), (&windows, [middle, 3, 3]), conv);
        let sums: Vec<f64> = sums.iter().map(|sum| sum.max(0.0)).collect();
        let (want, _) = convolved((&sums, shape), (&project, [3, 1, 1]), plain);
        let filters = |numbers: &[f32], shape: Dims| device.resident(numbers, shape).unwrap();
        let expand = filters(&expand, [middle, channels, 1, 1]);
        let windows = filters(&windows, [middle, 1, 3, 3]);
        let project = filters(&project, [3, middle, 1, 1]);
        let y = batch.upload_shaped(&xs, dims).conv2d(&expand, None, plain).clip(-0.5, 1.5);
        let y = y.conv2d(&windows, None, conv).relu().conv2d(&project, None, plain);
        all.push((format!("{dims:?} {middle}"), y, want));
    }
    check_runs(&batch, &all, 2, 1e-4).await;
}

/// The greatest elements and the averages of windows.
#[tokio::test]
async fn pooling_of_any_window() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let dims @ [.., height, width] = [2, 2, 7, 9];
    let xs = numbers(dims.iter().product(), 1);
    let x = batch.upload_shaped(&xs, dims);
    let mut all = Vec::new();
    for (size, step, padding) in [(3, 2, 1), (2, 2, 0), (4, 3, 1)] {
        let pool = Pool2d {
            stride: Some([step; 2]),
            padding: [(padding, padding); 2],
            ..Pool2d::new([size; 2])
        };
        let along = |len| places([len, size, step, 1], (padding, padding));
        let (rows, columns) = (along(height), along(width));
        let (mut greatest, mut averages) = (Vec::new(), Vec::new());
        for plane in xs.chunks(height * width) {
            for (row, column) in rows.iter().flat_map(|r| columns.iter().map(move |c| (r, c))) {
                let inside = |(r, c): (Option<usize>, Option<usize>)| Some(plane[r? * width + c?]);
                let window = row.iter().flat_map(|&r| column.iter().map(move |&c| (r, c)));
                let window: Vec<f64> = window.filter_map(inside).map(f64::from).collect();
                greatest.push(window.iter().copied().fold(f64::NEG_INFINITY, f64::max));
                averages.push(window.iter().sum::<f64>() / (size * size) as f64);
            }
        }
        all.push((format!("greatest of {size}"), x.max_pool2d(pool), greatest));
        all.push((format!("average of {size}"), x.avg_pool2d(pool), averages));
    }
    check_runs(&batch, &all, 1, 1e-6).await;
}
