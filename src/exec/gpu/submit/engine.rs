//! All parts of an opened GPU, and the ways to its queue: a submission alone, or small runs together.

use std::sync::Arc;

use tokio::sync::oneshot::Receiver;

use super::coalesce::{Coalescer, PendingRun};
use super::commands::EncodedRun;
use super::poll::Poller;
use super::submission::{MappedAfter, Submission, SubmissionPermit, SubmissionResult};
use crate::base::disk::cache::Store;
use crate::error::DeviceError;
use crate::exec::budget::Permit;
use crate::exec::gpu::compile::PipelineCompiler;
use crate::exec::gpu::driver::{Calls, GuardedDevice};
use crate::exec::gpu::memory::DeviceMemory;
use crate::exec::janitor::Sweep;

/// An opened GPU.
pub(crate) struct Engine {
    // First, so that the compiler proves the types of wgpu to be `Send` and `Sync` by the shortest way: the other ways are
    // longer than it goes.
    pub device: Arc<GuardedDevice>,
    pub memory: DeviceMemory,
    pub compiler: PipelineCompiler,
    pub submissions: Submissions,
}

impl Engine {
    /// Keeps compiled pipelines in `store`.
    pub fn new(device: Arc<GuardedDevice>, store: Option<Arc<Store>>) -> Result<Self, DeviceError> {
        let started = Submissions::new(Arc::clone(&device));
        let submissions = started.map_err(|error| DeviceError::Open {
            adapter: device.info.name.clone(),
            reason: error.to_string(),
        })?;
        let memory = DeviceMemory::new(Arc::clone(&device));
        let compiler = PipelineCompiler::new(Arc::clone(&device), store);
        Ok(Self { device, memory, compiler, submissions })
    }

    /// Records commands, and submits them alone after all pending runs, with the `permit` of their run.
    ///
    /// # Errors
    /// If a command was refused while `doing` something, or the device is lost.
    pub fn record_and_submit(
        &self,
        doing: impl Fn() -> String,
        permit: &Permit,
        after: MappedAfter,
        record: impl FnOnce(&mut wgpu::CommandEncoder),
    ) -> Result<SubmissionTicket, DeviceError> {
        let held = self.hold(permit)?;
        let record = |calls: &Calls<'_>| Ok::<_, DeviceError>(calls.commands(record));
        let commands = self.device.scoped_and_checked(&doing, record)?;
        self.submissions.submit_alone(doing, commands, after, held)
    }

    /// The rights that a submission of a run with `permit` holds.
    pub fn hold(&self, permit: &Permit) -> Result<SubmissionPermit, DeviceError> {
        Ok(SubmissionPermit { permit: permit.clone(), work: self.device.computing()? })
    }
}

impl Sweep for Engine {
    fn sweep(&self) {
        self.memory.sweep();
    }
}

/// The submissions of one device, and the thread that waits for them.
pub(crate) struct Submissions {
    device: Arc<GuardedDevice>,
    pub coalescer: Arc<Coalescer>,
    pub poller: Poller,
}

/// The way to learn the end of a submission, pending or in flight.
pub(crate) struct SubmissionTicket {
    pub submission: Arc<Submission>,
    pub receiver: Receiver<SubmissionResult>,
    /// True if the future has to wait for it, or leave it to the poller. False if the poller watches it already, as a
    /// pending run that another thread submits.
    pub is_left_to_future: bool,
}

impl Submissions {
    pub fn new(device: Arc<GuardedDevice>) -> std::io::Result<Self> {
        let coalescer = Arc::new(Coalescer::new(Arc::clone(&device)));
        let poller = Poller::start(Arc::clone(&device), Arc::clone(&coalescer))?;
        Ok(Self { device, coalescer, poller })
    }

    /// Submits `commands` after all pending runs. Until they have finished, `held` is held, even if the result is dropped.
    ///
    /// # Errors
    /// If the commands were refused while `doing` something, or the device is lost.
    pub fn submit_alone(
        &self,
        doing: impl FnOnce() -> String,
        commands: wgpu::CommandBuffer,
        after: MappedAfter,
        held: SubmissionPermit,
    ) -> Result<SubmissionTicket, DeviceError> {
        self.submit_pending();
        let (submission, receiver) = Submission::new(held);
        let submitted = self.device.submit_then(doing, commands, |index| {
            submission.submitted(index, false);
            after.register(&self.device, Arc::clone(&submission));
        });
        self.poller.wake_if_lost();
        if let Err(error) = submitted {
            // The commands may be in flight nevertheless, and nobody else waits for them.
            self.poller.watch([submission]);
            return Err(error);
        }
        Ok(SubmissionTicket { submission, receiver, is_left_to_future: true })
    }

    /// Submits a run at once, or together with others that come meanwhile.
    pub fn enter(&self, encoded: EncodedRun, held: SubmissionPermit) -> SubmissionTicket {
        let (submission, receiver) = Submission::new(held);
        let run = PendingRun { encoded, submission: Arc::clone(&submission) };
        let Some(runs) = self.coalescer.enter(run) else {
            self.poller.wake();
            return SubmissionTicket { submission, receiver, is_left_to_future: false };
        };
        let mut submitted = self.coalescer.submit_together(runs);
        let own = submitted.pop_if(|last| Arc::ptr_eq(last, &submission));
        self.poller.watch(submitted);
        self.poller.wake_if_lost();
        SubmissionTicket { submission, receiver, is_left_to_future: own.is_some() }
    }

    fn submit_pending(&self) {
        if let Some(runs) = self.coalescer.take() {
            self.poller.watch(self.coalescer.submit_together(runs));
            self.poller.wake_if_lost();
        }
    }
}
