//! Small runs that come while the device is busy are submitted together. A card works on the kernels of several runs at
//! once, but only where they are recorded side by side: between two submissions it waits for all that was before.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use smallvec::SmallVec;

use super::record::{Script, record};
use crate::base::panic::caught;
use crate::base::sync::{Mutex, MutexGuard};
use crate::base::trace::event;
use crate::error::DeviceError;
use crate::exec::gpu::Shared;
use crate::exec::gpu::driver::health::{Health, Scope, ours};
use crate::exec::gpu::memory::pool::{Lease, bytes};
use crate::exec::gpu::submit::completion::Completion;
#[cfg(test)]
use crate::exec::gpu::submit::completion::Held;

/// Submissions under way from which on runs wait: one that the device works on, and the next.
const MOST_FLYING: usize = 2;
/// Runs of one submission. No more than that wait.
const MOST_RUNS: usize = 16;
/// Kernels of a run that may wait for others.
const MOST_DISPATCHES: usize = 32;
/// Its memory, which it holds while it waits.
const MOST_BYTES: u64 = 4 << 20;

/// A run that is to be submitted.
pub(crate) struct Pending {
    pub script: Script,
    pub ticket: Arc<Completion>,
}

/// A submission, and who is told of its end.
pub(crate) type Sent = (wgpu::SubmissionIndex, Arc<Completion>);

/// Decides when runs are submitted, and which of them together: in the order in which they came, each at once where few
/// submissions are under way, and else with those that came meanwhile, when one of these has finished.
///
/// Only runs of which none writes what another one reads or writes may come here.
pub(crate) struct Coalescer {
    device: wgpu::Device,
    queue: wgpu::Queue,
    health: Arc<Health>,
    traffic: Mutex<Traffic>,
    /// How many runs wait, for who asks often.
    waiting: AtomicUsize,
}

#[derive(Default)]
struct Traffic {
    /// Submissions that may be under way, with those that somebody is about to make. Not empty while runs wait.
    flying: SmallVec<[InFlight; 4]>,
    waiting: Vec<Pending>,
}

/// A submission that somebody makes or has made.
#[derive(Clone)]
pub(crate) struct InFlight {
    /// `None` until it is submitted.
    pub index: Option<wgpu::SubmissionIndex>,
    /// Of the last of its runs.
    pub ticket: Arc<Completion>,
}

impl Traffic {
    /// All runs that wait, for the caller to submit.
    fn take(&mut self) -> Option<Vec<Pending>> {
        let ticket = Arc::clone(&self.waiting.last()?.ticket);
        self.flying.push(InFlight { index: None, ticket });
        Some(std::mem::take(&mut self.waiting))
    }

    /// Whether the device should have its next work.
    fn has_room(&mut self) -> bool {
        self.flying.retain(|flying| !flying.ticket.is_done());
        self.flying.len() < MOST_FLYING
    }
}

impl Coalescer {
    pub fn new(device: wgpu::Device, queue: wgpu::Queue, health: Arc<Health>) -> Self {
        let waiting = AtomicUsize::new(0);
        Self { device, queue, health, traffic: Mutex::default(), waiting }
    }

    /// Whether a run is small enough to wait. Kernels of users may take any time, which others would wait for.
    pub fn takes(script: &Script) -> bool {
        let dispatches = &script.kernels.dispatches;
        dispatches.len() <= MOST_DISPATCHES
            && bytes(script.leases()) <= MOST_BYTES
            && dispatches.iter().all(|dispatch| dispatch.own.is_none())
    }

    /// Calls `change` with the traffic, and notes how many wait then.
    fn with_traffic<R>(&self, change: impl FnOnce(&mut Traffic) -> R) -> R {
        let mut traffic = self.traffic();
        let result = change(&mut traffic);
        self.waiting.store(traffic.waiting.len(), Ordering::Release);
        result
    }

    fn traffic(&self) -> MutexGuard<'_, Traffic> {
        self.traffic.lock()
    }

    /// Whether runs wait.
    pub fn has_waiting(&self) -> bool {
        self.waiting.load(Ordering::Acquire) > 0
    }

    /// The runs for the caller to submit, now that one more has come, which is the last of them; `None` if it waits.
    fn enter(&self, departure: Pending) -> Option<Vec<Pending>> {
        self.with_traffic(|traffic| {
            traffic.waiting.push(departure);
            let now = traffic.has_room() || traffic.waiting.len() >= MOST_RUNS;
            now.then(|| traffic.take()).flatten()
        })
    }

    /// The runs for the caller to submit, if any wait and it is time.
    fn due(&self) -> Option<Vec<Pending>> {
        if !self.has_waiting() {
            return None;
        }
        self.with_traffic(|traffic| traffic.has_room().then(|| traffic.take()).flatten())
    }

    /// What runs wait for, if any do.
    pub fn awaited(&self) -> Option<InFlight> {
        let traffic = self.traffic();
        traffic.flying.first().filter(|_| !traffic.waiting.is_empty()).cloned()
    }

    /// Has runs wait as if the device were busy, until the tickets are given up.
    #[cfg(test)]
    pub fn hold(&self) -> Vec<Arc<Completion>> {
        let ticket = || Completion::new(Held::default()).0;
        let held: Vec<_> = (0..MOST_FLYING).map(|_| ticket()).collect();
        let flying = held.iter().map(|ticket| InFlight { index: None, ticket: Arc::clone(ticket) });
        self.traffic().flying.extend(flying);
        held
    }

    /// How many runs wait.
    #[cfg(test)]
    pub fn waiting(&self) -> usize {
        self.waiting.load(Ordering::Acquire)
    }

    /// Leaves out the run of `ticket` if it still waits. What it held returns to the pool, but for staging memory,
    /// which is not mapped any more and is freed.
    pub fn forget(&self, ticket: &Arc<Completion>) {
        if ticket.is_done() || !self.has_waiting() {
            return;
        }
        let forgotten = self.with_traffic(|traffic| {
            let at = traffic.waiting.iter().position(|run| Arc::ptr_eq(&run.ticket, ticket));
            at.map(|at| traffic.waiting.remove(at))
        });
        drop(forgotten);
    }

    /// Of a lost device: nothing is submitted any more.
    pub fn give_up(&self) {
        let waiting = self.with_traffic(|traffic| std::mem::take(&mut traffic.waiting));
        waiting.into_iter().for_each(|run| run.ticket.give_up());
    }

    /// Submits what waits if it is time. MappedAfter what is then to be waited for.
    pub fn send_due(&self) -> Vec<Sent> {
        self.due().map_or_else(Vec::new, |group| self.send(group))
    }

    /// Submits runs as one. Where that is refused, each alone, so that only those fail that are bad. MappedAfter those that
    /// are then under way, in their order.
    fn send(&self, group: Vec<Pending>) -> Vec<Sent> {
        // All would wait forever for who panics.
        let submitted = caught(|| self.submit(&group)).unwrap_or_else(|reason| {
            self.health.lose(reason);
            Err(self.health.lost(&self.device, "a panic"))
        });
        match submitted {
            Ok(index) => {
                let tickets: SmallVec<[_; MOST_RUNS]> =
                    group.iter().map(|run| Arc::clone(&run.ticket)).collect();
                caught(|| self.sent(group, &index)).unwrap_or_else(|reason| {
                    self.health.lose(reason);
                    tickets.iter().for_each(|ticket| ticket.give_up());
                    Vec::new()
                })
            }
            Err(error) if group.len() == 1 => {
                group.into_iter().for_each(|run| run.ticket.refuse(error.clone()));
                Vec::new()
            }
            Err(_) => group.into_iter().flat_map(|run| self.send(vec![run])).collect(),
        }
    }

    fn submit(&self, group: &[Pending]) -> Result<wgpu::SubmissionIndex, DeviceError> {
        let scope = Scope::open(&self.device, &self.health);
        let descriptor = wgpu::CommandEncoderDescriptor { label: Some("onetrip") };
        let mut encoder = self.device.create_command_encoder(&descriptor);
        let scripts: SmallVec<[&Script; MOST_RUNS]> = group.iter().map(|run| &run.script).collect();
        record(&mut encoder, &scripts, None);
        let index = self.health.submit(&self.queue, encoder.finish())?;
        let doing = || group.first().map_or_else(String::new, |run| run.script.kernels.doing());
        scope.close_alone(doing).map(|()| index)
    }

    fn sent(&self, group: Vec<Pending>, index: &wgpu::SubmissionIndex) -> Vec<Sent> {
        let shared = group.len() > 1;
        if shared {
            event!(TRACE, "submitted together", runs = group.len());
        }
        Lease::give_up_all(group.iter().flat_map(|run| run.script.memory.slots()));
        if let Some(last) = group.last() {
            let mut traffic = self.traffic();
            let flying = traffic.flying.iter_mut();
            flying
                .filter(|flying| Arc::ptr_eq(&flying.ticket, &last.ticket))
                .for_each(|flying| flying.index = Some(index.clone()));
        }
        let mut sent = Vec::with_capacity(group.len());
        for Pending { script, ticket } in group {
            script.kernels.sent();
            ticket.share(shared);
            sent.push((index.clone(), Arc::clone(&ticket)));
            ours(|| script.returns.follow(&self.queue, ticket));
        }
        sent
    }
}

impl Shared {
    /// Submits a run, or has it wait. MappedAfter the submission that is left to the caller to watch.
    pub fn depart(&self, departure: Pending) -> Option<wgpu::SubmissionIndex> {
        let Some(group) = self.gather.enter(departure) else {
            self.poller.wake();
            return None;
        };
        let last = group.last().map(|run| Arc::clone(&run.ticket));
        let mut sent = self.gather.send(group);
        let own =
            sent.pop_if(|(_, ticket)| last.as_ref().is_some_and(|last| Arc::ptr_eq(last, ticket)));
        self.poller.watch_all(sent);
        self.poller.wake_if_lost();
        own.map(|(index, _)| index)
    }

    /// Submits what waits, before something else is.
    pub fn depart_all(&self) {
        if self.gather.has_waiting()
            && let Some(group) = self.gather.with_traffic(Traffic::take)
        {
            self.poller.watch_all(self.gather.send(group));
            self.poller.wake_if_lost();
        }
    }
}
