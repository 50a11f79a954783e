//! Assignments beside those that trying all of them finds.

use super::*;
use crate::cost::Backend::{Cpu, Gpu};

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
        let from = [FlowOrigin::Host, FlowOrigin::Host, FlowOrigin::Gpu, FlowOrigin::Both]
            [random.below(4) as usize];
        let value = flow(random, from);
        problem.values.push(Flow { to_host: false, to_gpu: false, ..value });
    }
    for step in 0..steps {
        let [cpu, gpu] = [(); 2].map(|()| random.below(100) as f64);
        problem.steps.push(SideSeconds { cpu, gpu });
        for _ in 0..1 + random.below(3) {
            let from = random.below(problem.values.len() as u64) as usize;
            if !problem.values[from].readers.contains(&step) {
                problem.values[from].readers.push(step);
            }
        }
        problem.values.push(flow(random, FlowOrigin::Step(step)));
    }
    problem
}

fn by_brute_force(problem: &Problem) -> Option<f64> {
    let steps = problem.steps.len();
    let assignments = (0..1_u32 << steps)
        .map(|bits| (0..steps).map(|at| [Cpu, Gpu][(bits >> at & 1) as usize]).collect());
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
        mixed += usize::from(found.contains(&Gpu) && found.contains(&Cpu));
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
        .for_each(|SideSeconds { cpu, gpu }| (*cpu, *gpu) = (*cpu * by, *gpu * by));
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

/// A value that may end anywhere, and takes as long to bring as to fetch.
fn flow(from: FlowOrigin, readers: Vec<usize>, cost: f64) -> Flow {
    Flow { from, readers, to_host: false, to_gpu: false, up: cost, down: cost }
}

#[test]
fn what_takes_forever_on_one_side_goes_to_the_other() {
    let forever = SideSeconds { cpu: f64::INFINITY, gpu: 1.0 };
    let never = SideSeconds { cpu: 1.0, gpu: f64::INFINITY };
    let value = |from, readers| Flow { to_host: true, ..flow(from, readers, 1.0) };
    let mut problem = Problem {
        steps: vec![never, forever, never],
        values: vec![
            value(FlowOrigin::Step(0), vec![1]),
            value(FlowOrigin::Step(1), vec![2]),
            value(FlowOrigin::Step(2), vec![]),
        ],
        trip: 0.5,
    };
    assert_eq!(problem.solve(), [Cpu, Gpu, Cpu]);
    assert_eq!(problem.cost(&[Cpu, Gpu, Cpu]), Some(5.5));
    problem.values[0].up = f64::INFINITY;
    assert_eq!(problem.solve(), [Cpu; 3], "nothing takes less than forever");
    assert!(Problem::default().solve().is_empty());
}

#[test]
fn nothing_on_the_host_stands_between_two_on_the_gpu() {
    // Three in a row, the middle one far cheaper on the host, and transfers that cost nothing.
    let step = |cpu, gpu| SideSeconds { cpu, gpu };
    let flow = |from, readers| flow(from, readers, 0.0);
    let problem = Problem {
        steps: vec![step(100.0, 1.0), step(1.0, 50.0), step(100.0, 1.0)],
        values: vec![
            flow(FlowOrigin::Host, vec![0]),
            flow(FlowOrigin::Step(0), vec![1]),
            flow(FlowOrigin::Step(1), vec![2]),
            Flow { to_host: true, ..flow(FlowOrigin::Step(2), vec![]) },
        ],
        trip: 0.0,
    };
    assert_eq!(problem.cost(&[Gpu, Cpu, Gpu]), None);
    assert_eq!(problem.solve(), [Gpu, Gpu, Gpu]);
}

#[test]
fn parts_that_do_not_meet_go_their_own_ways() {
    let step = |cpu, gpu| SideSeconds { cpu, gpu };
    let flow = |from, readers, to_host| Flow { to_host, ..flow(from, readers, 1.0) };
    let mut problem = Problem {
        steps: vec![step(100.0, 1.0), step(1.0, 100.0)],
        values: vec![
            flow(FlowOrigin::Host, vec![0], false),
            flow(FlowOrigin::Step(0), vec![], true),
            flow(FlowOrigin::Host, vec![1], false),
            flow(FlowOrigin::Step(1), vec![], true),
        ],
        trip: 10.0,
    };
    assert_eq!(problem.solve(), [Gpu, Cpu]);
    problem.trip = 1000.0;
    assert_eq!(problem.solve(), [Cpu, Cpu], "the trip does not pay");
}

#[test]
fn where_data_lies_and_is_to_stay_pulls() {
    let flow = |from, readers| flow(from, readers, 10.0);
    let problem = |from, to_host| Problem {
        steps: vec![SideSeconds { cpu: 5.0, gpu: 6.0 }],
        values: vec![
            flow(from, vec![0]),
            Flow { to_host, to_gpu: !to_host, ..flow(FlowOrigin::Step(0), vec![]) },
        ],
        trip: 0.0,
    };
    assert_eq!(problem(FlowOrigin::Host, true).solve(), [Cpu]);
    assert_eq!(problem(FlowOrigin::Gpu, false).solve(), [Gpu]);
    assert_eq!(problem(FlowOrigin::Both, false).solve(), [Gpu]);
    assert_eq!(problem(FlowOrigin::Both, true).solve(), [Cpu]);
}
