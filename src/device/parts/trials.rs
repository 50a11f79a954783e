//! The record of a device's trials, shared by the runs that take part in them. A trial decides in `src/cost/trial.rs`.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::base::lru::Lru;
use crate::base::sync::Mutex;
use crate::cost::{MOST_TRIALS, Route, Routes, RunOutcome, Trial, Tried};
use crate::graph::Fingerprint;

pub(in crate::device) struct Trials(Mutex<Lru<Fingerprint, Arc<SharedTrial>>>);

/// The trial of one graph, shared by all of its runs.
pub(crate) struct SharedTrial {
    pub graph: Fingerprint,
    trial: Mutex<Trial>,
    /// The [code](route_code) of the decided route. Like the fields below, a copy of the trial's state that runs read
    /// without the lock.
    usual: AtomicU8,
    is_open: AtomicBool,
    /// The nanoseconds from which a run is slow: [`Trial::slow`].
    slow: AtomicU64,
    slow_runs: AtomicU32,
}

/// The part of one run in a trial. A run that is dropped before its [end](Self::end) counts as disturbed.
pub(crate) struct TrialRun {
    pub shared: Arc<SharedTrial>,
    routes: Routes,
    pub route: Route,
    /// True if `route` differs from the usual one.
    pub is_away: bool,
    is_over: bool,
}

/// The code of a trial that is no longer part of the profile.
const WITHDRAWN: u8 = u8::MAX;

/// 0 for the predicted route.
fn route_code(route: Option<Route>) -> u8 {
    route.map_or(0, |route| route as u8 + 1)
}

impl SharedTrial {
    fn new(graph: Fingerprint, trial: Trial) -> Self {
        let shared = Self {
            graph,
            trial: Mutex::new(trial),
            usual: AtomicU8::new(0),
            is_open: AtomicBool::new(true),
            slow: AtomicU64::new(0),
            slow_runs: AtomicU32::new(0),
        };
        shared.publish(&trial);
        shared
    }

    pub fn trial(&self) -> Trial {
        *self.trial.lock()
    }

    /// Returns whether `route` is the usual one; `None` stands for the predicted one. False once the trial is
    /// withdrawn.
    pub fn is_usual(&self, route: Option<Route>) -> bool {
        self.usual.load(Ordering::Acquire) == route_code(route)
    }

    fn publish(&self, trial: &Trial) {
        self.slow.store(trial.slow(), Ordering::Relaxed);
        self.slow_runs.store(0, Ordering::Relaxed);
        self.is_open.store(trial.is_open(), Ordering::Relaxed);
        self.usual.store(route_code(trial.decided_route()), Ordering::Release);
    }

    fn withdraw(&self) {
        // Under the lock, so that no run decides the trial afterwards.
        let _trial = self.trial.lock();
        self.usual.store(WITHDRAWN, Ordering::Release);
    }

    fn is_withdrawn(&self) -> bool {
        self.usual.load(Ordering::Acquire) == WITHDRAWN
    }

    /// Begins the part of a run that may take any of `routes`.
    pub fn begin(self: &Arc<Self>, routes: &Routes) -> TrialRun {
        let (route, is_away) = match self.is_open.load(Ordering::Relaxed) {
            true => self.trial.lock().begin(routes),
            false => (routes.taken, false),
        };
        TrialRun {
            shared: Arc::clone(self),
            routes: routes.clone(),
            route,
            is_away,
            is_over: false,
        }
    }

    /// Notes a run of the decided route. After some slow ones in a row, the routes are tried again.
    fn note_pace(&self, is_slow: bool) {
        if !is_slow {
            if self.slow_runs.load(Ordering::Relaxed) > 0 {
                self.slow_runs.store(0, Ordering::Relaxed);
            }
            return;
        }
        let runs = self.slow_runs.fetch_add(1, Ordering::Relaxed) + 1;
        let mut trial = self.trial.lock();
        if runs >= trial.patience() && !trial.is_open() && !self.is_withdrawn() {
            trial.reopen();
            self.publish(&trial);
        }
    }
}

impl TrialRun {
    /// Ends the run, and returns the trial if the run decided it. `is_alone` is asked if the time of the run counts.
    pub fn end(&mut self, ran: RunOutcome, is_alone: impl FnOnce() -> bool) -> Option<Trial> {
        self.is_over = true;
        let shared = &*self.shared;
        if !shared.is_open.load(Ordering::Relaxed) {
            if let RunOutcome::Took(nanos) = ran {
                let is_slow = nanos >= shared.slow.load(Ordering::Relaxed);
                if !is_slow || is_alone() {
                    shared.note_pace(is_slow);
                }
            }
            return None;
        }
        let ran = if matches!(ran, RunOutcome::Took(_)) && !is_alone() {
            RunOutcome::Disturbed
        } else {
            ran
        };
        let mut trial = shared.trial.lock();
        let is_decided = trial.end(&self.routes, self.route, self.is_away, ran);
        if is_decided && !shared.is_withdrawn() {
            shared.publish(&trial);
            return Some(*trial);
        }
        None
    }
}

impl Drop for TrialRun {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(RunOutcome::Disturbed, || false);
        }
    }
}

impl Trials {
    /// The decided trials of a profile.
    pub fn new(known: &[Tried]) -> Self {
        Self(Mutex::new(shared_trials(known)))
    }

    pub fn find(&self, graph: Fingerprint) -> Option<Arc<SharedTrial>> {
        self.0.lock().get(&graph).cloned()
    }

    /// The trial of `graph`, which begins now unless there is one.
    pub fn of(&self, graph: Fingerprint) -> Arc<SharedTrial> {
        let mut trials = self.0.lock();
        if let Some(shared) = trials.get(&graph) {
            return Arc::clone(shared);
        }
        let shared = Arc::new(SharedTrial::new(graph, Trial::default()));
        let forgotten = trials.insert(graph, Arc::clone(&shared));
        forgotten.iter().for_each(|shared| shared.withdraw());
        shared
    }

    /// The trials of the profile, in ascending order of the graphs.
    pub fn tried(&self) -> Vec<Tried> {
        let trials: SmallVec<[Arc<SharedTrial>; 8]> = self.0.lock().values().cloned().collect();
        let tried = trials.iter().map(|shared| {
            let graph = shared.graph.words();
            Tried { graph, trial: shared.trial() }
        });
        let mut tried: Vec<Tried> = tried.filter(|tried| tried.trial != Trial::default()).collect();
        tried.sort_unstable_by_key(|tried| tried.graph);
        tried
    }

    /// Forgets all trials but the `known` ones.
    pub fn replace(&self, known: &[Tried]) {
        let forgotten = std::mem::replace(&mut *self.0.lock(), shared_trials(known));
        forgotten.values().for_each(|shared| shared.withdraw());
    }
}

fn shared_trials(known: &[Tried]) -> Lru<Fingerprint, Arc<SharedTrial>> {
    let mut trials = Lru::new(MOST_TRIALS);
    for Tried { graph, trial } in known {
        let graph = Fingerprint::from_words(*graph);
        if let Some(trial) = trial.decided() {
            // A sound profile has no more trials than there is room for.
            let _forgotten = trials.insert(graph, Arc::new(SharedTrial::new(graph, trial)));
        }
    }
    trials
}
