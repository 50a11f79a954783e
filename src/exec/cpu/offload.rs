//! Runs off the caller's thread, so that no async worker computes for long.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use super::{CpuPool, CpuProgram, CpuRun, Given, run};
use crate::base::trace::Timeline;
use crate::error::Result;
use crate::exec::HostBuffer;
use crate::exec::budget::Permit;
use crate::exec::threads::{count, off_thread, waits_here};
use crate::ops::Function;
use crate::plan::Plan;

/// Runs predicted to take less than this are done where they are awaited: handing them over and back takes 10 to 30 µs.
const INLINE_SECONDS: f64 = 100e-6;

/// What one run needs.
#[derive(Clone)]
pub(crate) struct CpuJob {
    pub program: Arc<CpuProgram>,
    /// As in [`Given`], these three.
    pub uploads: Vec<Arc<HostBuffer>>,
    pub residents: Vec<Arc<HostBuffer>>,
    pub functions: Vec<Function>,
    /// To hold the memory of the run.
    pub permit: Permit,
    /// Where the times of its steps go.
    pub timeline: Timeline,
}

impl CpuJob {
    pub fn given(&self) -> Given<'_> {
        let Self { uploads, residents, functions, .. } = self;
        Given { uploads, residents, functions }
    }
}

/// Runs of the process that are under way on its cores.
static UNDER_WAY: AtomicUsize = AtomicUsize::new(0);

/// Counts a run as under way while it lives.
struct UnderWay;

impl UnderWay {
    /// With how many others there are.
    fn begin() -> (Self, usize) {
        (Self, UNDER_WAY.fetch_add(1, Ordering::Relaxed))
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        UNDER_WAY.fetch_sub(1, Ordering::Relaxed);
    }
}

/// Whether so many other runs leave cores to the caller's threads. Where they do not, runs that are done where they are
/// awaited and rayon's threads take turns of milliseconds, and whoever waits for a thread of either waits for several.
fn leave_cores(others: usize) -> bool {
    others == 0 || others < count() / 2
}

/// Whether a plan is done where it is awaited. Of functions of the user's own nobody knows how long they take.
pub(super) fn is_short(plan: &Plan) -> bool {
    let calls_user = || plan.steps.iter().any(|step| step.form.kernel().runs_user_code());
    plan.seconds < INLINE_SECONDS && !calls_user()
}

/// The right to do a run where it is awaited.
pub(crate) struct Here(UnderWay);

impl Here {
    /// For a run of `program`, if that is short and few others are under way, or if this thread has nothing else to do.
    pub fn begin(program: &CpuProgram) -> Option<Self> {
        let waits = waits_here();
        if !waits && !program.is_short() {
            return None;
        }
        let (under_way, others) = UnderWay::begin();
        (waits || leave_cores(others)).then_some(Self(under_way))
    }

    /// Runs on this thread.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`](crate::DeviceError::OutOfMemory).
    pub fn run(
        self,
        program: &CpuProgram,
        given: Given<'_>,
        pool: &CpuPool,
        timeline: &Timeline,
    ) -> Result<CpuRun> {
        run(program, given, pool, timeline, &|| true)
    }
}

/// Runs a program on rayon's threads. If the future is dropped, no further step is begun.
///
/// # Errors
/// [`DeviceError::OutOfMemory`](crate::DeviceError::OutOfMemory); [`RunError::Cancelled`](crate::RunError::Cancelled),
/// which nobody is left to see.
pub(crate) async fn run_off_thread(job: CpuJob, pool: &Arc<CpuPool>) -> Result<CpuRun> {
    let (under_way, _) = UnderWay::begin();
    let pool = Arc::clone(pool);
    let awaited = Arc::new(());
    let future = Arc::downgrade(&awaited);
    let work = move || {
        let _under_way = under_way;
        let wanted = || future.strong_count() > 0;
        let done = run(&job.program, job.given(), &pool, &job.timeline, &wanted);
        drop(job.permit);
        done
    };
    let done = off_thread(work).await;
    drop(awaited);
    done
}
