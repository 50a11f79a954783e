//! A product with its batch dimensions collapsed.

use super::reading::Factor;
use super::windows::OperandWindows;
use crate::base::dtype::Ty;
use crate::codegen::kernel::results::MatrixResults;
use crate::codegen::kernel::{KernelBuilder, OuterMaps};
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::ProductForm;

/// A product with its batch dimensions collapsed.
pub(super) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Parts that k is cut into.
    pub parts: usize,
    /// The type of the sum.
    pub ty: Ty,
    /// The prologues.
    x: Ref,
    w: Ref,
    pub results: MatrixResults,
    /// The right operand's, if k and n are spread over several axes.
    pub windows: Option<OperandWindows>,
}

impl Product {
    pub fn new(form: &ProductForm, kernel: &KernelBuilder<'_>) -> Self {
        let ProductForm { batch, m, n, k, spread, x, w, acc, schedule, .. } = form;
        let maps = OuterMaps::new(kernel, batch, &[*x, *w]);
        let windows = |spread| {
            OperandWindows::new(kernel.step, spread, kernel.operands_of(&[*w]), batch.len())
        };
        Self {
            m: *m,
            n: *n,
            k: *k,
            parts: schedule.parts,
            ty: *acc,
            x: *x,
            w: *w,
            results: MatrixResults { rows: *m, columns: *n, ty: *acc, maps },
            windows: spread.as_ref().map(windows),
        }
    }

    pub fn ty_name(&self) -> &'static str {
        type_name(self.ty)
    }

    /// Products in the batch.
    pub fn count(&self) -> usize {
        self.results.maps.axes.len()
    }

    /// Elements of k in each part but the last, a multiple of `unit`.
    pub fn chunk(&self, unit: usize) -> usize {
        self.k.div_ceil(self.parts).next_multiple_of(unit)
    }

    pub fn prologue(&self, side: Factor) -> Ref {
        match side {
            Factor::X => self.x,
            Factor::W => self.w,
        }
    }

    /// The sizes of a side's axis across k and of k.
    pub fn sizes(&self, side: Factor) -> [usize; 2] {
        match side {
            Factor::X => [self.m, self.k],
            Factor::W => [self.n, self.k],
        }
    }
}
