//! Scatters and histograms of many elements, against loops.

mod common;

use common::devices;
use onetrip::GpuCommandBatch;

/// Numbers below `below`, the same in every run (a linear congruential generator: Knuth, 1997).
fn numbers(count: usize, below: usize) -> Vec<u32> {
    let mut state = 7_u64;
    let next = |_| {
        state =
            state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        ((state >> 33) as usize % below) as u32
    };
    (0..count).map(next).collect()
}

/// Few places, so that each has many updates; some have none.
#[tokio::test]
async fn many_updates_of_few_places() {
    let (places, width) = (11, 3);
    for count in [1, 3, 1025] {
        let indices: Vec<u32> = numbers(count, 9).iter().map(|&i| i + 1).collect();
        let updates: Vec<i32> =
            numbers(count * width, 1 << 31).iter().map(|&u| u.cast_signed()).collect();
        let x: Vec<i32> = (0..places * width).map(|i| i as i32).collect();
        let (mut sums, mut last) = (x.clone(), x.clone());
        for (row, &place) in indices.iter().enumerate() {
            for column in 0..width {
                let at = place as usize * width + column;
                sums[at] = sums[at].wrapping_add(updates[row * width + column]);
                last[at] = updates[row * width + column];
            }
        }
        for device in devices().await {
            let mut b = GpuCommandBatch::new(&device);
            let (i, u) = (b.upload(&indices), b.upload_shaped(&updates, [count, width]));
            let x = b.upload_shaped(&x, [places, width]);
            let added = b.scatter_add(x, i, u, 0);
            let written = b.scatter(x, i, u, 0);
            b.execute().await.expect("places in range");
            let name = &device.info().name;
            assert_eq!(b.read(added).await.unwrap(), sums, "{count} on {name}");
            assert_eq!(b.read(written).await.unwrap(), last, "{count} on {name}");
        }
    }
}

/// The order in which floats are added is the same on every device, and each sum near the exact one.
#[tokio::test]
async fn sums_of_floats_are_the_same_everywhere() {
    let (places, count) = (5, 4001);
    let indices = numbers(count, places);
    let updates: Vec<f32> =
        numbers(count, 2000).iter().map(|&u| (u as f32 - 1000.0) / 7.0).collect();
    let mut exact = vec![0.0_f64; places];
    for (&place, &update) in indices.iter().zip(&updates) {
        exact[place as usize] += f64::from(update);
    }
    let mut all = Vec::new();
    for device in devices().await {
        for _ in 0..2 {
            let mut b = GpuCommandBatch::new(&device);
            let (i, u) = (b.upload(&indices), b.upload(&updates));
            let x = b.full([places], 0.0_f32);
            let y = b.scatter_add(x, i, u, 0);
            b.execute().await.expect("places in range");
            all.push(b.read(y).await.unwrap());
        }
    }
    for sums in &all {
        assert_eq!(sums, &all[0]);
        let near = sums.iter().zip(&exact).all(|(&y, &e)| (f64::from(y) - e).abs() < 0.05);
        assert!(near, "{sums:?} {exact:?}");
    }
}

/// So many comparisons that the histogram sorts.
#[tokio::test]
async fn histograms_of_many_bins() {
    let (bins, count) = (6000, 5000);
    let x = numbers(count, 6100);
    let mut want = vec![0_u32; bins];
    x.iter().filter(|&&x| (x as usize) < bins).for_each(|&x| want[x as usize] += 1);
    for device in devices().await {
        let mut b = GpuCommandBatch::new(&device);
        let x = b.upload_shaped(&x, [50, 100]);
        let y = b.histogram(x, bins);
        b.execute().await.expect("a histogram");
        assert_eq!(b.read(y).await.unwrap(), want, "{}", device.info().name);
        assert_eq!(
            b.stats().bytes_down,
            4 * bins as u64,
            "what was not compared is not downloaded"
        );
    }
}
