//! Pooling.

use onetrip::{Device, Pool, Pool1d, Pool2d};

use crate::{Rng, common, near, run};

/// The windows along one axis: for each the positions of its elements, counted from the first element of the axis, and
/// how many of them an average counts.
fn windows<const D: usize>(pool: &Pool<D>, axis: usize, len: usize) -> Vec<(Vec<i64>, usize)> {
    let (size, dilation) = (pool.size[axis] as i64, pool.dilation[axis] as i64);
    let stride = pool.stride.map_or(size, |stride| stride[axis] as i64);
    let (before, after) = (pool.padding[axis].0 as i64, pool.padding[axis].1 as i64);
    let (len, reach) = (len as i64, (size - 1) * dilation + 1);
    let mut all = Vec::new();
    for start in (-before..).step_by(stride as usize) {
        let fits = start + reach <= len + after;
        // The last one of `ceil_mode`: what it starts at lies inside, and the one before it left something over.
        let last = pool.ceil_mode && start < len && start - stride + reach < len + after;
        if !fits && !last {
            break;
        }
        let at: Vec<i64> = (0..size).map(|i| start + i * dilation).collect();
        let padded = |p: &&i64| pool.count_padding && **p >= -before && **p < len + after;
        let counted = at.iter().filter(|p| (**p >= 0 && **p < len) || padded(p)).count();
        all.push((at, counted));
        if !fits {
            break;
        }
    }
    all
}

/// Greatest elements and means of all windows of one image.
fn pooled(pool: &Pool2d, x: &[f32], [h, w]: [usize; 2]) -> (Vec<f64>, Vec<f64>) {
    let (mut most, mut means) = (Vec::new(), Vec::new());
    for (rows, row_count) in windows(pool, 0, h) {
        for (columns, column_count) in windows(pool, 1, w) {
            let (mut greatest, mut sum) = (f64::NEG_INFINITY, 0.0);
            for &r in rows.iter().filter(|&&r| r >= 0 && r < h as i64) {
                for &c in columns.iter().filter(|&&c| c >= 0 && c < w as i64) {
                    let x = f64::from(x[r as usize * w + c as usize]);
                    greatest = if x.is_nan() || x > greatest { x } else { greatest };
                    sum += x;
                }
            }
            most.push(greatest);
            means.push(sum / (row_count * column_count).max(1) as f64);
        }
    }
    (most, means)
}

fn random_pool(rng: &mut Rng) -> Pool2d {
    let size = [0; 2].map(|_| 1 + rng.below(4));
    let stride = [0; 2].map(|_| 1 + rng.below(3));
    Pool2d {
        size,
        stride: (rng.below(3) > 0).then_some(stride),
        padding: size.map(|size| (rng.below(size / 2 + 1), rng.below(size / 2 + 1))),
        dilation: [0; 2].map(|_| 1 + rng.below(2)),
        ceil_mode: rng.below(2) == 0,
        count_padding: rng.below(2) == 0,
    }
}

/// Checks both poolings of `x`, of `[2, 3, h, w]`, on every device.
async fn check(devices: &[Device], pool: Pool2d, x: &[f32], [h, w]: [usize; 2]) {
    let images = x.chunks(h * w).map(|image| pooled(&pool, image, [h, w]));
    let (most, means): (Vec<_>, Vec<_>) = images.unzip();
    for device in devices {
        let what = format!("{pool:?} of {h} x {w} on {}", device.info().name);
        let shape = [2, 3, h, w];
        let (dims, got, kernels) =
            run(device, |b| b.max_pool2d(b.upload_shaped(x, shape), pool)).await;
        assert_eq!(dims[..2], [2, 3], "{what}");
        near(&format!("max, {what}"), &got, &most.concat(), 0.0);
        // A border is written out where windows would evaluate it too often.
        assert!(kernels <= 2, "max, {what}: {kernels} kernels");
        let (_, got, kernels) =
            run(device, |b| b.avg_pool2d(b.upload_shaped(x, shape), pool)).await;
        near(&format!("mean, {what}"), &got, &means.concat(), 1e-6);
        assert!(kernels <= 2, "mean, {what}: {kernels} kernels");
    }
}

/// Puts in what is no number or without end.
fn spoil(x: &mut [f32], rng: &mut Rng, image: usize) {
    x[rng.below(image)] = f32::NAN;
    x[image + 1] = f32::INFINITY;
    x[2 * image + 1] = f32::NEG_INFINITY;
}

#[tokio::test]
async fn random_windows() {
    let devices = common::devices().await;
    let mut rng = Rng(1);
    for case in 0..60 {
        let pool = random_pool(&mut rng);
        let [h, w] = [0; 2].map(|_| 8 + rng.below(12));
        let mut x = rng.numbers(2 * 3 * h * w);
        if case % 5 == 0 {
            spoil(&mut x, &mut rng, h * w);
        }
        check(&devices, pool, &x, [h, w]).await;
    }
}

#[tokio::test]
async fn many_windows() {
    let devices = common::devices().await;
    let mut rng = Rng(2);
    let [h, w] = [109, 113];
    let mut x = rng.numbers(2 * 3 * h * w);
    spoil(&mut x, &mut rng, h * w);
    let three = Pool2d { stride: Some([1, 1]), padding: [(1, 1); 2], ..Pool2d::new([3, 3]) };
    let apart = Pool2d { stride: Some([2, 1]), dilation: [2, 1], ceil_mode: true, ..three };
    for pool in [three, apart, Pool2d { count_padding: false, ..Pool2d::new([2, 2]) }] {
        check(&devices, pool, &x, [h, w]).await;
    }
}

#[tokio::test]
async fn windows_along_one_axis() {
    let x = [3.0_f32, -1.0, 4.0, 1.0, -5.0, 9.0, 2.0];
    for device in &common::devices().await {
        let pool = Pool1d { stride: Some([2]), padding: [(1, 0)], ..Pool1d::new([3]) };
        let (dims, got, _) =
            run(device, |b| b.max_pool1d(b.upload_shaped(&x, [1, 1, 7]), pool)).await;
        assert_eq!((dims, got), (vec![1, 1, 3], vec![3.0, 4.0, 9.0]));
        let (_, got, _) = run(device, |b| {
            b.avg_pool1d(b.upload(&x), Pool1d { ceil_mode: true, count_padding: false, ..pool })
        })
        .await;
        near("means", &got, &[1.0, 4.0 / 3.0, 5.0 / 3.0, 5.5], 1e-6);
    }
}

#[tokio::test]
async fn integers_and_windows_of_nothing_but_padding() {
    for device in &common::devices().await {
        let b = onetrip::GpuCommandBatch::new(device);
        let x = b.upload_shaped(&[-7_i32, -3, -9, -8], [2, 2]);
        let u = b.upload_shaped(&[1_u32, 2, 3, 4], [2, 2]);
        let pool = Pool2d { stride: Some([2, 2]), padding: [(1, 1); 2], ..Pool2d::new([1, 1]) };
        let (y, v) = (b.max_pool2d(x, pool), b.max_pool2d(u, Pool2d { size: [2, 2], ..pool }));
        b.execute().await.unwrap();
        assert_eq!(b.read(y).await.unwrap(), [i32::MIN, i32::MIN, i32::MIN, -8]);
        assert_eq!(b.read(v).await.unwrap(), [1, 2, 3, 4]);
    }
}

#[tokio::test]
async fn adaptive_windows_cover_everything() {
    let mut rng = Rng(7);
    for device in &common::devices().await {
        for ([h, w], size) in [
            ([8, 12], [4, 3]),
            ([7, 7], [1, 1]),
            ([7, 10], [3, 4]),
            ([5, 6], [7, 7]),
            ([1, 13], [1, 5]),
            ([32, 9], [6, 9]),
            ([37, 18], [36, 1]),
            ([5, 70], [100, 33]),
        ] {
            let x = rng.numbers(3 * h * w);
            let mut want = Vec::new();
            for image in x.chunks(h * w) {
                for i in 0..size[0] {
                    for j in 0..size[1] {
                        let rows = i * h / size[0]..((i + 1) * h).div_ceil(size[0]);
                        let columns = j * w / size[1]..((j + 1) * w).div_ceil(size[1]);
                        let count = (rows.len() * columns.len()) as f64;
                        let all = rows.flat_map(|r| columns.clone().map(move |c| r * w + c));
                        want.push(all.map(|at| f64::from(image[at])).sum::<f64>() / count);
                    }
                }
            }
            let (dims, got, _) =
                run(device, |b| b.adaptive_avg_pool2d(b.upload_shaped(&x, [3, h, w]), size)).await;
            assert_eq!(dims, [3, size[0], size[1]]);
            near(&format!("{size:?} of {h} x {w}"), &got, &want, 1e-6);
        }
    }
}

#[tokio::test]
async fn what_is_around_a_pool_is_one_kernel() {
    let mut rng = Rng(3);
    let x = rng.numbers(2 * 6 * 6);
    for device in &common::devices().await {
        let (_, got, kernels) = run(device, |b| {
            let x = b.upload_shaped(&x, [2, 6, 6]);
            let pool = Pool2d { padding: [(1, 1); 2], stride: Some([2, 2]), ..Pool2d::new([3, 3]) };
            b.relu(b.max_pool2d(-x, pool))
        })
        .await;
        assert_eq!((got.len(), kernels), (2 * 3 * 3, 1));
    }
}

#[tokio::test]
async fn no_images_and_single_elements() {
    for device in &common::devices().await {
        for shape in [[0, 3, 4, 4], [1, 1, 1, 1], [2, 0, 3, 3]] {
            let count: usize = shape.iter().product();
            let (dims, got, _) = run(device, |b| {
                let x = b.upload_shaped(&vec![2.0; count], shape);
                let pool =
                    Pool2d { padding: [(1, 1); 2], stride: Some([1, 1]), ..Pool2d::new([3, 3]) };
                b.max_pool2d(x, pool)
            })
            .await;
            assert_eq!((dims, got), (shape.to_vec(), vec![2.0; count]));
            let (dims, got, _) =
                run(device, |b| b.upload_shaped(&vec![2.0; count], shape).global_avg_pool()).await;
            assert_eq!(dims, [shape[0], shape[1], 1, 1]);
            assert!(got.iter().all(|&mean| mean == 2.0));
        }
    }
}

/// Windows of any size are counted at once.
#[tokio::test]
async fn large_windows() {
    let size = 1 << 21;
    let b = onetrip::GpuCommandBatch::new(&Device::cpu());
    let x = b.full([2 * size], 1.0_f32);
    let all = Pool1d { stride: Some([1]), ..Pool1d::new([size]) };
    let inside = b.avg_pool1d(x, all);
    assert_eq!(b.shape(inside).expect("no mistake").dims(), [size + 1]);
    let halves = Pool1d {
        stride: Some([size / 2]),
        padding: [(size / 2, size / 2)],
        count_padding: false,
        ..all
    };
    let means = b.avg_pool1d(x, halves);
    b.download(means);
    b.execute().await.unwrap();
    assert_eq!(b.read(means).await.unwrap(), [1.0; 5]);
}
