//! Matrix products: three kernels, and their common parts.
//!
//! - [`tiles`] for scalar units, [`strips`] for few rows, [`units`] for matrix units.
//! - [`load`] tells how an operand lies in memory and reads it, [`transfer`] moves along it and brings tiles of it to
//!   workgroup memory. [`windows`] does for a convolution what [`load`] does.
//! - [`parts`] gives each workgroup its tile, and adds the parts of k.

mod load;
mod parts;
mod strips;
mod tiles;
mod transfer;
mod units;
mod windows;

use self::load::{Factor, Reading};
use self::transfer::IndexCursor;
use self::windows::OperandWindows;
use super::Dispatch;
use super::kernel::{Kernel, OuterMaps, passed};
use crate::base::dtype::Ty;
use crate::codegen::kernel::results::MatrixResults;
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::{MatMulForm, ProductLayout};

/// Lowers a product; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(form: &MatMulForm, kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
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

/// A product with its batch dimensions collapsed.
struct Product {
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
    results: MatrixResults,
    /// The right operand's, if k and n are spread over several axes.
    windows: Option<OperandWindows>,
}

/// The texts that every kernel of the product needs.
struct Frame<'p> {
    pub functions: String,
    /// Statements that find where the batch begins in every map.
    pub bases: String,
    /// These places as arguments of `store`.
    pub base_arguments: String,
    /// One for each reading.
    pub walks: [IndexCursor<'p>; 2],
}

impl Product {
    fn new(form: &MatMulForm, kernel: &Kernel<'_>) -> Self {
        let MatMulForm { batch, m, n, k, spread, x, w, acc, schedule, .. } = form;
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
    fn sizes(&self, side: Factor) -> [usize; 2] {
        match side {
            Factor::X => [self.m, self.k],
            Factor::W => [self.n, self.k],
        }
    }

    /// Binds everything, each buffer in fours where all of its reads allow that, and defines the functions.
    /// `load_x` and `load_w` read both sides at the positions of an [`IndexCursor`]. `store(row, column, acc, …)` takes
    /// four neighbours along the row.
    pub fn frame<'p>(&'p self, kernel: &mut Kernel<'_>, readings: [Reading; 2]) -> Frame<'p> {
        let wide = self.wide(kernel, &readings);
        if self.parts == 1 {
            self.results.bind(kernel, &wide);
        }
        for reading in readings {
            let operands = kernel.operands_of(&[self.prologue(reading.side)]);
            if reading.halves {
                kernel.bind_words(operands[0]);
            } else {
                kernel.bind_operands(&operands, |o| wide[o]);
            }
        }
        let (bases, names) = self.results.maps.bases(kernel, "b", "batch");
        let mut functions = String::new();
        let walks = readings.map(|reading| {
            functions += &self.loads(kernel, reading);
            self.walk(kernel, &reading, &names)
        });
        let (base_parameters, base_arguments) = passed(&names);
        functions += &if self.parts == 1 {
            self.results.store(kernel, &names)
        } else {
            self.store_partial(kernel, &base_parameters)
        };
        Frame { functions, bases, base_arguments, walks }
    }

    /// The functions that read one side.
    fn loads(&self, kernel: &mut Kernel<'_>, reading: Reading) -> String {
        let mut load = |end| match (reading.side, &self.windows) {
            (Factor::W, Some(windows)) => windows.load(kernel, self, end),
            _ => self.load(kernel, reading, end),
        };
        let inside = load(false);
        if reading.ragged_k { inside + &load(true) } else { inside }
    }
}
