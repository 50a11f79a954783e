//! Matrix products and their exactness.

use crate::base::shape::Shape;
use crate::error::MistakeKind;

/// The dimensions of a matrix product by NumPy's rules.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct MatMulDims {
    /// The broadcast leading dimensions.
    pub batch: Shape,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// True if x is a vector: a row of length k whose axis vanishes from the result.
    pub vector_x: bool,
    /// True if w is a vector: a column of length k whose axis vanishes from the result.
    pub vector_w: bool,
}

impl MatMulDims {
    pub fn of(x: &Shape, w: &Shape) -> Result<Self, MistakeKind> {
        let (vector_x, vector_w) = (x.rank() == 1, w.rank() == 1);
        let scalar = || MistakeKind::MatMulRank(x.clone(), w.clone());
        let (batch_x, m, k) = match x.dims() {
            &[k] => (&[][..], 1, k),
            [batch @ .., m, k] => (batch, *m, *k),
            [] => return Err(scalar()),
        };
        let (batch_w, inner, n) = match w.dims() {
            &[k] => (&[][..], k, 1),
            [batch @ .., k, n] => (batch, *k, *n),
            [] => return Err(scalar()),
        };
        if k != inner {
            return Err(MistakeKind::MatMulInner(x.clone(), w.clone()));
        }
        let batch = Shape::from(batch_x)
            .broadcast(&Shape::from(batch_w))
            .ok_or_else(|| MistakeKind::MatMulBatch(x.clone(), w.clone()))?;
        Ok(Self { batch, m, n, k, vector_x, vector_w })
    }

    /// The shape of the result.
    pub fn shape(&self) -> Shape {
        let m = (!self.vector_x).then_some(self.m);
        let n = (!self.vector_w).then_some(self.n);
        self.batch.dims().iter().copied().chain(m).chain(n).collect()
    }
}

/// The highest exactness of the product of two `f32` matrices where the device has matrix units (cooperative matrices)
/// that multiply `f16` and add in `f32`. Products of eight rows or fewer, which such units do not speed up, are
/// [`Exact`](Self::Exact) with every choice, as all are on other devices and on the CPU.
/// [`explain`](crate::GpuCommandBatch::explain) names the units that a kernel runs on.
///
/// The error of a product of uniform numbers in −1..1 with k = 4096 was 1.3e-6 with `Exact`, 3.5e-7 with `Split` and
/// 2.7e-4 with `Half`. It is measured in norm against float64 (`cargo bench --bench kernels`); `BENCHMARKS.md` has the
/// rates.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Precision {
    /// `f32` throughout.
    #[default]
    Exact,
    /// Each operand is the sum of two `f16`; three products of them are summed in `f32` (Ootomo and Yokota, 2022). Each
    /// matrix of a batch is scaled by a power of two, found in one more pass over it. If the other operand is a vector,
    /// one power scales the whole operand. Elements down to 2⁻¹⁸ of the largest keep 22 bits; smaller ones lose
    /// relative accuracy. One infinity or NaN in a matrix makes its whole product NaN.
    Split,
    /// Operands rounded to `f16` (11 bits; past 65 504 they become infinite), summed in `f32`.
    Half,
}
