//! The schedules of attentions on a GPU, and the choice of one by the sizes.

use crate::cost::{Limits, MatrixUnits};
use crate::plan::forms::kernel_form::WORKGROUP_THREADS;
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
    pub const STRIP_THREADS: usize = WORKGROUP_THREADS;

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

    /// Bytes of workgroup memory that the kernel takes for operands `width` wide. Tiles take a chunk of queries or
    /// weights, and one of keys or values. Matrix units take the keys and values as `f16`. Each of their subgroups also
    /// takes scores and weights of a square of queries. Strips take the share of a row that each group of threads has.
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

/// Workgroups of many queries, and threads in all, that keep a large GPU busy: two a core of an H200, which has 132.
const GROUPS: usize = 264;
const THREADS: usize = 128 * GROUPS;
/// Queries from which on a workgroup takes more of them: rows, those of a thread, and keys scored at a time.
const TILES: [(usize, usize, usize, usize); 4] =
    [(1, 16, 4, 32), (17, 32, 4, 64), (49, 64, 8, 64), (96, 128, 8, 64)];
/// Columns of the result beyond which a thread has fewer rows.
const NARROW: usize = 64;
/// As [`TILES`], for results of more than [`NARROW`] columns: on an H200, 128 columns with eight rows a thread took 1.3
/// times as long.
const WIDE_TILES: [(usize, usize, usize, usize); 3] =
    [(1, 16, 4, 32), (17, 32, 4, 32), (49, 64, 4, 64)];
/// The most columns that a workgroup computes: a thread's sums of four rows are then 64 numbers, which with the scores
/// stay in registers. With fewer, more workgroups compute the same scores.
const COLUMNS: usize = 128;
/// Parts of the keys, at most. More of them keep a large GPU busy where there are few queries, and each leaves sums as
/// wide as the result for the second dispatch.
const MOST_PARTS: usize = 64;
/// Subgroups of a workgroup with matrix units, and squares of queries that each of them has: for narrow results, for
/// wide ones, and for few queries.
const NARROW_SQUARES: (usize, usize) = (4, 2);
const WIDE_SQUARES: (usize, usize) = (8, 1);
const FEWER_SQUARES: [(usize, usize); 2] = [(4, 1), (2, 1)];
/// The widest queries whose squares a subgroup holds beside the sums.
const UNITS_WIDTH: usize = 128;
/// The most queries for strips, where each reads all keys for itself. For more of them, to put keys into workgroup
/// memory pays.
const STRIP_QUERIES: usize = 8;
/// Workgroups of strips that keep a large GPU busy: about four on each of an H200's 132 cores, since they wait for
/// memory. With more, parts of the keys are shorter, and there are more of them to put together.
const STRIP_GROUPS: usize = 512;
/// Threads that share a row there, unless subgroups or rows are smaller or a thread would hold more elements of a query
/// or a value than this. On an H200, 16 threads took up to 1.2 times as long, for rows of 128, and 4 as much for rows
/// of 64.
const STRIP_LANES: usize = 8;
const STRIP_ELEMENTS: usize = 16;

/// The schedule for an attention of such sizes.
pub(super) fn schedule(form: &AttentionSizes, limits: &Limits) -> AttentionSchedule {
    let &AttentionSizes { queries, keys, width, out, .. } = form;
    let count = form.count;
    let groups = |s: &AttentionSchedule| {
        count.saturating_mul(queries.div_ceil(s.rows)).saturating_mul(out.div_ceil(s.columns))
    };
    let fits = |s: &AttentionSchedule| s.workgroup_bytes(width) <= limits.workgroup_bytes as usize;
    let special = strips(form, limits).map_or_else(|| on_units(form, limits), |s| vec![s]);
    let special = special.into_iter().filter(fits).collect::<Vec<_>>();
    let mut candidates = if special.is_empty() { by_threads(form) } else { special }.into_iter();
    // The largest that fits, unless there are too few of it and a smaller one does.
    let first = candidates.find(fits);
    let busy = candidates.find(|s| s.rows >= 32 && fits(s) && groups(s) >= GROUPS);
    let mut schedule = match (first, busy) {
        (Some(first), _) if groups(&first) >= GROUPS => first,
        (Some(first), None) => first,
        (_, Some(busy)) => busy,
        (None, None) => AttentionSchedule::least(),
    };
    let wanted = match schedule.layout {
        AttentionLayout::Strips { .. } => STRIP_GROUPS.div_ceil(groups(&schedule).max(1)),
        AttentionLayout::Tiles | AttentionLayout::Units(_) => {
            THREADS.div_ceil(groups(&schedule).saturating_mul(schedule.threads()).max(1))
        }
    };
    // At least four tiles of keys in each part, so that the second dispatch pays.
    let parts = wanted.min(keys / (4 * schedule.keys)).clamp(1, MOST_PARTS);
    schedule.parts = parts;
    // None of them is empty.
    schedule.parts = keys.div_ceil(schedule.part(keys).max(1)).max(1);
    schedule
}

fn columns(form: &AttentionSizes) -> usize {
    form.out.next_multiple_of(32).clamp(32, COLUMNS)
}

/// The schedules in which each thread multiplies, those of many queries first.
fn by_threads(form: &AttentionSizes) -> Vec<AttentionSchedule> {
    let columns = columns(form);
    let tiles = if columns > NARROW { &WIDE_TILES[..] } else { &TILES };
    let tiles = tiles.iter().rev().filter(|(from, ..)| form.queries >= *from);
    let schedule = |&(_, rows, each, keys): &(usize, usize, usize, usize)| AttentionSchedule {
        layout: AttentionLayout::Tiles,
        rows,
        each,
        keys,
        columns,
        parts: 1,
    };
    tiles.map(schedule).collect()
}

/// The schedules for matrix units, if the target has them and they can serve.
fn on_units(form: &AttentionSizes, limits: &Limits) -> Vec<AttentionSchedule> {
    let columns = columns(form);
    let serves = |units: &MatrixUnits| {
        form.halves
            && form.keys > 0
            && form.queries >= units.side as usize
            && form.width <= UNITS_WIDTH
            && form.out <= columns
    };
    let Some(units) = limits.units.filter(serves) else { return Vec::new() };
    let side = units.side as usize;
    let most = if columns.max(form.width) > NARROW { WIDE_SQUARES } else { NARROW_SQUARES };
    let squares = [most].into_iter().chain(FEWER_SQUARES);
    let schedule = |(subgroups, squares): (usize, usize)| AttentionSchedule {
        layout: AttentionLayout::Units(units),
        rows: subgroups * squares * side,
        each: squares * side,
        keys: AttentionSchedule::CHUNK,
        columns,
        parts: 1,
    };
    let needed = |s: &AttentionSchedule| s.rows < 2 * form.queries;
    let all: Vec<_> = squares.map(schedule).collect();
    let last = all.last().copied();
    let fewer: Vec<_> = all.into_iter().filter(needed).collect();
    if fewer.is_empty() { last.into_iter().collect() } else { fewer }
}

/// The schedule for few queries, if the target has subgroups for it and a thread can hold its share.
fn strips(form: &AttentionSizes, limits: &Limits) -> Option<AttentionSchedule> {
    let &AttentionSizes { queries, width, out, .. } = form;
    if !(1..=STRIP_QUERIES).contains(&queries) {
        return None;
    }
    let rows = queries.next_power_of_two();
    let widest = width.max(out).max(1);
    let wanted = widest.div_ceil(STRIP_ELEMENTS).max(STRIP_LANES).min(widest.div_ceil(4));
    // All lanes of a row are of one subgroup, and all rows have threads.
    let most = (limits.subgroups?.least as usize).min(AttentionSchedule::STRIP_THREADS / rows);
    let lanes = wanted.next_power_of_two().min(most);
    let each = |columns: usize| columns.div_ceil(4 * lanes) * 4;
    (each(widest) <= STRIP_ELEMENTS).then(|| AttentionSchedule {
        layout: AttentionLayout::Strips { lanes },
        rows,
        each: 1,
        keys: 4 * AttentionSchedule::STRIP_THREADS / (lanes * rows),
        columns: each(out.max(1)) * lanes,
        parts: 1,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Subgroups;

    const KEYS: usize = 5000;

    fn attention(queries: usize, width: usize, out: usize) -> AttentionSizes {
        AttentionSizes { count: 3, queries, keys: KEYS, width, out, halves: false }
    }

    /// Limits of a device whose subgroups have at least so many threads.
    fn limits(least: u32) -> Limits {
        let webgpu = Limits::webgpu();
        Limits { subgroups: Some(Subgroups { least, most: 128 }), ..webgpu }
    }

    #[test]
    fn every_row_of_strips_has_threads_and_every_key_a_turn() {
        let widths = [1, 3, 20, 64, 128, 256, 513, 600, 1024];
        let mut count = 0;
        for least in [4, 8, 16, 32, 64, 128] {
            for (queries, width) in (0..10).flat_map(|queries| widths.map(|width| (queries, width)))
            {
                for out in [0, 1, width, 100] {
                    let schedule = schedule(&attention(queries, width, out), &limits(least));
                    let AttentionLayout::Strips { lanes } = schedule.layout else { continue };
                    let case = format!("{least} {queries} {width} {out}: {schedule:?}");
                    let threads = lanes * schedule.rows;
                    assert!(lanes <= least as usize && schedule.rows >= queries, "{case}");
                    assert!(threads <= AttentionSchedule::STRIP_THREADS, "{case}");
                    let groups = AttentionSchedule::STRIP_THREADS / threads;
                    assert_eq!(schedule.keys, 4 * groups, "{case}");
                    assert!(schedule.columns >= out.max(1), "{case}");
                    assert!((schedule.parts - 1) * schedule.part(KEYS) < KEYS, "{case}");
                    count += 1;
                }
            }
        }
        assert!(count > 500, "{count}");
    }
}
