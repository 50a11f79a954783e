//! Products on scalar units: tiles in workgroup memory, a block of the result in each thread's registers.

use std::fmt::Write;

use super::Dispatch;
use super::kernel::Kernel;
use super::product::{Product, Reading, Side, Walk};
use crate::dtype::Ty;
use crate::plan::Tile;

/// Rows of tiles that are taken together, so that what they read stays in the cache.
const BAND: usize = 8;
/// Threads that run in step.
const WAVE: usize = 32;

pub(super) fn lower(product: &Product, mut kernel: Kernel<'_>, tile: Tile) -> Dispatch {
    let layout = Layout::new(tile, kernel.limits.workgroup_bytes as usize);
    let Tile { bm, bn, bk, tm, tn } = layout.tile;
    let readings =
        [product.reading(&kernel, Side::X, bm, bk), product.reading(&kernel, Side::W, bn, bk)];
    let frame = product.frame(&mut kernel, readings);
    let [x, w] = readings.map(|reading| Transfer {
        name: if reading.side == Side::X { "x" } else { "w" },
        outer: if reading.side == Side::X { bm } else { bn },
        bk,
        along_k: reading.along_k,
        pitch: if reading.side == Side::X { layout.x_pitch } else { layout.w_pitch },
        threads: layout.threads(),
    });
    let arguments = &frame.base_arguments;
    let ty = product.ty_name();
    let [x_walk, w_walk] = &frame.walks;
    let places = x.places(&mut kernel, x_walk, ty) + &w.places(&mut kernel, w_walk, ty);
    let reads =
        |kernel: &mut Kernel<'_>, end| x.read(kernel, x_walk, end) + &w.read(kernel, w_walk, end);
    let fetch = fetch(&mut kernel, &readings, bk, reads);
    let advance = x.advance(&mut kernel, x_walk) + &w.advance(&mut kernel, w_walk);
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
        ("x_quads", (layout.x_pitch * bk * layout.stages).to_string()),
        ("w_quads", (layout.w_pitch * bk * layout.stages).to_string()),
        ("accumulators", layout.accumulators(ty)),
        ("places", places),
        ("stage", stage),
        ("turn", turn),
        ("fetch", fetch + &advance),
        ("put", x.put() + &w.put()),
        ("multiply", layout.multiply(product.ty)),
        ("stores", layout.stores(arguments)),
    ];
    let template = include_str!("../../shaders/product_tiles.wgsl");
    kernel.dispatch(template, &holes, product.phase(), groups)
}

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

/// Statements that read the tiles at `next_k`, `bk` of k at a time: those that reach past the end with zeros there.
pub(super) fn fetch<'a>(
    kernel: &mut Kernel<'a>,
    readings: &[Reading; 2],
    bk: usize,
    reads: impl Fn(&mut Kernel<'a>, bool) -> String,
) -> String {
    let inside = reads(kernel, false);
    if readings.iter().all(|reading| !reading.ragged_k) {
        return inside;
    }
    let end = reads(kernel, true);
    format!("if next_k + {bk}u <= end_k {{\n{inside}}} else {{\n{end}}}\n")
}

/// How a workgroup's memory and threads are laid out.
struct Layout {
    tile: Tile,
    /// Quads from one k to the next.
    x_pitch: usize,
    w_pitch: usize,
    /// Tiles of each operand that are held: with two, one is filled while the other is multiplied.
    stages: usize,
}

impl Layout {
    /// Fits the tile to `bytes` of workgroup memory: with one stage where two are too much, then with less of k, then
    /// with a smaller tile.
    fn new(mut tile: Tile, bytes: usize) -> Self {
        let quads = |tile: &Tile| (tile.bm + tile.bn) / 4 + 1;
        while quads(&tile) * tile.bk * 16 > bytes && tile.bk > 4 {
            tile.bk = (tile.bk / 2).next_multiple_of(4);
        }
        while quads(&tile) * tile.bk * 16 > bytes && tile.bm > tile.tm && tile.bn > tile.tn {
            tile.bm /= 2;
            tile.bn /= 2;
        }
        // A quad of padding spreads what one thread writes along k over the banks.
        let (x_pitch, w_pitch) = (tile.bm.div_ceil(4) + 1, tile.bn.div_ceil(4));
        let stages = if (x_pitch + w_pitch) * tile.bk * 32 <= bytes { 2 } else { 1 };
        Self { tile, x_pitch, w_pitch, stages }
    }

    fn threads(&self) -> usize {
        self.tx() * self.ty()
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
        if self.stages == 1 {
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
            let _ = writeln!(text, "    let w{q} = w_tile[{at}];");
        }
        let quads = self.tile.tm.is_multiple_of(4);
        for r in 0..self.tile.tm {
            let start = format!("x_stage + {}u", k * self.x_pitch);
            let x = if quads {
                if r % 4 == 0 {
                    let at = format!("{start} + ty + {}u", r / 4 * self.ty());
                    let _ = writeln!(text, "    let x{} = x_tile[{at}];", r / 4);
                }
                format!("x{}.{}", r / 4, ["x", "y", "z", "w"][r % 4])
            } else {
                let _ = writeln!(text, "    let row{r} = ty * {}u + {r}u;", self.tile.tm);
                let at = format!("{start} + row{r} / 4u");
                let _ = writeln!(text, "    let x{r} = x_tile[{at}][row{r} % 4u];");
                format!("x{r}")
            };
            for q in 0..self.tile.tn / 4 {
                let _ = match ty {
                    Ty::F32 => {
                        writeln!(text, "    acc{r}_{q} = fma(vec4<f32>({x}), w{q}, acc{r}_{q});")
                    }
                    _ => writeln!(text, "    acc{r}_{q} += {x} * w{q};"),
                };
            }
        }
        text
    }
}

/// How the threads bring one tile from memory to workgroup memory: four neighbours a thread and round.
struct Transfer {
    name: &'static str,
    /// Rows or columns of the tile.
    outer: usize,
    bk: usize,
    /// Whether the four are neighbours along k.
    along_k: bool,
    pitch: usize,
    threads: usize,
}

impl Transfer {
    fn quads(&self) -> usize {
        self.outer * self.bk / 4
    }

    fn rounds(&self) -> std::ops::Range<usize> {
        0..self.quads().div_ceil(self.threads)
    }

    /// `text` where the thread has a quad in `round`.
    fn guarded(&self, round: usize, text: String) -> String {
        let first = round * self.threads;
        if first + self.threads <= self.quads() {
            return text;
        }
        format!("if thread + {first}u < {}u {{\n{text}}}\n", self.quads())
    }

    /// Statements that find the thread's places in the tile and in memory, and variables for what is there.
    fn places(&self, kernel: &mut Kernel<'_>, walk: &Walk, ty: &str) -> String {
        let Self { name, outer, bk, threads, .. } = self;
        let mut text = String::new();
        for round in self.rounds() {
            let at = format!("(thread + {}u)", round * threads);
            let (o, k) = if self.along_k {
                let quads = bk / 4;
                (format!("{at} / {quads}u"), format!("{at} % {quads}u * 4u"))
            } else {
                let quads = outer / 4;
                (format!("{at} % {quads}u * 4u"), format!("{at} / {quads}u"))
            };
            let _ = writeln!(text, "let {name}_o{round} = {o};");
            let _ = writeln!(text, "let {name}_k{round} = {k};");
            let _ = writeln!(text, "var {name}_held{round}: vec4<{ty}>;");
            let first = if *name == "x" { "first_row" } else { "first_column" };
            let outer = format!("{first} + {name}_o{round}");
            let k = format!("first_k + {name}_k{round}");
            text.push_str(&walk.start(kernel, &self.prefix(round), &outer, &k));
        }
        text
    }

    /// The name of the walk of `round`.
    fn prefix(&self, round: usize) -> String {
        format!("{}{round}", self.name)
    }

    /// Statements that read the tile at `next_k` into the variables.
    fn read(&self, kernel: &mut Kernel<'_>, walk: &Walk, end: bool) -> String {
        let name = self.name;
        let line = |round| {
            let k = format!("next_k + {name}_k{round}");
            let read = walk.read(kernel, &self.prefix(round), &k, 0, end);
            self.guarded(round, format!("{name}_held{round} = {read};\n"))
        };
        self.rounds().map(line).collect()
    }

    /// Statements that move on to the next tile.
    fn advance(&self, kernel: &mut Kernel<'_>, walk: &Walk) -> String {
        self.rounds().map(|round| walk.advance(kernel, &self.prefix(round), self.bk)).collect()
    }

    /// Statements that put the variables into the stage's workgroup memory.
    fn put(&self) -> String {
        let Self { name, pitch, .. } = self;
        let line = |round: usize| {
            let start = format!("{name}_stage + {name}_o{round} / 4u");
            let held = format!("{name}_held{round}");
            let text = if self.along_k {
                let each = |lane: usize| {
                    let at = format!("{start} + ({name}_k{round} + {lane}u) * {pitch}u");
                    format!("{name}_tile[{at}][{name}_o{round} % 4u] = {held}[{lane}];\n")
                };
                (0..4).map(each).collect()
            } else {
                format!("{name}_tile[{start} + {name}_k{round} * {pitch}u] = {held};\n")
            };
            self.guarded(round, text)
        };
        self.rounds().map(line).collect()
    }
}
