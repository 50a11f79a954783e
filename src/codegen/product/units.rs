//! Products on matrix units: tiles of `f16` in workgroup memory, squares of the result in each subgroup.

use super::collapsed::Product;
use super::parts::locate;
use super::reading::{Factor, Reading};
use super::transfer::{IndexCursor, TileTransfer, fetch};
use crate::codegen::Dispatch;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::template::{holes, shader};
use crate::plan::UnitTile;

pub(super) fn lower(product: &Product, mut kernel: KernelBuilder<'_>, tile: UnitTile) -> Dispatch {
    kernel.enable("f16");
    kernel.enable("wgpu_cooperative_matrix");
    let units = Units::new(tile);
    let UnitTile { bm, bn, bk, wm, wn, .. } = tile;
    let readings = [(Factor::X, bm), (Factor::W, bn)].map(|(side, outer)| {
        let reading = product.reading(&kernel, side, outer, bk);
        let halves = !tile.split && product.is_halves(&kernel, &reading);
        Reading { halves, ..reading }
    });
    let frame = product.frame(&mut kernel, readings);
    let (locate, groups) = locate(product, &mut kernel, [bm, bn, bk]);
    let [x, w] = readings.map(|reading| units.halves(reading));
    let [x_walk, w_walk] = &frame.walks;
    let places = x.places(&mut kernel, x_walk) + &w.places(&mut kernel, w_walk);
    let fetch = fetch(&mut kernel, [&x.transfer, &w.transfer], &frame.walks);
    let [high, wide] = units.squares();
    let holes = holes! {
        functions: frame.functions, bases: frame.bases, locate, bm, bn, bk, wm, wn,
        threads: units.threads(), subgroup: units.subgroup, across: bn / wn,
        square: units.side * units.side, squares: units.side * units.side * units.subgroups(),
        tiles: x.declare() + &w.declare(), accumulators: units.accumulators(), places, fetch,
        put: x.put() + &w.put(), multiply: units.multiply(&x, &w), cases: units.cases(),
        count: high * wide, wide, side: units.side, quads: units.side * units.side / 4,
        quads_across: units.side / 4, base_arguments: frame.base_arguments,
    };
    kernel.dispatch(shader!("product/units.wgsl"), &holes, product.part_label(), groups)
}

/// A workgroup's tile in squares of the units' side.
struct Units {
    tile: UnitTile,
    side: usize,
    subgroup: usize,
}

impl Units {
    fn new(tile: UnitTile) -> Self {
        let (side, subgroup) = (tile.units.side as usize, tile.units.subgroup as usize);
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

    /// The transfer of the tile of one side.
    fn halves(&self, reading: Reading) -> Halves {
        let UnitTile { bm, bn, bk, split, .. } = self.tile;
        let outer = if reading.side == Factor::X { bm } else { bn };
        let ([rows, columns], places) = if reading.along_k {
            ([outer, bk], ["row", "column"])
        } else {
            ([bk, outer], ["column", "row"])
        };
        let width = if reading.halves { 8 } else { 4 };
        let (items, threads) = (rows * columns / width, self.threads());
        let transfer = TileTransfer { reading, places, items, threads, bk };
        Halves { transfer, rows, columns, width, split }
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
    fn multiply(&self, x: &Halves, w: &Halves) -> String {
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

    fn multiply_whole(&self, x: &Halves, w: &Halves, k: usize) -> String {
        let [high, wide] = self.squares();
        let mut text = String::new();
        for i in 0..high {
            let load = self.load(x, false, "row", i * self.side, k);
            text += &format!("    let x{i} = {load};\n");
        }
        for j in 0..wide {
            let load = self.load(w, false, "column", j * self.side, k);
            text += &format!("    let w{j} = {load};\n");
        }
        for (i, j) in self.each_square() {
            text += &format!("    acc{i}_{j} = coopMultiplyAdd(x{i}, w{j}, acc{i}_{j});\n");
        }
        text
    }

    /// The smallest products first. Units cut off what they add along k, so each square's sum of this k is added
    /// outside of them.
    fn multiply_split(&self, x: &Halves, w: &Halves, k: usize) -> String {
        let [high, wide] = self.squares();
        let zero = self.ty("f32", 'C');
        let mut text = String::new();
        for i in 0..high {
            for (low, name) in [(false, "x"), (true, "x_low")] {
                let load = self.load(x, low, "row", i * self.side, k);
                text += &format!("    let {name}{i} = {load};\n");
            }
        }
        for j in 0..wide {
            let [w_high, w_low] =
                [false, true].map(|low| self.load(w, low, "column", j * self.side, k));
            text += &format!("    let w{j} = {w_high};\n    let w_low{j} = {w_low};\n");
            for i in 0..high {
                text += &format!(
                    "    let low{i}_{j} = coopMultiplyAdd(x{i}, w_low{j}, coopMultiplyAdd(x_low{i}, w{j}, {zero}()));\n    \
                     acc{i}_{j} = acc{i}_{j} + coopMultiplyAdd(x{i}, w{j}, low{i}_{j});\n"
                );
            }
        }
        text
    }

    /// The text that loads a square of a tile, at `start + outer` and `k`: the leading bits, or the rest.
    fn load(&self, tile: &Halves, low: bool, start: &str, outer: usize, k: usize) -> String {
        let role = if tile.transfer.reading.side == Factor::X { 'A' } else { 'B' };
        let ty = self.ty("f16", role);
        let pitch = tile.pitch() / 4;
        let part = if low { tile.columns / 4 } else { 0 };
        let at = if tile.transfer.reading.along_k {
            format!("({start} + {outer}u) * {pitch}u + {}u", k / 4 + part)
        } else {
            format!("{}u + {start} / 4u", k * pitch + outer / 4 + part)
        };
        // Row-major are a left operand whose rows lie along k and a right operand whose rows lie across.
        let row_major = tile.transfer.reading.along_k == (role == 'A');
        let load = if row_major { "coopLoadT" } else { "coopLoad" };
        format!("{load}<{ty}>(&{}_tile[{at}], {pitch}u)", tile.transfer.name())
    }

    /// Statements that store each square in workgroup memory.
    fn cases(&self) -> String {
        let case = |(at, (i, j))| {
            format!("case {at}u: {{ coopStoreT(acc{i}_{j}, &squares[square], {}u); }}\n", self.side)
        };
        self.each_square().enumerate().map(case).collect()
    }
}

/// One side's tile in workgroup memory, where it lies as it lies in memory.
struct Halves {
    transfer: TileTransfer,
    rows: usize,
    columns: usize,
    /// Elements that a thread moves at a time, in 16 bytes.
    width: usize,
    /// True if each row has the leading bits of all its numbers, then the rest of them.
    split: bool,
}

impl Halves {
    /// Halves from one row to the next.
    fn pitch(&self) -> usize {
        self.columns * if self.split { 2 } else { 1 } + UnitTile::PAD
    }

    fn declare(&self) -> String {
        let quads = self.rows * self.pitch() / 4;
        format!("var<workgroup> {}_tile: array<vec4<f16>, {quads}>;\n", self.transfer.name())
    }

    /// Statements that find the thread's places in the tile and in memory, and declare variables for the elements
    /// there.
    fn places(&self, kernel: &mut KernelBuilder<'_>, walk: &IndexCursor<'_>) -> String {
        let (halves, width) = (self.transfer.reading.halves, self.width);
        let ty = if halves { "vec4<u32>" } else { "vec4<f32>" };
        let items = self.columns / width;
        // Rows of 64 bytes: eight threads that store together take two rows that share no bank.
        let two_rows = halves && items == 4 && self.rows.is_multiple_of(8);
        self.transfer.places(kernel, walk, ty, |at| {
            let row = if two_rows {
                format!("{at} / 32u * 8u + {at} / 4u % 2u * 4u + {at} % 32u / 8u")
            } else {
                format!("{at} / {items}u")
            };
            [("row", row), ("column", format!("{at} % {items}u * {width}u"))]
        })
    }

    /// Statements that put the variables into workgroup memory, as one or two halves.
    fn put(&self) -> String {
        let name = self.transfer.name();
        self.transfer.each_round(|round| {
            let at = format!("({name}_row{round} * {}u + {name}_column{round}) / 4u", self.pitch());
            let held = format!("{name}_held{round}");
            if self.transfer.reading.halves {
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
            }
        })
    }
}
