//! Return of idle memory to the system, also while nothing runs.

use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use crate::base::sync::{Condvar, Mutex};

/// Time between two sweeps. Memory lies idle for one to two periods before it is freed.
const PERIOD: Duration = Duration::from_secs(20);

/// A pool that holds idle memory.
pub(crate) trait Sweep: Send + Sync {
    /// Frees the memory that was not used since the last call.
    fn sweep(&self);
}

#[derive(Default)]
struct Pools {
    pools: Mutex<Vec<Weak<dyn Sweep>>>,
    added: Condvar,
}

/// Shares `pool`, and sweeps it from time to time while somebody holds it. If the sweeping thread cannot be started,
/// the pool is never swept.
pub(crate) fn watched<P: Sweep + 'static>(pool: P) -> Arc<P> {
    let pool = Arc::new(pool);
    static POOLS: OnceLock<Option<&'static Pools>> = OnceLock::new();
    let pools = POOLS.get_or_init(|| {
        let pools: &'static Pools = Box::leak(Box::default());
        let run = || pools.run();
        // The thread never ends, since a driver may hang if a thread that used it ends.
        thread::Builder::new().name("onetrip-sweep".into()).spawn(run).is_ok().then_some(pools)
    });
    if let Some(pools) = pools {
        let watched: Weak<P> = Arc::downgrade(&pool);
        pools.pools.lock().push(watched);
        pools.added.notify_one();
    }
    pool
}

impl Pools {
    fn run(&self) {
        loop {
            let mut pools = self.pools.lock();
            pools.retain(|pool| pool.strong_count() > 0);
            while pools.is_empty() {
                pools = self.added.wait(pools);
            }
            let known = pools.clone();
            drop(pools);
            thread::sleep(PERIOD);
            known.iter().filter_map(Weak::upgrade).for_each(|pool| pool.sweep());
        }
    }
}
