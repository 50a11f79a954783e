//! Matrix products: tiles in workgroup memory, a block of the result in each thread's registers.

use std::fmt::Write;

use super::Dispatch;
use super::collapse::Axes;
use super::kernel::{Function, Kernel};
use super::tile::{Layout, Transfer};
use crate::dtype::Ty;
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::{Form, Tile};
use crate::shape::View;

/// Lowers the product of `kernel`'s step.
pub(super) fn lower(kernel: Kernel<'_>) -> Vec<Dispatch> {
    let Form::MatMul { batch, m, n, k, x, w, acc, tile } = &kernel.step.form else {
        return Vec::new();
    };
    let product = Product::new(&kernel, batch, [*m, *n, *k], [*x, *w], *acc);
    let bytes = kernel.limits.workgroup_bytes as usize;
    let layout = Layout::new(*tile, product.x_along_k, product.w_along_k, bytes);
    vec![product.dispatch(kernel, &layout)]
}

/// A product with its batch dimensions collapsed.
struct Product {
    m: usize,
    n: usize,
    k: usize,
    /// The prologues.
    x: Ref,
    w: Ref,
    ty: Ty,
    /// Operands of both prologues and of the outputs.
    operands: Vec<usize>,
    /// The maps along the batch: the outputs', then the operands'.
    batch: Axes,
    /// Where each of these maps begins.
    offsets: Vec<i64>,
    /// Whether neighbouring threads walk along k in each operand.
    x_along_k: bool,
    w_along_k: bool,
}

impl Product {
    fn new(
        kernel: &Kernel<'_>,
        batch: &[usize],
        [m, n, k]: [usize; 3],
        [x, w]: [Ref; 2],
        ty: Ty,
    ) -> Self {
        let step = kernel.step;
        let all_roots: Vec<_> = [x, w].into_iter().chain(kernel.output_roots()).collect();
        let operands = kernel.operands_of(&all_roots);
        let rank = batch.len();
        let maps = step.outputs.iter().map(|o| &o.view);
        let maps: Vec<_> = maps.chain(operands.iter().map(|&o| &step.operands[o].view)).collect();
        let strides: Vec<&[i64]> = maps.iter().map(|view| &view.strides[..rank]).collect();
        let along_k = |root, outer: usize, k_axis: usize| {
            let views = kernel.operands_of(&[root]).into_iter().map(|o| &step.operands[o].view);
            let steps = |view: &View, axis: usize| {
                if view.dims[axis] == 1 { 0 } else { view.strides[axis].unsigned_abs() }
            };
            let mut pairs = views.map(|v| (steps(v, rank + k_axis), steps(v, rank + outer)));
            pairs.find(|&pair| pair != (0, 0)).is_none_or(|(k, o)| k != 0 && (o == 0 || k <= o))
        };
        Self {
            m,
            n,
            k,
            x,
            w,
            ty,
            offsets: maps.iter().map(|view| view.offset).collect(),
            batch: Axes::collapse(batch, &strides),
            x_along_k: along_k(x, 0, 1),
            w_along_k: along_k(w, 1, 0),
            operands,
        }
    }

    fn dispatch(&self, mut kernel: Kernel<'_>, layout: &Layout) -> Dispatch {
        kernel.bind_outputs(|_| false);
        kernel.bind_operands(&self.operands, |_| false);
        let tile = layout.tile;
        let (tile_rows, tile_columns) = (self.m.div_ceil(tile.bm), self.n.div_ceil(tile.bn));
        let tiles = tile_rows * tile_columns * self.batch.len();
        let (bases, names) = kernel.bases("b", "batch", &self.batch, self.offsets.iter().copied());
        let arguments: String = names.iter().map(|name| format!(", {name}")).collect();
        let bodies = self.bodies(&mut kernel, &names);
        let [places, fetch, put] = self.tiles(layout, &arguments);
        let holes = [
            ("ty", type_name(self.ty).to_string()),
            ("base_parameters", names.iter().map(|name| format!(", {name}: u32")).collect()),
            ("base_arguments", arguments.clone()),
            ("bases", bases),
            ("functions", bodies.functions),
            ("load_x", bodies.load_x),
            ("load_w", bodies.load_w),
            ("store", bodies.store),
            ("m", kernel.size(self.m)),
            ("n", kernel.size(self.n)),
            ("k", kernel.size(self.k)),
            ("tiles", kernel.size(tiles)),
            ("tile_rows", kernel.size(tile_rows)),
            ("tile_columns", kernel.size(tile_columns)),
            ("bm", tile.bm.to_string()),
            ("bn", tile.bn.to_string()),
            ("bk", tile.bk.to_string()),
            ("tm", tile.tm.to_string()),
            ("tn", tile.tn.to_string()),
            ("tx", layout.tx().to_string()),
            ("row_step", layout.row_step().to_string()),
            ("threads", layout.threads().to_string()),
            ("x_quads", (layout.x_pitch * tile.bk).to_string()),
            ("w_quads", (layout.w_pitch * tile.bk).to_string()),
            ("accumulators", self.accumulators(layout)),
            ("places", places),
            ("fetch", fetch),
            ("put", put),
            ("multiply", layout.multiply()),
            ("stores", stores(layout, &arguments)),
        ];
        let holes: Vec<(&str, &str)> = holes.iter().map(|(n, text)| (*n, text.as_str())).collect();
        kernel.dispatch(include_str!("../../shaders/matmul.wgsl"), &holes, "", tiles)
    }

    fn bodies(&self, kernel: &mut Kernel<'_>, bases: &[String]) -> Bodies {
        let step = kernel.step;
        let outputs = step.outputs.len();
        let x = kernel.function("prologue_x", &[self.x], None);
        let w = kernel.function("prologue_w", &[self.w], None);
        let results = kernel.function("compute_results", &kernel.output_roots(), Some(self.ty));
        let loads = |kernel: &mut Kernel<'_>, function: &Function, axes: [&str; 2]| {
            let axes = axes.map(str::to_string);
            let mut text = String::new();
            for &operand in &function.operands {
                let view = &step.operands[operand].view;
                let position = self.operands.iter().position(|&o| o == operand);
                let base = &bases[outputs + position.unwrap_or_default()];
                let last = &view.strides[view.strides.len() - 2..];
                let at = kernel.index(base, last, &axes);
                let _ = writeln!(text, "let x{operand} = {};", kernel.load(operand, &at));
            }
            text
        };
        let name = |o: usize| format!("x{o}");
        let load_x = loads(kernel, &x, ["row", "k"]) + &format!("return {};", x.call("", name));
        let load_w = loads(kernel, &w, ["k", "column"]) + &format!("return {};", w.call("", name));
        let mut store = loads(kernel, &results, ["row", "column"]);
        let _ = writeln!(store, "let values = {};", results.call("acc", name));
        let axes = ["row".to_string(), "column".to_string()];
        for (output, result) in results.results.iter().enumerate() {
            let strides = &step.outputs[output].view.strides;
            let at = kernel.index(&bases[output], &strides[strides.len() - 2..], &axes);
            store.push_str(&kernel.store(output, &at, &format!("values{result}")));
        }
        let functions = [x.text, w.text, results.text].join("\n");
        Bodies { functions, load_x, load_w, store }
    }

    /// The texts of both tiles' [`Transfer`]s.
    fn tiles(&self, layout: &Layout, arguments: &str) -> [String; 3] {
        let Tile { bm, bn, bk, .. } = layout.tile;
        let threads = layout.threads();
        let x = Transfer {
            name: "x",
            outer: bm,
            bk,
            along_k: self.x_along_k,
            pitch: layout.x_pitch,
            threads,
        };
        let w =
            Transfer { name: "w", outer: bn, along_k: self.w_along_k, pitch: layout.w_pitch, ..x };
        let load_x = |o: &str, k: &str| format!("load_x(first_row + {o}, {k}{arguments})");
        let load_w = |o: &str, k: &str| format!("load_w({k}, first_column + {o}{arguments})");
        let ty = type_name(self.ty);
        [x.places(ty) + &w.places(ty), x.fetch(&load_x) + &w.fetch(&load_w), x.put() + &w.put()]
    }

    fn accumulators(&self, layout: &Layout) -> String {
        let ty = type_name(self.ty);
        let mut text = String::new();
        for r in 0..layout.tile.tm {
            for q in 0..layout.tile.tn / 4 {
                let _ = writeln!(text, "var acc{r}_{q} = vec4<{ty}>();");
            }
        }
        text
    }
}

/// The bodies of the template's functions, and the functions that they call.
struct Bodies {
    functions: String,
    load_x: String,
    load_w: String,
    store: String,
}

fn stores(layout: &Layout, arguments: &str) -> String {
    let mut text = String::new();
    for r in 0..layout.tile.tm {
        for q in 0..layout.tile.tn / 4 {
            let (row, column) = (layout.row(r), layout.column(q));
            let _ = writeln!(
                text,
                "store_four(row + {row}u, column + {column}u, acc{r}_{q}{arguments});"
            );
        }
    }
    text
}
