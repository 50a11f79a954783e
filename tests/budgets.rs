//! Budgets, by counting: one upload, one submit, one download, as few kernels as fusion allows, and
//! no more memory than the values that live together take.

mod common;

use onetrip::{
    Backend, CellWeights, Conv2d, GpuCommandBatch, Recurrence, Resident, RunStats, Tensor,
};

/// The allowed costs of a graph.
struct Budget<'a> {
    /// The kernels, each as the operations fused in it, in any order that keeps dependencies.
    kernels: &'a [&'a str],
    /// The number of kernels that a GPU runs in two dispatches, partial results and their combination.
    parts: u64,
    /// Bytes that a run holds at once: on the CPU, where uploads are read where they lie, and on a GPU.
    peak: [u64; 2],
}

/// Runs what `record` records, three times, on every device, and counts.
async fn keeps(budget: Budget<'_>, record: impl Fn(&GpuCommandBatch)) {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        record(&batch);
        let plan = batch.explain().expect("a sound graph");
        let mut kernels = plan.kernels().to_vec();
        let mut wanted: Vec<String> = budget.kernels.iter().map(ToString::to_string).collect();
        kernels.sort();
        wanted.sort();
        assert_eq!(kernels, wanted, "{plan}");
        let on_gpu = plan.backend() == Backend::Gpu;
        let dispatches = wanted.len() as u64 + if on_gpu { budget.parts } else { 0 };
        assert_eq!(plan.dispatches(), dispatches, "{plan}");
        let peak = budget.peak[usize::from(on_gpu)];
        assert_eq!(plan.peak_bytes(), peak, "{plan}");

        for run in 0..3 {
            let stats = executed(&batch).await;
            let trips = [stats.uploads, stats.submits, stats.downloads];
            assert_eq!(trips, [1, 1, 1], "run {run}: {stats}");
            assert_eq!(stats.dispatches, dispatches, "run {run}: {stats}");
            assert_eq!(stats.peak_bytes, peak, "run {run}: {stats}");
            assert_eq!(stats.backend, Some(plan.backend()));
        }
        // The second run brings no parameters, so it may want a smaller staging buffer than the first.
        let stats = batch.stats();
        assert_eq!([stats.pipelines_compiled, stats.pool_misses], [0, 0], "{stats}");
        assert_eq!((stats.plan_time + stats.compile_time).as_nanos(), 0, "{stats}");
    }
}

/// Runs `batch`; its counters.
async fn executed(batch: &GpuCommandBatch) -> RunStats {
    batch.execute().await.expect("a sound graph");
    batch.stats()
}

/// Numbers that are not all alike, in (−1, 1).
fn numbers(count: usize) -> Vec<f32> {
    (0..count).map(|i| ((i * 37 + 11) % 101) as f32 / 51.0 - 0.99).collect()
}

fn input<const N: usize>(b: &GpuCommandBatch, shape: [usize; N]) -> Tensor<'_, f32> {
    b.upload_shaped(&numbers(shape.iter().product()), shape)
}

#[tokio::test]
async fn a_chain_is_one_kernel() {
    let budget = Budget { kernels: &["exp+neg+add_scalar+abs+sqrt"], parts: 0, peak: [4012, 8024] };
    keeps(budget, |b| {
        input(b, [1003]).exp().neg().add_scalar(1.5).abs().sqrt();
    })
    .await;
}

#[tokio::test]
async fn diamonds_are_one_kernel() {
    keeps(Budget { kernels: &["sigmoid+mul"], parts: 0, peak: [400, 800] }, |b| {
        let x = input(b, [100]);
        let s = b.sigmoid(x);
        b.mul(x, s);
    })
    .await;
    keeps(
        Budget { kernels: &["exp+add_scalar+scale+tanh+mul"], parts: 0, peak: [400, 800] },
        |b| {
            let e = input(b, [100]).exp();
            let _ = e.add_scalar(1.0) * e.scale(0.5).tanh();
        },
    )
    .await;
}

/// relu(x·W₁ + b₁) → relu(·W₂ + b₂) → ·W₃ + b₃ → softmax and argmax.
fn mlp<'b>(b: &'b GpuCommandBatch, rows: usize) -> (Tensor<'b, f32>, Tensor<'b, u32>) {
    let mut h = input(b, [rows, 784]);
    for (inner, outer) in [(784, 128), (128, 64)] {
        let (w, bias) = (input(b, [inner, outer]), input(b, [outer]));
        h = h.linear(w, bias).relu();
    }
    let (w, bias) = (input(b, [64, 10]), input(b, [10]));
    let logits = b.linear(h, w, bias);
    (b.softmax(logits, -1), b.argmax(logits, -1))
}

#[tokio::test]
async fn a_network_is_a_kernel_a_layer() {
    let kernels = &["matmul+add+relu", "matmul+add+relu", "matmul+add", "softmax", "argmax"];
    let inputs = 4 * (64 * 784 + 784 * 128 + 128 + 128 * 64 + 64 + 64 * 10 + 10);
    let hidden = 4 * 64 * 128;
    // On the CPU the second layer needs a second buffer, and the classes a third; on a GPU they find room
    // where inputs were.
    let cpu = hidden + 4 * 64 * 64 + 4 * 64;
    // A GPU cuts k of the first layer, whose tiles are few, into eleven parts.
    let gpu = inputs + hidden + 11 * hidden;
    keeps(Budget { kernels, parts: 1, peak: [cpu, gpu] }, |b| {
        mlp(b, 64);
    })
    .await;
}

#[tokio::test]
async fn a_residual_layer_norm_is_one_kernel() {
    let bytes = 4 * 33 * 65;
    let budget = Budget {
        kernels: &["add+layer_norm+mul+add"],
        parts: 0,
        peak: [bytes, 3 * bytes + 2 * 4 * 65],
    };
    keeps(budget, |b| {
        let (x, update) = (input(b, [33, 65]), input(b, [33, 65]));
        let (gain, bias) = (input(b, [65]), input(b, [65]));
        b.add(x, update).layer_norm(-1, 1e-5).mul(gain).add(bias);
    })
    .await;
}

#[tokio::test]
async fn attention_is_three_kernels() {
    let heads = 4 * 2 * 3 * 16 * 8;
    let scores = 4 * 2 * 3 * 16 * 16;
    // The weights need a second buffer beside the scores, which on a GPU held the queries before.
    let budget = Budget {
        kernels: &["matmul+scale", "softmax", "matmul"],
        parts: 0,
        peak: [2 * scores, 2 * heads + 2 * scores],
    };
    keeps(budget, |b| {
        let [q, k, v] = [0; 3].map(|_| input(b, [2, 3, 16, 8]));
        q.matmul(k.transpose()).scale(0.35).softmax(-1).matmul(v);
    })
    .await;
}

#[tokio::test]
async fn transposed_operands_cost_nothing() {
    let (x, w, y) = (4 * 21 * 17, 4 * 9 * 21, 4 * 17 * 9);
    keeps(Budget { kernels: &["matmul+relu"], parts: 0, peak: [y, x + w + y] }, |b| {
        let (x, w) = (input(b, [21, 17]), input(b, [9, 21]));
        x.transpose().matmul(w.permute([1, 0])).relu();
    })
    .await;
}

#[tokio::test]
async fn joins_borders_and_slices_are_one_kernel() {
    let (x, y, z) = (4 * 4 * 6, 4 * 2 * 6, 4 * 5 * 3);
    keeps(Budget { kernels: &["exp+concat+pad+pad+neg"], parts: 0, peak: [z, x + y + z] }, |b| {
        let (x, y) = (input(b, [4, 6]), input(b, [2, 6]));
        let x = b.exp(x);
        let part = b.concat(&[x, y], 0).pad([(1, 2), (0, 1)], 7.0).slice([(1..9, -2), (1..7, 2)]);
        let _ = b.pad(part, [(0, 1), (0, 0)], -1.0).neg();
    })
    .await;
}

#[tokio::test]
async fn reductions_take_in_what_is_around_them() {
    let (x, y) = (4 * 4 * 5 * 6 * 7, 4 * 5 * 7);
    let budget = Budget { kernels: &["square+sum+add_scalar+sqrt"], parts: 0, peak: [y, x + y] };
    keeps(budget, |b| {
        input(b, [4, 5, 6, 7]).square().sum([0, -2]).add_scalar(1e-6).sqrt();
    })
    .await;
    let x = 4 * 33 * 9;
    keeps(Budget { kernels: &["sub+square+mean"], parts: 0, peak: [4, 2 * x + 4] }, |b| {
        let (x, y) = (input(b, [33, 9]), input(b, [33, 9]));
        b.sub(x, y).square().mean(..);
    })
    .await;
    // Cross entropy: the mean over rows of −Σ y·log softmax(x).
    let budget =
        Budget { kernels: &["log_softmax+mul", "sum+scale"], parts: 0, peak: [x + 4, 3 * x] };
    keeps(budget, |b| {
        let (x, y) = (input(b, [33, 9]), input(b, [33, 9]));
        b.log_softmax(x, -1).mul(y).sum(..).scale(-1.0 / 33.0);
    })
    .await;
}

#[tokio::test]
async fn independent_chains_share_the_trip() {
    let (x, y) = (4 * 50, 4 * 70);
    let budget =
        Budget { kernels: &["exp+neg", "relu+square"], parts: 0, peak: [x + y, x + 2 * y] };
    keeps(budget, |b| {
        let (x, y) = (input(b, [50]), input(b, [70]));
        let _ = (x.exp().neg(), y.relu().square());
    })
    .await;
}

#[tokio::test]
async fn a_chain_of_a_thousand_needs_two_buffers() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let start = input(&b, [77]);
        (0..1000).fold(start, |x, i| if i % 2 == 0 { x.sin() } else { x.add_scalar(0.5) });
        let plan = b.explain().unwrap();
        // A kernel holds 128 operations at most.
        assert_eq!(plan.kernels().len(), 8, "{plan}");
        assert_eq!(plan.peak_bytes(), 2 * 4 * 77, "{plan}");
        let stats = executed(&b).await;
        assert_eq!([stats.uploads, stats.submits, stats.downloads], [1, 1, 1], "{stats}");
        assert_eq!(stats.dispatches, 8, "{stats}");
    }
}

#[tokio::test]
async fn an_output_in_the_middle_is_stored_on_the_way() {
    let budget = Budget { kernels: &["exp+neg"], parts: 0, peak: [2 * 400, 3 * 400] };
    keeps(budget, |b| {
        let middle = input(b, [100]).exp();
        b.outputs([middle, b.neg(middle)]);
    })
    .await;
}

#[tokio::test]
async fn what_is_equal_is_computed_once_and_what_is_unread_never() {
    keeps(Budget { kernels: &["exp+mul"], parts: 0, peak: [400, 800] }, |b| {
        let (x, unread) = (input(b, [100]), input(b, [50]));
        let _ = b.tanh(unread);
        let (left, right) = (b.exp(x), b.exp(x));
        b.mul(left, right).download();
    })
    .await;
}

#[tokio::test]
async fn residents_are_not_brought_again() {
    for device in common::devices().await {
        let w: Resident<f32> = device.resident(&numbers(64 * 32), [64, 32]).unwrap();
        let b = GpuCommandBatch::new(&device);
        let (x, w) = (input(&b, [8, 64]), b.bind(&w));
        let h = b.matmul(x, w).relu();
        let kept = b.keep(h);
        for run in 0..2 {
            let stats = executed(&b).await;
            assert_eq!([stats.uploads, stats.submits, stats.downloads], [1, 1, 0], "{stats}");
            assert_eq!((stats.dispatches, stats.bytes_down), (1, 0), "{stats}");
            // On a GPU the first run brings the kernel's parameters, too.
            let parameters = stats.bytes_up - 4 * 8 * 64;
            let bound = if device.is_gpu() && run == 0 { 1..1024 } else { 0..1 };
            assert!(bound.contains(&parameters), "run {run}: {stats}");
            let upload = if device.is_gpu() { 4 * 8 * 64 } else { 0 };
            assert_eq!(stats.peak_bytes, upload + 4 * 64 * 32 + 4 * 8 * 32, "{stats}");
        }

        let b = GpuCommandBatch::new(&device);
        let y = b.bind(&kept).sum(0);
        for run in 0..2 {
            let stats = executed(&b).await;
            let uploads = u64::from(device.is_gpu() && run == 0);
            assert_eq!([stats.uploads, stats.submits, stats.downloads], [uploads, 1, 1], "{stats}");
        }
        assert_eq!(b.read(y).await.unwrap().len(), 32);
    }
}

#[tokio::test]
async fn other_data_compiles_nothing() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let x = b.upload(&[1.0_f32, 2.0, 3.0]);
        let y = b.square(x);
        b.execute().await.unwrap();
        assert_eq!(b.read(y).await.unwrap(), [1.0, 4.0, 9.0]);
        for step in 0..4 {
            let data = [step as f32, 0.5, -3.0];
            b.write(x, &data).unwrap();
            b.execute().await.unwrap();
            assert_eq!(b.read(y).await.unwrap(), data.map(|x| x * x));
            let stats = b.stats();
            assert_eq!(stats.pipelines_compiled, 0, "{stats}");
            assert!(step == 0 || stats.pool_misses == 0, "{stats}");
            assert_eq!((stats.plan_time + stats.compile_time).as_nanos(), 0, "{stats}");
        }
    }
}

#[tokio::test]
async fn another_batch_size_compiles_nothing() {
    /// Kernels of every form whose leading size is `rows`.
    fn record(b: &GpuCommandBatch, rows: usize) {
        mlp(b, rows);
        let (x, y) = (input(b, [rows, 40]), input(b, [40]));
        let sum = b.add(x, y);
        let _ = b.layer_norm(sum, -1, 1e-5).gelu();
        b.logsumexp(x, 1);
        b.concat(&[x, sum], 1);
        b.prod(x, 0);
    }
    let Some(device) = common::gpu().await else { return };
    let mut compiled = Vec::new();
    // The same tiles suit them.
    for rows in [64, 72, 80, 65] {
        let b = GpuCommandBatch::new(&device);
        record(&b, rows);
        compiled.push(executed(&b).await.pipelines_compiled);
    }
    assert!(compiled[0] > 0, "a fresh device knows no pipeline");
    assert_eq!(compiled[1..], [0; 3], "after {} for the first size", compiled[0]);
}

#[tokio::test]
async fn the_form_of_one_call_reads_its_result() {
    for device in common::devices().await {
        let data = numbers(10);
        let y: Vec<f32> = device.eval(|b| b.upload(&data).neg()).await.unwrap();
        assert_eq!(y, data.iter().map(|x| -x).collect::<Vec<f32>>());
    }
}

/// Values that an operation records inside and does not hand out are not results.
#[tokio::test]
async fn only_results_are_downloaded() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let x = input(&b, [3, 2, 4]);
        let start = input(&b, [1, 2, 2]);
        let cell = CellWeights::new(&b, input(&b, [6, 4]), input(&b, [6, 2]));
        b.gru(x, &[cell], start, Recurrence::default());
        let stats = executed(&b).await;
        // Every hidden state, and the last one.
        assert_eq!(stats.bytes_down, 4 * (3 * 2 * 2 + 2 * 2), "{stats}");
    }
}

/// The kernels of one more step of a recurrent layer: a product with all gates, and what is made of them.
#[tokio::test]
async fn a_recurrent_step_is_two_kernels() {
    for device in common::devices().await {
        let kernels = |gates: usize, steps: usize| {
            let b = GpuCommandBatch::new(&device);
            let x = input(&b, [steps, 3, 5]);
            let (w, u) = (input(&b, [gates * 6, 5]), input(&b, [gates * 6, 6]));
            let bias = [input(&b, [gates * 6]), input(&b, [gates * 6])];
            let cell = CellWeights::with_bias(&b, w, u, bias);
            if gates == 4 {
                b.lstm(x, &[cell], None, Recurrence::default());
            } else {
                b.gru(x, &[cell], None, Recurrence::default());
            }
            b.explain().expect("a sound graph")
        };
        for gates in [3, 4] {
            // More steps than are joined in one kernel would count their joints too.
            let (some, more) = (kernels(gates, 4), kernels(gates, 5));
            assert_eq!(more.dispatches() - some.dispatches(), 2, "{more}");
        }
    }
}

/// Inference with given means and variances costs no pass over images: it is what a convolution or a product ends with,
/// and beside that at most a kernel over channels, which takes the roots.
#[tokio::test]
async fn a_batch_norm_is_part_of_what_is_before_it() {
    for device in common::devices().await {
        let b = GpuCommandBatch::new(&device);
        let (x, w) = (input(&b, [2, 3, 12, 12]), input(&b, [8, 3, 3, 3]));
        let [mean, bias, weight] = [0; 3].map(|_| input(&b, [8]));
        let variance = b.upload(&[0.5_f32, 1.0, 2.0, 3.0, 0.25, 1.5, 1.0, 4.0]);
        let y = b.conv2d(x, w, None, Conv2d::default());
        b.batch_norm(y, mean, variance, weight, bias, 1e-5).relu();
        let (flat, w) = (input(&b, [16, 12]), input(&b, [12, 8]));
        b.matmul(flat, w).batch_norm(mean, variance, weight, None, 1e-5).sigmoid();
        let plan = b.explain().expect("a sound graph");
        let (products, others): (Vec<&String>, Vec<_>) =
            plan.kernels().iter().partition(|kernel| kernel.contains("matmul"));
        let ends = ["+relu", "+sigmoid"].map(|end| products.iter().any(|p| p.ends_with(end)));
        assert_eq!((products.len(), ends), (2, [true; 2]), "{plan}");
        assert!(others.iter().all(|kernel| *kernel == "add_scalar+rsqrt"), "{plan}");
        assert!(others.len() <= 1, "{plan}");
    }
}
