//! Attention, rows of halves, tables, and operands that repeat.

use half::f16;
use onetrip::{Attention, AttentionMask, Causal, Device, GpuCommandBatch};

use crate::float64::near;
use crate::numbers;

/// Heads, queries, keys, elements of a query and of a value.
type Sizes = [usize; 5];

/// An attention in double precision. `mask` is what is added to the score of a query and a key.
fn attended(
    [heads, queries, keys, width, out]: Sizes,
    [q, k, v]: [&[f32]; 3],
    mask: impl Fn(usize, usize) -> f64,
) -> Vec<f64> {
    let mut all = Vec::new();
    for (head, query) in (0..heads).flat_map(|head| (0..queries).map(move |q| (head, q))) {
        let score = |key: usize| {
            let [q, k] =
                [&q[(head * queries + query) * width..], &k[(head * keys + key) * width..]];
            let terms = q.iter().zip(k).take(width).map(|(&q, &k)| f64::from(q) * f64::from(k));
            (terms.sum::<f64>() / (width as f64).sqrt() + mask(query, key)).exp()
        };
        let weights: Vec<f64> = (0..keys).map(score).collect();
        let total: f64 = weights.iter().sum();
        let value = |key: usize, at: usize| f64::from(v[(head * keys + key) * out + at]);
        let sum = |at: usize| (0..keys).map(|key| weights[key] * value(key, at)).sum::<f64>();
        all.extend((0..out).map(|at| sum(at) / total));
    }
    all
}

#[tokio::test]
async fn attention_with_each_kind_of_mask() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let mut all = Vec::new();
    // The keys of the second are more than a block.
    for sizes @ [heads, queries, keys, width, out] in [[2, 3, 5, 6, 5], [1, 2, 130, 3, 2]] {
        let qs = numbers(heads * queries * width, 1);
        let ks = numbers(heads * keys * width, 2);
        let vs = numbers(heads * keys * out, 3);
        let added = numbers(queries * keys, 4);
        let q = batch.upload_shaped(&qs, [heads, queries, width]);
        let k = batch.upload_shaped(&ks, [heads, keys, width]);
        let v = batch.upload_shaped(&vs, [heads, keys, out]);
        let inputs = [&qs[..], &ks, &vs];
        let mask = batch.upload_shaped(&added, [queries, keys]);
        let mask = Some(AttentionMask::add(&batch, mask));
        let how = Attention { mask, ..Attention::default() };
        let want = attended(sizes, inputs, |query, key| f64::from(added[query * keys + key]));
        all.push(("mask", q.scaled_dot_product_attention(k, v, how), want));
        if keys > 128 {
            continue;
        }
        let y = q.scaled_dot_product_attention(k, v, Attention::default());
        all.push(("plain", y, attended(sizes, inputs, |_, _| 0.0)));
        let how = Attention { causal: Causal::TopLeft, ..Attention::default() };
        let later = |query, key| if key > query { f64::NEG_INFINITY } else { 0.0 };
        let want = attended(sizes, inputs, later);
        all.push(("causal", q.scaled_dot_product_attention(k, v, how), want));
    }
    batch.execute().await.unwrap();
    for (case, y, want) in all {
        near(case, &batch.read(y).await.unwrap(), &want, 1e-5);
    }
}

#[tokio::test]
async fn rows_of_halves_and_what_follows_them() {
    let device = Device::cpu();
    let [rows, columns] = [9, 67];
    let data: Vec<f16> = numbers(rows * columns, 1).into_iter().map(f16::from_f32).collect();
    let bias = numbers(columns, 2);
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload_shaped(&data, [rows, columns]);
    let shifted = x.softmax(1).cast::<f32>() * 3.0 + batch.upload(&bias);
    let normal = x.layer_norm(1, 1e-3);
    let doubled = x + x;
    let sums = x.sum(1);
    batch.execute().await.unwrap();

    let all: Vec<f64> = data.iter().map(|x| f64::from(x.to_f32())).collect();
    let (mut soft, mut normals, mut totals) = (Vec::new(), Vec::new(), Vec::new());
    for row in all.chunks(columns) {
        let total: f64 = row.iter().map(|x| x.exp()).sum();
        let after = |(x, &bias): (&f64, &f32)| x.exp() / total * 3.0 + f64::from(bias);
        soft.extend(row.iter().zip(&bias).map(after));
        let sum: f64 = row.iter().sum();
        let mean = sum / columns as f64;
        let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / columns as f64;
        normals.extend(row.iter().map(|x| (x - mean) / (variance + 1e-3).sqrt()));
        totals.push(sum);
    }
    let floats = |halves: Vec<f16>| halves.iter().map(|x| x.to_f32()).collect::<Vec<_>>();
    near("softmax", &batch.read(shifted).await.unwrap(), &soft, 2e-3);
    near("layer_norm", &floats(batch.read(normal).await.unwrap()), &normals, 2e-3);
    let twice: Vec<f64> = all.iter().map(|x| 2.0 * x).collect();
    near("sums of two", &floats(batch.read(doubled).await.unwrap()), &twice, 0.0);
    near("sums", &floats(batch.read(sums).await.unwrap()), &totals, 2e-3);
}

#[tokio::test]
async fn elements_of_tables_and_operands_that_repeat() {
    let device = Device::cpu();
    let [rows, columns, looked_up] = [11, 70, 19];
    let (table, of_row, of_column) =
        (numbers(rows * columns, 1), numbers(looked_up, 2), numbers(columns, 3));
    let ids: Vec<u32> = (0..looked_up).map(|at| (at * 5 % rows) as u32).collect();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload_shaped(&table, [rows, columns]).embedding(batch.upload(&ids));
    let each_row = batch.upload_shaped(&of_row, [looked_up, 1]);
    let y = (x * each_row.exp() + batch.upload(&of_column)).tanh();
    let last = x.gather(batch.upload(&[69_u32, 0, 33]), 1) + each_row;
    batch.execute().await.unwrap();
    let element = |row: usize, column| f64::from(table[ids[row] as usize * columns + column]);
    let one = |at: usize| {
        let (row, column) = (at / columns, at % columns);
        let sum = element(row, column) * f64::from(of_row[row]).exp();
        (sum + f64::from(of_column[column])).tanh()
    };
    let want: Vec<f64> = (0..looked_up * columns).map(one).collect();
    near("broadcast", &batch.read(y).await.unwrap(), &want, 1e-5);
    let of_last = |at: usize| element(at / 3, [69, 0, 33][at % 3]) + f64::from(of_row[at / 3]);
    let want: Vec<f64> = (0..3 * looked_up).map(of_last).collect();
    near("gather", &batch.read(last).await.unwrap(), &want, 1e-6);
}
