//! Runs away from the caller's thread, so that no async worker computes for long.

use std::sync::Arc;

use super::program::CpuProgram;
use super::run::{CpuRun, run};
use super::values::RunData;
use crate::base::trace::Timeline;
use crate::error::Result;
use crate::exec::budget::Permit;
use crate::exec::threads::{ActiveRun, count, off_thread, waits_here};
use crate::exec::{HostBuffer, HostPool};
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

/// Begins a run on the thread that awaits it, if `program` is short and few others run, or if this thread only waits.
pub(crate) fn begin_inline(program: &CpuProgram) -> Option<ActiveRun> {
    let waits = waits_here();
    if !waits && !program.is_short() {
        return None;
    }
    let (run, others) = ActiveRun::begin();
    (waits || leave_cores(others)).then_some(run)
}

/// Runs a program on this thread, as the run that was begun.
pub(crate) fn run_inline(
    _active: ActiveRun,
    program: &CpuProgram,
    data: RunData<'_>,
    pool: &HostPool,
    timeline: &Timeline,
) -> Result<CpuRun> {
    run(program, data, pool, timeline, &|| true)
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
pub(crate) async fn run_off_thread(job: CpuJob, pool: &Arc<HostPool>) -> Result<CpuRun> {
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
