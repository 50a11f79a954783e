//! Triangles of matrices.

use crate::base::dtype::Element;
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;

operations! {
    /// Triangles of matrices.
    "indexing";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[1_i32, 2, 3, 4], [2, 2]);
        /// let results = [
        ///     (x.triu(0), [1, 2, 0, 4]),
        ///     (x.tril(0), [1, 0, 3, 4]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert_eq!(values, expected);
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// x on the diagonal `diagonal` of its last two axes and above, else 0 (false). Diagonal 0 is the main one, 1 the one
    /// above it.
    fn triu<T: Element>(x: T; diagonal: isize) -> Tensor<'b, T> = triangle(x, diagonal, |column, row| column.ge(row)),
        ALL, ANYTHING, EXACT, "The upper triangle of matrices.";
    /// x on the diagonal `diagonal` of its last two axes and below, else 0 (false). Diagonal 0 is the main one, 1 the one
    /// above it.
    fn tril<T: Element>(x: T; diagonal: isize) -> Tensor<'b, T> = triangle(x, diagonal, |column, row| column.le(row)),
        ALL, ANYTHING, EXACT, "The lower triangle of matrices.";
}

fn triangle<'b, T: Element>(
    x: Tensor<'b, T>,
    diagonal: isize,
    keeps: impl Fn(Tensor<'b, i32>, Tensor<'b, i32>) -> Tensor<'b, bool>,
) -> TensorResult<'b, T> {
    let (b, shape) = (x.batch(), x.known_shape()?);
    let Some(lead) = shape.rank().checked_sub(2) else {
        return Err(MistakeKind::Transpose(shape).into());
    };
    let sides = &shape.dims()[lead..];
    let [Ok(rows), Ok(columns)] = [0, 1].map(|side| i32::try_from(sides[side])) else {
        return Err(MistakeKind::TooLarge(shape).into());
    };
    // Diagonals past the corners are those beside them.
    let first = diagonal.clamp(-(rows as isize), columns as isize) as i32;
    let Some(end) = first.checked_add(rows) else {
        return Err(MistakeKind::TooLarge(shape).into());
    };
    let column = b.arange(0, columns, 1);
    let row = b.arange(first, end, 1).unsqueeze(-1);
    Ok(keeps(column, row).select(x, T::default()))
}
