//! Runs off the caller's thread, so that no async worker computes for long.

use std::sync::Arc;

use super::{CpuPool, CpuProgram, CpuRun, run};
use crate::run::HostBuffer;
use crate::run::threads::off_thread;

/// Runs predicted to take less than this are done where they are awaited: handing them over and
/// back would take as long.
const INLINE_SECONDS: f64 = 50e-6;

/// What one run needs.
#[derive(Clone)]
pub(crate) struct CpuJob {
    pub program: Arc<CpuProgram>,
    /// By position of the batch's uploads.
    pub uploads: Vec<Arc<HostBuffer>>,
    /// By position of the batch's bound residents.
    pub residents: Vec<Arc<HostBuffer>>,
}

/// Runs a program; a long one on rayon's threads.
pub(crate) async fn run_off_thread(job: CpuJob, pool: &Arc<CpuPool>) -> CpuRun {
    if job.program.plan().seconds < INLINE_SECONDS {
        return run(&job.program, &job.uploads, &job.residents, pool);
    }
    let pool = Arc::clone(pool);
    off_thread(move || run(&job.program, &job.uploads, &job.residents, &pool)).await
}
