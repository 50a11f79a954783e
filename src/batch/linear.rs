//! Matrix products.

use super::{BufferId, GpuCommandBatch};
use crate::dtype::Numeric;
use crate::ops::Op;

impl GpuCommandBatch {
    /// The matrix product by NumPy's rules: `[…, m, k] · […, k, n]` is `[…, m, n]` with leading dimensions
    /// broadcast; a vector on the left is a row, on the right a column, whose axis vanishes.
    /// Transposed operands cost nothing. `f16` is summed in `f32`; integers wrap.
    #[track_caller]
    pub fn matmul<T: Numeric>(&mut self, x: BufferId<T>, w: BufferId<T>) -> BufferId<T> {
        let ids = [self.check(x), self.check(w)];
        self.record(Op::MatMul, &ids)
    }

    /// x·w + b: a dense layer, with `b` broadcast over the rows.
    #[track_caller]
    pub fn linear<T: Numeric>(
        &mut self,
        x: BufferId<T>,
        w: BufferId<T>,
        b: BufferId<T>,
    ) -> BufferId<T> {
        let product = self.matmul(x, w);
        self.add(product, b)
    }
}
