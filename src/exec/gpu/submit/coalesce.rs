//! Small runs that come while the device is busy are submitted together. A card works on the kernels of several runs at
//! once, but only if they are recorded side by side: between two submissions it waits for all earlier work.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::commands::{EncodedRun, RunCommands, recorded_now, take_or_record};
#[cfg(test)]
use super::submission::SubmissionPermit;
use super::submission::{Submission, SubmissionResult};
use crate::base::process::caught;
use crate::base::sync::Mutex;
use crate::base::trace::event;
use crate::error::DeviceError;
use crate::exec::gpu::driver::{self, Calls, GuardedDevice};
use crate::exec::gpu::memory::{Lease, leased_bytes};

/// Submissions in flight from which on runs wait: one that the device works on, and the next. A browser has no thread
/// that would submit them later.
const MOST_IN_FLIGHT: usize = if cfg!(target_arch = "wasm32") { usize::MAX } else { 2 };
/// Runs of one submission. No more than that wait.
const MOST_RUNS: usize = 16;
/// Kernels of a run that may wait for others.
const MOST_DISPATCHES: usize = 32;
/// The memory of such a run, which it holds while it waits.
const MOST_BYTES: u64 = 4 << 20;

/// A run that is encoded and not yet submitted.
pub(crate) struct PendingRun {
    pub encoded: EncodedRun,
    pub submission: Arc<Submission>,
}

/// Decides when small runs are submitted, and which of them together, in order of arrival. If few submissions are in
/// flight, a run is submitted at once. Otherwise it waits until one of them has finished, and is submitted with all runs
/// that came meanwhile.
///
/// No run here may write a buffer that another one reads or writes.
pub(crate) struct Coalescer {
    device: Arc<GuardedDevice>,
    queue: Mutex<PendingRuns>,
    /// The number of pending runs, to be read without the lock.
    pending: AtomicUsize,
}

#[derive(Default)]
struct PendingRuns {
    /// The submissions in flight, and those about to be: for runs that are submitted together, that of the last one. Not
    /// empty while runs are pending.
    in_flight: SmallVec<[Arc<Submission>; 4]>,
    pending: Vec<PendingRun>,
}

impl PendingRuns {
    /// All pending runs, for the caller to submit.
    fn take(&mut self) -> Option<Vec<PendingRun>> {
        let last = Arc::clone(&self.pending.last()?.submission);
        self.in_flight.push(last);
        Some(std::mem::take(&mut self.pending))
    }

    /// Returns whether the device should have more work.
    fn has_room(&mut self) -> bool {
        self.in_flight.retain(|last| !last.is_completed());
        self.in_flight.len() < MOST_IN_FLIGHT
    }
}

impl Coalescer {
    pub fn new(device: Arc<GuardedDevice>) -> Self {
        Self { device, queue: Mutex::default(), pending: AtomicUsize::new(0) }
    }

    /// Returns whether a run is small enough to wait. Custom kernels may take any time, for which others would wait.
    pub fn takes(encoded: &EncodedRun) -> bool {
        let dispatches = &encoded.kernels.dispatches;
        dispatches.len() <= MOST_DISPATCHES
            && leased_bytes(encoded.leases()) <= MOST_BYTES
            && dispatches.iter().all(|dispatch| dispatch.custom.is_none())
    }

    /// Calls `change` with the queue, and notes the number of pending runs.
    fn change<R>(&self, change: impl FnOnce(&mut PendingRuns) -> R) -> R {
        let mut queue = self.queue.lock();
        let result = change(&mut queue);
        self.pending.store(queue.pending.len(), Ordering::Release);
        result
    }

    pub fn pending(&self) -> usize {
        self.pending.load(Ordering::Acquire)
    }

    pub fn has_pending(&self) -> bool {
        self.pending() > 0
    }

    /// Adds a run. Returns the runs for the caller to [submit](Self::submit_together), of which it is the last; `None` if it waits.
    pub fn enter(&self, run: PendingRun) -> Option<Vec<PendingRun>> {
        self.change(|queue| {
            queue.pending.push(run);
            let now = queue.has_room() || queue.pending.len() >= MOST_RUNS;
            now.then(|| queue.take()).flatten()
        })
    }

    /// All pending runs, for the caller to [submit](Self::submit_together).
    pub fn take(&self) -> Option<Vec<PendingRun>> {
        if self.has_pending() { self.change(PendingRuns::take) } else { None }
    }

    /// Submits the pending runs if the device should have more work. Returns the submissions whose ends the caller has
    /// to wait for.
    pub fn submit_due(&self) -> Vec<Arc<Submission>> {
        if !self.has_pending() {
            return Vec::new();
        }
        let due = self.change(|queue| queue.has_room().then(|| queue.take()).flatten());
        due.map_or_else(Vec::new, |runs| self.submit_together(runs))
    }

    /// The submission that pending runs wait for, if there are any.
    pub fn awaited(&self) -> Option<Arc<Submission>> {
        let queue = self.queue.lock();
        queue.in_flight.first().filter(|_| !queue.pending.is_empty()).cloned()
    }

    /// Has runs wait as if the device were busy, until the submissions are abandoned.
    #[cfg(test)]
    pub fn hold(&self) -> Vec<Arc<Submission>> {
        let held: Vec<_> =
            (0..MOST_IN_FLIGHT).map(|_| Submission::new(SubmissionPermit::default()).0).collect();
        self.queue.lock().in_flight.extend(held.iter().cloned());
        held
    }

    /// Leaves out the run of `submission` if it is still pending. Its buffers return to the pool, but for the staging
    /// buffer, which is not mapped any more and is freed.
    pub fn forget(&self, submission: &Arc<Submission>) {
        if submission.is_completed() || !self.has_pending() {
            return;
        }
        let forgotten = self.change(|queue| {
            let is_it = |run: &PendingRun| Arc::ptr_eq(&run.submission, submission);
            let at = queue.pending.iter().position(is_it);
            at.map(|at| queue.pending.remove(at))
        });
        drop(forgotten);
    }

    /// Abandons all pending runs: the device is lost.
    pub fn abandon(&self) {
        let pending = self.change(|queue| std::mem::take(&mut queue.pending));
        pending.into_iter().for_each(|run| run.submission.abandon());
    }

    /// Submits `runs` as one. If that is refused, submits each alone, so that only bad runs fail. Returns those that are
    /// in flight then, in their order.
    pub fn submit_together(&self, runs: Vec<PendingRun>) -> Vec<Arc<Submission>> {
        // A panic would leave all of them waiting forever.
        let submitted = caught(|| self.record_and_submit(&runs)).unwrap_or_else(|reason| {
            self.device.health.declare_lost(reason);
            Err(self.device.confirm_loss("a panic"))
        });
        match submitted {
            Ok(index) => {
                let submissions: SmallVec<[_; MOST_RUNS]> =
                    runs.iter().map(|run| Arc::clone(&run.submission)).collect();
                caught(|| self.follow(runs, &index)).unwrap_or_else(|reason| {
                    self.device.health.declare_lost(reason);
                    submissions.iter().for_each(|submission| submission.abandon());
                    Vec::new()
                })
            }
            Err(error) if runs.len() == 1 => {
                runs.into_iter().for_each(|run| {
                    run.submission.complete(SubmissionResult::NotSubmitted(error.clone()));
                });
                Vec::new()
            }
            Err(_) => runs.into_iter().flat_map(|run| self.submit_together(vec![run])).collect(),
        }
    }

    fn record_and_submit(&self, runs: &[PendingRun]) -> Result<wgpu::SubmissionIndex, DeviceError> {
        let doing = || runs.first().map_or_else(String::new, |run| run.encoded.kernels.doing());
        self.device.scoped(doing, |calls: &Calls<'_>| {
            let commands = if let [run] = runs {
                take_or_record(calls, &run.encoded)
            } else {
                let runs: SmallVec<[RunCommands<'_>; MOST_RUNS]> =
                    runs.iter().map(|run| run.encoded.commands()).collect();
                recorded_now(calls, &runs)
            };
            calls.submit(commands)
        })
    }

    /// After `runs` were submitted: returns their memory to the pool, and registers the callbacks of their ends.
    fn follow(&self, runs: Vec<PendingRun>, index: &wgpu::SubmissionIndex) -> Vec<Arc<Submission>> {
        let is_shared = runs.len() > 1;
        if is_shared {
            event!(TRACE, "submitted together", runs = runs.len());
        }
        let mut leases = Vec::new();
        let mut submitted = Vec::with_capacity(runs.len());
        for PendingRun { encoded, submission } in runs {
            encoded.kernels.note_submission();
            submission.submitted(index.clone(), is_shared);
            submitted.push(Arc::clone(&submission));
            leases.extend(encoded.buffers.into_slots());
            driver::unscoped(|| encoded.mapped_after.register(&self.device, submission));
        }
        Lease::return_all(leases);
        submitted
    }
}
