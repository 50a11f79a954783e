//! Statistics of automatic placement: the share of graphs that it puts on the faster side, and the cost of the others.
//!
//! ```text
//! cargo run --release --example placement_regret -- [--quick] [--untaught] [--rested] [--list] [--svg file]
//! ```
//!
//! Each graph of a grid runs by `Placement::Auto` first, on a device that learns, as users have it: up to 72 runs, in
//! which near ties are tried on both sides and residents go where they are read. Then it is timed on the CPU, on the
//! GPU and by Auto, in turn: in each of five rounds some runs each way, the first of which does not count. Times are
//! medians of `execute` over all rounds. The published rules are asked which side they would take. Graphs that one side
//! cannot hold, or is predicted to work on for over two seconds, are left out. `--list` prints a line for each graph.
//!
//! If all of Auto's timed runs were on one side, its time is that side's. They are runs of one plan, and the difference
//! of two medians of it says nothing of the choice. Otherwise (graphs split over both sides, or that Auto moved
//! meanwhile) it is the median of its own runs. The line before the last has Auto's own runs everywhere.
//!
//! `--untaught` judges predictions from probes alone: the device learns nothing and tries nothing.
//!
//! The driver of some cards lowers the clocks while the card waits for the host. Such a card is set to work before it
//! is timed, for as long as it had waited. So it would be for a program that runs the graph over and over. `--rested`
//! leaves that out.

mod card;
#[path = "../common/flags.rs"]
mod flags;
mod grid;
mod plot;
mod report;
mod rounds;

use std::error::Error;

use card::Card;
use grid::{Case, Work, cases};
use onetrip::selector::BackendSelector;
use onetrip::{Backend, Device, GpuCommandBatch, Placement, Result};
use pico_args::Arguments;
use report::{Both, Choice, Measured, Teaching};
use rounds::{Rounds, Took, median, settle};

/// Predicted seconds of the slower side above which a graph is left out.
const TOO_LONG: f64 = 2.0;
const HOW: &str =
    "leave ONETRIP_BACKEND out, and name the adapter in ONETRIP_ADAPTER if it is a software one";

#[tokio::main(flavor = "current_thread")]
async fn main() -> std::result::Result<(), Box<dyn Error>> {
    let mut arguments = Arguments::from_env();
    flags::help(&mut arguments, include_str!("main.rs"));
    let [untaught, quick, rested, list] =
        ["--untaught", "--quick", "--rested", "--list"].map(|name| arguments.contains(name));
    let plot: Option<String> = arguments.opt_value_from_str("--svg")?;
    flags::nothing_else(arguments)?;
    let teaching = if untaught { Teaching::None } else { Teaching::Runs };
    let builder = match teaching {
        Teaching::None => Device::builder().without_learning(),
        Teaching::Runs => Device::builder(),
    };
    let device = builder.auto().await?;
    if !device.is_gpu() {
        return Err(format!("there is no GPU to choose; {HOW}").into());
    }
    if std::env::var("ONETRIP_BACKEND").is_ok_and(|side| side.eq_ignore_ascii_case("gpu")) {
        return Err(format!("there is one side only; {HOW}").into());
    }
    println!("# {}", device.info());
    let started = std::time::Instant::now();
    let profile = device.calibrate().await?;
    println!("# calibrated in {:.3} s", started.elapsed().as_secs_f64());
    println!("# {}", profile.to_string().trim_end().replace('\n', "\n# "));
    let step = if quick { 10 } else { 1 };
    let wakes = !rested && !device.info().software;
    let mut card = wakes.then(|| Card::new(&device)).transpose()?;
    let mut measured = Vec::new();
    for case in cases().into_iter().step_by(step) {
        if let Some(one) = measure(&device, case, card.as_mut()).await? {
            if list {
                println!("{one}");
            }
            measured.push(one);
        }
    }
    if let Some(path) = plot {
        std::fs::write(path, plot::svg(&measured))?;
    }
    let learned = device.profile().learned.to_string();
    if !learned.is_empty() {
        println!("# {}", learned.trim_end().replace('\n', "\n# "));
    }
    report::print(&measured, teaching);
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

/// Runs the graph every way, unless one side has no room for it or takes too long.
async fn measure(
    device: &Device,
    case: Case,
    mut card: Option<&mut Card>,
) -> Result<Option<Measured>> {
    let Some(mut recorded) = in_room(case.work.record(device))? else { return Ok(None) };
    let batch = &mut recorded.batch;
    let Some(predicted) = in_room(predicted(batch))? else { return Ok(None) };
    if predicted.iter().any(|&seconds| seconds > TOO_LONG) {
        return Ok(None);
    }
    let ruled = ruled(batch)?;
    batch.set_placement(Placement::Auto);
    if let Some(card) = card.as_deref_mut() {
        card.wake().await?;
    }
    let was_tried = settle(batch).await?;
    if let Some(card) = card.as_deref_mut() {
        card.worked();
    }
    let rounds = Rounds::of(batch, predicted, card).await?;
    batch.set_placement(Placement::Auto);
    let predicted_of_auto = batch.explain()?.predicted_seconds();
    let [cpu, gpu, own] = [&rounds.cpu, &rounds.gpu, &rounds.auto].map(|times| median(times));
    let on = |backend| Choice { backend, seconds: if backend == Backend::Cpu { cpu } else { gpu } };
    let auto = match rounds.took {
        Took::Side(side) => on(side),
        // The side does not matter here.
        Took::Both | Took::Several => Choice { backend: Backend::Gpu, seconds: own },
    };
    let both = Both { predicted: predicted_of_auto, seconds: own };
    Ok(Some(Measured {
        family: case.family,
        label: label(&case.work),
        size: case.size,
        cpu,
        gpu,
        predicted,
        auto,
        own: Choice { seconds: own, ..auto },
        was_tried,
        both: (rounds.took == Took::Both).then_some(both),
        rules: ruled.map(|(name, side)| (name, on(side))),
    }))
}

/// Predicted seconds on the CPU and on the GPU.
fn predicted(batch: &GpuCommandBatch) -> Result<[f64; 2]> {
    let mut predicted = [0.0; 2];
    for (side, seconds) in [Placement::Cpu, Placement::Gpu].into_iter().zip(&mut predicted) {
        batch.set_placement(side);
        *seconds = batch.explain()?.predicted_seconds();
    }
    Ok(predicted)
}

/// The side that each rule takes.
fn ruled(batch: &GpuCommandBatch) -> Result<[(&'static str, Backend); 3]> {
    let mut ruled = rules().map(|(name, _)| (name, Backend::Cpu));
    for ((_, placement), (_, side)) in rules().into_iter().zip(&mut ruled) {
        batch.set_placement(placement);
        *side = batch.explain()?.backend();
    }
    Ok(ruled)
}

/// `None` where a side has no room for what the graph needs.
fn in_room<T>(result: Result<T>) -> Result<Option<T>> {
    use onetrip::{DeviceError, Error};
    match result {
        Ok(value) => Ok(Some(value)),
        Err(Error::Device(DeviceError::OutOfMemory { .. }) | Error::Plan(_)) => Ok(None),
        Err(error) => Err(error),
    }
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
