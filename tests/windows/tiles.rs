//! Filters of 3×3 that are residents, over dense windows: the cores multiply transformed tiles.

use onetrip::{Conv2d, Device, GpuCommandBatch, Resident};

use crate::convolution::{Sizes, convolved};
use crate::{Rng, common, near};

async fn results(
    device: &Device,
    conv: Conv2d,
    (x, shape): (&[f32], [usize; 4]),
    w: &Resident<f32>,
    bias: &[f32],
) -> Vec<f32> {
    let batch = GpuCommandBatch::new(device);
    let (x, bias) = (batch.upload_shaped(x, shape), batch.upload(bias));
    let result = batch.conv2d(x, batch.bind(w), Some(bias.id()), conv);
    batch.download(result);
    batch.execute().await.expect("a run");
    batch.read(result).await.expect("what was downloaded")
}

/// Checks a convolution of numbers, and of numbers of which some are not finite. Each is computed three times: a copy of the
/// filters is kept from the second run on.
async fn check(conv: Conv2d, sizes: Sizes, rng: &mut Rng) {
    let w_shape = sizes.w(&conv);
    let mut x = rng.numbers(sizes.x.iter().product());
    let w = rng.numbers(w_shape.iter().product());
    let bias = rng.numbers(sizes.filters);
    let sums = convolved(&conv, &sizes, &x, &w, &bias);
    let largest = sums.iter().map(|&(_, scale)| scale).fold(1.0, f64::max);
    for spoiled in [false, true] {
        if spoiled {
            for number in [f32::NAN, f32::INFINITY, f32::NEG_INFINITY] {
                let at = rng.below(x.len());
                x[at] = number;
            }
        }
        let sums = convolved(&conv, &sizes, &x, &w, &bias);
        let want: Vec<f64> = sums.into_iter().map(|(sum, _)| sum).collect();
        for device in &common::devices().await {
            let what = format!("{conv:?} of {sizes:?} on {}", device.info().name);
            let filters = device.resident(&w, w_shape).expect("a shape that fits");
            let given = (&x[..], sizes.x);
            let first = results(device, conv, given, &filters, &bias).await;
            near(&what, &first, &want, 1e-6 * largest);
            for _ in 0..2 {
                let again = results(device, conv, given, &filters, &bias).await;
                let bits =
                    |numbers: &[f32]| numbers.iter().map(|n| n.to_bits()).collect::<Vec<_>>();
                assert_eq!(bits(&again), bits(&first), "{what}: bits of a later run");
            }
        }
    }
}

#[tokio::test]
async fn images_of_any_size() {
    let mut rng = Rng(97);
    for [height, width] in [[11, 12], [12, 11], [7, 70], [33, 35], [36, 34], [64, 3]] {
        let padding = [0; 2].map(|_| (rng.below(3), rng.below(3)));
        let x = [1 + rng.below(3), 32 + rng.below(20), height, width];
        let filters = 32 + rng.below(40);
        let conv = Conv2d { padding, ..Conv2d::default() };
        check(conv, Sizes { x, filters, window: [3, 3] }, &mut rng).await;
    }
}

/// Channels that are multiplied in parts, and as many tiles as several blocks have.
#[tokio::test]
async fn deep_and_large_images() {
    let mut rng = Rng(98);
    let padding = [(1, 1); 2];
    for x in [[1, 200, 12, 13], [1, 32, 90, 91]] {
        let conv = Conv2d { padding, ..Conv2d::default() };
        check(conv, Sizes { x, filters: 33, window: [3, 3] }, &mut rng).await;
    }
}
