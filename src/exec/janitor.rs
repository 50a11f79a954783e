//! Memory that nobody used for a while goes back to the system, also where nothing runs any more.

use std::sync::{Arc, OnceLock, Weak};
use std::thread;
use std::time::Duration;

use crate::base::sync::{Condvar, Mutex};

/// Memory lies idle for one to two of these before it is freed.
const PERIOD: Duration = Duration::from_secs(20);

/// A pool of memory that lies idle.
pub(crate) trait Sweep: Send + Sync {
    /// Frees what was not used since the last call.
    fn sweep(&self);
}

#[derive(Default)]
struct Pools {
    pools: Mutex<Vec<Weak<dyn Sweep>>>,
    added: Condvar,
}

/// `pool`, swept from time to time as long as somebody holds it. Where no thread can be started, it is not.
pub(crate) fn watched<P: Sweep + 'static>(pool: P) -> Arc<P> {
    let pool = Arc::new(pool);
    watch(Arc::<P>::downgrade(&pool));
    pool
}

fn watch(pool: Weak<dyn Sweep>) {
    static POOLS: OnceLock<Option<&'static Pools>> = OnceLock::new();
    let pools = POOLS.get_or_init(|| {
        let pools: &'static Pools = Box::leak(Box::default());
        let run = || pools.run();
        // It stays, since a driver may hang where a thread that used it ends.
        thread::Builder::new().name("onetrip-sweep".into()).spawn(run).is_ok().then_some(pools)
    });
    if let Some(pools) = pools {
        pools.pools.lock().push(pool);
        pools.added.notify_one();
    }
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
