//! A service under load: many tasks run graphs of changing sizes on one device; some runs are cancelled, some wait for
//! memory, some can never fit, and now and then the GPU is lost. Every result is compared, bit for bit, with what the
//! same graph gave alone.
//!
//! `cargo run --release --example service_soak -- --seconds 60 --tasks 64 --losses 12` loses the GPU twelve times,
//! evenly over the minute; on the host's cores there is nothing to lose. `ONETRIP_BACKEND=gpu` keeps the small graphs on
//! the GPU. The default is 10 s, 32 tasks and 3 losses. The example fails if a result was wrong, a run failed, or no run
//! met a loss. *Heartbeat* is the delay of a task that wakes every millisecond; the runtime's timer accounts for up to
//! 2 ms. The line `late` lists delays of more than 5 ms. The lines `machine` give the delay without this crate: with as
//! many cores kept busy by other tasks, and while bare wgpu opens and closes devices. Each takes `--machine N` seconds;
//! the default is a quarter of the time, at most 5 s. All lines give the time that the machine's host gave to others
//! meanwhile, if the system reports it.

#[path = "../common/flags.rs"]
mod flags;
mod graphs;
mod heart;
mod machine;
mod tally;

use std::collections::HashMap;
use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::task::Poll;
use std::time::{Duration, Instant};

use graphs::{Case, KINDS, SIZES, Service, all_cases};
use heart::heartbeat;
use machine::Computing;
use onetrip::{Device, Error, Recovery, Result, RunError};
use pico_args::Arguments;
use tally::Tally;

/// Room for a few runs at a time.
const BUDGET: u64 = 4 << 20;

/// Numbers that look random.
struct Random(u64);

impl Random {
    fn below(&mut self, limit: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 33) % limit
    }
}

/// State that all tasks share.
struct Soak {
    device: Device,
    service: Service,
    answers: HashMap<Case, Vec<u32>>,
    tally: Tally,
    end: Instant,
    /// The time at which the GPU was lost.
    losses: Mutex<Vec<Instant>>,
}

impl Soak {
    async fn new(device: Device, time: Duration) -> Result<Self> {
        let service = Service::new(&device).await?;
        let mut answers = HashMap::new();
        for case in all_cases() {
            answers.insert(case, service.run(case).await?);
        }
        let (tally, end, losses) = (Tally::default(), Instant::now() + time, Mutex::default());
        Ok(Self { device, service, answers, tally, end, losses })
    }

    /// One task of the service.
    async fn serve(&self, seed: u64) {
        let mut random = Random(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
        while Instant::now() < self.end {
            let case = (random.below(KINDS), random.below(SIZES));
            match random.below(100) {
                0 => self.ask_too_much().await,
                1..5 => self.lose_patience(case, random.below(6)).await,
                _ => self.count(case, self.service.run(case)).await,
            }
        }
    }

    /// A run that can never fit.
    async fn ask_too_much(&self) {
        let refused = self.device.eval(|b| b.arange(0.0_f32, 3e6, 1.0)).await;
        if !matches!(refused, Err(Error::Run(RunError::OverBudget { .. }))) {
            self.tally.errors.add();
        }
    }

    /// A run that is dropped after so many polls, unless it is done by then.
    async fn lose_patience(&self, case: Case, mut polls: u64) {
        let mut run = pin!(self.count(case, self.service.run(case)));
        let done = poll_fn(|context| {
            if polls == 0 {
                return Poll::Ready(false);
            }
            polls -= 1;
            run.as_mut().poll(context).map(|()| true)
        });
        if !done.await {
            self.tally.cancelled.add();
        }
    }

    async fn count(&self, case: Case, run: impl Future<Output = Result<Vec<u32>>>) {
        let start = Instant::now();
        let answer = run.await;
        self.tally.runs.add();
        self.tally.times.add(start.elapsed());
        match answer {
            Ok(answer) if answer == self.answers[&case] => {}
            Ok(_) => self.tally.wrong.add(),
            Err(error) => {
                eprintln!("{error}");
                self.tally.errors.add();
            }
        }
    }

    /// Loses the GPU, if there is one, so many times, evenly over the time that is left, or as often as there is time.
    async fn lose(&self, losses: u32) {
        if !self.device.is_gpu() {
            return;
        }
        let pause = self.end.saturating_duration_since(Instant::now()) / losses.saturating_add(1);
        for _ in 0..losses {
            tokio::time::sleep(pause).await;
            if Instant::now() >= self.end {
                return;
            }
            let device = self.device.clone();
            self.losses().push(Instant::now());
            // A driver may take its time.
            let _ = tokio::task::spawn_blocking(move || device.simulate_loss()).await;
        }
    }

    fn losses(&self) -> MutexGuard<'_, Vec<Instant>> {
        self.losses.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn live_bytes(&self) -> u64 {
        let stats = self.device.pool_stats();
        stats.gpu.live_bytes + stats.host.live_bytes
    }

    /// Bytes in use beyond `before`, once every case has run and what cancelled runs held had time to come back.
    async fn leaked(&self, before: u64) -> Result<u64> {
        for case in all_cases() {
            self.service.run(case).await?;
        }
        for _ in 0..50 {
            if self.live_bytes() <= before {
                break;
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        Ok(self.live_bytes().saturating_sub(before))
    }
}

/// The options of the command line.
struct Asked {
    seconds: u32,
    tasks: u32,
    losses: u32,
    /// Seconds of each line `machine`, if said.
    machine: Option<u32>,
}

impl Asked {
    fn on_command_line() -> std::result::Result<Self, Box<dyn std::error::Error>> {
        let mut arguments = Arguments::from_env();
        flags::help(&mut arguments, include_str!("main.rs"));
        let asked = Self {
            seconds: arguments.opt_value_from_str("--seconds")?.unwrap_or(10),
            tasks: arguments.opt_value_from_str("--tasks")?.unwrap_or(32),
            losses: arguments.opt_value_from_str("--losses")?.unwrap_or(3),
            machine: arguments.opt_value_from_str("--machine")?,
        };
        flags::nothing_else(arguments)?;
        Ok(asked)
    }
}

#[tokio::main]
async fn main() -> std::result::Result<(), Box<dyn std::error::Error>> {
    let Asked { seconds, tasks, losses, machine } = Asked::on_command_line()?;
    let builder = Device::builder().memory_budget(BUDGET).recovery(Recovery::Reopen);
    let device = builder.auto().await?;
    println!("{}", device.info());
    let time = Duration::from_secs(seconds.into());
    let soak = Arc::new(Soak::new(device, time).await?);
    let before = soak.live_bytes();
    let (done, computing) = (Arc::new(AtomicBool::new(false)), Computing::begin());
    let heart = tokio::spawn(heartbeat(Arc::clone(&done)));
    let losing = Arc::clone(&soak);
    let loser = tokio::spawn(async move { losing.lose(losses).await });
    let tasks = (1..=tasks).map(|seed| {
        let soak = Arc::clone(&soak);
        tokio::spawn(async move { soak.serve(seed.into()).await })
    });
    for task in tasks.collect::<Vec<_>>().into_iter().chain([loser]) {
        if task.await.is_err() {
            soak.tally.errors.add();
        }
    }
    done.store(true, Ordering::Relaxed);
    let beats = heart.await?;
    let load = computing.and_then(|computing| computing.load(soak.tally.runs.get()));
    let leaked = soak.leaked(before).await?;
    if let Some(load) = load {
        let quarter = time.min(Duration::from_secs(20)) / 4;
        let time = machine.map_or(quarter, |seconds| Duration::from_secs(seconds.into()));
        load.print_heartbeats(time, &soak.device.info().name).await;
    }
    let report = soak.tally.report(&soak.device, beats.latest, leaked);
    beats.print_stolen();
    beats.print_late(&soak.losses());
    println!("{report}");
    soak.tally.verdict()?;
    let lost = soak.losses().len();
    if lost > 0 && soak.device.pool_stats().losses == 0 {
        let why =
            "no run met them, as all ran on the cores; ONETRIP_BACKEND=gpu keeps runs on the GPU";
        return Err(format!("{lost} losses of the GPU: {why}").into());
    }
    Ok(())
}
