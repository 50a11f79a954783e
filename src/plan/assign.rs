//! Which steps run on a GPU and which on the host, where one round trip joins them: by minimum cuts.
//!
//! What a cut cannot say is that no step on the host may stand between two on the GPU. Where a cut breaks that rule,
//! the step in between goes to the GPU, or all that lies before it on the GPU goes to the host, or all that lies after
//! it: the search branches, and each branch is a cut again. A branch that costs more than the best assignment
//! found ends there.

use crate::graph::{Network, Place};

/// Cuts that one search may make, and steps of all its cuts together: planning must not take longer than what it may
/// save. Beyond that the best assignment found counts.
const MOST_CUTS: usize = 64;
const MOST_STEPS_CUT: usize = 1024;

/// What there is to assign. Costs are in seconds.
#[derive(Clone, Debug, Default)]
pub(super) struct Problem {
    /// In an order of dependency.
    pub steps: Vec<Costs>,
    pub values: Vec<Flow>,
    /// What a run costs as soon as any step is on the GPU.
    pub trip: f64,
}

/// What a step costs on either side.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Costs {
    pub cpu: f64,
    pub gpu: f64,
}

/// A value, from who makes it to who reads it.
#[derive(Clone, Debug)]
pub(super) struct Flow {
    pub from: Origin,
    pub readers: Vec<usize>,
    /// Whether it must end on the host.
    pub to_host: bool,
    /// Whether it is to stay on the GPU.
    pub to_gpu: bool,
    /// Bringing it to the GPU, and fetching it from there; infinite for what cannot be handed over.
    pub up: f64,
    pub down: f64,
}

/// Where a value comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Origin {
    Step(usize),
    Host,
    Gpu,
    /// It lies on both sides.
    Both,
}

/// Where each step runs: `true` on the GPU.
pub(super) type Assignment = Vec<bool>;

impl Problem {
    /// The cost of an assignment: steps, transfers, and the trip if there is one. `None` if it takes more than one.
    pub fn cost(&self, on_gpu: &Assignment) -> Option<f64> {
        self.between(on_gpu).next().is_none().then(|| self.cost_of_trips(on_gpu))
    }

    /// The cost with as many trips as it takes, of which one is charged.
    fn cost_of_trips(&self, on_gpu: &Assignment) -> f64 {
        let steps = self.steps.iter().zip(on_gpu);
        let mut cost: f64 = steps.map(|(step, &gpu)| if gpu { step.gpu } else { step.cpu }).sum();
        let mut trip = on_gpu.contains(&true);
        for value in &self.values {
            let (host, gpu) = match value.from {
                Origin::Step(step) => (!on_gpu[step], on_gpu[step]),
                Origin::Host => (true, false),
                Origin::Gpu => (false, true),
                Origin::Both => (true, true),
            };
            let read = |side: bool| value.readers.iter().any(|&reader| on_gpu[reader] == side);
            if !gpu && (value.to_gpu || read(true)) {
                cost += value.up;
            }
            if !host && (value.to_host || read(false)) {
                cost += value.down;
                trip = true;
            }
        }
        cost + if trip { self.trip } else { 0.0 }
    }

    /// The cheapest assignment that was found; the cheapest there is, unless the search was cut short.
    pub fn solve(&self) -> Assignment {
        let all = |side: bool| vec![side; self.steps.len()];
        let mut best = all(false);
        let mut least = self.cost(&best).unwrap_or(f64::INFINITY);
        let mut consider = |assignment: Assignment| {
            let cost = self.cost(&assignment).unwrap_or(f64::INFINITY);
            if cost < least {
                (best, least) = (assignment, cost);
            }
            least
        };
        consider(all(true));
        let mut open = vec![vec![None; self.steps.len()]];
        let mut cuts = (MOST_STEPS_CUT / self.steps.len().max(1)).clamp(1, MOST_CUTS);
        while let Some(fixed) = open.pop() {
            if cuts == 0 {
                break;
            }
            cuts -= 1;
            let assignment = self.cut(&fixed);
            let Some(step) = self.between(&assignment).next() else {
                consider(assignment);
                continue;
            };
            let bound = self.cost_of_trips(&assignment);
            let least = consider(self.filled(assignment));
            if bound >= least {
                continue;
            }
            open.extend(self.branches(&fixed, step));
        }
        best
    }

    /// What must be decided where `step` stands on the host between two on the GPU.
    fn branches(&self, fixed: &[Option<bool>], step: usize) -> Vec<Vec<Option<bool>>> {
        let side = |steps: &[bool], gpu: bool| {
            let mut fixed = fixed.to_vec();
            for (at, fixed) in fixed.iter_mut().enumerate() {
                if steps[at] {
                    if fixed.is_some_and(|side| side != gpu) {
                        return None;
                    }
                    *fixed = Some(gpu);
                }
            }
            Some(fixed)
        };
        let only: Vec<bool> = (0..self.steps.len()).map(|at| at == step).collect();
        let (before, from_gpu) = self.reached(step, true);
        let (after, _) = self.reached(step, false);
        let before = if from_gpu { None } else { side(&with(before, step), false) };
        [before, side(&with(after, step), false), side(&only, true)].into_iter().flatten().collect()
    }

    /// The steps before or after `step`, and whether a value of the GPU alone is among what comes before.
    fn reached(&self, step: usize, before: bool) -> (Vec<bool>, bool) {
        let mut reached = vec![false; self.steps.len()];
        reached[step] = true;
        let mut from_gpu = false;
        let mut spread = |value: &Flow, reached: &mut Vec<bool>| {
            let is_read = value.readers.iter().any(|&reader| reached[reader]);
            match value.from {
                Origin::Step(maker) if before && is_read => reached[maker] = true,
                Origin::Step(maker) if !before && reached[maker] => {
                    value.readers.iter().for_each(|&reader| reached[reader] = true);
                }
                Origin::Gpu if before && is_read => from_gpu = true,
                _ => {}
            }
        };
        // Values are in the order of their makers.
        if before {
            self.values.iter().rev().for_each(|value| spread(value, &mut reached));
        } else {
            self.values.iter().for_each(|value| spread(value, &mut reached));
        }
        reached[step] = false;
        (reached, from_gpu)
    }

    /// The assignment with every step that stands between two on the GPU moved there: after that none does, since what
    /// stands between two of these stood between two before.
    fn filled(&self, mut on_gpu: Assignment) -> Assignment {
        let between: Vec<usize> = self.between(&on_gpu).collect();
        between.into_iter().for_each(|step| on_gpu[step] = true);
        on_gpu
    }

    /// The steps on the host that stand between two on the GPU, or between the GPU's data and a step there.
    fn between<'a>(&self, on_gpu: &'a Assignment) -> impl Iterator<Item = usize> + use<'a> {
        let steps = self.steps.len();
        let (mut after, mut before) = (vec![false; steps], vec![false; steps]);
        for value in &self.values {
            let from_gpu = match value.from {
                Origin::Step(maker) => on_gpu[maker] || after[maker],
                Origin::Gpu => true,
                Origin::Host | Origin::Both => false,
            };
            if from_gpu {
                value.readers.iter().for_each(|&reader| after[reader] = true);
            }
        }
        for value in self.values.iter().rev() {
            if let Origin::Step(maker) = value.from {
                let to_gpu = value.readers.iter().any(|&reader| on_gpu[reader] || before[reader]);
                before[maker] |= to_gpu;
            }
        }
        (0..steps).filter(move |&step| !on_gpu[step] && after[step] && before[step])
    }

    fn scale(&self) -> Scale {
        let steps = self.steps.iter().map(|step| [step.cpu, step.gpu]);
        let transfers = self.values.iter().map(|value| [value.up, value.down]);
        let costs = steps.chain(transfers).flatten().filter(|cost| cost.is_finite());
        Scale::of(costs.sum())
    }

    /// The cheapest assignment with some sides fixed, whatever stands between what.
    fn cut(&self, fixed: &[Option<bool>]) -> Assignment {
        let scale = self.scale();
        let mut network = Network::new();
        let (gpu, host) = (network.source(), network.sink());
        let steps: Vec<Place> = self.steps.iter().map(|_| network.add()).collect();
        for ((step, &place), fixed) in self.steps.iter().zip(&steps).zip(fixed) {
            let (on_cpu, on_gpu) = (scale.count(step.cpu), scale.count(step.gpu));
            // What both sides cost alike decides nothing.
            let both = on_cpu.min(on_gpu);
            let never_if = |side: bool| (*fixed == Some(side)).then_some(Network::NEVER);
            network.pay(gpu, place, never_if(true).unwrap_or(on_cpu - both));
            network.pay(place, host, never_if(false).unwrap_or(on_gpu - both));
        }
        for value in &self.values {
            let from = match value.from {
                Origin::Step(step) => steps[step],
                Origin::Host => host,
                Origin::Gpu => gpu,
                Origin::Both => continue,
            };
            let readers = || value.readers.iter().map(|&reader| steps[reader]);
            if from != gpu {
                let brought = network.add();
                network.pay(brought, from, scale.count(value.up));
                let to_gpu = value.to_gpu.then_some(gpu);
                readers()
                    .chain(to_gpu)
                    .for_each(|reader| network.pay(reader, brought, Network::NEVER));
            }
            if from != host {
                let fetched = network.add();
                network.pay(from, fetched, scale.count(value.down));
                let to_host = value.to_host.then_some(host);
                readers()
                    .chain(to_host)
                    .for_each(|reader| network.pay(fetched, reader, Network::NEVER));
            }
        }
        let cut = network.cut();
        steps.iter().map(|&step| cut.with_source(step)).collect()
    }
}

/// The whole numbers in which a network counts the costs of one graph: so fine that steps of any length are told apart,
/// and so few that all of them together are far from [`Network::NEVER`].
#[derive(Clone, Copy)]
struct Scale {
    /// Of each second.
    counts: f64,
}

impl Scale {
    /// What all finite costs of a graph come to, or any other one.
    const MOST: u64 = 1 << 52;

    /// For costs that come to so many seconds.
    fn of(total: f64) -> Self {
        // Without costs any scale will do.
        Self { counts: Self::MOST as f64 / total.max(f64::MIN_POSITIVE * Self::MOST as f64) }
    }

    fn count(self, seconds: f64) -> u64 {
        ((seconds * self.counts) as u64).min(Self::MOST)
    }
}

/// The set with one more member.
fn with(mut set: Vec<bool>, member: usize) -> Vec<bool> {
    set[member] = true;
    set
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers that look random (xorshift).
    struct Random(u64);

    impl Random {
        fn below(&mut self, end: u64) -> u64 {
            self.0 ^= self.0 << 13;
            self.0 ^= self.0 >> 7;
            self.0 ^= self.0 << 17;
            self.0 % end
        }
    }

    /// A graph of `steps`, each of which reads up to three values made before.
    fn random(random: &mut Random, steps: usize) -> Problem {
        let scale = 1 + random.below(100);
        let mut problem = Problem { trip: random.below(60) as f64, ..Problem::default() };
        let flow = |random: &mut Random, from| Flow {
            from,
            readers: Vec::new(),
            to_host: random.below(6) == 0,
            to_gpu: random.below(12) == 0,
            up: random.below(scale) as f64,
            down: random.below(scale) as f64,
        };
        for _ in 0..1 + random.below(3) {
            let from =
                [Origin::Host, Origin::Host, Origin::Gpu, Origin::Both][random.below(4) as usize];
            let value = flow(random, from);
            problem.values.push(Flow { to_host: false, to_gpu: false, ..value });
        }
        for step in 0..steps {
            let [cpu, gpu] = [(); 2].map(|()| random.below(100) as f64);
            problem.steps.push(Costs { cpu, gpu });
            for _ in 0..1 + random.below(3) {
                let from = random.below(problem.values.len() as u64) as usize;
                if !problem.values[from].readers.contains(&step) {
                    problem.values[from].readers.push(step);
                }
            }
            problem.values.push(flow(random, Origin::Step(step)));
        }
        problem
    }

    fn by_brute_force(problem: &Problem) -> Option<f64> {
        let steps = problem.steps.len();
        let assignments =
            (0..1_u32 << steps).map(|bits| (0..steps).map(|at| bits >> at & 1 == 1).collect());
        assignments
            .filter_map(|assignment: Assignment| problem.cost(&assignment))
            .min_by(f64::total_cmp)
    }

    #[test]
    fn no_assignment_is_cheaper() {
        let mut numbers = Random(0x9e37_79b9_7f4a_7c15);
        let (mut mixed, mut graphs) = (0, 0);
        for round in 0..600 {
            let steps = 1 + round % 14;
            let problem = random(&mut numbers, steps);
            let found = problem.solve();
            assert_eq!(problem.cost(&found), by_brute_force(&problem), "{problem:?}: {found:?}");
            mixed += usize::from(found.contains(&true) && found.contains(&false));
            graphs += 1;
        }
        assert!(mixed > graphs / 5, "only {mixed} of {graphs} have steps on both sides");
    }

    /// The graph with each cost times `by`.
    fn scaled(problem: &Problem, by: f64) -> Problem {
        let mut problem = problem.clone();
        problem.trip *= by;
        problem
            .steps
            .iter_mut()
            .for_each(|Costs { cpu, gpu }| (*cpu, *gpu) = (*cpu * by, *gpu * by));
        let transfers = problem.values.iter_mut();
        transfers.for_each(|Flow { up, down, .. }| (*up, *down) = (*up * by, *down * by));
        problem
    }

    #[test]
    fn costs_of_nanoseconds_and_of_years_are_told_apart_alike() {
        let mut numbers = Random(0x2545_f491_4f6c_dd1d);
        for round in 0..200 {
            let problem = random(&mut numbers, 1 + round % 11);
            let least = by_brute_force(&problem).expect("all on the GPU is an assignment");
            for by in [2_f64.powi(-40), 0.1, 3.0, 1e7, 1e250] {
                let found = scaled(&problem, by).solve();
                assert_eq!(problem.cost(&found), Some(least), "times {by}: {problem:?}: {found:?}");
            }
        }
    }

    #[test]
    fn what_takes_forever_on_one_side_goes_to_the_other() {
        let forever = Costs { cpu: f64::INFINITY, gpu: 1.0 };
        let never = Costs { cpu: 1.0, gpu: f64::INFINITY };
        let value = |from, readers| Flow {
            from,
            readers,
            to_host: true,
            to_gpu: false,
            up: 1.0,
            down: 1.0,
        };
        let mut problem = Problem {
            steps: vec![never, forever, never],
            values: vec![
                value(Origin::Step(0), vec![1]),
                value(Origin::Step(1), vec![2]),
                value(Origin::Step(2), vec![]),
            ],
            trip: 0.5,
        };
        assert_eq!(problem.solve(), [false, true, false]);
        assert_eq!(problem.cost(&vec![false, true, false]), Some(5.5));
        problem.values[0].up = f64::INFINITY;
        assert_eq!(problem.solve(), [false; 3], "nothing takes less than forever");
        assert!(Problem::default().solve().is_empty());
    }

    #[test]
    fn nothing_on_the_host_stands_between_two_on_the_gpu() {
        // Three in a row, the middle one far cheaper on the host, and transfers that cost nothing.
        let step = |cpu, gpu| Costs { cpu, gpu };
        let flow = |from, readers| Flow {
            from,
            readers,
            to_host: false,
            to_gpu: false,
            up: 0.0,
            down: 0.0,
        };
        let problem = Problem {
            steps: vec![step(100.0, 1.0), step(1.0, 50.0), step(100.0, 1.0)],
            values: vec![
                flow(Origin::Host, vec![0]),
                flow(Origin::Step(0), vec![1]),
                flow(Origin::Step(1), vec![2]),
                Flow { to_host: true, ..flow(Origin::Step(2), vec![]) },
            ],
            trip: 0.0,
        };
        assert_eq!(problem.cost(&vec![true, false, true]), None);
        assert_eq!(problem.solve(), [true, true, true]);
    }

    #[test]
    fn parts_that_do_not_meet_go_their_own_ways() {
        let step = |cpu, gpu| Costs { cpu, gpu };
        let flow = |from, readers, to_host| Flow {
            from,
            readers,
            to_host,
            to_gpu: false,
            up: 1.0,
            down: 1.0,
        };
        let mut problem = Problem {
            steps: vec![step(100.0, 1.0), step(1.0, 100.0)],
            values: vec![
                flow(Origin::Host, vec![0], false),
                flow(Origin::Step(0), vec![], true),
                flow(Origin::Host, vec![1], false),
                flow(Origin::Step(1), vec![], true),
            ],
            trip: 10.0,
        };
        assert_eq!(problem.solve(), [true, false]);
        problem.trip = 1000.0;
        assert_eq!(problem.solve(), [false, false], "the trip does not pay");
    }

    #[test]
    fn where_data_lies_and_is_to_stay_pulls() {
        let flow = |from, readers| Flow {
            from,
            readers,
            to_host: false,
            to_gpu: false,
            up: 10.0,
            down: 10.0,
        };
        let problem = |from, to_host| Problem {
            steps: vec![Costs { cpu: 5.0, gpu: 6.0 }],
            values: vec![
                flow(from, vec![0]),
                Flow { to_host, to_gpu: !to_host, ..flow(Origin::Step(0), vec![]) },
            ],
            trip: 0.0,
        };
        assert_eq!(problem(Origin::Host, true).solve(), [false]);
        assert_eq!(problem(Origin::Gpu, false).solve(), [true]);
        assert_eq!(problem(Origin::Both, false).solve(), [true]);
        assert_eq!(problem(Origin::Both, true).solve(), [false]);
    }
}
