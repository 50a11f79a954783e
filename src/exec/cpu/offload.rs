//! Runs away from the caller's thread, so that no async worker computes for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::pool::CpuPool;
use super::program::CpuProgram;
use super::run::{CpuRun, run};
use super::values::RunData;
use crate::base::trace::Timeline;
use crate::error::Result;
use crate::exec::HostBuffer;
use crate::exec::budget::Permit;
use crate::exec::threads::{count, off_thread, waits_here};
use crate::ops::CpuFunction;

#[derive(Clone)]
pub(crate) struct CpuJob {
    pub program: Arc<CpuProgram>,
    pub uploads: Vec<Arc<HostBuffer>>,
    pub residents: Vec<Arc<HostBuffer>>,
    pub functions: Vec<CpuFunction>,
    /// Holds the memory of the run in the budget.
    pub permit: Permit,
    /// Receives the times of the steps.
    pub timeline: Timeline,
}

impl CpuJob {
    pub fn data(&self) -> RunData<'_> {
        let Self { uploads, residents, functions, .. } = self;
        RunData { uploads, residents, functions }
    }
}

/// Number of runs of the process that are under way on its cores.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// A run that is under way on the cores, and counts until it is dropped.
pub(crate) struct ActiveRun(());

impl ActiveRun {
    /// Begins a run. The second value is the number of other runs.
    fn begin() -> (Self, usize) {
        (Self(()), UNDER_WAY.fetch_add(1, Ordering::Relaxed))
    }

    /// Begins a run on the thread that awaits it, if `program` is short and few others run, or if this thread only waits.
    pub fn begin_inline(program: &CpuProgram) -> Option<Self> {
        let waits = waits_here();
        if !waits && !program.is_short() {
            return None;
        }
        let (run, others) = Self::begin();
        (waits || leave_cores(others)).then_some(run)
    }

    pub fn run(
        self,
        program: &CpuProgram,
        data: RunData<'_>,
        pool: &CpuPool,
        timeline: &Timeline,
    ) -> Result<CpuRun> {
        run(program, data, pool, timeline, &|| true)
    }
}

impl Drop for ActiveRun {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Returns whether `others` runs leave cores to the caller's threads. If they do not, inline runs and rayon's threads
/// share cores in time slices of milliseconds, and a wait for either takes several slices.
fn leave_cores(others: usize) -> bool {
    others == 0 || others < count() / 2
}

/// Runs a program on rayon's threads. If the future is dropped, no further step is begun.
///
/// # Errors
/// [`DeviceError::OutOfMemory`](crate::DeviceError::OutOfMemory); [`RunError::Cancelled`](crate::RunError::Cancelled)
/// after the future was dropped.
pub(crate) async fn run_off_thread(job: CpuJob, pool: &Arc<CpuPool>) -> Result<CpuRun> {
    let (active, _) = ActiveRun::begin();
    let pool = Arc::clone(pool);
    let awaited = Arc::new(());
    let future = Arc::downgrade(&awaited);
    let work = move || {
        let _active = active;
        let wanted = || future.strong_count() > 0;
        let done = run(&job.program, job.data(), &pool, &job.timeline, &wanted);
        drop(job.permit);
        done
    };
    let done = off_thread(work).await;
    drop(awaited);
    done
}
