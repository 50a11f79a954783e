//! How an attention is shared out on a GPU.

use super::share::AttentionSchedule;
use crate::cost::Limits;

/// Workgroups of many queries, and threads in all, that keep a large GPU busy.
const GROUPS: usize = 264;
const THREADS: usize = 128 * GROUPS;
/// Queries from which on a workgroup takes more of them: rows, those of a thread, and keys scored at a time.
const TILES: [(usize, usize, usize, usize); 4] =
    [(1, 16, 4, 32), (17, 32, 4, 64), (49, 64, 8, 64), (96, 128, 8, 64)];
/// Columns of the result that fit in a thread's registers beside 64 keys.
const NARROW: usize = 64;
/// The most columns that a workgroup computes.
const COLUMNS: usize = 128;
const MOST_PARTS: usize = 64;

/// The schedule for `count` attentions of `[queries, keys, out]`.
pub(super) fn schedule(
    count: usize,
    [queries, keys, out]: [usize; 3],
    limits: &Limits,
) -> AttentionSchedule {
    let columns = out.next_multiple_of(32).clamp(32, COLUMNS);
    let tiles = TILES.iter().rev().filter(|(from, ..)| queries >= *from);
    let mut candidates = tiles.map(|&(_, rows, each, keys)| {
        let keys = if columns > NARROW { 32 } else { keys };
        AttentionSchedule { rows, each, keys, columns, parts: 1 }
    });
    let groups = |s: &AttentionSchedule| {
        count.saturating_mul(queries.div_ceil(s.rows)).saturating_mul(out.div_ceil(s.columns))
    };
    // The largest that fits, unless there are too few of it and a smaller one does.
    let fits = |s: &AttentionSchedule| s.workgroup_bytes() <= limits.workgroup_bytes as usize;
    let first = candidates.find(fits);
    let busy = candidates.find(|s| s.rows >= 32 && fits(s) && groups(s) >= GROUPS);
    let mut schedule = match (first, busy) {
        (Some(first), _) if groups(&first) >= GROUPS => first,
        (Some(first), None) => first,
        (_, Some(busy)) => busy,
        (None, None) => AttentionSchedule::least(),
    };
    let wanted = THREADS.div_ceil((groups(&schedule) * schedule.threads()).max(1));
    // At least four tiles of keys in each part, so that the second dispatch pays.
    let parts = wanted.min(keys / (4 * schedule.keys)).clamp(1, MOST_PARTS);
    schedule.parts = parts;
    // None of them is empty.
    schedule.parts = keys.div_ceil(schedule.part(keys).max(1)).max(1);
    schedule
}
