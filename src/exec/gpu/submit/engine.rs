//! All parts of an opened GPU, and the ways to its queue: a submission alone, or small runs together.

use std::sync::Arc;

use tokio::sync::oneshot::Receiver;

use super::coalesce::{Coalescer, PendingRun};
use super::completion::{Completion, CompletionResult, MappedAfter, SubmissionPermit};
use super::poll::Poller;
use super::record::Script;
use crate::base::disk::cache::Store;
use crate::error::DeviceError;
use crate::exec::budget::Permit;
use crate::exec::gpu::compile::PipelineCompiler;
use crate::exec::gpu::driver::GuardedDevice;
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

/// A submission, or a run that waits for one.
pub(crate) struct Submitted {
    pub completion: Arc<Completion>,
    pub receiver: Receiver<CompletionResult>,
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
    ) -> Result<Submitted, DeviceError> {
        self.submit_pending();
        let (completion, receiver) = Completion::new(held);
        let submitted = self.device.submit_then(doing, commands, |index| {
            completion.submitted(index, false);
            after.register(&self.device, Arc::clone(&completion));
        });
        self.poller.wake_if_lost();
        if let Err(error) = submitted {
            // The commands may be in flight nevertheless, and nobody else waits for them.
            self.poller.watch([completion]);
            return Err(error);
        }
        Ok(Submitted { completion, receiver, is_left_to_future: true })
    }

    /// Submits a run at once, or together with others that come meanwhile.
    pub fn enter(&self, script: Script, held: SubmissionPermit) -> Submitted {
        let (completion, receiver) = Completion::new(held);
        let run = PendingRun { script, completion: Arc::clone(&completion) };
        let Some(runs) = self.coalescer.enter(run) else {
            self.poller.wake();
            return Submitted { completion, receiver, is_left_to_future: false };
        };
        let mut submitted = self.coalescer.submit_together(runs);
        let own = submitted.pop_if(|last| Arc::ptr_eq(last, &completion));
        self.poller.watch(submitted);
        self.poller.wake_if_lost();
        Submitted { completion, receiver, is_left_to_future: own.is_some() }
    }

    fn submit_pending(&self) {
        if let Some(runs) = self.coalescer.take() {
            self.poller.watch(self.coalescer.submit_together(runs));
            self.poller.wake_if_lost();
        }
    }
}
