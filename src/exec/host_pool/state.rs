//! The buffers of a pool by size: the search for one that fits, and the limits of their number and bytes.

use std::collections::VecDeque;

use smallvec::SmallVec;

use crate::base::sync::Arc;
use crate::exec::HostBuffer;
use crate::exec::memory::MemoryCounts;

/// Most bytes that the pool holds.
const BUDGET: usize = 1 << 30;
/// Most buffers of one size class in the pool. A run looks through all of them for one that fits while other runs wait
/// for the pool.
pub(super) const MOST_BUFFERS: usize = 128;

#[derive(Debug, Default)]
pub(super) struct PoolState {
    /// Buffers by size class, the oldest first. A class is the power of two at or below their capacity.
    pub classes: Vec<VecDeque<PooledBuffer>>,
    /// Number of buffers of each class that were handed over since the last sweep and not replaced by a vector of the
    /// user.
    pub handed_over: Vec<usize>,
    pub bytes: usize,
    /// Number of buffers given so far.
    pub given: u64,
    /// Value of `given` at the last sweep.
    pub swept: u64,
    pub counts: MemoryCounts,
}

#[derive(Debug)]
pub(super) struct PooledBuffer {
    pub buffer: Arc<HostBuffer>,
    pub capacity: usize,
    /// Number of buffers given before this one.
    pub age: u64,
}

pub(super) type Freed = SmallVec<[Arc<HostBuffer>; 2]>;

pub(super) fn class(capacity: usize) -> usize {
    capacity.max(1).ilog2() as usize
}

impl PoolState {
    /// Removes and returns a buffer that nobody else holds. It has at least `words` words and at most four times as
    /// many.
    pub fn idle(&mut self, words: usize) -> Option<Arc<HostBuffer>> {
        let fitting = words..=words.saturating_mul(4);
        let fits = |entry: &PooledBuffer| {
            fitting.contains(&entry.capacity) && Arc::strong_count(&entry.buffer) == 1
        };
        let first = class(words);
        (first..=first + 2).find_map(|class| {
            // The buffer used last is still in the caches.
            let at = self.classes.get(class)?.iter().rposition(fits)?;
            self.remove(class, at)
        })
    }

    pub fn add(&mut self, buffer: Arc<HostBuffer>) -> usize {
        let (capacity, age) = (buffer.capacity(), self.given);
        let class = class(capacity);
        if self.classes.len() <= class {
            self.classes.resize_with(class + 1, VecDeque::new);
            self.handed_over.resize(class + 1, 0);
        }
        self.classes[class].push_back(PooledBuffer { buffer, capacity, age });
        self.given += 1;
        self.bytes += 4 * capacity;
        self.counts.peak_bytes = self.counts.peak_bytes.max(self.bytes as u64);
        class
    }

    /// Returns whether a buffer of `class` was handed over and not replaced yet. The call counts as its replacement.
    pub fn replaces_handed_over(&mut self, class: usize) -> bool {
        let handed_over = self.handed_over.get_mut(class).filter(|handed_over| **handed_over > 0);
        handed_over.map(|handed_over| *handed_over -= 1).is_some()
    }

    pub fn remove(&mut self, class: usize, at: usize) -> Option<Arc<HostBuffer>> {
        let entry = self.classes[class].remove(at)?;
        self.bytes -= 4 * entry.capacity;
        Some(entry.buffer)
    }

    /// Removes the oldest buffers while there are too many, now that there is one more of `class`.
    pub fn make_room(&mut self, class: usize, freed: &mut Freed) {
        if self.classes[class].len() > MOST_BUFFERS {
            self.remove_oldest(class, freed);
        }
        while self.bytes > BUDGET {
            let ages = self.classes.iter().map(|entries| entries.front().map(|entry| entry.age));
            let fronts = ages.enumerate().filter_map(|(class, age)| Some((age?, class)));
            let Some((_, class)) = fronts.min() else { break };
            self.remove_oldest(class, freed);
        }
    }

    /// Removes the oldest buffers of each class while `condition` holds for them.
    pub fn remove_while(&mut self, condition: impl Fn(&PooledBuffer) -> bool, freed: &mut Freed) {
        for class in 0..self.classes.len() {
            while self.classes[class].front().is_some_and(&condition) {
                self.remove_oldest(class, freed);
            }
        }
    }

    /// Removes the oldest buffer of a class, and frees it if nobody else holds it. Another holder owns it alone from
    /// here on, and may have it [handed over](HostPool::hand_over) at once.
    fn remove_oldest(&mut self, class: usize, freed: &mut Freed) {
        let oldest = self.remove(class, 0);
        freed.extend(oldest.filter(|buffer| Arc::strong_count(buffer) == 1));
    }
}
