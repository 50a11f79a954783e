//! A model check of the budget against a plain queue. It covers every order in which four runs ask for memory, are
//! polled, give up and end. A step is one call of the budget. `tests/loom` covers threads inside one call.

use std::collections::VecDeque;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::{Context, Poll, Wake, Waker};

use super::{Budget, Permit, TooMuch};

const RUNS: usize = 4;
const ALL: u64 = 10;

#[derive(Clone, Copy, Debug, PartialEq)]
enum Act {
    Ask,
    /// A poll by another task without a wake-up.
    Move,
    /// A poll after a wake-up.
    Poll,
    GiveUp,
    End,
}

/// The expected behaviour. Requests are served in order of arrival, as soon as there is room for the first.
struct QueueModel {
    needs: [u64; RUNS],
    left: u64,
    waiting: VecDeque<usize>,
    granted: [bool; RUNS],
}

impl QueueModel {
    fn serve(&mut self) {
        while let Some(&first) = self.waiting.front()
            && self.needs[first] <= self.left
        {
            self.left -= self.needs[first];
            self.granted[first] = true;
            self.waiting.pop_front();
        }
    }

    fn act(&mut self, run: usize, act: Act) {
        match act {
            Act::Ask => self.waiting.push_back(run),
            Act::Move | Act::Poll => {}
            Act::GiveUp | Act::End if self.granted[run] => {
                self.granted[run] = false;
                self.left += self.needs[run];
            }
            Act::GiveUp | Act::End => self.waiting.retain(|&waiting| waiting != run),
        }
        self.serve();
    }
}

#[derive(Default)]
struct Woken(AtomicBool);

impl Wake for Woken {
    fn wake(self: Arc<Self>) {
        self.0.store(true, Ordering::Relaxed);
    }
}

type AdmissionFuture = Pin<Box<dyn Future<Output = Result<Permit, TooMuch>>>>;

#[derive(Default)]
enum ModelRun {
    #[default]
    New,
    Waiting {
        admission: AdmissionFuture,
        woken: Arc<Woken>,
        was_moved: bool,
    },
    Running(#[expect(dead_code, reason = "held to be dropped")] Permit),
    Gone,
}

struct Scenario {
    budget: Budget,
    queue: QueueModel,
    runs: [ModelRun; RUNS],
}

impl Scenario {
    fn new(needs: [u64; RUNS]) -> Self {
        let queue =
            QueueModel { needs, left: ALL, waiting: VecDeque::new(), granted: [false; RUNS] };
        Self { budget: Budget::new(Some(ALL)), queue, runs: Default::default() }
    }

    fn acts(&self) -> Vec<(usize, Act)> {
        let acts = self.runs.iter().enumerate().flat_map(|(run, state)| {
            let acts: &[Act] = match state {
                ModelRun::New => &[Act::Ask],
                ModelRun::Waiting { woken, .. } if woken.0.load(Ordering::Relaxed) => {
                    &[Act::Poll, Act::GiveUp]
                }
                ModelRun::Waiting { was_moved: false, .. } => &[Act::Move, Act::GiveUp],
                ModelRun::Waiting { .. } => &[Act::GiveUp],
                ModelRun::Running(_) => &[Act::End],
                ModelRun::Gone => &[],
            };
            acts.iter().map(move |&act| (run, act))
        });
        acts.collect()
    }

    fn act(&mut self, run: usize, act: Act) {
        self.queue.act(run, act);
        let state = std::mem::take(&mut self.runs[run]);
        self.runs[run] = match (act, state) {
            (Act::Ask, _) => {
                let (budget, bytes) = (self.budget.clone(), self.queue.needs[run]);
                self.poll(run, Box::pin(async move { budget.admit(bytes).await }), false)
            }
            (Act::Move | Act::Poll, ModelRun::Waiting { admission, .. }) => {
                self.poll(run, admission, true)
            }
            _ => ModelRun::Gone,
        };
        for (run, state) in self.runs.iter().enumerate() {
            if let ModelRun::Waiting { woken, .. } = state {
                let woken = woken.0.load(Ordering::Relaxed);
                assert_eq!(woken, self.queue.granted[run], "run {run} is woken when it may go on");
            }
        }
    }

    fn poll(&self, run: usize, mut admission: AdmissionFuture, was_moved: bool) -> ModelRun {
        let woken = Arc::<Woken>::default();
        let waker = Waker::from(Arc::clone(&woken));
        let polled = admission.as_mut().poll(&mut Context::from_waker(&waker));
        assert_eq!(polled.is_ready(), self.queue.granted[run], "run {run}");
        match polled {
            Poll::Ready(permit) => ModelRun::Running(permit.expect("it can fit")),
            Poll::Pending => ModelRun::Waiting { admission, woken, was_moved },
        }
    }
}

/// Returns the number of orders that begin with `path`, and checks each to its end.
fn explore(needs: [u64; RUNS], path: &mut Vec<(usize, Act)>) -> usize {
    let mut scenario = Scenario::new(needs);
    path.iter().for_each(|&(run, act)| scenario.act(run, act));
    let acts = scenario.acts();
    if acts.is_empty() {
        assert_eq!(scenario.queue.left, ALL);
        let mut all = Box::pin(scenario.budget.admit(ALL));
        let polled = all.as_mut().poll(&mut Context::from_waker(Waker::noop()));
        assert!(polled.is_ready(), "some of the memory is lost after {path:?}");
        return 1;
    }
    let mut orders = 0;
    for act in acts {
        path.push(act);
        orders += explore(needs, path);
        path.pop();
    }
    orders
}

#[test]
fn in_every_order_runs_are_served_in_turn_and_no_memory_is_lost() {
    for needs in [[8, 9, 1, 2], [4, 6, 5, 1]] {
        let orders = explore(needs, &mut Vec::new());
        assert!(orders > 10_000, "{orders} orders of {needs:?}");
    }
}
