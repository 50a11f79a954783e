//! Graphs on the host's cores, small enough for [miri](https://github.com/rust-lang/miri), which interprets every step
//! and sees each access to memory that is not allowed. There work is shared out over threads at such sizes already.
//! Most numbers are small integers, so that results are exact in any order.

#[path = "../common/float64.rs"]
mod float64;
mod layers;
mod products;
mod recurrent;
#[path = "../common/recurrent_layer.rs"]
mod recurrent_layer;
mod windows;

use onetrip::{Device, Element, GpuCommandBatch, Precision, Tensor};

/// The layout of a matrix in the upload.
#[derive(Clone, Copy, Debug)]
enum Layout {
    Rows,
    Columns,
    /// From the last element to the first.
    Back,
    /// Every other row and column of a larger one.
    Apart,
}

const LAYOUTS: [Layout; 4] = [Layout::Rows, Layout::Columns, Layout::Back, Layout::Apart];

/// The element of a matrix.
type At = fn(usize, usize) -> f32;

fn left(row: usize, column: usize) -> f32 {
    ((row * 5 + column * 3) % 7) as f32 - 3.0
}

fn right(row: usize, column: usize) -> f32 {
    ((row * 2 + column * 11) % 5) as f32 - 2.0
}

/// Numbers without a pattern, in −1..1.
fn numbers(len: usize, seed: usize) -> Vec<f32> {
    (0..len).map(|at| ((at * 7919 + seed * 101) % 1013) as f32 / 506.5 - 1.0).collect()
}

/// A matrix of `rows` × `columns` that lies so.
fn matrix<T: Element>(
    batch: &GpuCommandBatch,
    [rows, columns]: [usize; 2],
    layout: Layout,
    at: impl Fn(usize, usize) -> T,
) -> Tensor<'_, T> {
    let upload = |[rows, columns]: [usize; 2], at: &dyn Fn(usize, usize) -> T| {
        let row = |row| (0..columns).map(move |column| at(row, column));
        let data: Vec<T> = (0..rows).flat_map(row).collect();
        batch.upload_shaped(data, [rows, columns])
    };
    match layout {
        Layout::Rows => upload([rows, columns], &at),
        Layout::Columns => upload([columns, rows], &|column, row| at(row, column)).transpose(),
        Layout::Back => {
            let turned =
                upload([rows, columns], &|row, column| at(rows - 1 - row, columns - 1 - column));
            batch.flip(turned, [0, 1])
        }
        Layout::Apart => {
            let whole = upload([2 * rows, 2 * columns], &|row, column| at(row / 2, column / 2));
            batch.slice(whole, [(0..2 * rows, 2), (0..2 * columns, 2)])
        }
    }
}

/// x·w of `[m, n, k]`, each sum given to `after` with its column.
fn product([m, n, k]: [usize; 3], after: impl Fn(f32, usize) -> f32) -> Vec<f32> {
    let sum = |row, column| (0..k).map(|at| left(row, at) * right(at, column)).sum();
    let element = |at| after(sum(at / n, at % n), at % n);
    (0..m * n).map(element).collect()
}

#[tokio::test]
async fn products_of_every_layout() {
    let device = Device::cpu();
    for [m, n, k] in [[3, 5, 4], [1, 6, 3], [4, 1, 2], [17, 19, 18]] {
        for (at, x_lies) in LAYOUTS.into_iter().enumerate() {
            // Miri has time for all layouts of one size alone.
            if cfg!(miri) && m < 17 && at != m % LAYOUTS.len() {
                continue;
            }
            let w_lies = LAYOUTS[(at + m) % LAYOUTS.len()];
            let batch = GpuCommandBatch::new(&device);
            let x = matrix(&batch, [m, k], x_lies, left as At);
            let w = matrix(&batch, [k, n], w_lies, right as At);
            let bare = batch.matmul(x, w);
            let bias =
                batch.upload_shaped((0..n).map(|column| column as f32).collect::<Vec<_>>(), n);
            let done = batch.linear(x, w, bias).relu();
            // Once for the plan, once as it is found again.
            for _ in 0..2 {
                batch.execute().await.unwrap();
                let case = format!("{m} {n} {k}, {x_lies:?} and {w_lies:?}");
                assert_eq!(batch.read(bare).await.unwrap(), product([m, n, k], |s, _| s), "{case}");
                let wanted = product([m, n, k], |sum, column| (sum + column as f32).max(0.0));
                assert_eq!(batch.read(done).await.unwrap(), wanted, "{case}");
            }
        }
    }
}

#[tokio::test]
async fn one_product_alone_is_one_call() {
    let device = Device::cpu();
    for (x_lies, w_lies) in [(Layout::Rows, Layout::Rows), (Layout::Back, Layout::Back)] {
        let batch = GpuCommandBatch::new(&device);
        let x = matrix(&batch, [3, 4], x_lies, left as At);
        let w = matrix(&batch, [4, 2], w_lies, right as At);
        let y = batch.matmul(x, w);
        batch.execute().await.unwrap();
        assert_eq!(batch.read(y).await.unwrap(), product([3, 2, 4], |sum, _| sum));
    }
}

#[tokio::test]
async fn products_of_halves_and_integers() {
    let device = Device::cpu();
    let [m, n, k] = [6, 7, 5];
    let wanted = product([m, n, k], |sum, _| sum);
    let batch = GpuCommandBatch::new(&device);
    let half = |at: At| move |row, column| half::f16::from_f32(at(row, column));
    let x = matrix(&batch, [m, k], Layout::Rows, half(left));
    let w = matrix(&batch, [k, n], Layout::Columns, half(right));
    let halves = batch.matmul(x, w);
    let whole = |at: At| move |row, column| at(row, column) as i32;
    let x = matrix(&batch, [m, k], Layout::Columns, whole(left));
    let w = matrix(&batch, [k, n], Layout::Rows, whole(right));
    let integers = batch.matmul(x, w);
    let x = matrix(&batch, [m, k], Layout::Rows, left as At);
    let w = matrix(&batch, [k, n], Layout::Rows, right as At);
    let split = batch.matmul_with(x, w, Precision::Split);
    batch.execute().await.unwrap();
    let halves = batch.read(halves).await.unwrap();
    assert!(halves.iter().zip(&wanted).all(|(half, &wanted)| half.to_f32() == wanted));
    let integers = batch.read(integers).await.unwrap();
    assert!(integers.iter().zip(&wanted).all(|(&whole, &wanted)| whole as f32 == wanted));
    assert_eq!(batch.read(split).await.unwrap(), wanted);
}

#[tokio::test]
async fn elements_and_reductions_that_threads_share() {
    let device = Device::cpu();
    let [rows, columns] = [9, 131];
    let batch = GpuCommandBatch::new(&device);
    let x = matrix(&batch, [rows, columns], Layout::Columns, left as At);
    let doubled = batch.scale(x, 2.0);
    let zero = batch.full(1, 0.0_f32);
    let flags = batch.gt(x, zero);
    let sums = batch.sum(x, 1);
    let greatest = batch.amax(x, 0);
    let sorted = batch.sort(x, 1, onetrip::SortOrder::Ascending);
    let running = batch.cumsum(x, 1);
    batch.execute().await.unwrap();

    let all: Vec<f32> = (0..rows * columns).map(|at| left(at / columns, at % columns)).collect();
    let row = |row: usize| &all[row * columns..(row + 1) * columns];
    let twice: Vec<f32> = all.iter().map(|x| 2.0 * x).collect();
    assert_eq!(batch.read(doubled).await.unwrap(), twice);
    let positive: Vec<bool> = all.iter().map(|&x| x > 0.0).collect();
    assert_eq!(batch.read(flags).await.unwrap(), positive);
    let of_rows: Vec<f32> = (0..rows).map(|at| row(at).iter().sum()).collect();
    assert_eq!(batch.read(sums).await.unwrap(), of_rows);
    let column = |column| (0..rows).map(move |at| row(at)[column]);
    let most: Vec<f32> = (0..columns).map(|at| column(at).fold(f32::MIN, f32::max)).collect();
    assert_eq!(batch.read(greatest).await.unwrap(), most);
    let mut in_order = all.clone();
    in_order.chunks_mut(columns).for_each(|row| row.sort_by(f32::total_cmp));
    assert_eq!(batch.read(sorted).await.unwrap(), in_order);
    let mut so_far = all.clone();
    for row in so_far.chunks_mut(columns) {
        (1..columns).for_each(|at| row[at] += row[at - 1]);
    }
    assert_eq!(batch.read(running).await.unwrap(), so_far);
}

#[tokio::test]
async fn state_is_updated_in_its_place() {
    let device = Device::cpu();
    let state = device.resident(&[1.0_f32, 2.0, 3.0], 3).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let after = batch.bind(&state).scale(2.0);
    batch.update(&state, after);
    let program = batch.compile().await.unwrap();
    for _ in 0..3 {
        program.run(()).await.unwrap();
    }
    assert_eq!(state.read().await.unwrap(), [8.0, 16.0, 24.0]);
}
