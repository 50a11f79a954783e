//! Look-ups in long rows, scatters and histograms of many elements, against loops.

mod common;

use common::devices;
use onetrip::{Device, Element, Error, GpuCommandBatch, f16};

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
            let b = GpuCommandBatch::new(&device);
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
            let b = GpuCommandBatch::new(&device);
            let (i, u) = (b.upload(&indices), b.upload(&updates));
            let y = b.full([places], 0.0_f32).scatter_add(i, u, 0);
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

/// There are so many comparisons that the histogram sorts.
#[tokio::test]
async fn histograms_of_many_bins() {
    let (bins, count) = (6000, 5000);
    let x = numbers(count, 6100);
    let mut want = vec![0_u32; bins];
    x.iter().filter(|&&x| (x as usize) < bins).for_each(|&x| want[x as usize] += 1);
    for device in devices().await {
        let b = GpuCommandBatch::new(&device);
        let y = b.upload_shaped(&x, [50, 100]).histogram(bins);
        b.execute().await.expect("a histogram");
        assert_eq!(b.read(y).await.unwrap(), want, "{}", device.info().name);
        assert_eq!(
            b.stats().bytes_down,
            4 * bins as u64,
            "what was not compared is not downloaded"
        );
    }
}

/// Rows of a table, elements of each, and how many are looked up in each.
const LONG_ROWS: [[usize; 3]; 6] = [
    [128, 4098, 4100],
    [129, 4096, 4096],
    [45, 5001, 8196],
    [43, 16_380, 8196],
    [64, 4096, 4097],
    [1, 4100, 600_000],
];

#[tokio::test]
async fn look_ups_in_long_rows() {
    for [rows, size, columns] in LONG_ROWS {
        for device in devices().await {
            look_up(&device, [rows, size, columns], |n| n as f32 - 0.5).await;
            if columns == 4100 {
                look_up(&device, [rows, size, columns], |n| n.cast_signed() - 500_000).await;
                look_up(&device, [rows, size, columns], |n| f16::from_f32((n % 2000) as f32)).await;
            }
        }
    }
}

/// Each alone in a batch, since kernels of several look-ups are others.
async fn look_up<T: Element + PartialEq>(
    device: &Device,
    [rows, size, columns]: [usize; 3],
    number: impl Fn(u32) -> T,
) {
    let x: Vec<T> = numbers(rows * size, 1 << 20).into_iter().map(number).collect();
    let shared = numbers(columns, size);
    let own: Vec<i32> =
        numbers(rows * columns, size - 3).iter().map(|&i| i.cast_signed()).collect();
    let b = [0, 1, 2].map(|_| GpuCommandBatch::new(device));
    let table = b.each_ref().map(|b| b.upload_shaped(&x, [rows, size]));
    let i = b[0].upload(&shared);
    let gathered = b[0].gather(table[0], i, 1);
    let j = b[1].upload_shaped(&own, [rows, columns]);
    let taken = b[1].take_along_axis(table[1], j, -1);
    // Rows of a view, the last first, that begin within others.
    let part = b[2].slice(table[2], [(0..rows, -1), (3..size, 1)]);
    let j = b[2].upload_shaped(&own, [rows, columns]);
    let within = b[2].take_along_axis(part, j, 1);
    let mut results = Vec::new();
    for (b, id) in b.iter().zip([gathered, taken, within]) {
        b.execute().await.expect("indices in range");
        results.push(b.read(id).await.expect("a download"));
    }
    let what = format!("{rows}x{size}, {columns} on {}", device.info().name);
    for k in 0..rows * columns {
        let (row, column) = (k / columns, k % columns);
        let (at, own) = (|row: usize, i: usize| x[row * size + i], own[k] as usize);
        assert!(results[0][k] == at(row, shared[column] as usize), "{what}: gather at {k}");
        assert!(results[1][k] == at(row, own), "{what}: take_along_axis at {k}");
        assert!(results[2][k] == at(rows - 1 - row, own + 3), "{what}: of a view at {k}");
    }
}

/// An index out of range is told wherever it is, the first of them.
#[tokio::test]
async fn faults_in_long_rows() {
    let (rows, size, columns) = (129, 4098, 4100);
    let x: Vec<u32> = numbers(rows * size, 1 << 20);
    for bad in [vec![rows * columns - 1], vec![100 * columns + 5, columns - 1], vec![0]] {
        let mut indices: Vec<i32> =
            numbers(rows * columns, size).iter().map(|&i| i.cast_signed()).collect();
        for (at, &place) in bad.iter().enumerate() {
            indices[place] = if at == 0 { size as i32 } else { -1 };
        }
        let first = *bad.iter().min().unwrap();
        for device in devices().await {
            let b = GpuCommandBatch::new(&device);
            let (x, i) =
                (b.upload_shaped(&x, [rows, size]), b.upload_shaped(&indices, [rows, columns]));
            b.take_along_axis(x, i, 1).download();
            let error = b.execute().await.expect_err("an index out of range");
            let Error::Fault(fault) = error else { panic!("{error}") };
            assert_eq!(fault.at, [first / columns, first % columns], "{}", device.info().name);
        }
    }
}
