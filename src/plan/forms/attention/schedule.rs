//! The schedules of attentions on a GPU.

use crate::cost::MatrixUnits;
use crate::plan::forms::product::UnitTile;

/// The sizes that a schedule is chosen by.
#[derive(Clone, Copy, Debug)]
pub(super) struct AttentionSizes {
    /// Attentions in the batch.
    pub count: usize,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub out: usize,
    /// True if queries, keys and values are `f16`, or would be rounded to it.
    pub halves: bool,
}

/// The kernels of an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum AttentionLayout {
    /// Each thread multiplies for itself.
    Tiles,
    /// Matrix units multiply halves.
    Units(MatrixUnits),
    /// A kernel for few queries: `lanes` neighbouring threads have a row and four keys at a time. Needs subgroups of
    /// that many threads or more.
    Strips { lanes: usize },
}

/// The schedule of an attention on a GPU.
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

    /// The unit that the width of queries and keys is rounded up to.
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
