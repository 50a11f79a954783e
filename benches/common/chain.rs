//! The chain of eight elementwise operations on four operands that several benches measure.

use onetrip::{BufferId, GpuCommandBatch};

/// Records the chain.
pub fn record(batch: &mut GpuCommandBatch, [a, b, c, d]: [BufferId<f32>; 4]) -> BufferId<f32> {
    let y = batch.mul(a, b);
    let y = batch.add(y, c);
    let y = batch.relu(y);
    let y = batch.scale(y, 0.5);
    let y = batch.sub(y, d);
    let y = batch.square(y);
    let y = batch.add_scalar(y, -0.125);
    batch.max(y, a)
}
