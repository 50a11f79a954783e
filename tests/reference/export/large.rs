//! Programs over large inputs, whose kernels are other ones than those of small cases. A browser compiles them.

use onetrip::{
    Attention, Causal, Conv2d, Corners, Device, GpuCommandBatch, Pool2d, SortOrder, f16,
};

/// Each program as a file, with its name.
pub async fn programs() -> Vec<(&'static str, Vec<u8>)> {
    let mut programs = Vec::new();
    for (name, record) in ALL {
        let batch = GpuCommandBatch::new(&Device::cpu());
        record(&batch);
        programs.push((*name, batch.to_bytes().await.expect("the program is sound")));
    }
    programs
}

type Record = fn(&GpuCommandBatch);

const ALL: &[(&str, Record)] = &[
    ("products", products),
    ("halves", halves),
    ("rows", rows),
    ("reductions", reductions),
    ("scans", scans),
    ("order", order),
    ("convolutions", convolutions),
    ("attention", attention),
    ("look-ups", look_ups),
    ("movements", movements),
];

fn products(b: &GpuCommandBatch) {
    let x = b.input::<f32>("x", [512, 768]);
    let w = b.input::<f32>("w", [768, 1024]);
    let y = x.matmul(w).relu();
    y.matmul(b.input::<f32>("v", [1024])).named("vector");
    b.input::<f32>("row", [1, 768]).matmul(w).named("one row");
    let many = b.input::<f32>("many", [64, 33, 65]);
    many.matmul(b.input::<f32>("others", [64, 65, 31])).named("many y");
    let whole = b.input::<i32>("i", [300, 200]);
    whole.matmul(b.input::<i32>("j", [200, 100])).named("integers");
    x.transpose().matmul(x).named("transposed");
    b.input::<f32>("long", [8, 100_000])
        .matmul(b.input::<f32>("deep", [100_000, 8]))
        .named("deep y");
}

fn halves(b: &GpuCommandBatch) {
    let x = b.input::<f16>("x", [512, 512]);
    x.matmul(x).softmax(1).named("y");
    x.sum(..).named("sum");
}

fn rows(b: &GpuCommandBatch) {
    let x = b.input::<f32>("x", [512, 4096]);
    x.softmax(1).named("softmax");
    x.softmax(0).named("columns y");
    x.layer_norm(1, 1e-5).named("layer_norm");
    x.rms_norm(0, 1e-5).named("rms_norm");
    b.input::<f32>("long", [4, 300_000]).log_softmax(1).named("long y");
    b.input::<f32>("short", [50_000, 7]).l2_normalize(1, 1e-5).named("short y");
}

fn reductions(b: &GpuCommandBatch) {
    let x = b.input::<f32>("x", [2048, 2048]);
    x.sum(..).named("all");
    x.mean(0).named("columns y");
    x.amax(1).named("rows y");
    x.argmin(..).named("at");
    x.logsumexp(0).named("logs");
    x.transpose().norm(1).named("norm");
    b.input::<u32>("u", [3, 500_000]).prod(1).named("integers");
}

fn scans(b: &GpuCommandBatch) {
    let x = b.input::<f32>("x", [1 << 20]);
    x.cumsum(0).named("one");
    b.input::<f32>("rows", [1000, 1000]).cummax(1).named("rows y");
    b.input::<i32>("columns", [1000, 1000]).cumsum(0).named("columns y");
}

fn order(b: &GpuCommandBatch) {
    let x = b.input::<f32>("x", [1 << 19]);
    x.sort(0, SortOrder::Ascending).named("sort");
    x.argsort(0, SortOrder::Descending).named("argsort");
    let (values, at) = x.top_k(100, 0, SortOrder::Descending);
    values.named("values");
    at.named("at");
    let rows = b.input::<f32>("rows", [1000, 1000]);
    rows.sort(1, SortOrder::Ascending).named("rows sorted");
    rows.sort(0, SortOrder::Ascending).named("columns sorted");
    let (values, at) = rows.top_k(10, 1, SortOrder::Descending);
    values.named("rows values");
    at.named("rows at");
}

fn convolutions(b: &GpuCommandBatch) {
    let x = b.input::<f32>("x", [4, 32, 56, 56]);
    let w = b.input::<f32>("w", [64, 32, 3, 3]);
    let conv = Conv2d { padding: [(1, 1); 2], ..Conv2d::default() };
    let y = x.conv2d(w, None, conv).relu();
    y.conv2d(b.input::<f32>("pointwise", [16, 64, 1, 1]), None, Conv2d::default())
        .named("pointwise y");
    let depthwise = Conv2d { groups: 64, ..conv };
    y.conv2d(b.input::<f32>("depthwise", [64, 1, 3, 3]), None, depthwise).named("depthwise y");
    let grouped = Conv2d { groups: 4, ..conv };
    y.conv2d(b.input::<f32>("grouped", [64, 16, 3, 3]), None, grouped).named("grouped y");
    let pool = Pool2d { stride: Some([2, 2]), padding: [(1, 1); 2], ..Pool2d::new([3, 3]) };
    y.max_pool2d(pool).named("max");
    y.avg_pool2d(pool).named("average");
    y.global_avg_pool().named("global");
    y.resize_bilinear([100, 100], Corners::HalfPixel).named("resized");
    let image = b.input::<f32>("image", [1, 3, 224, 224]);
    let first = Conv2d { stride: [2, 2], padding: [(3, 3); 2], ..Conv2d::default() };
    image.conv2d(b.input::<f32>("first", [64, 3, 7, 7]), None, first).named("first y");
}

fn attention(b: &GpuCommandBatch) {
    let side = |name: &str, rows: usize| b.input::<f32>(name, [2, 8, rows, 64]);
    let (q, k, v) = (side("q", 512), side("k", 512), side("v", 512));
    let plain = Attention::default();
    b.scaled_dot_product_attention(q, k, v, plain).named("plain");
    let causal = Attention { causal: Causal::TopLeft, ..Attention::default() };
    b.scaled_dot_product_attention(q, k, v, causal).named("causal");
    let one = side("one", 1);
    b.scaled_dot_product_attention(one, k, v, Attention::default()).named("one y");
}

fn look_ups(b: &GpuCommandBatch) {
    let table = b.input::<f32>("table", [5000, 256]);
    let ids = b.input::<u32>("ids", [3000]);
    table.embedding(ids).named("embedding");
    table.scatter_add(ids, b.input::<f32>("updates", [3000, 256]), 0).named("scatter_add");
    b.input::<u32>("numbers", [1 << 18]).histogram(1000).named("histogram");
    b.random_normal::<f32>([1 << 18], 1, 2).named("random");
}

fn movements(b: &GpuCommandBatch) {
    let x = b.input::<f32>("x", [1000, 1200]);
    x.transpose().named("transposed");
    x.flip(0).add_scalar(1.0).named("flipped");
    b.concat([x, x], 1).named("twice");
    b.input::<f32>("y", [64, 100, 30]).permute([1, 2, 0]).scale(2.0).named("permuted");
    x.eq(0.0).named("truths");
}
