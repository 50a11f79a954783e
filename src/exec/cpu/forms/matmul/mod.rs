//! The matrix product form.

mod apart;
mod blocks;
mod by_images;
mod by_kernel;
mod copies;
mod find_call;
mod floats;
mod gemm_call;
mod images;
mod integer;
mod kept;
mod kernel;
mod operand;
mod outputs;
pub(in crate::exec::cpu) mod single_call;
mod vector;
mod winograd;

use gemm::Parallelism;

pub(crate) use self::apart::ProductApart;
pub(crate) use self::by_kernel::{rows_of, steps};
use self::floats::Floats;
use self::gemm_call::gemm;
pub(crate) use self::kernel::{ColumnProduct, Kernel, PanelProduct, Panels, Rows};
pub(crate) use self::operand::Matrices;
pub(crate) use self::outputs::ProductOutputs;
use crate::base::dtype::Ty;
use crate::error::DeviceError;
use crate::exec::cpu::Job;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::operands::Images;
use crate::exec::{HostBuffer, threads};
use crate::plan::ProductForm;

/// Number of multiplications of one product from which all threads compute it together, by `gemm`'s own parallel
/// algorithm. They share the reads that blocks would each make for themselves. The pass over the results that follows
/// costs little beside it.
const LARGE: u64 = 1 << 32;

pub(crate) fn run(
    job: &Job<'_>,
    product: &ProductForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    if let ([out], Some(plain)) =
        (&mut *outputs, job.tapes.single_call(|| find_call::find(job, product)))
        && plain.multiply(job.values, out)
    {
        return Ok(());
    }
    let (epilogue, mut apart) = (Epilogue::of(job), Vec::new());
    let mut results = ProductOutputs::new(outputs, &mut apart, &epilogue);
    if product.k == 0 {
        results.sums_mut().fill(0);
        results.finish_all();
        return Ok(());
    }
    if product.acc != Ty::F32 {
        let [x, w] = Matrices::of(job, product, false)?;
        integer::multiply(product, &x, &w, results.sums_mut());
        results.finish_all();
        return Ok(());
    }
    let one = product.m.saturating_mul(product.n).saturating_mul(product.k);
    let count: usize = product.batch.iter().product();
    let by_blocks = product.spread.is_some() || (one as u64) < LARGE || count >= threads::count();
    let floats = Floats::new(product, Matrices::of(job, product, by_blocks)?);
    if let Some(images) = floats.w.windows().and_then(Images::of) {
        let shared = !blocks::is_one_block(&floats);
        if winograd::multiply(&floats, &images, shared, &mut results)
            || by_images::multiply(&floats, &images, shared, &mut results)
        {
            return Ok(());
        }
    }
    // `gemm` takes twice as long for a right operand that lies by columns as for one that lies by rows.
    if by_blocks || floats.w.strides()[1] != 1 {
        blocks::multiply(&floats, &mut results);
        return Ok(());
    }
    let [m, n, _] = floats.size;
    for (index, out) in results.sums_mut().chunks_mut(m * n).enumerate() {
        let (x, w) = (floats.x.pointer(index), floats.w.pointer(index));
        // SAFETY: both operands lie in memory with the strides of their pointers, as `Floats` asserts, and consist of
        // words if products are not done by blocks. `out` has m·n elements, since the sums are whole matrices.
        unsafe {
            gemm(floats.size, x, w, (out.as_mut_ptr().cast(), n), false, Parallelism::Rayon(0));
        }
    }
    results.finish_all();
    Ok(())
}
