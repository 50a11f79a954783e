//! The tile of each workgroup, and products whose k is cut into parts: partial sums in scratch memory, and the dispatch
//! that adds them.

use super::collapsed::Product;
use crate::codegen::Dispatch;
use crate::codegen::kernel::template::{fill, holes, shader};
use crate::codegen::kernel::{KernelBuilder, THREADS};

impl Product {
    /// The function that leaves partial sums in the scratch memory, as `[parts, batch, m, n]`. It takes the part
    /// and the batch from private variables.
    pub fn store_partial(&self, kernel: &mut KernelBuilder<'_>, base_parameters: &str) -> String {
        let holes = holes! {
            scratch: kernel.bind_scratch(true), m: kernel.size(self.m), n: kernel.size(self.n),
            count: kernel.size(self.count()), ty: self.ty_name(), base_parameters,
        };
        fill(shader!("product/partial.wgsl"), &holes)
    }

    /// Adds the parts and stores the outputs.
    pub fn combine(&self, mut kernel: KernelBuilder<'_>) -> Dispatch {
        let mut holes = self.results.combined(&mut kernel);
        let results = self.m * self.n * self.count();
        holes.extend(holes! {
            ty: self.ty_name(), results: kernel.size(results), parts: kernel.size(self.parts),
            m: kernel.size(self.m), n: kernel.size(self.n),
        });
        let groups = results.div_ceil(THREADS);
        kernel.dispatch(shader!("product/combine.wgsl"), &holes, " (combine)", groups)
    }

    /// The addition to the step's label for the first dispatch.
    pub fn part_label(&self) -> &'static str {
        if self.parts > 1 { " (parts)" } else { "" }
    }
}

/// Rows of tiles that are taken together, so that their operands stay in the cache.
const BAND: usize = 8;

/// Statements that find the workgroup's tile, of `bm × bn` and `bk` of k at a time, and its part of k; and the number
/// of workgroups.
pub(super) fn locate(
    product: &Product,
    kernel: &mut KernelBuilder<'_>,
    [bm, bn, bk]: [usize; 3],
) -> (String, usize) {
    let (rows, columns) = (product.m.div_ceil(bm), product.n.div_ceil(bn));
    let tiles = rows * columns * product.count();
    let groups = tiles * product.parts;
    let part = if product.parts > 1 { "part = id / tiles;\nbatch_of = batch;" } else { "" };
    let holes = holes! {
        groups: kernel.size(groups), tiles: kernel.size(tiles), rows: kernel.size(rows),
        columns: kernel.size(columns), k: kernel.size(product.k),
        chunk: kernel.size(product.chunk(bk)), band: BAND, bm, bn, part,
    };
    (fill(shader!("product/locate.wgsl"), &holes), groups)
}
