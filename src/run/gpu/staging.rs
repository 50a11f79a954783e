//! Everything that goes to the device in one trip, packed in one mapped buffer.

use std::ops::Range;

use super::convert::Storage;
use super::pool::Lease;
use crate::run::memory::{LARGE, PART};
use crate::run::threads::share;

/// Data starts at multiples of this, which suits copies and mapped ranges.
const ALIGNMENT: u64 = 16;

/// What is to be uploaded, with the place of each item in the staging buffer.
#[derive(Default)]
pub(super) struct Cargo<'a> {
    items: Vec<Item<'a>>,
    bytes: u64,
    /// Bytes that this run could have used, but does not.
    room: u64,
}

struct Item<'a> {
    storage: Storage,
    host: &'a [u8],
    place: Range<u64>,
}

impl<'a> Cargo<'a> {
    /// Adds host elements, and returns where they will lie.
    pub fn push(&mut self, storage: Storage, host: &'a [u8]) -> Range<u64> {
        let start = self.bytes.next_multiple_of(ALIGNMENT);
        let end = start + storage.bytes(host.len() / storage.host_size());
        self.bytes = end;
        self.items.push(Item { storage, host, place: start..end });
        start..end
    }

    /// Leaves room for what an earlier run brought, so that both use the same staging buffer.
    pub fn leave_room(&mut self, bytes: u64) {
        self.room += bytes.next_multiple_of(ALIGNMENT);
    }

    /// Bytes of the buffer to pack the items in.
    pub fn capacity(&self) -> u64 {
        self.bytes + self.room
    }

    /// Bytes of the whole.
    pub fn bytes(&self) -> u64 {
        self.bytes
    }

    /// Writes all items to `staging`, which is mapped.
    pub fn fill(&self, staging: &Lease) -> Result<(), wgpu::MapRangeError> {
        if self.bytes >= LARGE as u64 {
            return self.fill_parallel(staging);
        }
        let mut view = staging.buffer.get_mapped_range_mut(..self.bytes)?;
        for Item { storage, host, place } in &self.items {
            storage.pack(host, view.slice(place.start as usize..place.end as usize));
        }
        Ok(())
    }

    fn fill_parallel(&self, staging: &Lease) -> Result<(), wgpu::MapRangeError> {
        let mut parts = Vec::new();
        for &Item { storage, host, ref place } in &self.items {
            let elements = PART / storage.size();
            for (index, part) in host.chunks(elements * storage.host_size()).enumerate() {
                let start = place.start + (index * elements * storage.size()) as u64;
                let end = start + storage.bytes(part.len() / storage.host_size());
                let view = staging.buffer.get_mapped_range_mut(start..end)?;
                parts.push((view, storage, part));
            }
        }
        share(parts.into_iter(), |(mut view, storage, part)| storage.pack(part, view.slice(..)));
        Ok(())
    }
}
