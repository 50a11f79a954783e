//! The tile that each workgroup computes.

use super::Product;
use crate::codegen::kernel::Kernel;

/// Rows of tiles that are taken together, so that what they read stays in the cache.
const BAND: usize = 8;

/// Statements that find the workgroup's tile, of `bm × bn` and `bk` of k at a time, and its part of k; and the number
/// of workgroups.
pub(super) fn locate(
    product: &Product,
    kernel: &mut Kernel<'_>,
    [bm, bn, bk]: [usize; 3],
) -> (String, usize) {
    let (rows, columns) = (product.m.div_ceil(bm), product.n.div_ceil(bn));
    let tiles = rows * columns * product.count();
    let groups = tiles * product.parts;
    let (group_count, tile_count) = (kernel.size(groups), kernel.size(tiles));
    let (rows, columns) = (kernel.size(rows), kernel.size(columns));
    let (k, chunk) = (kernel.size(product.k), kernel.size(product.chunk(bk)));
    let text = format!(
        "if id >= {group_count} {{\n    return;\n}}\n\
         let tiles = {tile_count};\n\
         // Tiles go in bands of {BAND} rows, so that what is read stays in the cache.\n\
         let rows = {rows};\n\
         let columns = {columns};\n\
         let tile = id % tiles % (rows * columns);\n\
         let batch = id % tiles / (rows * columns);\n\
         let band = tile / ({BAND}u * columns) * {BAND}u;\n\
         let height = min(rows - band, {BAND}u);\n\
         let in_band = tile % ({BAND}u * columns);\n\
         let first_row = (band + in_band % height) * {bm}u;\n\
         let first_column = (in_band / height) * {bn}u;\n\
         let first_k = id / tiles * {chunk};\n\
         let end_k = min(first_k + {chunk}, {k});\n\
         {}",
        product.announce_part()
    );
    (text, groups)
}
