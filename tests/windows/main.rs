//! Pooling and convolution against loops in `f64`, written here: random sizes, strides, borders and dilations, on every
//! device.

mod channels_last;
#[path = "../common/mod.rs"]
mod common;
mod convolution;
#[path = "../common/float64.rs"]
mod float64;
mod fused_product;
mod pooling;
mod sliding;
mod tiles;
mod transposed;

use float64::near;
use onetrip::{Device, GpuCommandBatch, Tensor};

/// Pseudo-random numbers (Knuth's linear congruential generator).
struct Rng(u64);

impl Rng {
    fn next(&mut self) -> u64 {
        self.0 =
            self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        self.0 >> 33
    }

    fn below(&mut self, end: usize) -> usize {
        (self.next() % end as u64) as usize
    }

    /// From −1 to 1.
    fn numbers(&mut self, count: usize) -> Vec<f32> {
        (0..count).map(|_| self.next() as f32 / (1_u64 << 30) as f32 - 1.0).collect()
    }
}

/// The result of `record`, and the number of its kernels.
async fn run(
    device: &Device,
    record: impl FnOnce(&GpuCommandBatch) -> Tensor<'_, f32>,
) -> (Vec<usize>, Vec<f32>, u64) {
    let batch = GpuCommandBatch::new(device);
    let result = record(&batch);
    batch.download(result);
    batch.execute().await.expect("a run");
    let dims = batch.shape(result).expect("no mistake").dims().to_vec();
    let dispatches = batch.stats().dispatches;
    (dims, batch.read(result).await.expect("what was downloaded"), dispatches)
}
