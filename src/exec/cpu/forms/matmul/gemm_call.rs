//! A call of `gemm` for matrices in memory.

use gemm::Parallelism;

/// A matrix in memory: its first element, and the strides of rows and columns.
#[derive(Clone, Copy)]
pub(super) struct MatrixPointer {
    pub start: *const f32,
    pub strides: [isize; 2],
}

/// Computes `out` = `x` times `w` for `[m, n, k]`, added to the elements of `out` if `more`. `Rayon(0)` takes all
/// threads.
///
/// # Safety
/// All elements of `x` and `w` can be read. At `out`, m rows of n elements can be written by this call alone, each
/// `stride` elements after the one before.
pub(super) unsafe fn gemm(
    [m, n, k]: [usize; 3],
    x: MatrixPointer,
    w: MatrixPointer,
    (out, stride): (*mut f32, usize),
    more: bool,
    parallel: Parallelism,
) {
    let ([x_row, x_column], [w_row, w_column]) = (x.strides, w.strides);
    // SAFETY: as the caller promises.
    unsafe {
        gemm::gemm(
            m,
            n,
            k,
            out,
            1,
            stride as isize,
            more,
            x.start,
            x_column,
            x_row,
            w.start,
            w_column,
            w_row,
            1.0,
            1.0,
            false,
            false,
            false,
            parallel,
        );
    }
}
