//! Timing of a graph: each way in turn, so that the clocks are the same for all.

use std::time::{Duration, Instant};

use onetrip::{Backend, GpuCommandBatch, Placement, Result, RunStats};

use crate::card::Card;

/// The time for which each way is timed in each round.
#[derive(Clone, Copy)]
struct Budget {
    least: usize,
    most: usize,
    time: Duration,
}

const BUDGET: Budget = Budget { least: 2, most: 12, time: Duration::from_millis(6) };
const ROUNDS: usize = 5;
/// Predicted seconds from which on graphs are timed less often: none of these is tried.
const LONG: f64 = 0.05;
const BUDGET_OF_LONG: Budget = Budget { least: 1, ..BUDGET };
const ROUNDS_OF_LONG: usize = 3;
/// Runs after which Auto knows which side is faster, and residents lie where they are read; the fewest are enough for
/// the residents, where runs take so long.
const SETTLING: usize = 72;
const LEAST_SETTLING: usize = 4;
const SETTLING_TIME: Duration = Duration::from_millis(500);

/// The sides that runs took.
#[derive(Clone, Copy, PartialEq)]
pub enum Took {
    Side(Backend),
    Both,
    /// Not all of them at the same place.
    Several,
}

impl Took {
    fn of(stats: &RunStats) -> Self {
        match stats.backend {
            Some(Backend::Gpu) if stats.dispatches_on_cpu > 0 => Self::Both,
            backend => Self::Side(backend.unwrap_or(Backend::Cpu)),
        }
    }

    fn and(self, other: Self) -> Self {
        if self == other { self } else { Self::Several }
    }
}

/// Runs until Auto has settled. Whether it tried more than one way.
pub async fn settle(batch: &GpuCommandBatch) -> Result<bool> {
    let (start, mut took) = (Instant::now(), None);
    for run in 0..SETTLING {
        if run >= LEAST_SETTLING && start.elapsed() > SETTLING_TIME {
            break;
        }
        batch.execute().await?;
        let here = Took::of(&batch.stats());
        took = Some(took.map_or(here, |took: Took| took.and(here)));
    }
    Ok(took == Some(Took::Several))
}

/// The seconds of all runs that count.
pub struct Rounds {
    pub cpu: Vec<f64>,
    pub gpu: Vec<f64>,
    pub auto: Vec<f64>,
    /// The sides of Auto's runs.
    pub took: Took,
}

impl Rounds {
    /// Times the graph in turn on the CPU, on the GPU and by Auto, which has settled.
    pub async fn of(
        batch: &GpuCommandBatch,
        predicted: [f64; 2],
        mut card: Option<&mut Card>,
    ) -> Result<Self> {
        let is_long = predicted.iter().any(|&seconds| seconds > LONG);
        let (budget, rounds) =
            if is_long { (BUDGET_OF_LONG, ROUNDS_OF_LONG) } else { (BUDGET, ROUNDS) };
        let [mut cpu, mut gpu, mut auto] = [const { Vec::new() }; 3];
        let mut took = None;
        for _ in 0..rounds {
            for (way, seconds) in [
                (Placement::Cpu, &mut cpu),
                (Placement::Gpu, &mut gpu),
                (Placement::Auto, &mut auto),
            ] {
                batch.set_placement(way);
                let mut awake = card.as_mut().filter(|_| way != Placement::Cpu);
                if let Some(card) = &mut awake {
                    card.wake().await?;
                }
                let here = time(batch, budget, seconds).await?;
                if way == Placement::Auto {
                    took = Some(took.map_or(here, |took: Took| took.and(here)));
                }
                if let Some(card) = awake {
                    card.worked();
                }
            }
        }
        Ok(Self { cpu, gpu, auto, took: took.unwrap_or(Took::Several) })
    }
}

/// Runs until the budget is spent, adds the seconds of all runs but the first, and says where they were.
async fn time(batch: &GpuCommandBatch, budget: Budget, seconds: &mut Vec<f64>) -> Result<Took> {
    batch.execute().await?;
    let mut took = Took::of(&batch.stats());
    let start = Instant::now();
    for run in 0..budget.most {
        if run >= budget.least && start.elapsed() >= budget.time {
            break;
        }
        let begun = Instant::now();
        batch.execute().await?;
        seconds.push(begun.elapsed().as_secs_f64());
        took = took.and(Took::of(&batch.stats()));
    }
    Ok(took)
}

pub fn median(seconds: &[f64]) -> f64 {
    let mut seconds = seconds.to_vec();
    seconds.sort_unstable_by(f64::total_cmp);
    seconds[seconds.len() / 2]
}
