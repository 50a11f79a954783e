//! Graphs of which two ways to run are predicted to take about as long: each is tried, and the faster one is kept.

use smallvec::SmallVec;

use super::Backend;

/// Where a graph runs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) enum Way {
    Cpu,
    Gpu,
    /// Shared out over both sides.
    Both,
}

impl From<Backend> for Way {
    fn from(side: Backend) -> Self {
        match side {
            Backend::Cpu => Self::Cpu,
            Backend::Gpu => Self::Gpu,
        }
    }
}

impl std::fmt::Display for Way {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Cpu => "cpu",
            Self::Gpu => "gpu",
            Self::Both => "both",
        })
    }
}

/// What is known of one graph. Plain data, part of a [`DeviceProfile`](super::DeviceProfile): it says which way the
/// next run goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Trial {
    /// The way that was faster the last time that they were tried.
    kept: Option<Way>,
    /// Nanoseconds of a run by way, as they were then; 0 of one that was not tried, or never alone.
    nanos: [u64; WAYS],
    /// How often the ways were tried.
    bouts: u8,
    /// What this process has seen since; lost where that does not come to an end.
    #[cfg_attr(feature = "serde", serde(skip))]
    bout: Option<Bout>,
}

const WAYS: usize = 3;
/// Runs that count of each way, of which the median is taken, and fewer of long ones. With three, after one that did not
/// count, five graphs of 347 were kept on a side that took 1.3 to 1.7 times as long from then on (an H200).
const TRIES: usize = 9;
const FEWEST_TRIES: usize = 3;
/// Runs of a way that do not count, since they find caches cold, threads asleep and clocks low.
const WARMING: u8 = 3;
/// Nanoseconds after which there need be no more runs to warm up, or that count.
const ENOUGH: u64 = 2_000_000;
/// Runs that each other way than the usual one is given before the trial is given up: in vain are those that compile, ask
/// for memory, or are not alone.
const MOST_AWAY: usize = 24;
/// Runs on end that must have been slow before the ways are tried again, twice as many each time.
const PATIENCE: u32 = 8;
const MOST_DOUBLINGS: u8 = 16;

/// The runs of one trial.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Bout {
    /// By way.
    runs: [Tries; WAYS],
    /// Runs begun on other ways than the usual one.
    away: usize,
    /// Whether one of them is under way.
    is_away: bool,
}

/// The runs of one way.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Tries {
    /// How many there were after those of another way, or of other work, and what they took together.
    warming: u8,
    warmed: u64,
    count: u8,
    nanos: [u64; TRIES],
}

/// What a run says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Ran {
    /// So many nanoseconds.
    Took(u64),
    /// It compiled, or had to ask for memory.
    Cold,
    /// Others ran meanwhile, or it was dropped.
    Disturbed,
    /// The side failed.
    Failed,
}

/// Nanoseconds of a run by way, the fastest first; 0 of one that was not tried, or never alone.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Seen([(Way, u64); WAYS]);

impl Seen {
    /// Of the ways that were tried.
    pub fn times(self) -> impl Iterator<Item = (Way, u64)> {
        self.0.into_iter().filter(|&(_, nanos)| nanos > 0)
    }

    pub fn is_empty(self) -> bool {
        self.times().next().is_none()
    }
}

impl Tries {
    fn note(&mut self, nanos: u64) {
        if self.warming < WARMING && self.warmed < ENOUGH {
            (self.warming, self.warmed) = (self.warming + 1, self.warmed.saturating_add(nanos));
        } else if !self.is_done() {
            self.nanos[usize::from(self.count)] = nanos.max(1);
            self.count += 1;
        }
    }

    fn counted(&self) -> &[u64] {
        &self.nanos[..usize::from(self.count)]
    }

    fn is_done(&self) -> bool {
        let took = self.counted().iter().fold(0, |sum: u64, &nanos| sum.saturating_add(nanos));
        let count = self.counted().len();
        count == TRIES || count >= FEWEST_TRIES && took >= ENOUGH
    }

    fn median(&self) -> u64 {
        let mut nanos: SmallVec<[u64; TRIES]> = self.counted().into();
        nanos.sort_unstable();
        nanos.get(nanos.len() / 2).copied().unwrap_or(0)
    }
}

impl Trial {
    /// The way that was faster when they were tried.
    pub fn kept(&self) -> Option<Way> {
        self.kept
    }

    /// What was seen when that was decided.
    pub fn seen(&self) -> Seen {
        let mut seen = [Way::Cpu, Way::Gpu, Way::Both].map(|way| (way, self.nanos[way as usize]));
        seen.sort_by_key(|&(way, nanos)| (nanos, Some(way) != self.kept));
        Seen(seen)
    }

    /// Whether runs are still to say which way is faster.
    pub fn is_open(&self) -> bool {
        self.kept.is_none() || self.bout.is_some()
    }

    /// The way of the next run, of `ways`, of which the first is the usual one. While one run is on its way elsewhere,
    /// others stay.
    pub fn next(&self, ways: &[Way]) -> Way {
        let bout = self.bout.unwrap_or_default();
        let untried = |way: &&Way| !bout.runs[**way as usize].is_done();
        let turn = ways.iter().find(untried).filter(|_| self.is_open() && !bout.is_away);
        *turn.unwrap_or(&ways[0])
    }

    /// The way of a run that begins now, and whether it is [another](Self::next) than the usual one.
    pub fn begin(&mut self, ways: &[Way]) -> (Way, bool) {
        let way = self.next(ways);
        let is_away = way != ways[0];
        if is_away {
            let bout = self.bout.get_or_insert_default();
            (bout.is_away, bout.away) = (true, bout.away + 1);
        }
        (way, is_away)
    }

    /// Takes note of a run that [began](Self::begin) so. Whether that decides which way is kept.
    pub fn end(&mut self, ways: &[Way], way: Way, is_away: bool, ran: Ran) -> bool {
        if !self.is_open() {
            return false;
        }
        let bout = self.bout.get_or_insert_default();
        let most = MOST_AWAY * (ways.len() - 1);
        bout.is_away &= !is_away;
        match ran {
            Ran::Took(nanos) => bout.runs[way as usize].note(nanos),
            Ran::Cold => {}
            // Who is not alone now may not be so next time: first there must be some that are.
            Ran::Disturbed => bout.runs = Default::default(),
            Ran::Failed => bout.away = most,
        }
        let times = ways.iter().map(|&way| (way, bout.runs[way as usize]));
        if times.clone().all(|(_, tries)| tries.is_done()) {
            self.nanos = Default::default();
            times.for_each(|(way, tries)| self.nanos[way as usize] = tries.median());
            self.keep(ways.iter().copied().min_by_key(|&way| self.nanos[way as usize]));
            return true;
        }
        let is_given_up = bout.away >= most && !bout.is_away;
        if is_given_up {
            self.nanos = Default::default();
            self.keep(Some(ways[0]));
        }
        is_given_up
    }

    fn keep(&mut self, way: Option<Way>) {
        (self.kept, self.bout, self.bouts) = (way, None, self.bouts.saturating_add(1));
    }

    /// The nanoseconds from which on a run of the way that is kept is so slow that another one may be faster by now:
    /// half as long again as it was, and a quarter longer than the next one was.
    pub fn slow(&self) -> u64 {
        let mut seen = self.seen().times().map(|(_, nanos)| nanos);
        let (kept, next) = (seen.next().unwrap_or(0), seen.next().unwrap_or(0));
        kept.saturating_add(kept / 2).max(next.saturating_add(next / 4))
    }

    /// Runs on end that must be slow before the ways are tried again.
    pub fn patience(&self) -> u32 {
        PATIENCE << self.bouts.min(MOST_DOUBLINGS)
    }

    /// Has the ways tried again.
    pub fn reopen(&mut self) {
        self.bout = Some(Bout::default());
    }

    /// What remains of it in another process, if it was decided.
    pub fn decided(self) -> Option<Self> {
        let decided = Self { bout: None, ..self };
        self.kept.is_some().then_some(decided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const WAYS: [Way; 2] = [Way::Cpu, Way::Gpu];
    /// Short runs that a way has.
    const EACH: usize = WARMING as usize + TRIES;

    /// Runs `trial` alone so often, each way taking so many nanoseconds. The ways that runs went.
    fn run(trial: &mut Trial, ways: &[Way], runs: usize, nanos: impl Fn(Way) -> u64) -> Vec<Way> {
        let one = |_| {
            let (way, is_away) = trial.begin(ways);
            trial.end(ways, way, is_away, Ran::Took(nanos(way)));
            way
        };
        (0..runs).map(one).collect()
    }

    fn nanos(cpu: u64, gpu: u64, both: u64) -> impl Fn(Way) -> u64 {
        move |way| [cpu, gpu, both][way as usize]
    }

    #[test]
    fn each_way_has_some_runs_and_the_faster_one_the_rest() {
        for (cpu, gpu, kept) in [(61, 43, Way::Gpu), (43, 61, Way::Cpu), (50, 50, Way::Cpu)] {
            let mut trial = Trial::default();
            let went = run(&mut trial, &WAYS, 2 * EACH, nanos(cpu, gpu, 0));
            assert_eq!(went, [[Way::Cpu; EACH], [Way::Gpu; EACH]].concat());
            assert_eq!(trial.kept(), Some(kept));
            let usual = if kept == Way::Cpu { WAYS } else { [Way::Gpu, Way::Cpu] };
            assert_eq!(run(&mut trial, &usual, 3, nanos(cpu, gpu, 0)), [kept; 3]);
            let seen = [(kept, cpu.min(gpu)), (usual[1], cpu.max(gpu))];
            assert_eq!(trial.seen().times().collect::<Vec<_>>(), seen);
        }
    }

    #[test]
    fn long_runs_are_few() {
        let went = run(&mut Trial::default(), &WAYS, 9, nanos(ENOUGH, 3 * ENOUGH, 0));
        assert_eq!(went, [[Way::Cpu; 4].as_slice(), &[Way::Gpu; 4], &[Way::Cpu]].concat());
    }

    #[test]
    fn a_split_is_tried_beside_both_sides() {
        let mut trial = Trial::default();
        let ways = [Way::Both, Way::Gpu, Way::Cpu];
        run(&mut trial, &ways, 3 * EACH, nanos(70, 50, 60));
        let seen = [(Way::Gpu, 50), (Way::Both, 60), (Way::Cpu, 70)];
        assert_eq!(trial.seen().times().collect::<Vec<_>>(), seen);
    }

    #[test]
    fn one_disturbed_run_decides_nothing() {
        for at in 0..EACH {
            let mut trial = Trial::default();
            run(&mut trial, &WAYS, EACH, nanos(50, 0, 0));
            for run in 0..EACH {
                let (way, is_away) = trial.begin(&WAYS);
                trial.end(&WAYS, way, is_away, Ran::Took(if run == at { 1000 } else { 40 }));
            }
            assert_eq!(trial.kept(), Some(Way::Gpu), "run {at}");
        }
    }

    #[test]
    fn while_one_run_is_away_others_stay() {
        let mut trial = Trial::default();
        run(&mut trial, &WAYS, EACH, nanos(50, 0, 0));
        assert_eq!(trial.begin(&WAYS), (Way::Gpu, true));
        for _ in 0..20 {
            assert_eq!(trial.begin(&WAYS), (Way::Cpu, false));
        }
        // They were not alone, and neither was it: the host is timed anew first.
        trial.end(&WAYS, Way::Gpu, true, Ran::Disturbed);
        (0..20).for_each(|_| _ = trial.end(&WAYS, Way::Cpu, false, Ran::Disturbed));
        let went = run(&mut trial, &WAYS, EACH + 1, nanos(50, 40, 0));
        assert_eq!(went[EACH - 1..], [Way::Cpu, Way::Gpu]);
    }

    #[test]
    fn what_never_counts_is_given_up() {
        for ran in [Ran::Cold, Ran::Disturbed, Ran::Failed] {
            let (mut trial, mut away) = (Trial::default(), 0);
            for _ in 0..1000 {
                let (way, is_away) = trial.begin(&WAYS);
                away += usize::from(is_away);
                trial.end(&WAYS, way, is_away, if is_away { ran } else { Ran::Took(50) });
            }
            assert!(away <= MOST_AWAY, "{ran:?}: {away}");
            assert_eq!((trial.kept(), trial.seen().is_empty()), (Some(Way::Cpu), true), "{ran:?}");
        }
    }

    #[test]
    fn what_is_always_disturbed_stays_where_it_is() {
        let mut trial = Trial::default();
        for _ in 0..1000 {
            let (way, is_away) = trial.begin(&WAYS);
            assert!(!is_away);
            trial.end(&WAYS, way, is_away, Ran::Disturbed);
        }
    }

    #[test]
    fn a_way_is_slow_once_another_may_be_faster() {
        let slow = |cpu, gpu| {
            let mut trial = Trial::default();
            run(&mut trial, &WAYS, 2 * EACH, nanos(cpu, gpu, 0));
            trial.slow()
        };
        assert_eq!(slow(100, 110), 150, "half as long again");
        assert_eq!(slow(100, 200), 250, "a quarter more than the other");
        assert_eq!(slow(200, 100), 250);
        assert_eq!(slow(u64::MAX, u64::MAX), u64::MAX);
    }

    #[test]
    fn trials_come_ever_more_rarely() {
        let mut trial = Trial::default();
        let mut patience = Vec::new();
        for _ in 0..300 {
            run(&mut trial, &WAYS, 2 * EACH, nanos(50, 40, 0));
            patience.push(trial.patience());
            trial.reopen();
        }
        assert_eq!(patience[..3], [16, 32, 64]);
        assert_eq!(patience[299], PATIENCE << MOST_DOUBLINGS);
    }

    #[test]
    fn what_was_not_decided_is_not_kept() {
        let mut trial = Trial::default();
        run(&mut trial, &WAYS, 2 * EACH - 1, nanos(50, 40, 0));
        assert_eq!(trial.decided(), None);
        run(&mut trial, &WAYS, 1, nanos(50, 40, 0));
        let decided = trial;
        assert_eq!(trial.decided(), Some(decided));
        trial.reopen();
        assert_eq!((trial.is_open(), trial.decided()), (true, Some(decided)));
    }
}
