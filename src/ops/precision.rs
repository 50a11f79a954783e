//! The exactness of matrix products.

/// The highest exactness of the product of two `f32` matrices where the device has matrix units
/// (cooperative matrices) that multiply `f16` and add in `f32`. Products of eight rows or fewer, which such units do not
/// speed up, are [`Exact`](Self::Exact) with every choice, as all are on other devices and on the CPU.
/// [`explain`](crate::GpuCommandBatch::explain) names what a kernel runs on.
///
/// On uniform numbers in −1..1 with k = 4096, the error of the whole against float64 in norm was 1.3e-6 with `Exact`,
/// 3.5e-7 with `Split` and 2.7e-4 with `Half` (`cargo bench --bench kernels`; `BENCHMARKS.md` has the rates).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// `f32` throughout.
    #[default]
    Exact,
    /// Each operand as the sum of two `f16`, three products of them summed in `f32` (Ootomo and Yokota, 2022). Each
    /// matrix of a batch (all of an operand, where the other is a vector) is scaled by a power of two, found in one
    /// more pass over it, so that its size does not matter: elements down to 2⁻¹⁸ of its largest keep 22 bits, smaller
    /// ones lose relative accuracy. An infinity or NaN in it makes its whole product NaN.
    Split,
    /// Operands rounded to `f16` (11 bits; past 65 504 they become infinite), summed in `f32`.
    Half,
}
