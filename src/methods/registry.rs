//! The list of all operations, for documentation, tests and tools.

use super::{create, elementwise, indexing, linear, loss, movement, nn, reduce, rows, sort};
use crate::ops::{Accepts, ELEMENTWISE, Reduction, RowKind, Scan, Tolerance};

/// The description of an operation.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct OpInfo {
    /// The method of [`GpuCommandBatch`](crate::GpuCommandBatch) that records it, and of [`Tensor`](crate::Tensor) if
    /// it has a tensor operand that is no list.
    pub name: &'static str,
    /// The family: `elementwise`, `reduce`, `row`, `scan`, `matmul`, `convolution`, `pooling`, `normalization`,
    /// `resize`, `attention`, `recurrent`, `loss`, `movement`, `indexing`, `sort`, `random`, `creation`.
    pub family: &'static str,
    /// The element types that it takes.
    pub dtypes: &'static str,
    /// The result in short.
    pub doc: &'static str,
    /// The operations that it fuses with.
    pub fusion: &'static str,
    /// The error that tests allow against an `f64` reference, in units in the last place of an `f32` and
    /// in absolute terms; for reductions it grows with the root of the number of elements.
    pub tolerance: (f64, f64),
}

/// Every operation, family by family.
pub fn registry() -> impl Iterator<Item = OpInfo> {
    let info = |name, family, accepts, doc, fusion, tolerance: Tolerance| OpInfo {
        name,
        family,
        dtypes: words::accepted(accepts),
        doc: summary(doc),
        fusion,
        tolerance: (tolerance.ulp, tolerance.abs),
    };
    let around = words::AROUND;
    let elementwise = ELEMENTWISE.iter().map(move |def| {
        info(def.name, "elementwise", def.accepts, def.doc, words::ANYTHING, def.tolerance)
    });
    let reduce = Reduction::ALL
        .iter()
        .map(|op| op.def())
        .map(move |def| info(def.name, "reduce", def.accepts, def.doc, around, def.tolerance));
    let row = RowKind::ALL
        .iter()
        .map(|op| op.def())
        .map(move |def| info(def.name, def.family, Accepts::Float, def.doc, around, def.tolerance));
    let scan = Scan::ALL
        .iter()
        .map(|op| op.def())
        .map(move |def| info(def.name, "scan", def.accepts, def.doc, around, def.tolerance));
    let families: [&[&[OpInfo]]; 6] = [
        &[rows::ROWS, elementwise::ROWS, reduce::ROWS, linear::ROWS, linear::einsum::ROWS],
        &[nn::attention::ROWS, nn::rotary::ROWS, nn::recurrent::ROWS],
        &[loss::ROWS, loss::class::ROWS, nn::conv::ROWS, nn::conv_transpose::ROWS],
        &[nn::pool::ROWS, nn::adaptive::ROWS, nn::norm::ROWS, nn::resize::ROWS, movement::ROWS],
        &[indexing::ROWS, indexing::scatter::ROWS, indexing::counting::ROWS],
        &[
            indexing::triangle::ROWS,
            sort::ROWS,
            create::random::ROWS,
            nn::dropout::ROWS,
            create::ROWS,
        ],
    ];
    let others = families.into_iter().flatten().copied().flatten().copied();
    elementwise.chain(reduce).chain(row).chain(scan).chain(others)
}

/// The first paragraph of an operation's documentation.
fn summary(doc: &'static str) -> &'static str {
    doc.split("\n\n").next().unwrap_or(doc).trim()
}

/// The words that rows are written in: element types, allowed errors, and partners of fusion.
pub(in crate::methods) mod words {
    use crate::ops::Accepts;

    pub const fn accepted(accepts: Accepts) -> &'static str {
        match accepts {
            Accepts::Element => "all",
            Accepts::Numeric => "f32 f16 i32 u32",
            Accepts::Signed => "f32 f16 i32",
            Accepts::Float => "f32 f16",
            Accepts::Logical => "bool",
        }
    }

    pub const NUMERIC: &str = accepted(Accepts::Numeric);
    pub const FLOAT: &str = accepted(Accepts::Float);
    pub const ALL: &str = accepted(Accepts::Element);

    /// The tolerance of operations that only move or select values.
    pub const EXACT: (f64, f64) = (0.0, 0.0);
    /// The tolerance of sums of products.
    pub const SUMMED: (f64, f64) = (4.0, 1e-7);
    /// The tolerance of losses and turned pairs.
    pub const COMPOSED: (f64, f64) = (16.0, 2e-6);
    /// The tolerance of normalisations and attention.
    pub const NORMED: (f64, f64) = (32.0, 4e-6);
    /// The tolerance of compositions of several functions.
    pub const GATED: (f64, f64) = (64.0, 2e-6);

    pub const ANYTHING: &str = "everything before and after";
    pub const AFTER: &str = "everything after";
    pub const AROUND: &str = "elementwise before and after";
    pub const BEFORE: &str = "elementwise before";
    pub const TURNED: &str = "elementwise before and after, transposes for free";
    pub const STORED: &str = "everything before and after; the tensor read is stored";
    pub const CELL: &str = "made of products and elementwise operations, which fuse";
    pub const LAYER: &str = "made of elementwise operations and reductions, which fuse";
    pub const CLASSES: &str = "made of elementwise operations, reductions and look-ups, which fuse";
    pub const CONVOLVED: &str =
        "elementwise before and after; on a GPU windows are never written out";
    pub const TURNED_AROUND: &str =
        "elementwise after; the tensor or its phases may be written out";
    pub const WINDOWED: &str = "elementwise before and after, borders too";
    pub const VIEW: &str = "a view, no kernel: folded into its readers";
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::*;

    #[test]
    fn each_operation_is_there_once_and_documented() {
        let mut names = HashSet::new();
        for op in registry() {
            assert!(names.insert(op.name), "{} is there twice", op.name);
            assert!(op.doc.ends_with('.') && !op.fusion.is_empty(), "{}", op.name);
        }
        assert!(names.len() > 140, "{} operations", names.len());
    }
}
