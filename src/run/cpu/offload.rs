//! Runs off the caller's thread, so that no async worker computes for long.

use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::sync::Arc;

use tokio::sync::oneshot;

use super::{CpuPool, CpuRun, run};
use crate::plan::Plan;
use crate::run::HostBuffer;

/// Runs predicted to take less than this are done where they are awaited: handing them over and
/// back would take as long.
const INLINE_SECONDS: f64 = 50e-6;

/// What one run needs.
pub(crate) struct CpuJob {
    pub plan: Arc<Plan>,
    /// By position of the batch's uploads.
    pub uploads: Vec<Arc<HostBuffer>>,
    /// By position of the batch's bound residents.
    pub residents: Vec<Arc<HostBuffer>>,
}

/// Runs a plan; a long one on rayon's threads.
pub(crate) async fn run_off_thread(job: CpuJob, pool: &Arc<CpuPool>) -> CpuRun {
    if job.plan.seconds < INLINE_SECONDS {
        return run(&job.plan, &job.uploads, &job.residents, pool);
    }
    let pool = Arc::clone(pool);
    off_thread(move || run(&job.plan, &job.uploads, &job.residents, &pool)).await
}

/// The result of `work`, done on one of rayon's threads: on this one if it is of rayon, since all of them may be
/// waiting here for one that is free.
pub(crate) async fn off_thread<R: Send + 'static>(work: impl FnOnce() -> R + Send + 'static) -> R {
    if rayon::current_thread_index().is_some() {
        return work();
    }
    let (sender, receiver) = oneshot::channel();
    // A panic must reach who waits: on its own, rayon would end the process.
    rayon::spawn(move || drop(sender.send(catch_unwind(AssertUnwindSafe(work)))));
    match receiver.await {
        Ok(Ok(result)) => result,
        Ok(Err(panic)) => resume_unwind(panic),
        Err(_) => unreachable!("the sender sends before it is dropped"),
    }
}

/// Threads that runs are shared out over.
pub(crate) fn threads() -> usize {
    rayon::current_num_threads()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_of_rayon_s_threads_may_wait_at_once() {
        let results = rayon::broadcast(|thread| {
            let index = thread.index();
            pollster::block_on(off_thread(move || index))
        });
        assert_eq!(results, (0..threads()).collect::<Vec<_>>());
    }

    #[tokio::test]
    async fn a_panic_reaches_who_waits() {
        let waiting = tokio::spawn(off_thread(|| panic!("as it should")));
        assert!(waiting.await.unwrap_err().is_panic());
        assert_eq!(off_thread(|| 5).await, 5);
    }
}
