//! The table at the end of an explanation: the time of each step on both sides, the reason for its side, and each
//! transfer.

use std::fmt::{self, Write as _};

use crate::base::units::{bytes, seconds};
use crate::cost::{Backend, Residence};
use crate::plan::place::chooser::Chooser;
use crate::plan::place::split::{PartOf, SideTargets, Steps};
use crate::plan::step::Step;
use crate::plan::value::Home;
use crate::plan::value::ValueId;
use crate::plan::{Phase, Placed, Planned};

/// Why a step runs where it does.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Reason {
    Faster,
    /// The side was not chosen by predicted times.
    Chosen(Chooser),
    NoRoom(Backend),
    /// It would take less time on the other side, but handing over takes so many seconds more.
    Transfers(f64),
    /// It stands between steps on the GPU, or others would.
    SecondTrip,
    /// So many seconds would be saved.
    Little(f64),
    /// The whole graph on the other side would save so many seconds, less than that side's prediction may be off.
    Tie(f64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faster => f.write_str(&Chooser::Times.reason()),
            Self::Chosen(chooser) => f.write_str(&chooser.reason()),
            Self::NoRoom(side) => write!(f, "no room on the {side}"),
            Self::Transfers(time) => write!(f, "transfers would add {}", seconds(*time)),
            Self::SecondTrip => f.write_str("else a second trip"),
            Self::Little(time) => write!(f, "would save {}, too little", seconds(*time)),
            Self::Tie(time) => write!(f, "a near tie: the gpu would save {}", seconds(*time)),
        }
    }
}

/// Prints the time of each step on both sides, the reason for its side, and each transfer.
pub(super) fn table(
    page: &mut String,
    placed: &Placed,
    sides: SideTargets<'_>,
    residents: &[Residence],
    chooser: Chooser,
) {
    let given = match (placed.too_small, chooser) {
        (Some(side), _) => Some(Reason::NoRoom(side)),
        (None, Chooser::Times) => None,
        (None, chooser) => Some(Reason::Chosen(chooser)),
    };
    let _ = writeln!(page, "  {:34} {:12} {:>8} {:>8}  why", "predicted", "side", "cpu", "gpu");
    let parts: Vec<(Steps<'_>, &str)> = match &placed.planned {
        Planned::Whole(whole) => {
            let side = if whole.backend == Backend::Cpu { "cpu" } else { "gpu" };
            vec![(Steps { whole, sides, residents, part: None }, side)]
        }
        Planned::Split(split) => {
            let parts = split.parts.iter().enumerate().map(|(at, part)| {
                let of = Some(PartOf { split, at });
                (Steps { whole: &part.plan, sides, residents, part: of }, column(part.phase))
            });
            parts.collect()
        }
    };
    let near_tie = near_tie(placed);
    for (steps, side) in &parts {
        let plan = steps.whole;
        let reasons = || reasons(steps, near_tie);
        let why = given.map_or_else(reasons, |given| vec![given; plan.steps.len()]);
        for (at, (step, why)) in plan.steps.iter().zip(why).enumerate() {
            let name = shortened(&format!("{}. {}", at + 1, step.label()));
            let [cpu, gpu] = [step.cost.cpu_seconds, step.cost.gpu_seconds].map(seconds);
            let _ = writeln!(page, "  {name:34} {side:12} {cpu:>8} {gpu:>8}  {why}");
        }
    }
    parts.iter().for_each(|(steps, _)| transfers(page, steps));
}

fn column(phase: Phase) -> &'static str {
    match phase {
        Phase::Gpu => "gpu",
        Phase::Before => "cpu, before",
        Phase::Beside => "cpu, beside",
        Phase::After => "cpu, after",
    }
}

/// The name, cut to the width of its column.
fn shortened(name: &str) -> String {
    const MOST: usize = 34;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST - 1).chain(['…']).collect()
}

/// The seconds that the GPU would save, where the host was chosen all the same.
fn near_tie(placed: &Placed) -> Option<f64> {
    match &placed.sides[..] {
        [(Backend::Cpu, cpu), (Backend::Gpu, gpu)]
            if matches!(placed.planned, Planned::Whole(_)) && gpu.total() < cpu.total() =>
        {
            Some(cpu.total() - gpu.total())
        }
        _ => None,
    }
}

/// The reason for the side of each step, in a plan chosen by predicted times: the cost of moving the step alone, unless
/// there was a near `tie`.
fn reasons(steps: &Steps<'_>, tie: Option<f64>) -> Vec<Reason> {
    let side = steps.whole.backend;
    let problem = steps.problem();
    let mut sides = vec![side; steps.whole.steps.len()];
    let now = problem.cost(&sides).unwrap_or(f64::INFINITY);
    let mut reason = |(at, step): (usize, &Step)| {
        let (cpu, gpu) = (step.cost.cpu_seconds, step.cost.gpu_seconds);
        let saved = if side == Backend::Gpu { gpu - cpu } else { cpu - gpu };
        if saved <= 0.0 {
            return Reason::Faster;
        }
        if let Some(saved) = tie {
            return Reason::Tie(saved);
        }
        sides[at] = side.other();
        let moved = problem.cost(&sides);
        sides[at] = side;
        let Some(moved) = moved else { return Reason::SecondTrip };
        let handed_over = moved - now + saved;
        if moved >= now { Reason::Transfers(handed_over) } else { Reason::Little(now - moved) }
    };
    steps.whole.steps.iter().enumerate().map(&mut reason).collect()
}

/// Prints the uploads and the downloads of a plan for the GPU.
fn transfers(page: &mut String, steps: &Steps<'_>) {
    let Steps { whole: plan, sides, part, .. } = *steps;
    if plan.backend != Backend::Gpu {
        return;
    }
    let (mut uploads, mut made, mut results, mut handed) = (vec![], vec![], vec![], vec![]);
    for (value, at) in plan.values.iter().zip(0..) {
        let id = ValueId(at);
        if let Home::Upload { input, .. } = value.home {
            let maker = part.and_then(|part| part.maker(input));
            if maker.is_some() { &mut made } else { &mut uploads }.push(id);
        }
        if plan.downloads.contains(&id) {
            let is_result = part.is_none_or(|part| part.is_result(id));
            if is_result { &mut results } else { &mut handed }.push(id);
        }
    }
    let size = |id: &ValueId| plan.values[id.index()].bytes(&sides.gpu.limits);
    let prediction = plan.predicted(sides.gpu);
    let (up, down) = ((prediction.up, plan.bytes_up), (prediction.down, plan.bytes_down));
    let all = [
        ("upload", uploads, up),
        ("cpu → gpu", made, up),
        ("gpu → cpu", handed, down),
        ("download", results, down),
    ];
    for (what, values, (time, together)) in all.iter().filter(|(_, values, _)| !values.is_empty()) {
        let moved: u64 = values.iter().map(size).sum();
        // Values that go together share the time by size.
        let share = if *together == 0 { 0.0 } else { moved as f64 / *together as f64 };
        let names: Vec<String> = values.iter().map(|id| format!("v{}", id.0)).collect();
        let name = shortened(&format!("{what} {}", names.join(", ")));
        let (moved, time) = (bytes(moved), seconds(time * share));
        let _ = writeln!(page, "  {name:34} {moved:12} {:>8} {time:>8}", "");
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::{GpuCommandBatch, Tensor};
    use crate::cost::{Curve, Placement};
    use crate::device::Device;
    use crate::plan::place::tests::{divided, targets};
    use crate::plan::{Explanation, Target, place};

    /// The explanation of a product of 64² and the operations that follow.
    fn page(
        targets: &[Target],
        placement: Placement,
        room: Option<u64>,
        follow: impl for<'b> Fn(Tensor<'b, f32>),
    ) -> String {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_shaped(vec![0.0_f32; 64 * 64], [64, 64]);
        follow(x.matmul(x));
        let placed =
            place(&batch.recorded().graph, targets, &placement, None, &[], room).expect("a plan");
        let chooser = match placement {
            Placement::Auto => Chooser::Times,
            placement => Chooser::Asked(placement),
        };
        Explanation::new(placed, targets, Some(chooser), &[]).to_string()
    }

    /// The line of the table that begins with `name`, without repeated spaces.
    fn line(page: &str, name: &str) -> String {
        let table = page.split("why\n").nth(1).expect("a table");
        let line = table.lines().find(|line| line.trim_start().starts_with(name)).expect(name);
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn sum(h: Tensor<'_, f32>) {
        h.sum(1);
    }

    #[test]
    fn a_step_stays_where_its_transfers_would_cost_more_than_it_saves() {
        let mut targets = divided();
        for target in &mut targets {
            let profile = Arc::make_mut(&mut target.profile);
            (profile.gpu.reduce, profile.gpu.download) = (Curve::flat(1e9), Curve::flat(1e6));
        }
        let page = page(&targets, Placement::Auto, None, sum);
        assert!(line(&page, "1. matmul").ends_with("no slower here"), "{page}");
        // 4 µs are saved; 16 KiB less 256 B at 1 MB/s, 16.1 ms, are not worth it.
        assert!(line(&page, "2. sum").ends_with("transfers would add 16.1 ms"), "{page}");
        assert_eq!(line(&page, "upload"), "upload v0 16.0 KiB 0 ns", "{page}");
        assert_eq!(line(&page, "download"), "download v2 256 B 256 µs", "{page}");
    }

    #[test]
    fn a_near_tie_goes_to_the_host_and_says_so() {
        let near = page(&targets(1.1, 1.0), Placement::Auto, None, sum);
        for step in ["1. matmul", "2. sum"] {
            let said = line(&near, step);
            assert!(said.ends_with("1.1 s 1.0 s a near tie: the gpu would save 200 ms"), "{near}");
        }
        let far = page(&targets(1.0, 1.1), Placement::Auto, None, sum);
        assert!(line(&far, "1. matmul").ends_with("no slower here"), "{far}");
    }

    #[test]
    fn a_step_between_two_on_the_gpu_stays_there() {
        let mut targets = divided();
        for target in &mut targets {
            Arc::make_mut(&mut target.profile).gpu.row = Curve::flat(1e9);
        }
        let page = page(&targets, Placement::Auto, None, |h| {
            let y = h.softmax(1);
            y.matmul(y);
        });
        assert!(line(&page, "2. softmax").ends_with("else a second trip"), "{page}");
    }

    #[test]
    fn what_was_asked_for_or_has_no_room_says_so() {
        let free = targets(1e-6, 2e-6);
        let asked = page(&free, Placement::Gpu, None, sum);
        let said = line(&asked, "2. sum");
        assert_eq!(said, "2. sum gpu 1.0 µs 2.0 µs asked for", "{asked}");
        let ruled = page(&free, Placement::Threshold(1), None, sum);
        assert!(line(&ruled, "1. matmul").ends_with("by the rule"), "{ruled}");
        let small = page(&targets(2e-6, 1e-6), Placement::Auto, Some(40_000), sum);
        assert!(line(&small, "1. matmul").ends_with("no room on the gpu"), "{small}");
        let alone = page(&free[..1], Placement::Auto, None, sum);
        assert!(!alone.contains("why") && !alone.contains("gpu"), "{alone}");
    }

    #[test]
    fn parts_say_what_they_hand_over() {
        let page = page(&divided(), Placement::Auto, None, |h| _ = h.softmax(1));
        assert!(line(&page, "1. matmul").contains(" gpu "), "{page}");
        assert!(line(&page, "1. softmax").contains(" cpu, after "), "{page}");
        assert_eq!(line(&page, "gpu → cpu"), "gpu → cpu v1 16.0 KiB 0 ns", "{page}");
        assert!(page.ends_with("0 ns\n"), "nothing is downloaded by the user: {page}");
    }
}
