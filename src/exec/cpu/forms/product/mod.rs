//! The form `product`: matrix products, and convolutions as such.

mod blocks;
mod by_images;
mod by_kernel;
mod f32_operands;
mod find_prepared;
mod gemv;
mod images;
mod integer;
mod kept_panels;
mod kernel;
mod operand;
mod outputs;
mod pack_buffers;
mod prepared;
mod unstored;
mod winograd;

pub(crate) use self::by_kernel::rows_of;
use self::f32_operands::F32Operands;
pub(crate) use self::kernel::{Kernel, PanelProduct, Panels, Rows, TransposedLeftProduct};
pub(crate) use self::operand::Matrices;
pub(crate) use self::outputs::ProductOutputs;
pub(crate) use self::unstored::UnstoredProduct;
use crate::base::dtype::Ty;
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::operands::Images;
use crate::plan::ProductForm;

pub(crate) fn run(
    job: &StepJob<'_>,
    product: &ProductForm,
    outputs: &mut [HostBuffer],
) -> Result<(), DeviceError> {
    if let ([out], Some(prepared)) =
        (&mut *outputs, job.cache.prepared_product(|| find_prepared::find(job, product)))
        && prepared.multiply(job, out).is_some()
    {
        return Ok(());
    }
    let (epilogue, mut scratch_sums) = (Epilogue::of(job), Vec::new());
    let mut results = ProductOutputs::new(outputs, &mut scratch_sums, &epilogue);
    if product.k == 0 {
        results.sums_mut().fill(0);
        results.finish_all();
        return Ok(());
    }
    if product.acc != Ty::F32 {
        let [x, w] = Matrices::of(job, product, true)?;
        integer::multiply(product, &x, &w, results.sums_mut());
        results.finish_all();
        return Ok(());
    }
    let floats = F32Operands::new(product, Matrices::of(job, product, false)?);
    let [_, n, k] = floats.size;
    let is_narrow = by_kernel::last_columns(Kernel::native(), [n, k]) == n;
    if let Some(images) = floats.w.windows().filter(|_| !is_narrow).and_then(Images::of) {
        let shared = !blocks::is_for_one_thread(&floats);
        if winograd::multiply(&floats, &images, shared, &mut results)
            || by_images::multiply(&floats, &images, shared, &mut results)
        {
            return Ok(());
        }
    }
    blocks::multiply(&floats, &mut results);
    Ok(())
}
