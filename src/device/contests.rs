//! The trials of graphs that may go either way, while runs take part in them.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU8, AtomicU32, AtomicU64, Ordering};

use smallvec::SmallVec;

use crate::base::lru::Lru;
use crate::base::sync::{Mutex, MutexGuard};
use crate::cost::{MOST_TRIALS, Ran, Trial, Tried, Way};
use crate::graph::Fingerprint;
use crate::plan::Ways;

/// The trials of a device.
pub(super) struct Contests(Mutex<Lru<Fingerprint, Arc<Contest>>>);

/// The trial of one graph, shared by all that run it.
pub(crate) struct Contest {
    graph: Fingerprint,
    trial: Mutex<Trial>,
    /// The rest is what most runs look at, so that they need not take the lock: the way that is kept, by [`code`].
    usual: AtomicU8,
    is_open: AtomicBool,
    /// [`Trial::slow`].
    slow: AtomicU64,
    /// Runs on end that were slow.
    slow_runs: AtomicU32,
}

/// A run's part in a trial. One that is dropped before its [end](Self::end) was disturbed.
pub(crate) struct Turn {
    contest: Arc<Contest>,
    ways: Ways,
    pub way: Way,
    /// Whether that is not the usual way.
    pub is_away: bool,
    is_over: bool,
}

/// Of a contest that is no part of the profile any more.
const WITHDRAWN: u8 = u8::MAX;

/// 0 where prediction says.
fn code(way: Option<Way>) -> u8 {
    way.map_or(0, |way| way as u8 + 1)
}

impl Contest {
    fn new(graph: Fingerprint, trial: Trial) -> Self {
        let contest = Self {
            graph,
            trial: Mutex::new(trial),
            usual: AtomicU8::new(0),
            is_open: AtomicBool::new(true),
            slow: AtomicU64::new(0),
            slow_runs: AtomicU32::new(0),
        };
        contest.publish(&trial);
        contest
    }

    fn lock(&self) -> MutexGuard<'_, Trial> {
        self.trial.lock()
    }

    pub fn trial(&self) -> Trial {
        *self.lock()
    }

    /// Whether `way` is the usual one, or `None` where that is what is predicted; not once it is withdrawn.
    pub fn is_usual(&self, way: Option<Way>) -> bool {
        self.usual.load(Ordering::Acquire) == code(way)
    }

    fn publish(&self, trial: &Trial) {
        self.slow.store(trial.slow(), Ordering::Relaxed);
        self.slow_runs.store(0, Ordering::Relaxed);
        self.is_open.store(trial.is_open(), Ordering::Relaxed);
        self.usual.store(code(trial.kept()), Ordering::Release);
    }

    fn withdraw(&self) {
        // The lock, so that no run decides anything afterwards.
        let _trial = self.lock();
        self.usual.store(WITHDRAWN, Ordering::Release);
    }

    fn is_withdrawn(&self) -> bool {
        self.usual.load(Ordering::Acquire) == WITHDRAWN
    }

    /// The part of a run that begins now and may go any of `ways`, of which the first is the usual one.
    pub fn begin(self: &Arc<Self>, ways: &Ways) -> Turn {
        let (way, is_away) = match self.is_open.load(Ordering::Relaxed) {
            true => self.lock().begin(ways),
            false => (ways[0], false),
        };
        Turn { contest: Arc::clone(self), ways: ways.clone(), way, is_away, is_over: false }
    }

    /// Takes note of a run the way that was decided. After some on end that were slow, the others are tried again.
    fn note_pace(&self, is_slow: bool) {
        if !is_slow {
            if self.slow_runs.load(Ordering::Relaxed) > 0 {
                self.slow_runs.store(0, Ordering::Relaxed);
            }
            return;
        }
        let runs = self.slow_runs.fetch_add(1, Ordering::Relaxed) + 1;
        let mut trial = self.lock();
        if runs >= trial.patience() && !trial.is_open() && !self.is_withdrawn() {
            trial.reopen();
            self.publish(&trial);
        }
    }
}

impl Turn {
    pub fn graph(&self) -> Fingerprint {
        self.contest.graph
    }

    /// Says what became of the run; `is_alone` is asked where it took long enough to say something.
    pub fn end(&mut self, ran: Ran, is_alone: impl FnOnce() -> bool) -> Said {
        self.is_over = true;
        let contest = &*self.contest;
        if !contest.is_open.load(Ordering::Relaxed) {
            if let Ran::Took(nanos) = ran {
                let is_slow = nanos >= contest.slow.load(Ordering::Relaxed);
                if !is_slow || is_alone() {
                    contest.note_pace(is_slow);
                }
            }
            return Said::Nothing;
        }
        let ran = if matches!(ran, Ran::Took(_)) && !is_alone() { Ran::Disturbed } else { ran };
        let mut trial = contest.lock();
        let is_decided = trial.end(&self.ways, self.way, self.is_away, ran);
        if is_decided && !contest.is_withdrawn() {
            contest.publish(&trial);
            return Said::Which(trial.kept());
        }
        if matches!(ran, Ran::Took(_)) { Said::Something } else { Said::Nothing }
    }
}

/// What a run says in a trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Said {
    Nothing,
    /// How long its way takes.
    Something,
    /// Which way is kept from now on.
    Which(Option<Way>),
}

impl Drop for Turn {
    fn drop(&mut self) {
        if !self.is_over {
            self.end(Ran::Disturbed, || false);
        }
    }
}

impl Contests {
    /// What was learned before, as far as it was decided.
    pub fn new(known: &[Tried]) -> Self {
        Self(Mutex::new(contests(known)))
    }

    fn lock(&self) -> MutexGuard<'_, Lru<Fingerprint, Arc<Contest>>> {
        self.0.lock()
    }

    pub fn find(&self, graph: Fingerprint) -> Option<Arc<Contest>> {
        self.lock().get(&graph).cloned()
    }

    /// That of `graph`, which begins now unless there is one.
    pub fn of(&self, graph: Fingerprint) -> Arc<Contest> {
        let mut contests = self.lock();
        if let Some(contest) = contests.get(&graph) {
            return Arc::clone(contest);
        }
        let contest = Arc::new(Contest::new(graph, Trial::default()));
        let forgotten = contests.insert(graph, Arc::clone(&contest));
        forgotten.iter().for_each(|contest| contest.withdraw());
        contest
    }

    /// What is part of the profile, in ascending order of the graphs.
    pub fn tried(&self) -> Vec<Tried> {
        let contests: SmallVec<[Arc<Contest>; 8]> = self.lock().values().cloned().collect();
        let tried = contests.iter().map(|contest| {
            let graph = contest.graph.words();
            Tried { graph, trial: contest.trial() }
        });
        let mut tried: Vec<Tried> = tried.filter(|tried| tried.trial != Trial::default()).collect();
        tried.sort_unstable_by_key(|tried| tried.graph);
        tried
    }

    /// Forgets all of them but those that are `known`.
    pub fn replace(&self, known: &[Tried]) {
        let forgotten = std::mem::replace(&mut *self.lock(), contests(known));
        forgotten.values().for_each(|contest| contest.withdraw());
    }
}

fn contests(known: &[Tried]) -> Lru<Fingerprint, Arc<Contest>> {
    let mut contests = Lru::new(MOST_TRIALS);
    for Tried { graph, trial } in known {
        let graph = Fingerprint::from_words(*graph);
        if let Some(trial) = trial.decided() {
            // A sound profile has no more than there is room for.
            let _forgotten = contests.insert(graph, Arc::new(Contest::new(graph, trial)));
        }
    }
    contests
}
