//! Plans as people read them, for the graphs that people write. Predicted times depend on the machine, and lines on this
//! file: both are left out. Review changes with `git diff`; accept them with `INSTA_UPDATE=always cargo test`.

use onetrip::{ClassLoss, Device, GpuCommandBatch, LossReduction, Tensor};

/// Compares the plan for the CPU of what `record` records with the snapshot `name`.
fn golden(name: &str, record: impl FnOnce(&GpuCommandBatch)) {
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch);
    let plan = batch.explain().expect("a sound graph").to_string();
    let plan = without_lines(&without_times(&plan));
    insta::with_settings!({ omit_expression => true }, { insta::assert_snapshot!(name, plan) });
}

/// The text with `…` for each time, which is a number and its unit.
fn without_times(text: &str) -> String {
    let mut words: Vec<String> = Vec::new();
    for word in text.split(' ') {
        let unit = word.split(|c: char| !c.is_alphabetic()).next().unwrap_or_default();
        let number = words.last().is_some_and(|before| before.parse::<f64>().is_ok());
        if number && ["ns", "µs", "ms", "s"].contains(&unit) {
            words.pop();
            words.push(format!("…{}", &word[unit.len()..]));
        } else {
            words.push(word.into());
        }
    }
    words.join(" ")
}

/// The text with `…` for each line of this file.
fn without_lines(text: &str) -> String {
    let mut parts = text.split(concat!(file!(), ":"));
    let first = parts.next().unwrap_or_default().to_owned();
    let after = parts.map(|part| part.trim_start_matches(|c: char| c.is_ascii_digit()));
    after.fold(first, |text, after| text + file!() + ":…" + after)
}

fn input<const N: usize>(b: &GpuCommandBatch, shape: [usize; N]) -> Tensor<'_, f32> {
    b.upload_shaped(&vec![0.5; shape.iter().product()], shape)
}

#[test]
fn times_and_lines_are_left_out_and_nothing_else() {
    let text = "predicted 1.6 µs (gpu 104 µs)\n  a 3 s; cpu 547 ns, gpu 4.0 µs; reuses 4 B\n";
    let want = "predicted … (gpu …)\n  a …; cpu …, gpu …; reuses 4 B\n";
    assert_eq!(without_times(text), want);
    let text = concat!("  1. exp (map) at ", file!(), ":12\n  at ", file!(), ":3, 4 B\n");
    let want = concat!("  1. exp (map) at ", file!(), ":…\n  at ", file!(), ":…, 4 B\n");
    assert_eq!(without_lines(text), want);
}

#[test]
fn elementwise_chain() {
    golden("elementwise_chain", |b| {
        let (x, y) = (input(b, [1000, 64]), input(b, [64]));
        let x = b.mul(x, y);
        let x = b.gelu(x);
        b.clip(x, -1.0, 1.0);
    });
}

#[test]
fn digits_network() {
    golden("digits_network", |b| {
        let mut h = input(b, [360, 64]);
        for (inner, outer) in [(64, 48), (48, 32)] {
            let (w, bias) = (input(b, [inner, outer]), input(b, [outer]));
            h = b.linear(h, w, bias);
            h = b.relu(h);
        }
        let (w, bias) = (input(b, [32, 10]), input(b, [10]));
        let logits = b.linear(h, w, bias);
        let (classes, confidence) = (b.argmax(logits, -1), b.softmax(logits, -1));
        b.download(classes);
        b.download(confidence);
    });
}

#[test]
fn attention_with_merged_heads() {
    golden("attention_with_merged_heads", |b| {
        let heads = [0; 3].map(|_| {
            let x = input(b, [2, 16, 32]);
            let x = b.reshape(x, [2, 16, 4, 8]);
            b.permute(x, [0, 2, 1, 3])
        });
        let [q, k, v] = heads;
        let k = b.transpose(k);
        let scores = b.matmul(q, k);
        let scores = b.scale(scores, 0.353_553_4);
        let weights = b.softmax(scores, -1);
        let mixed = b.matmul(weights, v);
        let mixed = b.permute(mixed, [0, 2, 1, 3]);
        let mixed = b.reshape(mixed, [2, 16, 32]);
        let w = input(b, [32, 32]);
        b.matmul(mixed, w);
    });
}

#[test]
fn residual_layer_norm() {
    golden("residual_layer_norm", |b| {
        let (x, w) = (input(b, [128, 64]), input(b, [64, 64]));
        let update = b.matmul(x, w);
        let sum = b.add(x, update);
        let (gain, bias) = (input(b, [64]), input(b, [64]));
        let y = b.layer_norm(sum, -1, 1e-5);
        let y = b.mul(y, gain);
        let y = b.add(y, bias);
        b.download(sum);
        b.download(y);
    });
}

#[test]
fn standardized_columns() {
    golden("standardized_columns", |b| {
        let x = input(b, [5000, 12]);
        let mean = b.mean(x, onetrip::Axes::from(0).keep_dims());
        let centred = b.sub(x, mean);
        let square = b.square(centred);
        let variance = b.mean(square, onetrip::Axes::from(0).keep_dims());
        let scale = b.rsqrt(variance);
        b.mul(centred, scale);
    });
}

#[test]
fn losses() {
    golden("losses", |b| {
        let logits = input(b, [64, 10]);
        let classes = b.upload(&[3_i32; 64]);
        b.cross_entropy(logits, classes, ClassLoss::default());
        let (x, y) = (input(b, [64, 10]), input(b, [64, 10]));
        b.huber_loss(x, y, 1.0, LossReduction::Mean);
    });
}

#[test]
fn einsum() {
    golden("einsum", |b| {
        let (q, k) = (input(b, [2, 16, 4, 8]), input(b, [2, 16, 4, 8]));
        b.einsum("bqhd,bkhd->bhqk", &[q, k]);
        let x = input(b, [12, 12]);
        b.einsum("ii", &[x]);
    });
}

#[test]
fn movements() {
    golden("movements", |b| {
        let (x, y) = (input(b, [6, 10]), input(b, [4, 10]));
        let x = b.flip(x, 0);
        let joined = b.concat(&[x, y], 0);
        let bordered = b.pad(joined, [(1, 1), (0, 2)], -1.0);
        let part = b.slice(bordered, [(0..12, 3), (2..12, 1)]);
        let turned = b.transpose(part);
        b.exp(turned);
        b.sum(bordered, 0);
    });
}

#[test]
fn residents_and_constants() {
    golden("residents_and_constants", |b| {
        let state = b.device().resident(&[0.5_f32; 300], [300]).expect("data that fits");
        let state = b.bind(&state);
        let (gradient, half) = (input(b, [300]), b.full([], 0.5));
        let decay = b.mul(half, half);
        let state = b.mul(state, decay);
        let step = b.scale(gradient, -0.01);
        let state = b.add(state, step);
        b.keep(state);
        let norm = b.norm(state, ..);
        b.download(norm);
    });
}

#[test]
fn reuse_of_buffers() {
    golden("reuse_of_buffers", |b| {
        let mut x = input(b, [40, 40]);
        for _ in 0..4 {
            let w = input(b, [40, 40]);
            x = b.matmul(x, w);
            x = b.tanh(x);
        }
        b.logsumexp(x, 1);
    });
}
