//! How often automatic placement takes the faster side, and what it costs where it does not.
//!
//! ```text
//! cargo run --release --example placement_regret -- [--quick] [--rested] [--list] [--svg file]
//! ```
//!
//! Each graph of a grid runs on the CPU and on the GPU, and by `Placement::Auto`; the published rules are asked which
//! side they would take. Times are medians of `execute`, everything compiled and planned, residents where Auto has
//! moved them; of three such where Auto is not at the better side, or at both. Where Auto takes one side whole, its
//! plan is that side's, and so is its time; other plans are timed on their own. Graphs that one side cannot hold, or is
//! predicted to work on for over a second, are left out. `--list` prints a line for each graph.
//!
//! A card whose driver lowers the clocks while it waits for the host is set to work before it is timed, for as long as it
//! had waited, as it would be for who runs the graph over and over. `--rested` leaves that out.

#[path = "../common/timing.rs"]
mod timing;

mod card;
mod grid;
mod plot;
mod report;

use std::error::Error;
use std::time::Duration;

use card::Card;
use grid::{Case, Work, cases};
use onetrip::selector::BackendSelector;
use onetrip::{Backend, Device, GpuCommandBatch, Placement, Result};
use report::{Both, Choice, Measured};
use timing::{Budget, median};

/// Of each way to run a graph: a card that was idle takes a while to be as fast as it is in use.
const BUDGET: Budget = Budget { least: 5, most: 50, time: Duration::from_millis(25) };
/// How often each is measured where Auto is not at the better side.
const ROUNDS: usize = 3;
/// Runs after which residents lie where they are read.
const SETTLING: usize = 4;
/// Predicted seconds of the slower side above which a graph is left out.
const TOO_LONG: f64 = 1.0;

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1).cloned()
    };
    // What is judged are predictions from probes alone.
    let device = Device::builder().without_learning().auto().await?;
    if !device.is_gpu() {
        return Err("there is no GPU to choose; ONETRIP_ADAPTER may name a software one".into());
    }
    println!("# {}", device.info());
    let started = std::time::Instant::now();
    let profile = device.calibrate().await?;
    println!("# calibrated in {:.3} s", started.elapsed().as_secs_f64());
    println!("# {}", profile.to_string().trim_end().replace('\n', "\n# "));
    let step = if has("--quick") { 10 } else { 1 };
    let wakes = !has("--rested") && !device.info().software;
    let mut card = wakes.then(|| Card::new(&device)).transpose()?;
    let mut measured = Vec::new();
    for case in cases().into_iter().step_by(step) {
        if let Some(one) = measure(&device, case, card.as_mut()).await? {
            if has("--list") {
                println!("{one}");
            }
            measured.push(one);
        }
    }
    if let Some(path) = after("--svg") {
        std::fs::write(path, plot::svg(&measured))?;
    }
    report::print(&measured);
    Ok(())
}

/// The rules that Auto is compared with.
fn rules() -> [(&'static str, Placement); 3] {
    [
        ("five times", Placement::FiveTimes(BackendSelector::new())),
        ("complexity", Placement::Complexity),
        ("threshold 1e5", Placement::Threshold(100_000)),
    ]
}

async fn measure(
    device: &Device,
    case: Case,
    mut card: Option<&mut Card>,
) -> Result<Option<Measured>> {
    let mut recorded = match case.work.record(device) {
        Ok(recorded) => recorded,
        Err(error) if lacks_room(&error) => return Ok(None),
        Err(error) => return Err(error),
    };
    let batch = &mut recorded.batch;
    let mut predicted = [0.0; 2];
    for (placement, seconds) in [Placement::Cpu, Placement::Gpu].iter().zip(&mut predicted) {
        batch.set_placement(*placement);
        *seconds = match batch.explain() {
            Ok(explanation) => explanation.predicted_seconds(),
            Err(error) if lacks_room(&error) => return Ok(None),
            Err(error) => return Err(error),
        };
    }
    if predicted.iter().any(|&seconds| seconds > TOO_LONG) {
        return Ok(None);
    }
    let mut rules = rules().map(|(name, placement)| (name, placement, Backend::Cpu));
    for (_, placement, side) in &mut rules {
        batch.set_placement(*placement);
        *side = batch.explain()?.backend();
    }
    batch.set_placement(Placement::Auto);
    for _ in 0..SETTLING {
        batch.execute().await?;
    }
    let explanation = batch.explain()?;
    let both = explanation.sides().iter().any(|&side| side != explanation.backend());
    let auto = Choice { backend: explanation.backend(), seconds: 0.0 };
    let mut ways = vec![Placement::Cpu, Placement::Gpu];
    ways.extend(both.then_some(Placement::Auto));
    let mut rounds: Vec<Vec<f64>> = Vec::new();
    for _ in 0..ROUNDS {
        rounds.push(in_turn(batch, &ways, card.as_deref_mut()).await?);
        let times = medians(&rounds);
        if !both && (auto.backend == Backend::Cpu) == (times[0] <= times[1]) {
            break;
        }
    }
    let times = medians(&rounds);
    let [cpu, gpu] = [times[0], times[1]];
    let predicted_of_both = explanation.predicted_seconds();
    let of_both = times.get(2).map(|&seconds| Both { predicted: predicted_of_both, seconds });
    let of = |side| if side == Backend::Cpu { cpu } else { gpu };
    Ok(Some(Measured {
        family: case.family,
        label: label(&case.work),
        size: case.size,
        cpu,
        gpu,
        predicted,
        auto: Choice { seconds: of_both.map_or(of(auto.backend), |both| both.seconds), ..auto },
        both: of_both,
        rules: rules.map(|(name, _, side)| (name, Choice { backend: side, seconds: of(side) })),
    }))
}

/// Whether a side has no room for what the graph needs.
fn lacks_room(error: &onetrip::Error) -> bool {
    use onetrip::{DeviceError, Error};
    matches!(error, Error::Device(DeviceError::OutOfMemory { .. }) | Error::Plan(_))
}

/// The median seconds of runs in each of `ways`, one after the other.
async fn in_turn(
    batch: &mut GpuCommandBatch,
    ways: &[Placement],
    mut card: Option<&mut Card>,
) -> Result<Vec<f64>> {
    let mut seconds = Vec::new();
    for &way in ways {
        batch.set_placement(way);
        let mut awake = card.as_mut().filter(|_| way != Placement::Cpu);
        if let Some(card) = &mut awake {
            card.wake().await?;
        }
        let pass = async || batch.execute().await;
        seconds.push(median(BUDGET, pass).await?.as_secs_f64());
        if let Some(card) = awake {
            card.worked();
        }
    }
    Ok(seconds)
}

/// Of each way, the median of `rounds`.
fn medians(rounds: &[Vec<f64>]) -> Vec<f64> {
    let of = |way: usize| {
        let mut seconds: Vec<f64> = rounds.iter().map(|round| round[way]).collect();
        seconds.sort_unstable_by(f64::total_cmp);
        seconds[seconds.len() / 2]
    };
    (0..rounds[0].len()).map(of).collect()
}

/// The graph in a few words.
fn label(work: &Work) -> String {
    let place = |resident: bool| if resident { ", resident" } else { "" };
    match *work {
        Work::Chain { ops, n, dear, resident } => {
            let kind = if dear { "dear " } else { "" };
            format!("{ops} {kind}ops on {n}{}", place(resident))
        }
        Work::Product { m, n, k, resident } => format!("{m}×{k}·{k}×{n}{}", place(resident)),
        Work::Mlp { batch, layers, resident } => format!("{batch}×{layers:?}{}", place(resident)),
        Work::Softmax { rows, columns, resident } => {
            format!("softmax {rows}×{columns}{}", place(resident))
        }
        Work::LayerNorm { rows, columns, resident } => {
            format!("layer norm {rows}×{columns}{}", place(resident))
        }
        Work::Sum { n, resident } => format!("sum of {n}{}", place(resident)),
        Work::SumRows { rows, columns } => format!("sums of {rows}×{columns}"),
        Work::Attention { heads, length, width, fused } => {
            let kind = if fused { "" } else { " of products" };
            format!("attention{kind} {heads}×{length}×{width}")
        }
        Work::Conv { batch, channels, side, resident } => {
            format!("conv {batch}×{channels}×{side}×{side}{}", place(resident))
        }
        Work::Apart { n, side } => format!("chain on {n} beside {side}³"),
        Work::Funnel { n, side } => format!("chain on {n} before {side}³"),
        Work::Embed { rows, ids } => format!("{ids} of {rows} rows before 1024³"),
        Work::Tail { n, side } => format!("{side}³ before chain on {n}"),
    }
}
