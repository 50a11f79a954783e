//! The trial of one graph: runs try each route that is predicted to take about as long, and the fastest is taken.

use smallvec::SmallVec;

use crate::cost::{Route, Routes};

/// The trial of one graph. It names the route of the next run. Plain data, part of a
/// [`DeviceProfile`](crate::cost::DeviceProfile).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Trial {
    /// The route that was fastest in the last round.
    #[cfg_attr(feature = "serde", serde(rename = "kept"))]
    decided_route: Option<Route>,
    /// Nanoseconds of a run in that round, by route; 0 for a route without a run that counts.
    nanos: [u64; ROUTE_COUNT],
    /// Rounds that came to an end.
    #[cfg_attr(feature = "serde", serde(alias = "bouts"))]
    rounds: u8,
    /// The round under way. It is not written to disk.
    #[cfg_attr(feature = "serde", serde(skip))]
    round: Option<Round>,
}

const ROUTE_COUNT: usize = 3;
/// Runs of each route that count, of which the median is taken. Long runs need fewer. With three, after one that did not
/// count, five graphs of 347 were kept on a side that took 1.3 to 1.7 times as long from then on (an H200).
const TRIES: usize = 9;
const FEWEST_TRIES: usize = 3;
/// First runs of a route that do not count, since they find caches cold, threads asleep and clocks low.
const WARMING: u8 = 3;
/// Nanoseconds of runs after which a route is warm, or has enough runs that count.
const ENOUGH: u64 = 2_000_000;
/// Runs of each unusual route after which the trial is given up. Runs that compile, allocate memory or are not alone do not
/// count, but use up this number.
const MOST_AWAY: usize = 24;
/// Slow runs in a row after which the routes are tried again; twice as many after each round.
const PATIENCE: u32 = 8;
const MOST_DOUBLINGS: u8 = 16;

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Round {
    runs: [RouteRuns; ROUTE_COUNT],
    /// Runs begun on unusual routes.
    away: usize,
    /// True if one of these runs is under way.
    is_away: bool,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct RouteRuns {
    /// First runs that did not count, and their nanoseconds.
    warming: u8,
    warmed: u64,
    count: u8,
    nanos: [u64; TRIES],
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum RunOutcome {
    /// The run took this many nanoseconds.
    Took(u64),
    /// The run compiled, or allocated memory.
    Cold,
    /// Others ran at the same time, or the run was dropped.
    Disturbed,
    Failed,
}

/// Nanoseconds of a run by route, the fastest first; 0 for a route without a run that counts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct RouteTimes([(Route, u64); ROUTE_COUNT]);

impl RouteTimes {
    /// The times of the routes that were tried.
    pub fn times(self) -> impl Iterator<Item = (Route, u64)> {
        self.0.into_iter().filter(|&(_, nanos)| nanos > 0)
    }

    pub fn is_empty(self) -> bool {
        self.times().next().is_none()
    }
}

impl RouteRuns {
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
    /// The route that was fastest in the last round.
    pub fn decided_route(&self) -> Option<Route> {
        self.decided_route
    }

    /// The times that decided it.
    pub fn seen(&self) -> RouteTimes {
        let mut seen =
            [Route::Cpu, Route::Gpu, Route::Both].map(|route| (route, self.nanos[route as usize]));
        seen.sort_by_key(|&(route, nanos)| (nanos, Some(route) != self.decided_route));
        RouteTimes(seen)
    }

    /// True if the fastest route is still to be found.
    pub fn is_open(&self) -> bool {
        self.decided_route.is_none() || self.round.is_some()
    }

    /// The route of the next run, one of `routes`. While one run tries another route than the usual one,
    /// all others take the usual one.
    pub fn next(&self, routes: &Routes) -> Route {
        let round = self.round.unwrap_or_default();
        let untried = |route: &Route| !round.runs[*route as usize].is_done();
        let turn = routes.all().find(untried).filter(|_| self.is_open() && !round.is_away);
        turn.unwrap_or(routes.taken)
    }

    /// The [route](Self::next) of a run that begins now, and whether it differs from the usual one.
    pub fn begin(&mut self, routes: &Routes) -> (Route, bool) {
        let route = self.next(routes);
        let is_away = route != routes.taken;
        if is_away {
            let round = self.round.get_or_insert_default();
            (round.is_away, round.away) = (true, round.away + 1);
        }
        (route, is_away)
    }

    /// Notes a run that [began](Self::begin) on `route`. Returns whether the run decided the trial.
    pub fn end(&mut self, routes: &Routes, route: Route, is_away: bool, ran: RunOutcome) -> bool {
        if !self.is_open() {
            return false;
        }
        let round = self.round.get_or_insert_default();
        let most = MOST_AWAY * routes.others.len();
        round.is_away &= !is_away;
        match ran {
            RunOutcome::Took(nanos) => round.runs[route as usize].note(nanos),
            RunOutcome::Cold => {}
            // Runs that overlap now may overlap next time: the round begins again.
            RunOutcome::Disturbed => round.runs = Default::default(),
            RunOutcome::Failed => round.away = most,
        }
        let times = routes.all().map(|route| (route, round.runs[route as usize]));
        if times.clone().all(|(_, tries)| tries.is_done()) {
            self.nanos = Default::default();
            times.for_each(|(route, tries)| self.nanos[route as usize] = tries.median());
            self.decide(routes.all().min_by_key(|&route| self.nanos[route as usize]));
            return true;
        }
        let is_given_up = round.away >= most && !round.is_away;
        if is_given_up {
            self.nanos = Default::default();
            self.decide(Some(routes.taken));
        }
        is_given_up
    }

    fn decide(&mut self, route: Option<Route>) {
        (self.decided_route, self.round, self.rounds) =
            (route, None, self.rounds.saturating_add(1));
    }

    /// The nanoseconds from which a run of the decided route is slow, so that another one may be faster by now: half as
    /// long again as in the last round, and a quarter longer than the second fastest route.
    pub fn slow(&self) -> u64 {
        let mut seen = self.seen().times().map(|(_, nanos)| nanos);
        let (fastest, next) = (seen.next().unwrap_or(0), seen.next().unwrap_or(0));
        fastest.saturating_add(fastest / 2).max(next.saturating_add(next / 4))
    }

    /// Slow runs in a row after which the routes are tried again.
    pub fn patience(&self) -> u32 {
        PATIENCE << self.rounds.min(MOST_DOUBLINGS)
    }

    /// Begins another round.
    pub fn reopen(&mut self) {
        self.round = Some(Round::default());
    }

    /// The part of a decided trial that other processes can use.
    pub fn decided(self) -> Option<Self> {
        let decided = Self { round: None, ..self };
        self.decided_route.is_some().then_some(decided)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn routes(all: &[Route]) -> Routes {
        Routes { taken: all[0], others: all[1..].into() }
    }

    /// The host, and the GPU to try.
    fn pair() -> Routes {
        routes(&[Route::Cpu, Route::Gpu])
    }

    /// Short runs of each route in a round.
    const EACH: usize = WARMING as usize + TRIES;

    /// Runs `trial` alone `runs` times, where each route takes `nanos`. Returns the routes of the runs.
    fn run(
        trial: &mut Trial,
        routes: &Routes,
        runs: usize,
        nanos: impl Fn(Route) -> u64,
    ) -> Vec<Route> {
        let one = |_| {
            let (route, is_away) = trial.begin(routes);
            trial.end(routes, route, is_away, RunOutcome::Took(nanos(route)));
            route
        };
        (0..runs).map(one).collect()
    }

    fn nanos(cpu: u64, gpu: u64, both: u64) -> impl Fn(Route) -> u64 {
        move |route| [cpu, gpu, both][route as usize]
    }

    #[test]
    fn each_route_has_some_runs_and_the_fastest_one_the_rest() {
        for (cpu, gpu, kept) in [(61, 43, Route::Gpu), (43, 61, Route::Cpu), (50, 50, Route::Cpu)] {
            let mut trial = Trial::default();
            let went = run(&mut trial, &pair(), 2 * EACH, nanos(cpu, gpu, 0));
            assert_eq!(went, [[Route::Cpu; EACH], [Route::Gpu; EACH]].concat());
            assert_eq!(trial.decided_route(), Some(kept));
            let usual = if kept == Route::Cpu { pair() } else { routes(&[Route::Gpu, Route::Cpu]) };
            assert_eq!(run(&mut trial, &usual, 3, nanos(cpu, gpu, 0)), [kept; 3]);
            let seen = [(kept, cpu.min(gpu)), (usual.others[0], cpu.max(gpu))];
            assert_eq!(trial.seen().times().collect::<Vec<_>>(), seen);
        }
    }

    #[test]
    fn long_runs_are_few() {
        let went = run(&mut Trial::default(), &pair(), 9, nanos(ENOUGH, 3 * ENOUGH, 0));
        assert_eq!(went, [[Route::Cpu; 4].as_slice(), &[Route::Gpu; 4], &[Route::Cpu]].concat());
    }

    #[test]
    fn a_split_is_tried_beside_both_sides() {
        let mut trial = Trial::default();
        let routes = routes(&[Route::Both, Route::Gpu, Route::Cpu]);
        run(&mut trial, &routes, 3 * EACH, nanos(70, 50, 60));
        let seen = [(Route::Gpu, 50), (Route::Both, 60), (Route::Cpu, 70)];
        assert_eq!(trial.seen().times().collect::<Vec<_>>(), seen);
    }

    #[test]
    fn one_disturbed_run_decides_nothing() {
        for at in 0..EACH {
            let mut trial = Trial::default();
            run(&mut trial, &pair(), EACH, nanos(50, 0, 0));
            for run in 0..EACH {
                let (route, is_away) = trial.begin(&pair());
                trial.end(
                    &pair(),
                    route,
                    is_away,
                    RunOutcome::Took(if run == at { 1000 } else { 40 }),
                );
            }
            assert_eq!(trial.decided_route(), Some(Route::Gpu), "run {at}");
        }
    }

    #[test]
    fn while_one_run_is_away_others_stay() {
        let mut trial = Trial::default();
        run(&mut trial, &pair(), EACH, nanos(50, 0, 0));
        assert_eq!(trial.begin(&pair()), (Route::Gpu, true));
        for _ in 0..20 {
            assert_eq!(trial.begin(&pair()), (Route::Cpu, false));
        }
        // All of these runs were disturbed: the host is timed anew first.
        trial.end(&pair(), Route::Gpu, true, RunOutcome::Disturbed);
        (0..20).for_each(|_| _ = trial.end(&pair(), Route::Cpu, false, RunOutcome::Disturbed));
        let went = run(&mut trial, &pair(), EACH + 1, nanos(50, 40, 0));
        assert_eq!(went[EACH - 1..], [Route::Cpu, Route::Gpu]);
    }

    #[test]
    fn a_route_that_never_counts_is_given_up() {
        for ran in [RunOutcome::Cold, RunOutcome::Disturbed, RunOutcome::Failed] {
            let (mut trial, mut away) = (Trial::default(), 0);
            for _ in 0..1000 {
                let (route, is_away) = trial.begin(&pair());
                away += usize::from(is_away);
                trial.end(
                    &pair(),
                    route,
                    is_away,
                    if is_away { ran } else { RunOutcome::Took(50) },
                );
            }
            assert!(away <= MOST_AWAY, "{ran:?}: {away}");
            assert_eq!(
                (trial.decided_route(), trial.seen().is_empty()),
                (Some(Route::Cpu), true),
                "{ran:?}"
            );
        }
    }

    #[test]
    fn runs_that_are_always_disturbed_stay_on_their_route() {
        let mut trial = Trial::default();
        for _ in 0..1000 {
            let (route, is_away) = trial.begin(&pair());
            assert!(!is_away);
            trial.end(&pair(), route, is_away, RunOutcome::Disturbed);
        }
    }

    #[test]
    fn a_route_is_slow_once_another_may_be_faster() {
        let slow = |cpu, gpu| {
            let mut trial = Trial::default();
            run(&mut trial, &pair(), 2 * EACH, nanos(cpu, gpu, 0));
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
            run(&mut trial, &pair(), 2 * EACH, nanos(50, 40, 0));
            patience.push(trial.patience());
            trial.reopen();
        }
        assert_eq!(patience[..3], [16, 32, 64]);
        assert_eq!(patience[299], PATIENCE << MOST_DOUBLINGS);
    }

    #[test]
    fn an_undecided_trial_is_not_kept() {
        let mut trial = Trial::default();
        run(&mut trial, &pair(), 2 * EACH - 1, nanos(50, 40, 0));
        assert_eq!(trial.decided(), None);
        run(&mut trial, &pair(), 1, nanos(50, 40, 0));
        let decided = trial;
        assert_eq!(trial.decided(), Some(decided));
        trial.reopen();
        assert_eq!((trial.is_open(), trial.decided()), (true, Some(decided)));
    }
}
