//! The tile of each workgroup, and products whose k is cut into parts: partial sums in scratch memory, and the dispatch
//! that adds them.

use super::Product;
use crate::codegen::Dispatch;
use crate::codegen::kernel::results::Combined;
use crate::codegen::kernel::{Kernel, THREADS};

impl Product {
    /// The function that leaves partial sums in the scratch memory, as `[parts, batch, m, n]`. It takes the part
    /// and the batch from private variables.
    pub fn store_partial(&self, kernel: &mut Kernel<'_>, base_parameters: &str) -> String {
        let scratch = kernel.bind_scratch(true);
        let (m, n) = (kernel.size(self.m), kernel.size(self.n));
        let count = kernel.size(self.count());
        let mut text = format!(
            "fn store(row: u32, column: u32, acc: vec4<{}>{base_parameters}) {{\n    \
             if row >= {m} {{ return; }}\n    \
             let at = ((part * {count} + batch_of) * {m} + row) * {n} + column;\n",
            self.ty_name()
        );
        for lane in 0..4 {
            text += &format!(
                "    if column + {lane}u < {n} {{ {scratch}[at + {lane}u] = bitcast<u32>(acc[{lane}]); }}\n"
            );
        }
        format!("var<private> part: u32;\nvar<private> batch_of: u32;\n\n{text}}}\n")
    }

    /// Adds the parts and stores the outputs.
    pub fn combine(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let Combined { scratch, functions, bases, each } = self.results.combined(&mut kernel);
        let results = self.m * self.n * self.count();
        let holes = [
            ("functions", functions),
            ("ty", self.ty_name().to_string()),
            ("scratch", scratch),
            ("results", kernel.size(results)),
            ("parts", kernel.size(self.parts)),
            ("m", kernel.size(self.m)),
            ("n", kernel.size(self.n)),
            ("bases", bases),
            ("each", each),
        ];
        let template = include_str!("../../../shaders/product_combine.wgsl");
        kernel.dispatch(template, &holes, " (combine)", results.div_ceil(THREADS))
    }

    /// The addition to the step's label for the first dispatch.
    pub fn phase(&self) -> &'static str {
        if self.parts > 1 { " (parts)" } else { "" }
    }
}

/// Rows of tiles that are taken together, so that their operands stay in the cache.
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
        if product.parts > 1 { "part = id / tiles;\nbatch_of = batch;" } else { "" }
    );
    (text, groups)
}
