//! Memory has one owner at a time, and who holds a buffer alone gets it handed over at once.

use loom::thread;

use crate::Checks;
use crate::base::dtype::DType;
use crate::exec::HostBuffer;
use crate::exec::janitor::Sweep;
use crate::exec::host_pool::HostPool;
use crate::base::sync::Arc;

pub const CHECKS: Checks = &[
    ("a holder beside a sweep has its buffer handed over", None, beside_a_sweep),
    ("two that give and take disturb each other nowhere", None, two_that_give_and_take),
    ("of two holders one has it handed over at most", None, two_holders),
];

const WORDS: usize = 4;

fn is_filled(buffer: &HostBuffer, with: u32) -> bool {
    buffer.words() == [with; WORDS]
}

/// A run's memory, filled with `tag`, which the pool has for later.
fn result(pool: &HostPool, tag: u32) -> Arc<HostBuffer> {
    let (mut buffer, _) = pool.buffer(DType::U32, WORDS).expect("memory");
    buffer.as_slice_mut::<u32>().expect("its type").fill(tag);
    let held = Arc::new(buffer);
    pool.give(Arc::clone(&held));
    held
}

fn own(pool: &HostPool, held: Arc<HostBuffer>, tag: u32) {
    assert!(is_filled(&held, tag), "written while it was held");
    let mut owned = pool.hand_over(held).expect("nobody else has it");
    assert!(is_filled(&owned, tag), "written while it was handed over");
    owned.as_slice_mut::<u32>().expect("its type").fill(u32::MAX);
}

/// Checks that the pool has `buffers` buffers, all idle.
fn has(pool: &HostPool, buffers: u64) {
    let counts = pool.counts();
    assert_eq!((counts.live_bytes, counts.idle_bytes), (0, 4 * WORDS as u64 * buffers));
}

fn beside_a_sweep() {
    let pool = Arc::new(HostPool::default());
    let shared = Arc::clone(&pool);
    let sweeper = thread::spawn(move || {
        shared.sweep();
        shared.sweep();
        shared.counts();
    });
    let held = result(&pool, 1);
    own(&pool, held, 1);
    sweeper.join().unwrap();
    has(&pool, 0);
}

fn two_that_give_and_take() {
    let pool = Arc::new(HostPool::default());
    let shared = Arc::clone(&pool);
    let other = thread::spawn(move || {
        drop(result(&shared, 1));
        let held = result(&shared, 2);
        own(&shared, held, 2);
    });
    let held = result(&pool, 3);
    assert!(is_filled(&held, 3), "written while it was held");
    drop(held);
    other.join().unwrap();
    let counts = pool.counts();
    assert_eq!(counts.hits + counts.misses, 3);
    // All that was allocated, but for what was handed over.
    has(&pool, counts.misses - 1);
}

fn two_holders() {
    let pool = Arc::new(HostPool::default());
    let held = result(&pool, 1);
    let (shared, also) = (Arc::clone(&pool), Arc::clone(&held));
    let other = thread::spawn(move || shared.hand_over(also).is_ok());
    let own = pool.hand_over(held).is_ok();
    let others = other.join().unwrap();
    assert!(!(own && others), "both own it");
    has(&pool, if own || others { 0 } else { 1 });
}
