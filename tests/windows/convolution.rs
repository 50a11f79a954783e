//! Convolutions.

use onetrip::{Conv, Conv1d, Conv2d, Device};

use crate::{Rng, common, near, run};

/// A convolution's sizes: `[batch, channels, height, width]`, filters, and their height and width.
#[derive(Clone, Copy, Debug)]
pub struct Sizes {
    pub x: [usize; 4],
    pub filters: usize,
    pub window: [usize; 2],
}

impl Sizes {
    pub fn w(&self, conv: &Conv2d) -> [usize; 4] {
        [self.filters, self.x[1] / conv.groups, self.window[0], self.window[1]]
    }

    /// The number of windows along an axis.
    fn count(&self, conv: &Conv2d, axis: usize) -> usize {
        let reach = (self.window[axis] - 1) * conv.dilation[axis] + 1;
        let room = self.x[2 + axis] + conv.padding[axis].0 + conv.padding[axis].1;
        (room - reach) / conv.stride[axis] + 1
    }
}

/// The sums, and the sums of sizes, which errors are relative to.
pub fn convolved(
    conv: &Conv2d,
    sizes: &Sizes,
    x: &[f32],
    w: &[f32],
    bias: &[f32],
) -> Vec<(f64, f64)> {
    let [batch, channels, height, width] = sizes.x;
    let [filters, seen, rows, columns] = sizes.w(conv);
    let inside = |at: usize, i: usize, axis: usize| {
        let at = at * conv.stride[axis] + i * conv.dilation[axis];
        at.checked_sub(conv.padding[axis].0).filter(|&at| at < sizes.x[2 + axis])
    };
    let mut out = Vec::new();
    for n in 0..batch {
        for f in 0..filters {
            let first = f / (filters / conv.groups) * seen;
            for r in 0..sizes.count(conv, 0) {
                for c in 0..sizes.count(conv, 1) {
                    let mut sum =
                        bias.get(f).map_or((0.0, 0.0), |&b| (b.into(), f64::from(b).abs()));
                    for (s, i, j) in (0..seen).flat_map(|s| {
                        (0..rows).flat_map(move |i| (0..columns).map(move |j| (s, i, j)))
                    }) {
                        let (Some(y), Some(z)) = (inside(r, i, 0), inside(c, j, 1)) else {
                            continue;
                        };
                        let x = x[((n * channels + first + s) * height + y) * width + z];
                        let w = w[((f * seen + s) * rows + i) * columns + j];
                        let product = f64::from(x) * f64::from(w);
                        sum = (sum.0 + product, sum.1 + product.abs());
                    }
                    out.push(sum);
                }
            }
        }
    }
    out
}

fn random(rng: &mut Rng) -> (Conv2d, Sizes) {
    let window = [0; 2].map(|_| 1 + rng.below(4));
    let groups = [1, 1, 2, 3][rng.below(4)];
    let (seen, filters) = (1 + rng.below(5), groups * (1 + rng.below(13)));
    let conv = Conv2d {
        stride: [0; 2].map(|_| 1 + rng.below(3)),
        padding: [0; 2].map(|_| (rng.below(3), rng.below(3))),
        dilation: [0; 2].map(|_| 1 + rng.below(2)),
        groups,
        ..Conv2d::default()
    };
    let x = [1 + rng.below(3), groups * seen, 7 + rng.below(14), 7 + rng.below(14)];
    (conv, Sizes { x, filters, window })
}

async fn check(conv: Conv2d, sizes: Sizes, rng: &mut Rng, kernels: u64) {
    let w_shape = sizes.w(&conv);
    let x = rng.numbers(sizes.x.iter().product());
    let w = rng.numbers(w_shape.iter().product());
    let biases = [0, sizes.filters][rng.below(2)];
    let bias = rng.numbers(biases);
    let (want, scale): (Vec<f64>, Vec<f64>) =
        convolved(&conv, &sizes, &x, &w, &bias).into_iter().unzip();
    let largest = scale.into_iter().fold(1.0, f64::max);
    for device in &common::devices().await {
        let what = format!("{conv:?} of {sizes:?} on {}", device.info().name);
        let (dims, got, count) = run(device, |b| {
            let (x, w) = (b.upload_shaped(&x, sizes.x), b.upload_shaped(&w, w_shape));
            let bias = (!bias.is_empty()).then(|| b.upload(&bias).id());
            b.conv2d(x, w, bias, conv)
        })
        .await;
        // The cores pad first.
        let kernels = kernels + u64::from(!device.is_gpu());
        let [h, c] = [0, 1].map(|axis| sizes.count(&conv, axis));
        assert_eq!(dims, [sizes.x[0], sizes.filters, h, c], "{what}");
        near(&what, &got, &want, 1e-6 * largest);
        assert!(count <= kernels, "{what}: {count} kernels");
    }
}

#[tokio::test]
async fn random_convolutions() {
    let mut rng = Rng(11);
    for _ in 0..10 {
        let (conv, sizes) = random(&mut rng);
        check(conv, sizes, &mut rng, 3).await;
    }
}

#[tokio::test]
async fn filters_of_one_element_and_of_one_channel() {
    let mut rng = Rng(12);
    let sizes = Sizes { x: [2, 8, 9, 12], filters: 24, window: [1, 1] };
    check(Conv2d::default(), sizes, &mut rng, 1).await;
    check(Conv2d { stride: [2, 3], ..Conv2d::default() }, sizes, &mut rng, 1).await;
    check(Conv2d { groups: 4, padding: [(1, 1); 2], ..Conv2d::default() }, sizes, &mut rng, 2)
        .await;
    for filters in [8, 16] {
        let sizes = Sizes { filters, window: [3, 3], ..sizes };
        let conv = Conv2d { groups: 8, padding: [(1, 1); 2], ..Conv2d::default() };
        check(conv, sizes, &mut rng, 2).await;
    }
}

#[tokio::test]
async fn many_windows_of_one_channel() {
    let mut rng = Rng(15);
    let conv = Conv2d { groups: 3, padding: [(1, 1); 2], ..Conv2d::default() };
    let sizes = Sizes { x: [4, 3, 77, 75], filters: 3, window: [3, 3] };
    check(conv, sizes, &mut rng, 2).await;
    let steps = Conv2d { stride: [2, 1], padding: [(2, 0), (0, 3)], dilation: [1, 2], ..conv };
    check(steps, Sizes { window: [4, 2], filters: 6, ..sizes }, &mut rng, 2).await;
    let row = Conv2d { groups: 2, padding: [(0, 0), (2, 2)], ..Conv2d::default() };
    check(row, Sizes { x: [3, 2, 1, 3001], filters: 2, window: [1, 5] }, &mut rng, 2).await;
}

/// Some windows lie in the padding alone, and some axes have one window or filters of one element.
#[tokio::test]
async fn all_small_sizes() {
    let (mut rng, device) = (Rng(16), Device::cpu());
    let (x, w) = (rng.numbers(2 * 2 * 9), rng.numbers(2 * 2 * 4));
    let pairs = |first: &'static [usize], second: &'static [usize]| {
        first.iter().flat_map(move |&a| second.iter().map(move |&b| [a, b]))
    };
    let mut count = 0;
    for [height, width] in pairs(&[1, 2, 3], &[1, 2, 3]) {
        for (window, stride) in pairs(&[1, 2], &[1, 2])
            .flat_map(|window| pairs(&[1, 3], &[1, 2]).map(move |stride| (window, stride)))
        {
            for ([above, left], dilation) in pairs(&[0, 1, 2], &[0, 1, 2])
                .flat_map(|padding| pairs(&[1, 2], &[1]).map(move |by| (padding, by)))
            {
                let padding = [(above, count % 2), (left, count % 3 % 2)];
                let conv = Conv2d { stride, dilation, padding, ..Conv2d::default() };
                let sizes = Sizes { x: [1 + count % 2, 2, height, width], filters: 2, window };
                let fits = |axis: usize| {
                    let room = sizes.x[2 + axis] + padding[axis].0 + padding[axis].1;
                    room > (window[axis] - 1) * dilation[axis]
                };
                count += 1;
                if !(fits(0) && fits(1)) {
                    continue;
                }
                let (x, w_shape) = (&x[..sizes.x.iter().product()], sizes.w(&conv));
                let w = &w[..w_shape.iter().product()];
                let want = convolved(&conv, &sizes, x, w, &[]);
                let want: Vec<f64> = want.into_iter().map(|(sum, _)| sum).collect();
                let (_, got, _) = run(&device, |b| {
                    b.conv2d(b.upload_shaped(x, sizes.x), b.upload_shaped(w, w_shape), None, conv)
                })
                .await;
                near(&format!("{conv:?} of {sizes:?}"), &got, &want, 1e-5);
            }
        }
    }
    assert_eq!(count, 2592);
}

#[tokio::test]
async fn large_tiles_and_parts_of_k() {
    let mut rng = Rng(13);
    let conv = Conv2d { padding: [(1, 1); 2], ..Conv2d::default() };
    check(conv, Sizes { x: [2, 16, 28, 28], filters: 96, window: [3, 3] }, &mut rng, 1).await;
    check(conv, Sizes { x: [1, 300, 5, 7], filters: 40, window: [3, 3] }, &mut rng, 2).await;
    check(conv, Sizes { x: [1, 3, 33, 31], filters: 5, window: [5, 2] }, &mut rng, 1).await;
}

#[tokio::test]
async fn along_one_axis() {
    let x = [1.0_f32, 2.0, 3.0, 4.0, 5.0, 6.0];
    let w = [1.0_f32, 10.0, 100.0, -1.0, 0.0, 1.0];
    for device in &common::devices().await {
        let (dims, got, _) = run(device, |b| {
            let (x, w) = (b.upload_shaped(&x, [1, 1, 6]), b.upload_shaped(&w, [2, 1, 3]));
            let bias = b.upload(&[0.0, 0.5]);
            b.conv1d(x, w, bias, Conv1d { padding: [(1, 0)], stride: [2], ..Conv::default() })
        })
        .await;
        assert_eq!(dims, [1, 2, 3]);
        assert_eq!(got, [210.0, 432.0, 654.0, 2.5, 2.5, 2.5]);
    }
}

#[tokio::test]
async fn what_is_around_a_convolution_is_one_kernel() {
    let mut rng = Rng(14);
    let (x, w) = (rng.numbers(2 * 8 * 14 * 14), rng.numbers(16 * 8 * 9));
    let rest = rng.numbers(2 * 16 * 14 * 14);
    for device in &common::devices().await {
        let (_, got, kernels) = run(device, |b| {
            let (x, w) = (b.upload_shaped(&x, [2, 8, 14, 14]), b.upload_shaped(&w, [16, 8, 3, 3]));
            let (bias, rest) = (b.upload(&[0.25; 16]), b.upload_shaped(&rest, [2, 16, 14, 14]));
            let y = b.conv2d(x, w, bias, Conv2d { padding: [(1, 1); 2], ..Conv2d::default() });
            b.relu(y + rest)
        })
        .await;
        assert!(got.iter().all(|&y| y >= 0.0));
        assert_eq!(kernels, 1, "on {}", device.info().name);
    }
}

#[tokio::test]
async fn integers_halves_and_nothing() {
    use onetrip::{GpuCommandBatch, f16};
    for device in &common::devices().await {
        let b = GpuCommandBatch::new(device);
        let x = b.upload_shaped(&[i32::MAX, 2, 3, 4], [1, 1, 2, 2]);
        let w = b.upload_shaped(&[2, 1, 1, 1], [1, 1, 2, 2]);
        let wrapped = b.conv2d(x, w, None, Conv2d::default());
        let halves = b.upload_shaped(&[0.5; 12].map(f16::from_f32), [1, 3, 2, 2]);
        let ones = b.upload_shaped(&[1.0; 60].map(f16::from_f32), [5, 3, 2, 2]);
        let sums = b.conv2d(halves, ones, None, Conv2d::default());
        let no_images = b.full([0, 3, 5, 5], 1.0_f32);
        let no_channels = b.full([1, 0, 3, 3], 1.0_f32);
        let (w3, w0) = (b.full([4, 3, 3, 3], 1.0_f32), b.full([4, 0, 3, 3], 1.0_f32));
        let none = b.conv2d(no_images, w3, None, Conv2d::default());
        let zeros = b.conv2d(no_channels, w0, None, Conv2d::default());
        for id in [none, zeros] {
            b.download(id);
        }
        b.download(wrapped);
        b.download(sums);
        b.execute().await.unwrap();
        assert_eq!(b.read(wrapped).await.unwrap(), [i32::MAX.wrapping_mul(2).wrapping_add(9)]);
        assert_eq!(b.read(sums).await.unwrap(), [f16::from_f32(6.0); 5]);
        assert_eq!(b.read(none).await.unwrap(), [0.0; 0]);
        assert_eq!(b.read(zeros).await.unwrap(), [0.0; 4]);
    }
}
