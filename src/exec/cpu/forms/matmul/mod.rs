//! The matrix product form.

mod block;
mod blocks;
mod integer;
mod operand;
mod plain;
mod results;
mod single_call;
mod vector;

use gemm::Parallelism;

pub(in crate::exec::cpu) use self::block::{Block, multiply};
use self::operand::Floats;
pub(in crate::exec::cpu) use self::operand::Matrices;
pub(in crate::exec::cpu) use self::results::Results;
pub(in crate::exec::cpu) use self::single_call::SingleCall;
use crate::base::dtype::Ty;
use crate::error::DeviceError;
use crate::exec::cpu::job::Job;
use crate::exec::cpu::program::Hole;
use crate::exec::{HostBuffer, threads};
use crate::plan::{MatMulForm, Space};

/// Multiplications of one matrix from which all threads multiply it together, by `gemm`'s own parallel algorithm: they
/// share what blocks would each read for themselves, and the pass over the results that follows costs little
/// beside it.
const LARGE: usize = 1 << 32;

/// Computes the outputs of a product.
pub(crate) fn run(
    job: &Job<'_>,
    product: &MatMulForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    if let ([out], Some(plain)) =
        (&mut *outputs, job.tapes.single_call(|| plain::single_call(job, product)))
        && plain.multiply(job.values, out)
    {
        return Ok(());
    }
    let inputs = job.inputs(Space::Out);
    let tape = job.tape(Hole::After, &job.roots(), &inputs);
    let mut apart = Vec::new();
    let mut results = Results::new(outputs, &mut apart, tape, &inputs);
    if product.k == 0 {
        results.sums_mut().fill(0);
        results.finish_all();
        return Ok(());
    }
    if product.acc != Ty::F32 {
        let [x, w] = Matrices::of(job, product, false, false)?;
        integer::multiply(product, &x, &w, results.sums_mut());
        results.finish_all();
        return Ok(());
    }
    let one = product.m.saturating_mul(product.n).saturating_mul(product.k);
    let count: usize = product.batch.iter().product();
    let piecemeal =
        product.spread.is_some() && blocks::windows_once([product.m, product.n, product.k], count);
    let by_blocks = piecemeal || one < LARGE || count >= threads::count();
    let floats = Floats::new(product, Matrices::of(job, product, by_blocks, piecemeal)?);
    // Blocks copy a right operand that lies by columns, which takes `gemm` twice as long as one that lies by rows.
    if by_blocks || floats.w.strides()[1] != 1 {
        blocks::multiply(&floats, &mut results);
        return Ok(());
    }
    let [m, n, _] = floats.size;
    for (index, out) in results.sums_mut().chunks_mut(m * n).enumerate() {
        let (x, w) = (floats.x.place(index), floats.w.place(index));
        // SAFETY: both operands were found to lie in memory, with the strides of their places; `out` has m·n
        // elements, the least that `chunks_mut` gives of whole matrices.
        unsafe {
            gemm(floats.size, x, w, (out.as_mut_ptr().cast(), n), false, Parallelism::Rayon(0));
        }
    }
    results.finish_all();
    Ok(())
}

/// Where a matrix lies: its first element, and the strides of rows and columns.
#[derive(Clone, Copy)]
struct Place {
    start: *const f32,
    strides: [isize; 2],
}

impl Place {
    /// The matrix without its first `rows` and `columns`.
    fn from(self, rows: usize, columns: usize) -> Self {
        let [row, column] = self.strides;
        let start = self.start.wrapping_offset(rows as isize * row + columns as isize * column);
        Self { start, ..self }
    }
}

/// `out` = `x` times `w` for `[m, n, k]`, added to what is there if `more`. `Rayon(0)` takes all threads.
///
/// # Safety
/// All elements of `x` and `w` can be read. `out` is where m rows of n elements can be written, one a stride
/// after the other, by this call alone.
unsafe fn gemm(
    [m, n, k]: [usize; 3],
    x: Place,
    w: Place,
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
