//! Processes that end while a driver is at work on a first run, in each way that there is: nobody may crash, or hang.
//!
//! `cargo test --test exits -- --runs 24 --verbose` makes so many of each kind and tells how each kind ended. Drivers
//! of hardware keep what they compiled on disk, whatever this crate does; `--fresh` has NVIDIA's keep nothing.

mod common;
#[cfg(all(target_os = "linux", target_env = "gnu"))]
#[path = "common/unloaded.rs"]
mod unloaded;

use std::fmt;
use std::path::Path;
use std::process::{Command, ExitCode, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use onetrip::{Device, DeviceError, Error, GpuCommandBatch, Recovery, Result, SortOrder, Tensor};

/// The ways in which a process ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// `exit` is called by the main thread, its runs under way.
    Exit,
    /// `exit` is called by another thread, its runs under way.
    ExitElsewhere,
    /// `exit` is called too, where Mesa's drivers find on disk what other processes have had compiled while they opened
    /// the device.
    ExitFound,
    /// `main` returns, its runs under way on threads that nobody waits for.
    Return,
    /// `main` returns when its runs, under way, were dropped.
    Dropped,
    /// `main` returns when its runs have ended.
    Awaited,
    /// `main` returns while the device that it opens is opened.
    Opening,
    /// `main` returns when its GPU was lost several times, the last that long ago.
    Lost,
    /// `main` returns when its runs have ended, and a thread is in a library that is unloaded then, as drivers are.
    Unloaded,
}

const ENDS: [End; 9] = [
    End::Exit,
    End::ExitElsewhere,
    End::ExitFound,
    End::Return,
    End::Dropped,
    End::Awaited,
    End::Opening,
    End::Lost,
    End::Unloaded,
];

/// The times for which runs have been under way at the end, in milliseconds: compilers take anything.
const AFTER: [u64; 6] = [0, 2, 8, 30, 100, 300];

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    let after = |name: &str| {
        let at = arguments.iter().position(|argument| argument == name)?;
        arguments.get(at + 1)?.parse::<u64>().ok()
    };
    let has = |name: &str| arguments.iter().any(|argument| argument == name);
    if let (Some(end), Some(millis)) = (after("--child"), after("--after")) {
        child(ENDS[end as usize], Duration::from_millis(millis));
        return ExitCode::SUCCESS;
    }
    if !has_adapter() {
        return ExitCode::SUCCESS;
    }
    let runs = after("--runs").unwrap_or(1);
    let bad = ENDS.map(|end| count(end, runs, has("--fresh"), has("--verbose")));
    if bad.iter().sum::<usize>() > 0 { ExitCode::FAILURE } else { ExitCode::SUCCESS }
}

/// Makes `runs` processes for each time that they may have had, and tells how they ended. Returns how many ended badly.
fn count(end: End, runs: u64, fresh: bool, verbose: bool) -> usize {
    let all = (0..runs).flat_map(|_| AFTER).map(|after| (after, spawn(end, after, fresh)));
    let (mut made, mut bad) = (0, Vec::new());
    for (after, how) in all {
        made += 1;
        match how {
            How::Ended(status) if status.success() => {}
            how => bad.push(format!("{how} after {after} ms")),
        }
    }
    if verbose || !bad.is_empty() {
        println!("{end:?}: {} of {made} ended badly: [{}]", bad.len(), bad.join(", "));
    }
    bad.len()
}

enum How {
    Ended(ExitStatus),
    Hung,
}

impl fmt::Display for How {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Ended(status) => status.fmt(f),
            Self::Hung => f.write_str("hung"),
        }
    }
}

fn spawn(end: End, after: u64, fresh: bool) -> How {
    if end != End::ExitFound {
        return run(end, after, fresh, None);
    }
    let folder = std::env::temp_dir().join(format!("onetrip-exits-{}", std::process::id()));
    let _ = run(End::Opening, 60_000, fresh, Some(&folder));
    let how = run(end, after, fresh, Some(&folder));
    let _ = std::fs::remove_dir_all(&folder);
    how
}

/// Runs a process whose driver, if it is Mesa's, keeps what it compiles in `folder`.
fn run(end: End, after: u64, fresh: bool, folder: Option<&Path>) -> How {
    const PATIENCE: Duration = Duration::from_secs(120);
    let this = std::env::current_exe().expect("the path of this program");
    let mut command = Command::new(this);
    command.args(["--child", &(end as usize).to_string(), "--after", &after.to_string()]);
    command.stdin(Stdio::null());
    if fresh {
        command.env("__GL_SHADER_DISK_CACHE", "0");
    }
    if let Some(folder) = folder {
        // The former is the name of the latter in old versions.
        command.envs(["MESA_GLSL_CACHE_DIR", "MESA_SHADER_CACHE_DIR"].map(|name| (name, folder)));
    }
    let mut child = command.spawn().expect("a process");
    let start = Instant::now();
    loop {
        if let Some(status) = child.try_wait().expect("its status") {
            return How::Ended(status);
        }
        if start.elapsed() > PATIENCE {
            let _ = child.kill();
            let _ = child.wait();
            return How::Hung;
        }
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// Returns true if there is a GPU of any kind. In CI (`CI` is set) there must be one.
fn has_adapter() -> bool {
    runtime().block_on(common::devices()).iter().any(Device::is_gpu)
}

fn runtime() -> tokio::runtime::Runtime {
    let mut builder = tokio::runtime::Builder::new_multi_thread();
    builder.worker_threads(4).enable_all().build().expect("threads")
}

fn child(end: End, after: Duration) {
    let runtime = runtime();
    if end == End::Opening {
        let opened = runtime.block_on(async { tokio::time::timeout(after, open()).await });
        drop(opened);
        return runtime.shutdown_background();
    }
    #[cfg(all(target_os = "linux", target_env = "gnu"))]
    if end == End::Unloaded {
        unloaded::load();
    }
    let device = runtime.block_on(open()).expect("the adapter that was there");
    if end == End::Lost {
        runtime.block_on(async {
            for _ in 0..4 {
                device.simulate_loss();
                let recovered = device.eval(|batch| record(batch, 0)).await;
                recovered.expect("a run on the GPU that is opened again");
            }
        });
        return std::thread::sleep(after);
    }
    let runs = (0..4).map(|kind| {
        let device = device.clone();
        let run = async move { device.eval(|batch| record(batch, kind)).await.map(drop) };
        runtime.spawn(async { done_or_ending(run.await) })
    });
    let mut runs: Vec<_> = runs.collect();
    let other = device.clone();
    runs.push(runtime.spawn(async move { done_or_ending(replace_rows(&other).await) }));
    if end == End::Awaited || end == End::Unloaded {
        return runtime.block_on(async {
            for run in runs {
                run.await.expect("no panic").expect("nothing has ended yet");
            }
        });
    }
    std::thread::sleep(after);
    match end {
        End::Exit => std::process::exit(0),
        End::ExitElsewhere | End::ExitFound => {
            std::thread::spawn(|| std::process::exit(0));
            loop {
                std::thread::park();
            }
        }
        End::Dropped => runs.iter().for_each(tokio::task::JoinHandle::abort),
        End::Return | End::Awaited | End::Opening | End::Lost | End::Unloaded => {
            runtime.shutdown_background();
        }
    }
}

/// The errors with which a run may end while the process does: anything else ends the process at once.
fn done_or_ending(result: Result<()>) -> std::result::Result<(), DeviceError> {
    match result {
        Ok(()) => Ok(()),
        Err(Error::Device(DeviceError::Ending)) => Err(DeviceError::Ending),
        Err(error) => {
            eprintln!("a run failed: {error}");
            std::process::abort();
        }
    }
}

/// A device that compiles each kernel anew.
async fn open() -> Result<Device> {
    Device::builder().without_cache().recovery(Recovery::Reopen).gpu().await
}

/// Residents that come to the device, are replaced there in part, and come back.
async fn replace_rows(device: &Device) -> Result<()> {
    const SIDE: usize = 1024;
    for row in 0..8 {
        let state = device.resident(&vec![0.5_f32; SIDE * SIDE], [SIDE, SIDE])?;
        let batch = GpuCommandBatch::new(device);
        let (old, new) = (batch.bind(&state), batch.full([1, SIDE], row as f32));
        let all = batch.replace_slice(old, new, 0, row);
        batch.update(&state, all);
        batch.execute().await?;
        state.read().await?;
    }
    Ok(())
}

/// Graphs of kernels that differ.
fn record(batch: &GpuCommandBatch, kind: usize) -> Tensor<'_, f32> {
    const SIDE: usize = 192;
    let x = batch.full([SIDE, SIDE], 0.01 * (kind + 1) as f32).cumsum((kind % 2) as isize);
    let y = match kind {
        0 => batch.matmul(x, x),
        1 => batch.sort(x, -1, SortOrder::Ascending),
        2 => batch.layer_norm(x, -1, 1e-5),
        _ => batch.softmax(x, 0),
    };
    let y = batch.softmax(y, -1);
    batch.sum(y, 0)
}
