//! The numbers by which batches know their own ids, and the places where the last batches were made.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::place::Place;
use crate::base::sync::Mutex;

/// Batches whose places are known, also once they were dropped.
const KNOWN: usize = 1024;

static NEXT: AtomicU64 = AtomicU64::new(0);

static PLACES: BatchPlaces<KNOWN> = BatchPlaces::new();

/// The places of the last `N` batches, each at the number of its batch modulo `N`.
struct BatchPlaces<const N: usize>([Mutex<Option<(u64, Place)>>; N]);

impl<const N: usize> BatchPlaces<N> {
    const fn new() -> Self {
        Self([const { Mutex::new(None) }; N])
    }

    fn add(&self, id: u64, made_at: &Place) {
        // A forked child may find the lock held for good.
        if let Some(mut known) = self.0[id as usize % N].try_lock() {
            *known = Some((id, made_at.clone()));
        }
    }

    fn of(&self, id: u64) -> Option<Place> {
        let known = self.0[id as usize % N].try_lock()?;
        known.as_ref().filter(|(of, _)| *of == id).map(|(_, place)| place.clone())
    }
}

/// The number of a new batch, which is made at this place.
pub(crate) fn new_batch_id(made_at: &Place) -> u64 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    PLACES.add(id, made_at);
    id
}

/// The place where the batch numbered `id` was made, if that is known.
pub(super) fn made_at(id: u64) -> Option<Place> {
    PLACES.of(id)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_batch_is_known_for_a_while() {
        let places = BatchPlaces::<4>::new();
        let place = |line| Place::given("model.py", line);
        assert_eq!(places.of(7), None);
        for id in 7..11 {
            places.add(id, &place(id as u32));
        }
        assert_eq!([7, 10].map(|id| places.of(id)), [7, 10].map(|line| Some(place(line))));
        places.add(11, &place(11));
        assert_eq!(places.of(7), None, "its entry has the place of batch 11");
        assert_eq!([8, 11].map(|id| places.of(id)), [8, 11].map(|line| Some(place(line))));
        assert_eq!(places.of(u64::MAX), None);
    }
}
