//! Matrix products: three kernels, and their common parts.
//!
//! - [`tiles`] for scalar units, [`strips`] for few rows, [`units`] for matrix units.
//! - [`load`] tells how an operand lies in memory and reads it, [`transfer`] moves along it and brings tiles of it to
//!   workgroup memory. [`windows`] does for a convolution what [`load`] does.
//! - [`frame`] binds and declares what every kernel needs.
//! - [`parts`] gives each workgroup its tile, and adds the parts of k.

mod collapsed;
mod frame;
mod load;
mod parts;
mod reading;
mod strips;
mod tiles;
mod transfer;
mod units;
mod windows;

use self::collapsed::Product;
use super::Dispatch;
use super::kernel::KernelBuilder;
use crate::plan::{ProductForm, ProductLayout};

/// Lowers a product; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(
    form: &ProductForm,
    kernel: &dyn Fn() -> KernelBuilder<'a>,
) -> Vec<Dispatch> {
    let first = kernel();
    let product = Product::new(form, &first);
    let dispatch = match form.schedule.layout {
        ProductLayout::Tiles(tile) => tiles::lower(&product, first, tile),
        ProductLayout::Strips(strip) => strips::lower(&product, first, strip),
        ProductLayout::Units(tile) => units::lower(&product, first, tile),
    };
    if product.parts == 1 {
        return vec![dispatch];
    }
    vec![dispatch, product.combine(kernel())]
}
