//! The chain of eight elementwise operations on four operands that several benches measure.

use onetrip::Tensor;

/// Records the chain.
pub fn record([a, b, c, d]: [Tensor<'_, f32>; 4]) -> Tensor<'_, f32> {
    ((a * b + c).relu().scale(0.5) - d).square().add_scalar(-0.125).max(a)
}
