//! The reason for the side of each step.

use std::fmt;

use crate::base::units::seconds;
use crate::cost::{Backend, Residence};
use crate::plan::placement::chosen_by::ChosenBy;
use crate::plan::placement::split::{PartOf, SideTargets, Steps};
use crate::plan::step::Step;
use crate::plan::{Phase, Pieces, PlacedGraph, Plan, SplitPart};

/// The reason for the side of a step.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) enum Reason {
    Faster,
    /// The side was not chosen by predicted times.
    Chosen(ChosenBy),
    NoRoom(Backend),
    /// It would take less time on the other side, but handing over takes so many seconds more.
    Transfers(f64),
    /// It stands between steps on the GPU, or others would.
    SecondTrip,
    /// The seconds that would be saved are too few.
    Little(f64),
    /// The whole graph on the other side would save so many seconds, less than that side's prediction may be off.
    Tie(f64),
}

impl fmt::Display for Reason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Faster => f.write_str(&ChosenBy::Times.reason()),
            Self::Chosen(chosen_by) => f.write_str(&chosen_by.reason()),
            Self::NoRoom(side) => write!(f, "no room on the {side}"),
            Self::Transfers(time) => write!(f, "transfers would add {}", seconds(*time)),
            Self::SecondTrip => f.write_str("else a second trip"),
            Self::Little(time) => write!(f, "would save {}, too little", seconds(*time)),
            Self::Tie(time) => write!(f, "a near tie: the gpu would save {}", seconds(*time)),
        }
    }
}

/// A part of a plan, with the reason for the side of each step.
pub(super) struct PartReasons<'a> {
    pub steps: Steps<'a>,
    /// The part's phase; none for a plan that is not split.
    pub phase: Option<Phase>,
    pub reasons: Vec<Reason>,
}

/// The parts of `placed` with the reasons for the sides of their steps.
pub(super) fn parts_with_reasons<'a>(
    placed: &'a PlacedGraph,
    sides: SideTargets<'a>,
    residents: &'a [Residence],
    chosen_by: ChosenBy,
) -> Vec<PartReasons<'a>> {
    let given = match (placed.too_small, chosen_by) {
        (Some(side), _) => Some(Reason::NoRoom(side)),
        (None, ChosenBy::Times) => None,
        (None, chosen_by) => Some(Reason::Chosen(chosen_by)),
    };
    let near_tie = near_tie(placed);
    let with_reasons = |whole: &'a Plan, part: Option<PartOf<'a>>| {
        let steps = Steps { whole, sides, residents, part };
        let reasons = match given {
            Some(given) => vec![given; whole.steps.len()],
            None => reasons(&steps, near_tie),
        };
        let phase = part.map(|of| of.split.parts[of.at].phase);
        PartReasons { steps, phase, reasons }
    };
    match &placed.pieces {
        Pieces::Whole(whole) => vec![with_reasons(whole, None)],
        Pieces::Split(split) => {
            let parts = split.parts.iter().enumerate();
            let with_reasons = |(at, part): (usize, &'a SplitPart)| {
                with_reasons(&part.plan, Some(PartOf { split, at }))
            };
            parts.map(with_reasons).collect()
        }
    }
}

/// The seconds that the GPU would save, where the host was chosen all the same.
fn near_tie(placed: &PlacedGraph) -> Option<f64> {
    match &placed.sides[..] {
        [(Backend::Cpu, cpu), (Backend::Gpu, gpu)]
            if matches!(placed.pieces, Pieces::Whole(_)) && gpu.total() < cpu.total() =>
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
        let seconds = step.cost.seconds;
        let saved = seconds.on(side) - seconds.on(side.other());
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
