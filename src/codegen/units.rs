//! Products on matrix units: tiles of `f16` in workgroup memory, squares of the result in each subgroup.

use std::fmt::Write;

use super::Dispatch;
use super::kernel::Kernel;
use super::product::{Product, Reading, Side, Walk};
use super::tiles::{fetch, locate};
use crate::plan::UnitTile;

pub(super) fn lower(product: &Product, mut kernel: Kernel<'_>, tile: UnitTile) -> Dispatch {
    kernel.enable("f16");
    kernel.enable("wgpu_cooperative_matrix");
    let units = Units::new(&kernel, tile);
    let UnitTile { bm, bn, bk, wm, wn, .. } = tile;
    let readings = [(Side::X, bm), (Side::W, bn)].map(|(side, outer)| {
        let reading = product.reading(&kernel, side, outer, bk);
        let halves = !tile.split && product.halves(&kernel, &reading).is_some();
        Reading { halves, ..reading }
    });
    let frame = product.frame(&mut kernel, readings);
    let (locate, groups) = locate(product, &mut kernel, [bm, bn, bk]);
    let [x, w] = readings.map(|reading| units.transfer(reading));
    let arguments = &frame.base_arguments;
    let [x_walk, w_walk] = &frame.walks;
    let places = x.places(&mut kernel, x_walk) + &w.places(&mut kernel, w_walk);
    let reads =
        |kernel: &mut Kernel<'_>, end| x.read(kernel, x_walk, end) + &w.read(kernel, w_walk, end);
    let fetch = fetch(&mut kernel, &readings, bk, reads);
    let advance = x.advance(&mut kernel, x_walk) + &w.advance(&mut kernel, w_walk);
    let holes = [
        ("functions", frame.functions),
        ("bases", frame.bases),
        ("locate", locate),
        ("bm", bm.to_string()),
        ("bn", bn.to_string()),
        ("bk", bk.to_string()),
        ("wm", wm.to_string()),
        ("wn", wn.to_string()),
        ("threads", units.threads().to_string()),
        ("subgroup", units.subgroup.to_string()),
        ("across", (bn / wn).to_string()),
        ("square", (units.side * units.side).to_string()),
        ("squares", (units.side * units.side * units.subgroups()).to_string()),
        ("tiles", x.declare() + &w.declare()),
        ("accumulators", units.accumulators()),
        ("places", places),
        ("fetch", fetch + &advance),
        ("put", x.put() + &w.put()),
        ("multiply", units.multiply(&x, &w)),
        ("stores", units.stores(arguments)),
    ];
    let template = include_str!("../../shaders/product_units.wgsl");
    kernel.dispatch(template, &holes, product.phase(), groups)
}

/// A workgroup's tile in squares of the units' side.
struct Units {
    tile: UnitTile,
    side: usize,
    subgroup: usize,
}

impl Units {
    fn new(kernel: &Kernel<'_>, tile: UnitTile) -> Self {
        let units = kernel.limits.units;
        debug_assert!(units.is_some(), "planned for matrix units");
        let (side, subgroup) = units.map_or((16, 32), |u| (u.side as usize, u.subgroup as usize));
        Self { tile, side, subgroup }
    }

    fn subgroups(&self) -> usize {
        (self.tile.bm / self.tile.wm) * (self.tile.bn / self.tile.wn)
    }

    fn threads(&self) -> usize {
        self.subgroups() * self.subgroup
    }

    /// Squares of a subgroup along m and n.
    fn squares(&self) -> [usize; 2] {
        [self.tile.wm / self.side, self.tile.wn / self.side]
    }

    fn ty(&self, scalar: &str, role: char) -> String {
        let side = self.side;
        format!("coop_mat{side}x{side}<{scalar}, {role}>")
    }

    fn transfer(&self, reading: Reading) -> Transfer {
        let (name, outer) = match reading.side {
            Side::X => ("x", self.tile.bm),
            Side::W => ("w", self.tile.bn),
        };
        let [rows, columns] =
            if reading.along_k { [outer, self.tile.bk] } else { [self.tile.bk, outer] };
        Transfer { name, reading, rows, columns, threads: self.threads(), split: self.tile.split }
    }

    fn each_square(&self) -> impl Iterator<Item = (usize, usize)> {
        let [high, wide] = self.squares();
        (0..high * wide).map(move |at| (at / wide, at % wide))
    }

    fn accumulators(&self) -> String {
        let ty = self.ty("f32", 'C');
        self.each_square().map(|(i, j)| format!("var acc{i}_{j} = {ty}();\n")).collect()
    }

    /// Statements that add a tile's products to the squares.
    fn multiply(&self, x: &Transfer, w: &Transfer) -> String {
        let each = |k: usize| {
            let k = k * self.side;
            let text = if self.tile.split {
                self.multiply_split(x, w, k)
            } else {
                self.multiply_whole(x, w, k)
            };
            format!("{{\n{text}}}\n")
        };
        (0..self.tile.bk / self.side).map(each).collect()
    }

    fn multiply_whole(&self, x: &Transfer, w: &Transfer, k: usize) -> String {
        let [high, wide] = self.squares();
        let mut text = String::new();
        for i in 0..high {
            let load = self.load(x, false, "row", i * self.side, k);
            let _ = writeln!(text, "    let x{i} = {load};");
        }
        for j in 0..wide {
            let load = self.load(w, false, "column", j * self.side, k);
            let _ = writeln!(text, "    let w{j} = {load};");
        }
        for (i, j) in self.each_square() {
            let _ = writeln!(text, "    acc{i}_{j} = coopMultiplyAdd(x{i}, w{j}, acc{i}_{j});");
        }
        text
    }

    /// The smallest products first. Units cut off what they add along k, so each square's sum of this k is added
    /// outside of them.
    fn multiply_split(&self, x: &Transfer, w: &Transfer, k: usize) -> String {
        let [high, wide] = self.squares();
        let zero = self.ty("f32", 'C');
        let mut text = String::new();
        for i in 0..high {
            for (low, name) in [(false, "x"), (true, "x_low")] {
                let load = self.load(x, low, "row", i * self.side, k);
                let _ = writeln!(text, "    let {name}{i} = {load};");
            }
        }
        for j in 0..wide {
            let [w_high, w_low] =
                [false, true].map(|low| self.load(w, low, "column", j * self.side, k));
            let _ = writeln!(text, "    let w{j} = {w_high};\n    let w_low{j} = {w_low};");
            for i in 0..high {
                let _ = writeln!(
                    text,
                    "    let low{i}_{j} = coopMultiplyAdd(x{i}, w_low{j}, coopMultiplyAdd(x_low{i}, w{j}, {zero}()));\n    \
                     acc{i}_{j} = acc{i}_{j} + coopMultiplyAdd(x{i}, w{j}, low{i}_{j});"
                );
            }
        }
        text
    }

    /// The text that loads a square of a tile, at `start + outer` and `k`: the leading bits, or the rest.
    fn load(&self, tile: &Transfer, low: bool, start: &str, outer: usize, k: usize) -> String {
        let role = if tile.name == "x" { 'A' } else { 'B' };
        let ty = self.ty("f16", role);
        let pitch = tile.pitch() / 4;
        let part = if low { tile.columns / 4 } else { 0 };
        let at = if tile.reading.along_k {
            format!("({start} + {outer}u) * {pitch}u + {}u", k / 4 + part)
        } else {
            format!("{}u + {start} / 4u", k * pitch + outer / 4 + part)
        };
        // Row-major are a left operand whose rows lie along k and a right operand whose rows lie across.
        let row_major = tile.reading.along_k == (role == 'A');
        let load = if row_major { "coopLoadT" } else { "coopLoad" };
        format!("{load}<{ty}>(&{}_tile[{at}], {pitch}u)", tile.name)
    }

    /// Statements that bring the squares to their threads, which store them in fours. In a loop, since what an
    /// output takes may be long.
    fn stores(&self, arguments: &str) -> String {
        let Self { side, subgroup, .. } = *self;
        let [high, wide] = self.squares();
        let (quads, across) = (side * side / 4, side / 4);
        let mut text =
            format!("for (var at = 0u; at < {}u; at++) {{\n    switch at {{\n", high * wide);
        for (at, (i, j)) in self.each_square().enumerate() {
            let _ = writeln!(
                text,
                "        case {at}u: {{ coopStoreT(acc{i}_{j}, &squares[square], {side}u); }}"
            );
        }
        let _ = write!(
            text,
            "        default: {{}}\n    }}\n    workgroupBarrier();\n    \
             let square_row = first_row + row + at / {wide}u * {side}u;\n    \
             let square_column = first_column + column + at % {wide}u * {side}u;\n    \
             for (var quad = lane; quad < {quads}u; quad += {subgroup}u) {{\n        \
             let place = square + quad * 4u;\n        \
             let value = vec4<f32>(squares[place], squares[place + 1u], squares[place + 2u], squares[place + 3u]);\n        \
             store(square_row + quad / {across}u, square_column + quad % {across}u * 4u, value{arguments});\n    }}\n    \
             workgroupBarrier();\n}}\n"
        );
        text
    }
}

/// How the threads bring one tile from memory to workgroup memory, where it lies as it lies in memory: 16 bytes a
/// thread and round.
struct Transfer {
    name: &'static str,
    reading: Reading,
    /// Of the tile in workgroup memory.
    rows: usize,
    columns: usize,
    threads: usize,
    /// Whether each row has the leading bits of all its numbers, then the rest of them.
    split: bool,
}

impl Transfer {
    /// Halves from one row to the next.
    fn pitch(&self) -> usize {
        self.columns * if self.split { 2 } else { 1 } + UnitTile::PAD
    }

    /// Elements that a thread moves at a time.
    fn width(&self) -> usize {
        if self.reading.halves { 8 } else { 4 }
    }

    fn items(&self) -> usize {
        self.rows * self.columns / self.width()
    }

    fn rounds(&self) -> std::ops::Range<usize> {
        0..self.items().div_ceil(self.threads)
    }

    /// `text` where the thread has an item in `round`.
    fn guarded(&self, round: usize, text: String) -> String {
        let first = round * self.threads;
        if first + self.threads <= self.items() {
            return text;
        }
        format!("if thread + {first}u < {}u {{\n{text}}}\n", self.items())
    }

    fn declare(&self) -> String {
        let quads = self.rows * self.pitch() / 4;
        format!("var<workgroup> {}_tile: array<vec4<f16>, {quads}>;\n", self.name)
    }

    /// Statements that find the thread's places in the tile and in memory, and variables for what is there.
    fn places(&self, kernel: &mut Kernel<'_>, walk: &Walk) -> String {
        let (name, width) = (self.name, self.width());
        let ty = if self.reading.halves { "vec4<u32>" } else { "vec4<f32>" };
        let items = self.columns / width;
        let mut text = String::new();
        for round in self.rounds() {
            let at = format!("(thread + {}u)", round * self.threads);
            // Rows of 64 bytes: eight threads that store together take two rows that share no bank.
            let row = if self.reading.halves && items == 4 && self.rows.is_multiple_of(8) {
                format!("{at} / 32u * 8u + {at} / 4u % 2u * 4u + {at} % 32u / 8u")
            } else {
                format!("{at} / {items}u")
            };
            let _ = writeln!(text, "let {name}_row{round} = {row};");
            let _ = writeln!(text, "let {name}_column{round} = {at} % {items}u * {width}u;");
            let _ = writeln!(text, "var {name}_held{round}: {ty};");
            let [outer, k] = self.place(round);
            let first = if name == "x" { "first_row" } else { "first_column" };
            let (outer, k) = (format!("{first} + {outer}"), format!("first_k + {k}"));
            text.push_str(&walk.start(kernel, &self.prefix(round), &outer, &k));
        }
        text
    }

    /// The name of the walk of `round`.
    fn prefix(&self, round: usize) -> String {
        format!("{}{round}", self.name)
    }

    /// Names of the thread's place in the tile, across k and along it.
    fn place(&self, round: usize) -> [String; 2] {
        let name = self.name;
        let (row, column) = (format!("{name}_row{round}"), format!("{name}_column{round}"));
        if self.reading.along_k { [row, column] } else { [column, row] }
    }

    /// Statements that read the tile at `next_k` into the variables.
    fn read(&self, kernel: &mut Kernel<'_>, walk: &Walk, end: bool) -> String {
        let line = |round| {
            let [_, k] = self.place(round);
            let k = format!("next_k + {k}");
            let read = walk.read(kernel, &self.prefix(round), &k, 0, end);
            self.guarded(round, format!("{}_held{round} = {read};\n", self.name))
        };
        self.rounds().map(line).collect()
    }

    /// Statements that move on to the next tile.
    fn advance(&self, kernel: &mut Kernel<'_>, walk: &Walk) -> String {
        let bk = if self.reading.along_k { self.columns } else { self.rows };
        self.rounds().map(|round| walk.advance(kernel, &self.prefix(round), bk)).collect()
    }

    /// Statements that put the variables into workgroup memory, as one or two halves.
    fn put(&self) -> String {
        let name = self.name;
        let line = |round: usize| {
            let at = format!("({name}_row{round} * {}u + {name}_column{round}) / 4u", self.pitch());
            let held = format!("{name}_held{round}");
            let text = if self.reading.halves {
                format!(
                    "{name}_tile[{at}] = four_halves({held}.xy);\n\
                     {name}_tile[{at} + 1u] = four_halves({held}.zw);\n"
                )
            } else if self.split {
                format!(
                    "let {name}_high{round} = high_part({held});\n\
                     {name}_tile[{at}] = vec4<f16>({name}_high{round});\n\
                     {name}_tile[{at} + {}u] = vec4<f16>({held} - {name}_high{round});\n",
                    self.columns / 4
                )
            } else {
                format!("{name}_tile[{at}] = vec4<f16>({held});\n")
            };
            self.guarded(round, text)
        };
        self.rounds().map(line).collect()
    }
}
