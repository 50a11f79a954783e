//! An attention with its batch dimensions collapsed.

use crate::base::dtype::Ty;
use crate::codegen::kernel::results::MatrixResults;
use crate::codegen::kernel::{KernelBuilder, OuterMaps};
use crate::expr::Ref;
use crate::plan::AttentionForm;

/// The start of a running maximum: less than any score but −∞.
pub(super) const LEAST: &str = "-3.4028234e38f";
/// log₂ e, in a product.
const UNIT: &str = "1.442695f * ";

/// An attention with its batch dimensions collapsed.
pub(super) struct CollapsedAttention<'a> {
    pub form: &'a AttentionForm,
    pub results: MatrixResults,
}

impl<'a> CollapsedAttention<'a> {
    pub fn new(form: &'a AttentionForm, kernel: &KernelBuilder<'_>) -> Self {
        let maps = OuterMaps::new(kernel, &form.batch, &prologues(form));
        let results = MatrixResults { rows: form.queries, columns: form.out, ty: Ty::F32, maps };
        Self { form, results }
    }

    /// The factor that turns differences of scores into powers of two. Without a mask, the scale has it.
    pub fn unit(&self) -> &'static str {
        if self.form.mask.is_some() { UNIT } else { "" }
    }

    /// The factor of the scale.
    pub fn scale_unit(&self) -> &'static str {
        if self.form.mask.is_some() { "" } else { UNIT }
    }
}

/// The roots of the queries, the keys, the values and, if there is one, the mask.
pub(super) fn prologues(form: &AttentionForm) -> Vec<Ref> {
    [form.q, form.k, form.v].into_iter().chain(form.mask).collect()
}
