//! A map of bounded size that forgets its least recently used half when it is full.

use std::borrow::Borrow;
use std::collections::HashMap;
use std::hash::Hash;

pub(crate) struct Lru<K, V> {
    entries: HashMap<K, (u64, V)>,
    capacity: usize,
    clock: u64,
}

impl<K: Hash + Eq, V> Lru<K, V> {
    pub fn new(capacity: usize) -> Self {
        Self { entries: HashMap::new(), capacity, clock: 0 }
    }

    pub fn get<Q: Hash + Eq + ?Sized>(&mut self, key: &Q) -> Option<&V>
    where
        K: Borrow<Q>,
    {
        self.clock += 1;
        let (time, value) = self.entries.get_mut(key)?;
        *time = self.clock;
        Some(value)
    }

    /// Adds an entry. Where the map is full, the older half goes first, and is returned, so that the cost of the search
    /// is spread over many insertions. Drop the returned values after the map is unlocked: that may take long.
    #[must_use]
    pub fn insert(&mut self, key: K, value: V) -> Vec<V> {
        let mut forgotten = Vec::new();
        if self.entries.len() >= self.capacity {
            let mut times: Vec<u64> = self.entries.values().map(|&(time, _)| time).collect();
            let middle = times.len() / 2;
            let (_, &mut median, _) = times.select_nth_unstable(middle);
            let old = self.entries.extract_if(|_, (time, _)| *time <= median);
            forgotten.extend(old.map(|(_, (_, value))| value));
        }
        self.clock += 1;
        self.entries.insert(key, (self.clock, value));
        forgotten
    }

    pub fn values(&self) -> impl Iterator<Item = &V> {
        self.entries.values().map(|(_, value)| value)
    }

    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes out the entries of the keys for which `takes` is true.
    #[must_use]
    pub fn extract(&mut self, mut takes: impl FnMut(&K) -> bool) -> Vec<V> {
        self.entries.extract_if(|key, _| takes(key)).map(|(_, (_, value))| value).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_used_stays_and_the_size_is_bounded() {
        let mut lru = Lru::new(8);
        for key in 0..1_000 {
            let forgotten = lru.insert(key, key * 10);
            assert!(forgotten.len() <= 5 && !forgotten.contains(&0), "{forgotten:?}");
            if key > 0 {
                assert_eq!(lru.get(&0), Some(&0), "after {key}");
            }
            assert_eq!(lru.get(&key), Some(&(key * 10)));
            assert!(lru.entries.len() <= 8);
        }
        assert_eq!(lru.get(&1), None);
    }

    #[test]
    fn a_capacity_of_one_holds_the_last() {
        let mut lru = Lru::new(1);
        assert!(lru.insert("a", 1).is_empty());
        assert_eq!(lru.insert("b", 2), [1]);
        assert_eq!((lru.get("a").copied(), lru.get("b").copied()), (None, Some(2)));
    }

    #[test]
    fn what_is_extracted_is_there_no_more() {
        let mut lru = Lru::new(8);
        for key in 0..6 {
            assert!(lru.insert(key, key * 10).is_empty());
        }
        let mut even = lru.extract(|key| key % 2 == 0);
        even.sort_unstable();
        assert_eq!(even, [0, 20, 40]);
        assert_eq!((lru.len(), lru.get(&2).copied(), lru.get(&3).copied()), (3, None, Some(30)));
    }
}
