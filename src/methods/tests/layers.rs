//! Slices, norms with weights, masks of keys and accuracy, each against a plain loop.

use crate::methods::{
    Attention, AttentionMask, CellWeights, ClassLoss, Conv1d, Recurrence, SliceRange,
};
use crate::{Device, GpuCommandBatch, Tensor};

/// Numbers that are not all alike, in (−1, 1).
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + 11) % 101) as f32 / 51.0 - 0.99).collect()
}

#[tokio::test]
async fn ranges_of_all_forms_are_the_same_slices() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload_shaped((0..12).collect::<Vec<i32>>(), [3, 4]);
    let ranges = vec![(1..3, 1), (0..4, 1)];
    let same = [
        x.slice(&ranges),
        x.slice(ranges),
        x.slice([1..3, 0..4]),
        x.slice(&[1..3, 0..4]),
        x.slice([SliceRange::from(1..3), (..).into()]),
        x.slice([(.., 1), (.., 1)]).slice([SliceRange::from((1..3, 1)), (0..4).into()]),
    ];
    let turned = x.slice([SliceRange::from((.., -2)), (0..4, 3).into()]);
    batch.outputs((&same, turned));
    batch.execute().await.unwrap();
    for y in same {
        assert_eq!(batch.read(y).await.unwrap(), [4, 5, 6, 7, 8, 9, 10, 11]);
    }
    assert_eq!(batch.read(turned).await.unwrap(), [8, 11, 0, 3]);
}

#[tokio::test]
async fn residents_are_operands_on_either_side() {
    let device = Device::cpu();
    let w = device.resident(&[1.0_f32, 2.0, 3.0, 4.0], [2, 2]).unwrap();
    let bias = device.resident(&[0.5_f32, -0.5], 2).unwrap();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload_shaped(&[1.0_f32, 10.0], [1, 2]);
    let (dense, around) = (x.linear(&w, &bias), &bias - x * &bias + &bias);
    let alone = batch.matmul(&w, &w);
    batch.execute().await.unwrap();
    assert_eq!(batch.read(dense).await.unwrap(), [31.5, 41.5]);
    assert_eq!(batch.read(around).await.unwrap(), [0.5, 4.0]);
    assert_eq!(batch.read(alone).await.unwrap(), [7.0, 10.0, 15.0, 22.0]);
}

#[tokio::test]
async fn residents_and_tensors_are_weights_of_layers() {
    let device = Device::cpu();
    let [weights, bias] = [8, 4].map(|size| device.resident(&numbers(size), size).unwrap());
    let matrix = device.resident(&numbers(4), [4, 1]).unwrap();
    let (steps, image) = (numbers(6), numbers(8));
    let mut results = Vec::new();
    for as_tensors in [false, true] {
        let b = GpuCommandBatch::new(&device);
        let x = b.upload_shaped(&steps, [3, 2, 1]);
        let cell = if as_tensors {
            let (matrix, bias) = (b.bind(&matrix), b.bind(&bias).id());
            CellWeights::with_bias(&b, matrix, matrix, [bias; 2])
        } else {
            CellWeights::with_bias(&b, &matrix, &matrix, [&bias; 2])
        };
        let (y, _) = x.lstm(&[cell], None, Recurrence::default());
        let (image, filter) = (b.upload_shaped(&image, [1, 4, 2]), b.full([4, 4, 1], 0.5));
        let filtered = match as_tensors {
            true => image.conv1d(filter, Some(b.bind(&bias).id()), Conv1d::default()),
            false => image.conv1d(filter, &bias, Conv1d::default()),
        };
        let rows = b.bind(&weights).reshape([2, 4]);
        let loss = rows.cross_entropy(b.upload(&[3, 1]), ClassLoss::weighted(&b, &bias));
        b.execute().await.unwrap();
        results.push(
            [b.read(y).await, b.read(filtered).await, b.read(loss).await].map(Result::unwrap),
        );
    }
    assert_eq!(results[0], results[1]);
}

/// Over any axis, and whatever comes before.
#[test]
fn a_norm_with_weights_is_one_kernel() {
    for axis in [0_isize, 1, -1] {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_shaped(numbers(7 * 5 * 3), [7, 5, 3]);
        let size = [7, 5, 3][axis.rem_euclid(3) as usize];
        let [weight, bias] = [numbers(size), numbers(size)].map(|data| batch.upload(data));
        (x + x.tanh()).layer_norm_with(weight, bias, axis, 1e-5).download();
        assert_eq!(batch.explain().unwrap().kernels().len(), 1, "axis {axis}");
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_shaped(numbers(7 * 5 * 3), [7, 5, 3]);
        x.rms_norm_with(batch.upload(numbers(size)), axis, 1e-5).relu().download();
        assert_eq!(batch.explain().unwrap().kernels().len(), 1, "axis {axis}");
    }
}

/// softmax(q·kᵀ / √E)·v of one head, over the keys that there are.
fn attended([q, k, v]: [&[f32]; 3], [size, width]: [usize; 2], known: &[bool]) -> Vec<f64> {
    let mut all = Vec::new();
    for query in q.chunks(width) {
        let score = |key: &[f32]| {
            let dot: f64 = query.iter().zip(key).map(|(&a, &b)| f64::from(a) * f64::from(b)).sum();
            (dot / (width as f64).sqrt()).exp()
        };
        let shares: Vec<f64> = (0..size)
            .map(|at| if known[at] { score(&k[at * width..][..width]) } else { 0.0 })
            .collect();
        let total: f64 = shares.iter().sum::<f64>().max(f64::MIN_POSITIVE);
        all.extend((0..width).map(|column| {
            let values = shares.iter().enumerate();
            values.map(|(at, share)| share * f64::from(v[at * width + column])).sum::<f64>() / total
        }));
    }
    all
}

/// As many sequences as queries, so that a mask of another axis would broadcast too.
#[tokio::test]
async fn masks_of_keys_are_of_sequences() {
    const SIZE: usize = 5;
    const WIDTH: usize = 4;
    let known: Vec<bool> = (0..SIZE * SIZE).map(|at| at % SIZE < at / SIZE).collect();
    for (heads, served) in [(3, 3), (4, 2), (1, 1)] {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let data = numbers(SIZE * heads * SIZE * WIDTH);
        let keys = &data[..SIZE * served * SIZE * WIDTH];
        let values: Vec<f32> = keys.iter().rev().copied().collect();
        let q = batch.upload_shaped(&data, [SIZE, heads, SIZE, WIDTH]);
        let [k, v] = [keys, &values].map(|x| batch.upload_shaped(x, [SIZE, served, SIZE, WIDTH]));
        let mask = batch.upload_shaped(&known, [SIZE, SIZE]);
        let how =
            Attention { mask: Some(AttentionMask::keys(&batch, mask)), ..Attention::default() };
        let mut results: Vec<Tensor<'_, f32>> = vec![q.scaled_dot_product_attention(k, v, how)];
        if heads == 1 {
            let [q, k, v] = [q, k, v].map(|x| x.squeeze(1));
            results.push(q.scaled_dot_product_attention(k, v, how));
        }
        batch.outputs(&results);
        batch.execute().await.unwrap();
        for y in results {
            let got = batch.read(y).await.unwrap();
            let head = SIZE * WIDTH;
            for (at, got) in got.chunks(head).enumerate() {
                let (sequence, of) = (at / heads, at / (heads / served));
                let own = [&data[at * head..], &keys[of * head..], &values[of * head..]];
                let own = own.map(|x| &x[..head]);
                let want = attended(own, [SIZE, WIDTH], &known[sequence * SIZE..][..SIZE]);
                let near = |(&a, &b): (&f32, &f64)| (f64::from(a) - b).abs() < 1e-6;
                assert!(got.iter().zip(&want).all(near), "{at}: {got:?}, not {want:?}");
            }
        }
    }
}
