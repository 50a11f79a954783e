//! The operands of a product of `f32`, and the way in which they are multiplied.

use super::operand::Matrices;
use crate::plan::ProductForm;

/// Most rows that are multiplied with rows or columns of the right operand where those lie.
pub(super) const FEW: usize = 12;

/// The operands of a product of `f32`.
pub(super) struct F32Operands<'a> {
    /// The size of one product: m, n, k.
    pub size: [usize; 3],
    /// The number of products.
    pub count: usize,
    pub x: Matrices<'a>,
    pub w: Matrices<'a>,
    /// True if sums are dot products of rows and columns where those lie. It depends on the plan and on sizes and strides
    /// alone, so that each run adds in the same order.
    pub by_dots: bool,
    /// True if few rows are multiplied with panels too, so that runs before and after these are kept add alike.
    pub by_panels: bool,
    /// All panels of the only right operand, which were packed by an earlier run.
    pub panels: Option<&'a [f32]>,
}

impl<'a> F32Operands<'a> {
    /// Pairs the operands of the products. If all share one right operand and the left ones lie one below the other,
    /// they become one product of a tall matrix.
    pub fn new(product: &ProductForm, [mut x, mut w]: [Matrices<'a>; 2]) -> Self {
        let mut m = product.m;
        let mut count: usize = product.batch.iter().product();
        if !product.batch.is_empty() && w.is_shared() && x.fold_batch() {
            w.view.dims.drain(..product.batch.len());
            w.view.strides.drain(..product.batch.len());
            m *= count;
            count = 1;
        }
        let size @ [m, n, k] = [m, product.n, product.k];
        assert!(x.lies_in_memory(count, [m, k]) && w.lies_in_memory(count, [k, n]));
        let by_panels = count == 1 && w.is_worth_panels([k, n]);
        let by_dots = !by_panels && m <= FEW && w.has_columns();
        // More rows are multiplied with panels anyway.
        let panels = (by_panels || (count == 1 && !by_dots && m > FEW))
            .then(|| w.kept_panels([k, n]))
            .flatten();
        Self { size, count, x, w, by_dots, by_panels, panels }
    }
}
