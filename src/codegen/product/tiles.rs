//! Products on scalar units: tiles in workgroup memory, a block of the result in each thread's registers.

use super::Product;
use super::load::{Factor, Reading};
use super::parts::locate;
use super::transfer::{TileTransfer, fetch};
use crate::base::dtype::Ty;
use crate::codegen::Dispatch;
use crate::codegen::kernel::Kernel;
use crate::codegen::product::transfer::IndexCursor;
use crate::plan::Tile;

/// Threads that run in step.
const WAVE: usize = 32;

pub(super) fn lower(product: &Product, mut kernel: Kernel<'_>, tile: Tile) -> Dispatch {
    let layout = Layout::new(tile);
    let Tile { bm, bn, bk, tm, tn, stages } = tile;
    let readings =
        [product.reading(&kernel, Factor::X, bm, bk), product.reading(&kernel, Factor::W, bn, bk)];
    let frame = product.frame(&mut kernel, readings);
    let [x, w] = readings.map(|reading| layout.quads(reading));
    let arguments = &frame.base_arguments;
    let ty = product.ty_name();
    let [x_walk, w_walk] = &frame.walks;
    let places = x.places(&mut kernel, x_walk, ty) + &w.places(&mut kernel, w_walk, ty);
    let fetch = fetch(&mut kernel, [&x.transfer, &w.transfer], &frame.walks);
    let (locate, groups) = locate(product, &mut kernel, [bm, bn, bk]);
    let [tx, ty_index] = layout.lanes();
    let (stage, turn) = layout.turn();
    let holes = [
        ("ty", ty.to_string()),
        ("functions", frame.functions),
        ("bases", frame.bases),
        ("locate", locate),
        ("bm", bm.to_string()),
        ("bn", bn.to_string()),
        ("bk", bk.to_string()),
        ("tm", tm.to_string()),
        ("tn", tn.to_string()),
        ("tx", tx),
        ("ty_index", ty_index),
        ("row_step", layout.row_step().to_string()),
        ("threads", layout.threads().to_string()),
        ("x_quads", (layout.x_pitch * bk * stages).to_string()),
        ("w_quads", (layout.w_pitch * bk * stages).to_string()),
        ("accumulators", layout.accumulators(ty)),
        ("places", places),
        ("stage", stage),
        ("turn", turn),
        ("fetch", fetch),
        ("put", x.put() + &w.put()),
        ("multiply", layout.multiply(product.ty)),
        ("stores", layout.stores(arguments)),
    ];
    let template = include_str!("../../../shaders/product_tiles.wgsl");
    kernel.dispatch(template, &holes, product.phase(), groups)
}

/// The layout of a workgroup's memory and threads.
struct Layout {
    tile: Tile,
    /// Quads from one k to the next.
    x_pitch: usize,
    w_pitch: usize,
}

impl Layout {
    fn new(tile: Tile) -> Self {
        let [x_pitch, w_pitch] = tile.pitches();
        Self { tile, x_pitch, w_pitch }
    }

    fn threads(&self) -> usize {
        self.tx() * self.ty()
    }

    /// The transfer of the tile of one side.
    fn quads(&self, reading: Reading) -> Quads {
        let (outer, pitch) = match reading.side {
            Factor::X => (self.tile.bm, self.x_pitch),
            Factor::W => (self.tile.bn, self.w_pitch),
        };
        let bk = self.tile.bk;
        let (items, threads) = (outer * bk / 4, self.threads());
        let transfer = TileTransfer { reading, places: ["o", "k"], items, threads, bk };
        Quads { transfer, outer, pitch }
    }

    /// Threads along n.
    fn tx(&self) -> usize {
        self.tile.bn / self.tile.tn
    }

    /// Threads along m.
    fn ty(&self) -> usize {
        self.tile.bm / self.tile.tm
    }

    /// Texts of the thread's position along n and m: those that run in step cover a block that is nearly square, so
    /// that they read little of workgroup memory.
    fn lanes(&self) -> [String; 2] {
        let (tx, ty) = (self.tx(), self.ty());
        let wide = [8, 4, 16]
            .into_iter()
            .find(|&wide| tx.is_multiple_of(wide) && ty.is_multiple_of(WAVE / wide));
        let Some(wide) = wide else {
            return [format!("thread % {tx}u"), format!("thread / {tx}u")];
        };
        let (high, across) = (WAVE / wide, tx / wide);
        [
            format!("thread / {WAVE}u % {across}u * {wide}u + thread % {wide}u"),
            format!("thread / {WAVE}u / {across}u * {high}u + thread % {WAVE}u / {wide}u"),
        ]
    }

    /// Rows that a thread takes next to each other. With fours, the quads of neighbouring threads are
    /// neighbours in workgroup memory.
    fn row_step(&self) -> usize {
        if self.tile.tm.is_multiple_of(4) { 4 } else { self.tile.tm }
    }

    /// A thread's row `r`, counted from its first.
    fn row(&self, r: usize) -> usize {
        let step = self.row_step();
        r / step * step * self.ty() + r % step
    }

    /// The first column of a thread's quad `q`, counted from its first.
    fn column(&self, q: usize) -> usize {
        q * 4 * self.tx()
    }

    /// The row and quad of each vector of a thread's block.
    fn block(&self) -> impl Iterator<Item = (usize, usize)> {
        let quads = self.tile.tn / 4;
        (0..self.tile.tm * quads).map(move |at| (at / quads, at % quads))
    }

    fn accumulators(&self, ty: &str) -> String {
        self.block().map(|(r, q)| format!("var acc{r}_{q} = vec4<{ty}>();\n")).collect()
    }

    fn stores(&self, arguments: &str) -> String {
        let line = |(r, q)| {
            let (row, column) = (self.row(r), self.column(q));
            format!("store(row + {row}u, column + {column}u, acc{r}_{q}{arguments});\n")
        };
        self.block().map(line).collect()
    }

    /// Statements that set up the stages, and that turn to the next one.
    fn turn(&self) -> (String, String) {
        if self.tile.stages == 1 {
            return ("let x_stage = 0u;\nlet w_stage = 0u;\n".into(), "workgroupBarrier();".into());
        }
        let (x, w) = (self.x_pitch * self.tile.bk, self.w_pitch * self.tile.bk);
        (
            "var x_stage = 0u;\nvar w_stage = 0u;\n".into(),
            format!("x_stage = {x}u - x_stage;\nw_stage = {w}u - w_stage;\n"),
        )
    }

    /// Statements that add a tile's products, each k written out, to a thread's block of the result.
    fn multiply(&self, ty: Ty) -> String {
        (0..self.tile.bk).map(|k| format!("{{\n{}}}\n", self.multiply_one(k, ty))).collect()
    }

    fn multiply_one(&self, k: usize, ty: Ty) -> String {
        let mut text = String::new();
        for q in 0..self.tile.tn / 4 {
            let at = format!("w_stage + tx + {}u", k * self.w_pitch + q * self.tx());
            text += &format!("    let w{q} = w_tile[{at}];\n");
        }
        let quads = self.tile.tm.is_multiple_of(4);
        for r in 0..self.tile.tm {
            let start = format!("x_stage + {}u", k * self.x_pitch);
            let x = if quads {
                if r % 4 == 0 {
                    let at = format!("{start} + ty + {}u", r / 4 * self.ty());
                    text += &format!("    let x{} = x_tile[{at}];\n", r / 4);
                }
                format!("x{}.{}", r / 4, ["x", "y", "z", "w"][r % 4])
            } else {
                text += &format!("    let row{r} = ty * {}u + {r}u;\n", self.tile.tm);
                let at = format!("{start} + row{r} / 4u");
                text += &format!("    let x{r} = x_tile[{at}][row{r} % 4u];\n");
                format!("x{r}")
            };
            for q in 0..self.tile.tn / 4 {
                text += &match ty {
                    Ty::F32 => {
                        format!("    acc{r}_{q} = fma(vec4<f32>({x}), w{q}, acc{r}_{q});\n")
                    }
                    _ => format!("    acc{r}_{q} += {x} * w{q};\n"),
                };
            }
        }
        text
    }
}

/// One side's tile in workgroup memory, with k outermost, in fours across k.
struct Quads {
    transfer: TileTransfer,
    /// Rows or columns of the tile.
    outer: usize,
    pitch: usize,
}

impl Quads {
    fn name(&self) -> &'static str {
        self.transfer.reading.side.name()
    }

    /// Statements that find the thread's places in the tile and in memory, and declare variables for the elements
    /// there.
    fn places(&self, kernel: &mut Kernel<'_>, walk: &IndexCursor<'_>, ty: &str) -> String {
        let TileTransfer { bk, threads, reading, .. } = self.transfer;
        let name = self.name();
        let mut text = String::new();
        for round in self.transfer.rounds() {
            let at = format!("(thread + {}u)", round * threads);
            let (o, k) = if reading.along_k {
                let quads = bk / 4;
                (format!("{at} / {quads}u"), format!("{at} % {quads}u * 4u"))
            } else {
                let quads = self.outer / 4;
                (format!("{at} % {quads}u * 4u"), format!("{at} / {quads}u"))
            };
            let [place_o, place_k] = self.transfer.place(round);
            text += &format!("let {place_o} = {o};\n");
            text += &format!("let {place_k} = {k};\n");
            text += &format!("var {name}_held{round}: vec4<{ty}>;\n");
            text.push_str(&self.transfer.start(kernel, walk, round));
        }
        text
    }

    /// Statements that put the variables into the stage's workgroup memory.
    fn put(&self) -> String {
        let (name, pitch) = (self.name(), self.pitch);
        let line = |round: usize| {
            let [o, k] = self.transfer.place(round);
            let start = format!("{name}_stage + {o} / 4u");
            let held = format!("{name}_held{round}");
            let text = if self.transfer.reading.along_k {
                let each = |lane: usize| {
                    let at = format!("{start} + ({k} + {lane}u) * {pitch}u");
                    format!("{name}_tile[{at}][{o} % 4u] = {held}[{lane}];\n")
                };
                (0..4).map(each).collect()
            } else {
                format!("{name}_tile[{start} + {k} * {pitch}u] = {held};\n")
            };
            self.transfer.guarded(round, text)
        };
        self.transfer.rounds().map(line).collect()
    }
}
