//! How exactly a matrix product is computed.

/// How exactly the product of two `f32` matrices is computed, where the device has matrix units
/// (cooperative matrices) for `f16`. Elsewhere, and on the CPU, every choice computes [`Exact`](Self::Exact)ly.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// `f32` throughout.
    #[default]
    Exact,
    /// Each operand as the sum of two `f16`, three products of them summed in `f32` (Ootomo and Yokota, 2022). Both
    /// operands are scaled by a power of two each, found in one more pass over them, so that their size does not
    /// matter: elements down to 2⁻¹⁸ of their matrix's largest keep 22 bits, smaller ones lose relative accuracy.
    /// An infinity or NaN in an operand makes the whole result NaN.
    Split,
    /// Operands rounded to `f16` (11 bits, largest 65 504, past which they become infinite), summed in `f32`.
    Half,
}
