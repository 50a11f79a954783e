//! Products that are never stored as a whole: results are computed block by block for a step that reads them at once.

use std::ops::Range;

use super::by_kernel::{self, ProductBlock, Sums};
use super::f32_operands::F32Operands;
use super::kernel::Kernel;
use super::operand::Matrices;
use super::pack_buffers::PackBuffers;
use crate::error::DeviceError;
use crate::exec::cpu::StepJob;
use crate::exec::cpu::forms::epilogue::Epilogue;
use crate::exec::cpu::tape::Machine;
use crate::plan::ProductForm;

/// A product of `f32` with its epilogue.
pub(crate) struct UnstoredProduct<'a> {
    floats: F32Operands<'a>,
    epilogue: Epilogue<'a>,
}

/// The machine and the copies of one thread.
pub(crate) struct UnstoredWorker<'p> {
    machine: Machine<'p>,
    copies: PackBuffers,
}

impl<'a> UnstoredProduct<'a> {
    /// The product of `job`.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if an operand has to be stored, and the host lacks the memory.
    pub fn of(job: &StepJob<'a>, product: &ProductForm) -> Result<Self, DeviceError> {
        let floats = F32Operands::new(product, Matrices::of(job, product, false)?);
        // Blocks need not begin with a panel.
        Ok(Self { floats: F32Operands { panels: None, ..floats }, epilogue: Epilogue::of(job) })
    }

    pub fn worker(&self) -> UnstoredWorker<'_> {
        UnstoredWorker { machine: self.epilogue.machine(), copies: PackBuffers::default() }
    }

    /// Computes the results of some columns of some rows, which are counted through all products. All rows belong to one
    /// product. The results are written to `out` row by row.
    pub fn results(
        &self,
        UnstoredWorker { machine, copies }: &mut UnstoredWorker<'_>,
        rows: Range<usize>,
        columns: Range<usize>,
        out: &mut [f32],
    ) {
        let [m, n, _] = self.floats.size;
        let (index, first, width) = (rows.start / m, rows.start % m, columns.len());
        assert!(out.len() == rows.len() * width && first + rows.len() <= m && columns.end <= n);
        let start = rows.start * n + columns.start;
        let chain = self.epilogue.chain.as_ref();
        let links = || chain.and_then(|chain| chain.of_rows(start, [rows.len(), width], n));
        let of_product = first..first + rows.len();
        let block = ProductBlock { index, rows: of_product, columns };
        let sums = Sums { start: out.as_mut_ptr(), stride: width };
        // SAFETY: `out` has all sums of the block, and this call alone has it.
        let done = unsafe {
            by_kernel::multiply(Kernel::native(), &self.floats, &block, &links, sums, copies)
        };
        if done {
            return;
        }
        for (row, out) in out.chunks_exact_mut(width).enumerate() {
            self.epilogue.apply(machine, start + row * n, out);
        }
    }
}
