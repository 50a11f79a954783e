//! Products on scalar units: tiles in workgroup memory, a block of the result in each thread's registers.

use super::collapsed::Product;
use super::parts::locate;
use super::reading::{Factor, Reading};
use super::transfer::{IndexCursor, TileTransfer, fetch};
use crate::base::dtype::Ty;
use crate::codegen::Dispatch;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::lanes::LANES;
use crate::codegen::kernel::template::{holes, shader};
use crate::plan::Tile;

/// Threads that run in step; this is no wave of submissions.
const WAVE: usize = 32;

pub(super) fn lower(product: &Product, mut kernel: KernelBuilder<'_>, tile: Tile) -> Dispatch {
    let layout = TilesLayout { tile, pitches: tile.pitches() };
    let Tile { bm, bn, bk, tm, tn, stages } = tile;
    let readings = [(Factor::X, bm), (Factor::W, bn)]
        .map(|(side, outer)| product.reading(&kernel, side, outer, bk));
    let frame = product.frame(&mut kernel, readings);
    let [x, w] = readings.map(|reading| layout.quads(reading));
    let ty = product.ty_name();
    let [x_walk, w_walk] = &frame.walks;
    let places = x.places(&mut kernel, x_walk, ty) + &w.places(&mut kernel, w_walk, ty);
    let fetch = fetch(&mut kernel, [&x.transfer, &w.transfer], &frame.walks);
    let (locate, groups) = locate(product, &mut kernel, [bm, bn, bk]);
    let [tx, ty_index] = layout.lanes();
    let (stage, turn) = layout.turn();
    let holes = holes! {
        ty, functions: frame.functions, bases: frame.bases, locate, bm, bn, bk, tm, tn, tx,
        ty_index, threads: layout.threads(), x_quads: layout.pitches[0] * bk * stages,
        w_quads: layout.pitches[1] * bk * stages, accumulators: layout.accumulators(ty), places,
        stage, turn, fetch, put: x.put() + &w.put(), multiply: layout.multiply(product.ty),
        stores: layout.stores(&frame.base_arguments),
    };
    kernel.dispatch(shader!("product/tiles.wgsl"), &holes, product.part_label(), groups)
}

/// The layout of a workgroup's memory and threads.
struct TilesLayout {
    tile: Tile,
    /// Quads of each operand from one k to the next.
    pitches: [usize; 2],
}

impl TilesLayout {
    fn threads(&self) -> usize {
        self.tx() * self.ty()
    }

    /// The transfer of the tile of one side.
    fn quads(&self, reading: Reading) -> QuadTile {
        let (outer, pitch) = match reading.side {
            Factor::X => (self.tile.bm, self.pitches[0]),
            Factor::W => (self.tile.bn, self.pitches[1]),
        };
        let bk = self.tile.bk;
        let (items, threads) = (outer * bk / 4, self.threads());
        let transfer = TileTransfer { reading, places: ["o", "k"], items, threads, bk };
        QuadTile { transfer, outer, pitch }
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

    /// A thread's row `r`, counted from its first. Rows go by fours, so that the quads of neighbouring threads are
    /// neighbours in workgroup memory.
    fn row(&self, r: usize) -> usize {
        r / 4 * 4 * self.ty() + r % 4
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
        let [x, w] = self.pitches.map(|pitch| pitch * self.tile.bk);
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
            let at = format!("w_stage + tx + {}u", k * self.pitches[1] + q * self.tx());
            text += &format!("    let w{q} = w_tile[{at}];\n");
        }
        for r in 0..self.tile.tm {
            if r % 4 == 0 {
                let at =
                    format!("x_stage + {}u + ty + {}u", k * self.pitches[0], r / 4 * self.ty());
                text += &format!("    let x{} = x_tile[{at}];\n", r / 4);
            }
            let x = format!("x{}.{}", r / 4, LANES[r % 4]);
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
struct QuadTile {
    transfer: TileTransfer,
    /// Rows or columns of the tile.
    outer: usize,
    pitch: usize,
}

impl QuadTile {
    /// Statements that find the thread's places in the tile and in memory, and declare variables for the elements
    /// there.
    fn places(&self, kernel: &mut KernelBuilder<'_>, walk: &IndexCursor<'_>, ty: &str) -> String {
        let along_k = self.transfer.reading.along_k;
        let quads = if along_k { self.transfer.bk } else { self.outer } / 4;
        self.transfer.places(kernel, walk, &format!("vec4<{ty}>"), |at| {
            let [line, quad] = [format!("{at} / {quads}u"), format!("{at} % {quads}u * 4u")];
            let [o, k] = if along_k { [line, quad] } else { [quad, line] };
            [("o", o), ("k", k)]
        })
    }

    /// Statements that put the variables into the stage's workgroup memory.
    fn put(&self) -> String {
        let (name, pitch) = (self.transfer.name(), self.pitch);
        self.transfer.each_round(|round| {
            let [o, k] = self.transfer.place(round);
            let start = format!("{name}_stage + {o} / 4u");
            let held = format!("{name}_held{round}");
            if !self.transfer.reading.along_k {
                return format!("{name}_tile[{start} + {k} * {pitch}u] = {held};\n");
            }
            let each = |lane: usize| {
                let at = format!("{start} + ({k} + {lane}u) * {pitch}u");
                format!("{name}_tile[{at}][{o} % 4u] = {held}[{lane}];\n")
            };
            (0..4).map(each).collect()
        })
    }
}
