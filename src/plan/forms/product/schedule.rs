//! The schedules of matrix products on a GPU.

use crate::cost::MatrixUnits;

/// The sizes of a product, `count` of them in the batch.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ProductSize {
    pub count: usize,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// True if the right operand is one of windows, whose positions take longer to find.
    pub windows: bool,
}

/// The schedule of a matrix product on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProductSchedule {
    pub layout: ProductLayout,
    /// Parts that k is cut into; with more than one, partial sums go to the scratch memory and a second
    /// dispatch adds them.
    pub parts: usize,
}

impl Default for ProductSchedule {
    fn default() -> Self {
        let tile = Tile::fitting([64, 64, 16, 4, 4], Tile::LEAST_BYTES);
        Self { layout: ProductLayout::Tiles(tile), parts: 1 }
    }
}

/// The units that multiply, and the part of the result that a workgroup computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProductLayout {
    /// Scalar units, a block of the result in each thread's registers.
    Tiles(Tile),
    /// Scalar units, for few rows: each element of the right operand is read once.
    Strips(Strip),
    /// Matrix units, a block of the result in each subgroup's.
    Units(UnitTile),
}

/// The block of the result that a workgroup computes on scalar units, `bm × bn`, with `bk` of k at a time. A thread
/// computes `tm × tn` of it. All are multiples of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    pub bm: usize,
    pub bn: usize,
    pub bk: usize,
    pub tm: usize,
    pub tn: usize,
    /// Tiles of each operand in workgroup memory: with two, one is filled while the other is multiplied.
    pub stages: usize,
}

impl Tile {
    /// Workgroup memory that every GPU has.
    pub const LEAST_BYTES: usize = 16_384;

    /// The tile of these sides for `bytes` of workgroup memory: with one stage where two are too much, then with less
    /// of k, then with smaller sides.
    pub const fn fitting([bm, bn, bk, tm, tn]: [usize; 5], bytes: usize) -> Self {
        let mut tile = Self { bm, bn, bk, tm, tn, stages: 1 };
        while tile.stage_bytes() > bytes && tile.bk > 4 {
            tile.bk = (tile.bk / 2).next_multiple_of(4);
        }
        while tile.stage_bytes() > bytes && tile.bm > tm && tile.bn > tn {
            tile.bm /= 2;
            tile.bn /= 2;
        }
        if 2 * tile.stage_bytes() <= bytes {
            tile.stages = 2;
        }
        tile
    }

    /// Quads of each operand from one element of k to the next. A quad of padding spreads the writes of one thread
    /// along k over the banks.
    pub const fn pitches(&self) -> [usize; 2] {
        [self.bm.div_ceil(4) + 1, self.bn.div_ceil(4)]
    }

    const fn stage_bytes(&self) -> usize {
        let [x, w] = self.pitches();
        (x + w) * self.bk * 16
    }
}

/// `rows` of the result (all there are), and `quads` fours of columns a workgroup, whose threads in `slices`
/// share k. Where the right operand lies along k, each thread takes four of k at a time, and `quads` single columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Strip {
    pub rows: usize,
    pub quads: usize,
    /// A power of two.
    pub slices: usize,
}

impl Strip {
    /// Fours of k that a thread reads at once.
    pub const UNROLLED: usize = 4;

    /// Elements of k that the workgroup reads in one round.
    pub fn unit(&self) -> usize {
        self.slices * 4 * Self::UNROLLED
    }
}

/// The block of the result that a workgroup computes on matrix units, `bm × bn`, with `bk` of k at a time. A subgroup
/// computes `wm × wn` of it. All are multiples of the units' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnitTile {
    pub bm: usize,
    pub bn: usize,
    pub bk: usize,
    pub wm: usize,
    pub wn: usize,
    /// True if `f32` operands are multiplied as sums of two `f16`.
    pub split: bool,
    /// The units that multiply.
    pub units: MatrixUnits,
}

impl UnitTile {
    /// Halves between the end of one row of a tile in workgroup memory and the start of the next, which spread a
    /// column over the banks.
    pub const PAD: usize = 8;

    /// Workgroup memory that the kernel takes: both tiles, however they lie, and a square of the result a subgroup.
    pub fn workgroup_bytes(&self) -> u64 {
        let parts = if self.split { 2 } else { 1 };
        let halves = |outer: usize| {
            let (a, b) =
                (outer * (self.bk * parts + Self::PAD), self.bk * (outer * parts + Self::PAD));
            a.max(b)
        };
        let square = (self.units.side as usize).pow(2);
        let squares = (self.bm / self.wm) * (self.bn / self.wn) * square * 4;
        (2 * (halves(self.bm) + halves(self.bn)) + squares) as u64
    }
}
