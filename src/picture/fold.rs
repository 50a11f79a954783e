//! Repeated blocks as one: a long list becomes a short one, of which each item stands for all that are alike.

use std::hash::{DefaultHasher, Hash, Hasher};

/// Lists of no more items are not folded.
const SHORT: usize = 40;
/// Items of the longest block that is looked for.
pub(super) const LONGEST: usize = 512;

/// An item of a folded list.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Item {
    /// The positions that it stands for, in ascending order; at least one.
    pub members: Vec<usize>,
    /// True if its members are alike; otherwise they only follow each other.
    pub is_repeat: bool,
}

/// Folds blocks that follow each other and are alike, as `kinds` says; none if more than `most` items are left.
pub(super) fn fold(kinds: &[u64], most: usize) -> Option<Vec<Item>> {
    let list = folded(kinds);
    (list.len() <= most).then(|| joined(&list, 1))
}

/// Folds as [`fold`] does. If more than `most` items are left, neighbours are joined.
pub(super) fn fold_or_join(kinds: &[u64], most: usize) -> Vec<Item> {
    let list = folded(kinds);
    joined(&list, list.len().div_ceil(most).max(1))
}

/// The kinds of the items, and the positions that each stands for.
fn folded(kinds: &[u64]) -> Vec<(u64, Vec<usize>)> {
    let mut list: Vec<(u64, Vec<usize>)> =
        kinds.iter().enumerate().map(|(at, &kind)| (kind, vec![at])).collect();
    if list.len() > SHORT {
        let mut period = 1;
        while period <= LONGEST.min(list.len() / 2) {
            if has_repeats(&list, period) {
                list = without_repeats(list, period);
            }
            period += 1;
        }
    }
    list
}

/// An item for each `run` of the list.
fn joined(list: &[(u64, Vec<usize>)], run: usize) -> Vec<Item> {
    let item = |run: &[(u64, Vec<usize>)]| {
        let mut members: Vec<usize> =
            run.iter().flat_map(|(_, members)| members).copied().collect();
        members.sort_unstable();
        Item { members, is_repeat: run.len() == 1 }
    };
    list.chunks(run).map(item).collect()
}

/// True if some block of `period` items repeats often enough.
fn has_repeats(list: &[(u64, Vec<usize>)], period: usize) -> bool {
    let mut alike = 0;
    list.iter().zip(&list[period..]).any(|(one, next)| {
        alike = if one.0 == next.0 { alike + 1 } else { 0 };
        pays(period, alike / period + 1)
    })
}

/// The list with one block in place of each run of blocks of `period` items that are alike.
fn without_repeats(mut list: Vec<(u64, Vec<usize>)>, period: usize) -> Vec<(u64, Vec<usize>)> {
    let mut out: Vec<(u64, Vec<usize>)> = Vec::with_capacity(list.len());
    let mut at = 0;
    while at < list.len() {
        let alike = (at..list.len().saturating_sub(period))
            .take_while(|&i| list[i].0 == list[i + period].0)
            .count();
        let times = alike / period + 1;
        if !pays(period, times) {
            // No run that begins before the first difference is longer than this one.
            out.extend(list[at..=at + alike].iter_mut().map(std::mem::take));
            at += alike + 1;
            continue;
        }
        let kinds: Vec<u64> = list[at..at + period].iter().map(|&(kind, _)| kind).collect();
        let block = hash(&(kinds, times));
        for place in 0..period {
            let copies = (0..times).map(|copy| at + copy * period + place);
            let members = copies.flat_map(|i| list[i].1.iter().copied()).collect();
            out.push((hash(&(block, place)), members));
        }
        at += period * times;
    }
    out
}

/// A number that is equal for equal values.
pub(crate) fn hash(what: &impl Hash) -> u64 {
    let mut hasher = DefaultHasher::new();
    what.hash(&mut hasher);
    hasher.finish()
}

/// True if a block so often spares enough items: pairs of single items stay as they are.
fn pays(period: usize, times: usize) -> bool {
    times > 2 || (times == 2 && period >= 4)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folded(text: &str, most: usize) -> Vec<Item> {
        fold_or_join(&text.bytes().map(u64::from).collect::<Vec<_>>(), most)
    }

    #[test]
    fn short_lists_stay() {
        let items = folded("abababab", 100);
        assert_eq!(items.len(), 8);
        assert_eq!(folded("", 100), []);
    }

    #[test]
    fn blocks_fold_within_blocks() {
        // 20 times: x, five times a, y.
        let items = folded(&format!("s{}e", "xaaaaay".repeat(20)), 100);
        let counts: Vec<usize> = items.iter().map(|item| item.members.len()).collect();
        assert_eq!(counts, [1, 20, 100, 20, 1]);
        assert!(items.iter().all(|item| item.is_repeat));
        assert_eq!(items[1].members[..3], [1, 8, 15]);
        assert_eq!(items[2].members[..6], [2, 3, 4, 5, 6, 9]);
    }

    #[test]
    fn each_position_is_in_one_item_and_items_are_few() {
        let mut seed = 1_u32;
        for length in [0, 1, 2, 39, 41, 100, 1000, 5000] {
            for letters in [1, 2, 3, 200] {
                let kind = |_| {
                    seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
                    u64::from((seed >> 16) % letters)
                };
                let kinds: Vec<u64> = (0..length).map(kind).collect();
                let items = fold_or_join(&kinds, 50);
                assert!(fold(&kinds, 50).is_none_or(|folded| folded == items));
                assert!(items.len() <= 50);
                let mut all: Vec<usize> = items.iter().flat_map(|i| i.members.clone()).collect();
                all.sort_unstable();
                assert_eq!(all, (0..length).collect::<Vec<_>>());
                for item in items.iter().filter(|item| item.is_repeat) {
                    let first = kinds[item.members[0]];
                    assert!(item.members.iter().all(|&member| kinds[member] == first));
                }
            }
        }
    }
}
