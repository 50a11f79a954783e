//! How a GPU kernel shares out the work of a form.

use crate::base::dtype::DType;
use crate::cost::MatrixUnits;
use crate::ops::key_bits;

/// How a GPU kernel shares out a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReduceSchedule {
    /// A workgroup a result, or a thread a result.
    pub layout: ReduceLayout,
    /// Parts that each row of `inner` is cut into; with more than one, partial results go to the scratch
    /// memory and a second dispatch combines them.
    pub parts: usize,
}

/// Who walks along the reduced elements of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReduceLayout {
    /// The threads of a workgroup together: for rows that lie close in memory.
    Group,
    /// One thread alone, its neighbours taking the neighbouring results: for columns and short rows.
    Thread,
}

/// How a GPU sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SortSchedule {
    /// A workgroup sorts whole rows in its memory.
    Group,
    /// A workgroup finds the first few of a row or, with more than one, of each of this many parts, among which a
    /// second dispatch selects.
    Select { parts: usize },
    /// All by one digit of so many bits of their keys after the other; elements move through the scratch memory. Those
    /// of equal digits are found by votes of subgroups, or by counters that each thread keeps.
    Digits { bits: u32, votes: bool },
}

impl SortSchedule {
    /// Elements that a workgroup takes of a row.
    pub fn tile(self) -> usize {
        256 * if let Self::Digits { votes: true, .. } = self { 12 } else { 8 }
    }

    /// How often a GPU is dispatched to sort elements of `dtype`.
    pub fn dispatches(self, dtype: DType) -> u64 {
        match self {
            Self::Group | Self::Select { parts: 1 } => 1,
            Self::Select { .. } => 2,
            Self::Digits { bits, .. } => 3 * key_bits(dtype).len().div_ceil(bits as usize) as u64,
        }
    }
}

/// How a GPU kernel shares out a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProductSchedule {
    pub layout: ProductLayout,
    /// Parts that k is cut into; with more than one, partial sums go to the scratch memory and a second
    /// dispatch adds them.
    pub parts: usize,
}

impl Default for ProductSchedule {
    fn default() -> Self {
        let tile = Tile { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 };
        Self { layout: ProductLayout::Tiles(tile), parts: 1 }
    }
}

/// What multiplies, and which part of the result a workgroup computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProductLayout {
    /// Scalar units, a block of the result in each thread's registers.
    Tiles(Tile),
    /// Scalar units, for few rows: each element of the right operand is read once.
    Strips(Strip),
    /// Matrix units, a block of the result in each subgroup's.
    Units(UnitTile),
}

/// `bm × bn` of the result a workgroup, `bk` of k at a time, `tm × tn` of the result a thread. All but `tm` are
/// multiples of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    pub bm: usize,
    pub bn: usize,
    pub bk: usize,
    pub tm: usize,
    pub tn: usize,
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

/// `bm × bn` of the result a workgroup, `bk` of k at a time, `wm × wn` of the result a subgroup; all are multiples of
/// the units' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnitTile {
    pub bm: usize,
    pub bn: usize,
    pub bk: usize,
    pub wm: usize,
    pub wn: usize,
    /// Whether `f32` operands are multiplied as sums of two `f16`.
    pub split: bool,
    /// What multiplies.
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

/// The kernels of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AttentionLayout {
    /// Each thread multiplies for itself.
    Tiles,
    /// Matrix units multiply halves.
    Units(MatrixUnits),
    /// For few queries: `lanes` neighbouring threads have a row and four keys at a time. Needs subgroups of that many
    /// threads or more.
    Strips { lanes: usize },
}

/// How a GPU kernel shares out an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttentionSchedule {
    pub layout: AttentionLayout,
    /// Queries of a workgroup, and those of a thread (4 or 8; one in strips, where they are a power of two) or of a
    /// subgroup with matrix units (a multiple of their side).
    pub rows: usize,
    pub each: usize,
    /// Keys that are scored at a time, a multiple of [`CHUNK`](Self::CHUNK); in strips, four of each group of threads
    /// that has the same row.
    pub keys: usize,
    /// Columns of the result that a workgroup computes, a multiple of 32; in strips, of what `lanes` threads hold.
    pub columns: usize,
    /// Parts that the keys are cut into; with more than one, partial results go to the scratch memory and a second
    /// dispatch combines them.
    pub parts: usize,
}

impl AttentionSchedule {
    /// Threads that share a query, in tiles.
    pub const ACROSS: usize = 8;
    /// Keys, and elements of their width, that are in workgroup memory at a time.
    pub const CHUNK: usize = 4 * Self::ACROSS;
    /// Threads of a workgroup of strips.
    pub const STRIP_THREADS: usize = 256;

    /// The schedule until one is chosen.
    pub fn least() -> Self {
        let layout = AttentionLayout::Tiles;
        Self { layout, rows: 32, each: 4, keys: 32, columns: 32, parts: 1 }
    }

    /// Threads of a workgroup.
    pub fn threads(&self) -> usize {
        let high = self.rows / self.each;
        match self.layout {
            AttentionLayout::Tiles => high * Self::ACROSS,
            AttentionLayout::Units(units) => high * units.subgroup as usize,
            AttentionLayout::Strips { .. } => Self::STRIP_THREADS,
        }
    }

    /// What the width of queries and keys is rounded up to a multiple of.
    pub fn chunk(&self) -> usize {
        match self.layout {
            AttentionLayout::Tiles | AttentionLayout::Units(_) => Self::CHUNK,
            AttentionLayout::Strips { lanes } => 4 * lanes,
        }
    }

    /// Workgroup memory that the kernel takes for operands `width` wide: in tiles, a chunk of queries or weights, and
    /// one of keys or values; with matrix units, the keys and values as `f16`, and of each subgroup scores and weights
    /// of a square of queries; in strips, what each group of threads has of a row.
    pub fn workgroup_bytes(&self, width: usize) -> usize {
        match self.layout {
            AttentionLayout::Tiles => Self::CHUNK * 4 * (self.rows + self.keys.max(self.columns)),
            AttentionLayout::Units(units) => {
                let side = units.side as usize;
                let width = width.next_multiple_of(Self::CHUNK);
                let keys_and_values = 2 * self.keys * (width + self.columns + 2 * UnitTile::PAD);
                let of_a_subgroup = side * (self.keys + UnitTile::PAD) * (4 + 2);
                keys_and_values + self.rows / self.each * of_a_subgroup
            }
            AttentionLayout::Strips { lanes } => {
                4 * Self::STRIP_THREADS / lanes * (self.columns + 3)
            }
        }
    }

    /// Keys of each part but the last.
    pub fn part(&self, keys: usize) -> usize {
        keys.div_ceil(self.parts).next_multiple_of(self.keys)
    }
}
