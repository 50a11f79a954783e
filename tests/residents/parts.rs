//! Parts of residents that runs replace, in place where that pays.

use onetrip::{
    Attention, Backend, BufferId, Device, Error, GpuCommandBatch, Program, Resident, f16,
};

use super::common;

/// A state of `[heads, room, width]`, of which a run replaces one row of each head.
const HEADS: usize = 4;
const ROOM: usize = 8192;
const WIDTH: usize = 32;

/// Element `(head, row, column)` once row `row` was appended.
fn appended(head: usize, row: usize, column: usize) -> f32 {
    (head * 7 + row * 3 + column) as f32 * 0.01 - 1.0
}

fn row(at: usize) -> Vec<f32> {
    (0..HEADS * WIDTH).map(|i| appended(i / WIDTH, at, i % WIDTH)).collect()
}

fn state(rows: usize) -> Vec<f32> {
    let place = |i: usize| (i / (ROOM * WIDTH), i / WIDTH % ROOM, i % WIDTH);
    let element = |(head, row, column)| if row < rows { appended(head, row, column) } else { 0.0 };
    (0..HEADS * ROOM * WIDTH).map(place).map(element).collect()
}

/// Keys and values that a decoder appends cost their own bytes, not those of all that were there before.
#[tokio::test]
async fn what_is_appended_is_written_in_place() {
    let (whole, part) = (4 * (HEADS * ROOM * WIDTH) as u64, 4 * (HEADS * WIDTH) as u64);
    for device in common::devices().await {
        let keys = device.resident(&state(0), [HEADS, ROOM, WIDTH]).unwrap();
        let before = device.pool_stats().gpu.peak_bytes;
        for at in 0..5 {
            let b = GpuCommandBatch::new(&device);
            let (old, new) = (b.bind(&keys), b.upload_shaped(row(at), [HEADS, 1, WIDTH]));
            let all = b.replace_slice(old, new, 1, at);
            b.update(&keys, all);
            let seen = b.slice(all, [(0..HEADS, 1), (0..at + 1, 1), (0..WIDTH, 1)]);
            let q = b.full([HEADS, 1, WIDTH], 0.25_f32);
            let y = b.scaled_dot_product_attention(q, seen, seen, Attention::default());
            b.download(y);
            let written: u64 = written(&b.explain().unwrap().to_string());
            assert!(written <= 3 * part, "step {at} writes {written} bytes");
            b.execute().await.unwrap();
            let stats = b.stats();
            assert!(stats.peak_bytes < whole + 8 * part, "{stats}");
            assert!(stats.bytes_up <= 2 * part && stats.bytes_down <= 2 * part, "{stats}");
            // Copies on a GPU, which nobody waits for.
            let on_gpu = u64::from(stats.backend == Some(Backend::Gpu));
            assert_eq!((stats.submits, stats.downloads), (1 + on_gpu, 1), "{stats}");
            let want = attended(at + 1);
            for (got, want) in b.read(y).await.unwrap().into_iter().zip(want) {
                assert!((f64::from(got) - want).abs() < 1e-5, "{got}, not {want}");
            }
        }
        let more = device.pool_stats().gpu.peak_bytes - before;
        assert!(more < whole, "{more} more bytes of GPU memory for a state of {whole}");
        assert_eq!(keys.read().await.unwrap(), state(5));
    }
}

/// The bytes that kernels write, by what `explain` says: `… read, 512 B written`.
fn written(explained: &str) -> u64 {
    let numbers = explained.lines().filter_map(|line| {
        let before = line.split(" written").next().filter(|before| before.len() < line.len())?;
        let mut words = before.rsplit(' ');
        let (unit, number) = (words.next()?, words.next()?.parse::<f64>().ok()?);
        Some((number * if unit == "KiB" { 1024.0 } else { 1.0 }) as u64)
    });
    numbers.sum()
}

/// The result of an attention to the first rows for queries of 0.25.
fn attended(rows: usize) -> Vec<f64> {
    let element = |head, row, column| f64::from(appended(head, row, column));
    let mut out = Vec::new();
    for head in 0..HEADS {
        let score = |row| (0..WIDTH).map(|c| element(head, row, c) * 0.25).sum::<f64>();
        let weights: Vec<f64> =
            (0..rows).map(|row| (score(row) / (WIDTH as f64).sqrt()).exp()).collect();
        let total: f64 = weights.iter().sum();
        out.extend((0..WIDTH).map(|column| {
            let sum = weights.iter().enumerate().map(|(row, w)| w * element(head, row, column));
            sum.sum::<f64>() / total
        }));
    }
    out
}

/// Elements of a row of which four are a state that a GPU writes in place.
const LONG: usize = 1 << 18;

/// A state of four rows is as these.
async fn assert_rows(state: &Resident<i32>, rows: [i32; 4]) {
    let all = state.read_view().await.expect("it has data");
    for (row, want) in all.chunks(LONG).zip(rows) {
        assert!(row.iter().all(|&x| x == want), "{} … {}, not {want}", row[0], row[LONG - 1]);
    }
}

/// A program that writes `new / by` to rows 1 and 2 of a state.
async fn writer(
    device: &Device,
    state: &Resident<i32>,
) -> (Program, [BufferId<i32>; 2], Resident<i32>) {
    let b = GpuCommandBatch::new(device);
    let (old, new) = (b.bind(state), b.input::<i32>("new", 1));
    let by = b.input::<i32>("by", 1);
    let quotient = b.div(new, by).broadcast_to([2, LONG]);
    let all = b.replace_slice(old, quotient, 0, 1);
    b.update(state, all);
    let before = b.keep(old);
    let program = b.compile().await.expect("a batch without mistakes");
    (program, [old.id(), all.id()], before)
}

/// A holder of an old state keeps it, and a run that fails leaves the state as it was.
#[tokio::test]
async fn what_others_hold_is_not_written_over() {
    for device in common::devices().await {
        let state = device.resident(&[0_i32; 4 * LONG], [4, LONG]).unwrap();
        let (program, [old, all], before) = writer(&device, &state).await;
        let first = program.run([("new", &[5]), ("by", &[1])]).await.unwrap();
        let was = first.kept(old).unwrap();
        let held = state.read_view().await.unwrap();
        program.run([("new", &[7]), ("by", &[1])]).await.unwrap();
        assert_eq!((held[0], held[LONG], held[3 * LONG - 1]), (0, 5, 5));
        assert_rows(&was, [0; 4]).await;
        assert_rows(&before, [0, 5, 5, 0]).await;
        let failed = program.run([("new", &[9]), ("by", &[0])]).await;
        assert!(matches!(failed, Err(Error::Fault(_))));
        assert_rows(&state, [0, 7, 7, 0]).await;
        // The whole state is kept as such only where that is asked for.
        assert!(first.kept(all).is_err());
    }
}

/// A state with a copy on the host has the parts there too, and outlives its GPU with them.
#[tokio::test]
async fn parts_are_replaced_in_copies_on_the_host() {
    for device in common::devices().await {
        let state = device.resident(&[0_i32; 4 * LONG], [4, LONG]).unwrap();
        state.keep_host_copy().await.unwrap();
        let (program, ..) = writer(&device, &state).await;
        program.run([("new", &[5]), ("by", &[1])]).await.unwrap();
        program.run([("new", &[6]), ("by", &[1])]).await.unwrap();
        device.simulate_loss();
        assert_rows(&state, [0, 6, 6, 0]).await;
    }
}

/// On the host values have no second place.
#[tokio::test]
async fn the_host_writes_in_place() {
    let device = Device::cpu();
    let state = device.resident(&[0_i32; 4 * LONG], [4, LONG]).unwrap();
    let (program, ..) = writer(&device, &state).await;
    let place = state.read_view().await.unwrap().as_ptr();
    program.run([("new", &[5]), ("by", &[1])]).await.unwrap();
    assert_eq!(state.read_view().await.unwrap().as_ptr(), place);
    assert_rows(&state, [0, 5, 5, 0]).await;
}

/// In any number of runs, where these are far apart.
#[tokio::test]
async fn the_host_writes_many_runs_in_place() {
    let device = Device::cpu();
    for (width, in_place) in [(512, true), (8, false)] {
        let state = device.resident(&vec![0_i32; 96 * 3 * width], [96, 3, width]).unwrap();
        let b = GpuCommandBatch::new(&device);
        let (old, new) = (b.bind(&state), b.full([96, 1, width], 5_i32));
        let all = b.replace_slice(old, new, 1, 2);
        b.update(&state, all);
        let place = state.read_view().await.unwrap().as_ptr();
        b.execute().await.unwrap();
        let view = state.read_view().await.unwrap();
        assert_eq!(view.as_ptr() == place, in_place, "{width}");
        let want = |at| if at / width % 3 == 2 { 5 } else { 0 };
        assert!(view.iter().enumerate().all(|(at, &x)| x == want(at)), "{width}");
    }
}

/// Parts of every element type, along every axis, in more runs than are written one by one, and in odd places.
#[tokio::test]
async fn parts_of_every_kind_are_replaced() {
    // A GPU writes large states in place, a device without one all.
    let small = [[2, 3, 6], [2, 90, 6], [2, 3, 5]];
    let large = [[2, 3, 700_000], [2, 90, 23_400], [2, 3, 699_999]];
    for device in common::devices().await {
        for shapes in [small, large] {
            for (shape, (axis, at)) in shapes.into_iter().zip([(0, 1), (1, 0), (2, 3)]) {
                part_is_replaced(&device, shape, axis, at).await.unwrap();
            }
        }
        part_is_replaced(&device, small[0], 2, 0).await.unwrap();
        part_is_replaced(&device, large[2], 1, 2).await.unwrap();
        part_is_replaced(&device, small[1], 2, 4).await.unwrap();
        part_is_replaced(&device, large[1], 2, 4).await.unwrap();
    }
}

async fn part_is_replaced(
    device: &Device,
    shape: [usize; 3],
    axis: usize,
    at: usize,
) -> Result<(), Error> {
    let count: usize = shape.iter().product();
    let mut part = shape;
    part[axis] = 1;
    let new: Vec<f16> =
        (0..part.iter().product()).map(|i: usize| f16::from_f32((i % 999) as f32)).collect();
    let state = device.resident(&vec![f16::NEG_ONE; count], shape)?;
    let truths = device.resident(&vec![false; count], shape)?;
    let b = GpuCommandBatch::new(device);
    let (old, x) = (b.bind(&state), b.upload_shaped(&new, part));
    let all = b.replace_slice(old, x, axis as isize, at);
    b.update(&state, all);
    let (old, x) = (b.bind(&truths), b.full(part, true));
    let all = b.replace_slice(old, x, axis as isize, at);
    b.update(&truths, all);
    b.execute().await?;
    let [_, rows, width] = shape;
    let place = |i: usize| [i / width / rows, i / width % rows, i % width];
    let mut next = new.into_iter();
    let want = (0..count).map(|i| match place(i)[axis] == at {
        true => next.next().expect("as many as there are"),
        false => f16::NEG_ONE,
    });
    let want: Vec<f16> = want.collect();
    assert!(state.read().await? == want, "axis {axis} of {shape:?}");
    let want: Vec<bool> = want.iter().map(|&x| x != f16::NEG_ONE).collect();
    assert!(truths.read().await? == want, "axis {axis} of {shape:?}");
    Ok(())
}
