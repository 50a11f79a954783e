//! Work in parts that any of rayon's threads may do.

use std::sync::{Mutex, PoisonError};

/// Does `work` on each of `parts`, on this thread and those of rayon that are free, in any order.
pub(crate) fn share<I: Send>(
    parts: impl ExactSizeIterator<Item = I> + Send,
    work: impl Fn(I) + Sync,
) {
    let others = rayon::current_num_threads().min(parts.len()).saturating_sub(1);
    let parts = Mutex::new(parts);
    let next = || parts.lock().unwrap_or_else(PoisonError::into_inner).next();
    let drain = || {
        while let Some(part) = next() {
            work(part);
        }
    };
    rayon::in_place_scope(|scope| {
        (0..others).for_each(|_| scope.spawn(|_| drain()));
        drain();
    });
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_part_is_done_once() {
        for count in [0, 1, 2, 1000] {
            let done = Mutex::new(Vec::new());
            share(0..count, |part| done.lock().unwrap().push(part));
            let mut done = done.into_inner().unwrap();
            done.sort_unstable();
            assert_eq!(done, (0..count).collect::<Vec<_>>());
        }
    }
}
