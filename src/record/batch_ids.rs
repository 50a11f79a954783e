//! The numbers by which batches know their own ids, and the places where the last batches were made.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::base::place::Place;
use crate::base::sync::Mutex;

/// Batches whose places are known, also once they were dropped.
const KNOWN: usize = 1024;

static NEXT: AtomicU64 = AtomicU64::new(0);

/// The place of each of the last batches, at its number modulo their count.
static PLACES: [Mutex<Option<(u64, Place)>>; KNOWN] = [const { Mutex::new(None) }; KNOWN];

/// The number of a new batch, which is made at this place.
pub(crate) fn new_batch_id(made_at: &Place) -> u64 {
    let id = NEXT.fetch_add(1, Ordering::Relaxed);
    // A forked child may find the lock held for good.
    if let Some(mut known) = PLACES[id as usize % KNOWN].try_lock() {
        *known = Some((id, made_at.clone()));
    }
    id
}

/// The place where the batch numbered `id` was made, if that is known.
pub(super) fn made_at(id: u64) -> Option<Place> {
    let known = PLACES[id as usize % KNOWN].try_lock()?;
    known.as_ref().filter(|(of, _)| *of == id).map(|(_, place)| place.clone())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_place_of_a_batch_is_known_for_a_while() {
        let place = Place::given("model.py", 7);
        let id = new_batch_id(&place);
        assert!(made_at(id).is_none_or(|known| known == place));
        for _ in 0..2 * KNOWN {
            new_batch_id(&Place::caller());
        }
        assert_eq!(made_at(id), None);
        assert_eq!(made_at(u64::MAX), None);
    }
}
