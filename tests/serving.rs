//! Guarantees for a service: runs that wait, end early, are dropped at any point, and lose nothing.

mod common;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::task::Poll;
use std::time::Duration;

use onetrip::{
    BufferId, Device, Error, GpuCommandBatch, Input, Program, Recovery, Resident, RunError,
};

const SIDE: usize = 96;

/// x·x·x of a matrix, and its input; with it, the answer for the identity times `scale`.
async fn cube(device: &Device) -> (Program, BufferId<f32>, BufferId<f32>) {
    let batch = GpuCommandBatch::new(device);
    let x = batch.input::<f32>("x", [SIDE, SIDE]);
    let y = batch.matmul(x, x).matmul(x);
    (batch.compile().await.expect("a sound graph"), x.id(), y.id())
}

fn scaled_identity(scale: f32) -> Vec<f32> {
    identity(SIDE, scale)
}

fn identity(side: usize, scale: f32) -> Vec<f32> {
    (0..side * side).map(|at| if at % (side + 1) == 0 { scale } else { 0.0 }).collect()
}

/// Room for one run of [`cube`] on either side, and not for two.
const BUDGET: u64 = 220_000;

/// The devices with room for one run at a time.
async fn small_devices() -> Vec<Device> {
    let builder = || Device::builder().without_cache().memory_budget(BUDGET);
    let mut devices = vec![builder().cpu().expect("no profile")];
    if common::gpu().await.is_some() {
        devices.push(builder().gpu().await.expect("the adapter that was there"));
    }
    devices
}

/// Polls `future` at most `times` times, then drops it; whether it was done by then.
async fn polled(future: impl Future, times: usize) -> bool {
    let mut future = pin!(future);
    for _ in 0..times {
        if poll_fn(|context| Poll::Ready(future.as_mut().poll(context).is_ready())).await {
            return true;
        }
        tokio::task::yield_now().await;
    }
    false
}

/// Waits until `condition` holds.
async fn until(what: &str, condition: impl Fn() -> bool) {
    for _ in 0..2_000 {
        if condition() {
            return;
        }
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    panic!("never: {what}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_past_the_budget_wait_and_are_all_made() {
    for device in small_devices().await {
        let (program, x, y) = cube(&device).await;
        let tasks = (1..=24).map(|task| {
            let program = program.clone();
            tokio::spawn(async move {
                let data = scaled_identity(task as f32);
                let outputs = program.run([(x, &data)]).await.unwrap();
                let cube = (task * task * task) as f32;
                assert_eq!(outputs.read(y).await.unwrap(), scaled_identity(cube), "task {task}");
            })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
    }
}

#[tokio::test]
async fn what_never_fits_is_an_error_at_once() {
    for device in small_devices().await {
        let batch = GpuCommandBatch::new(&device);
        batch.full([300, 300], 1.0_f32).exp().download();
        let error = batch.execute().await.unwrap_err();
        let text = error.to_string();
        assert!(text.contains("the run that makes exp (at tests/serving.rs:"), "{text}");
        let Error::Run(RunError::OverBudget { needs, budget, .. }) = error else {
            panic!("{text}")
        };
        assert!(needs >= 4 * 300 * 300 && budget == BUDGET, "{error}");
        let metrics = device.metrics();
        assert_eq!((metrics.failed, metrics.faults, metrics.cancelled), (1, 0, 0), "{metrics:?}");
    }
}

#[tokio::test]
async fn a_program_that_never_fits_the_budget_is_refused_when_it_is_compiled() {
    let device = Device::builder().without_cache().memory_budget(1 << 20).cpu().unwrap();
    let batch = GpuCommandBatch::new(&device);
    batch.input::<f32>("x", 1 << 20).exp().download();
    let error = batch.compile().await.unwrap_err();
    let text = error.to_string();
    assert!(text.contains("the run that makes exp (at tests/serving.rs:"), "{text}");
    let Error::Run(RunError::OverBudget { needs, budget, .. }) = error else { panic!("{text}") };
    assert!(needs >= 4 << 20 && budget == 1 << 20, "{text}");
}

#[tokio::test]
async fn what_a_program_compiles_is_counted_before_its_first_run() {
    let Some(device) = common::gpu().await else { return };
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 3);
    // A kernel that no other test has.
    let y = (x.erf().tanh().mish() + 0.125).selu();
    let program = batch.compile().await.unwrap();
    let compiled = device.metrics();
    assert_eq!(compiled.pipelines_compiled, 1);
    assert!(compiled.compile_nanoseconds > 0);

    let outputs = program.run([(x, &[1.0, -2.0, 3.0])]).await.unwrap();
    assert_eq!((outputs.read(y).await.unwrap().len(), outputs.stats().pipelines_compiled), (3, 0));
    let metrics = device.metrics();
    assert_eq!(metrics.pipelines_compiled, 1);
    assert_eq!(metrics.compile_nanoseconds, compiled.compile_nanoseconds);

    let page = metrics.to_prometheus();
    let value = |name: &str| {
        let line = page.lines().find_map(|line| line.strip_prefix(name)).expect(name);
        line.trim().parse::<f64>().unwrap()
    };
    let seconds = value("onetrip_compile_seconds_total ");
    assert!((seconds - metrics.compile_nanoseconds as f64 * 1e-9).abs() < 1e-12, "{seconds}");
    assert!(value("onetrip_run_seconds_total ") > 0.0);
    assert_eq!(value("onetrip_pipelines_compiled_total "), 1.0);
}

#[tokio::test]
async fn metrics_print_which_times_are_sums_over_runs() {
    let device = Device::builder().without_cache().cpu().unwrap();
    for _ in 0..2 {
        device.eval(|b| b.arange(0.0_f32, 4.0, 1.0).exp()).await.unwrap();
    }
    let metrics = device.metrics();
    let text = metrics.to_string();
    let sums = "\nfirst copy to last result, summed over runs, overlapping ones too: ";
    let (_, times) = text.split_once(sums).expect(&text);
    let times = times.lines().next().unwrap();
    assert!(times.contains("(predicted ") && !times.contains("budget"), "no run waits: {text}");
    let page = metrics.to_prometheus();
    let sums = "summed over runs, overlapping ones too, in seconds.";
    for name in ["run", "wait"] {
        let help = format!("# HELP onetrip_{name}_seconds_total ");
        let help = page.lines().find(|line| line.starts_with(&help)).expect(&page);
        assert!(help.ends_with(sums), "{help}");
    }
}

/// A program whose runs take turns, as they replace what they read, and take more than a moment: the state times the
/// identity, twelve times, plus 1.
async fn counter(device: &Device) -> (Program, Resident<f32>) {
    let state = device.resident(&[0.0_f32; 256 * 256], [256, 256]).expect("room");
    let batch = GpuCommandBatch::new(device);
    let mut y = batch.bind(&state);
    let identity = identity(256, 1.0);
    let identity = batch.upload_shaped(identity, [256, 256]);
    for _ in 0..12 {
        y = batch.matmul(y, identity);
    }
    y = batch.add_scalar(y, 1.0);
    batch.update(&state, y);
    (batch.compile().await.expect("a sound graph"), state)
}

#[tokio::test]
async fn runs_end_at_their_deadline_and_when_told_to() {
    const NONE: [Input<'static>; 0] = [];
    for device in common::devices().await {
        let (program, state) = counter(&device).await;
        program.run(NONE).await.unwrap();
        {
            // Nobody polls it on, so nobody else's turn comes.
            let mut stalled = pin!(program.run(NONE));
            let first = poll_fn(|context| Poll::Ready(stalled.as_mut().poll(context))).await;
            assert!(first.is_pending(), "{device:?}: it takes longer than that");
            let limit = Duration::from_millis(20);
            let error = program.run_within(limit, NONE).await.unwrap_err();
            let Error::Run(RunError::Deadline { of, limit: told }) = &error else {
                panic!("{error}")
            };
            assert_eq!((of.op, *told), ("add_scalar", limit), "{error}");
            assert!(of.place.file().ends_with("serving.rs"), "{error}");
            let metrics = device.metrics();
            assert_eq!((metrics.cancelled, metrics.late), (0, 1), "it waited for its turn");
            let error = program.run_unless(async {}, NONE).await.unwrap_err();
            assert!(matches!(error, Error::Run(RunError::Cancelled)), "{error}");
            assert_eq!((device.metrics().cancelled, device.metrics().late), (1, 1));
        }
        assert_eq!(state.read().await.unwrap()[0], 1.0, "a dropped run leaves the state");
        program.run_within(Duration::from_secs(600), NONE).await.unwrap();
        program.run_unless(std::future::pending(), NONE).await.unwrap();
        assert!(state.read().await.unwrap().iter().all(|&count| count == 3.0));
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn what_dropped_runs_held_comes_back() {
    for device in small_devices().await {
        let (program, x, y) = cube(&device).await;
        let data = scaled_identity(3.0);
        drop(program.run([(x, &data)]).await.unwrap());
        let live = |device: &Device| {
            let stats = device.pool_stats();
            stats.gpu.live_bytes + stats.host.live_bytes
        };
        until("the first run is over", || live(&device) < 2 * BUDGET).await;
        let before = live(&device);
        let tasks = (0..200).map(|task| {
            let (program, data) = (program.clone(), data.clone());
            tokio::spawn(async move { polled(program.run([(x, &data)]), task % 7).await })
        });
        for task in tasks.collect::<Vec<_>>() {
            task.await.unwrap();
        }
        // The budget is free again, since a run fits; and so is the memory.
        let outputs = program.run([(x, &data)]).await.unwrap();
        assert_eq!(outputs.read(y).await.unwrap(), scaled_identity(27.0));
        drop(outputs);
        until("all memory is back", || live(&device) <= before).await;
        device.trim();
        let stats = device.pool_stats();
        assert_eq!((stats.gpu.idle_bytes, stats.host.idle_bytes), (0, 0), "{stats:?}");
        assert!(stats.plan_misses >= 1 && stats.plans >= 1, "{stats:?}");
    }
}

#[tokio::test(flavor = "current_thread")]
async fn memory_stays_bounded_over_many_runs() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", 1000);
        let y = batch.sin(x);
        let program = batch.compile().await.unwrap();
        let data = vec![0.5_f32; 1000];
        let stats = || {
            let stats = device.pool_stats();
            (stats.gpu.peak_bytes, stats.host.peak_bytes, stats.gpu.misses, stats.host.misses)
        };
        let lent = async |times: usize| {
            for _ in 0..times {
                let outputs = program.run([(x, &data)]).await.unwrap();
                assert_eq!(outputs.read_view(y).unwrap().len(), 1000);
            }
            stats()
        };
        let first = lent(20).await;
        assert_eq!(lent(2_000).await, first, "nothing more is allocated");
        let given = async |times: usize| {
            for _ in 0..times {
                let outputs = program.run([(x, data.clone())]).await.unwrap();
                assert_eq!(outputs.read_view(y).unwrap().len(), 1000);
            }
            stats()
        };
        assert_eq!(given(2_000).await, first, "what runs are given is not hoarded");
        let exchanged = async |times: usize| {
            for _ in 0..times {
                let outputs = program.run([(x, data.clone())]).await.unwrap();
                assert_eq!(outputs.into_vec(y).await.unwrap().len(), 1000);
            }
            stats()
        };
        let first = exchanged(20).await;
        assert_eq!(exchanged(2_000).await, first, "what one run is given the next one hands over");
    }
}

/// Beats of a task beside a run that is awaited on the same thread: a worker that the run blocked would not beat.
#[tokio::test(flavor = "current_thread")]
async fn a_heart_beats_while_a_run_is_awaited() {
    for device in common::devices().await {
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", [384, 384]);
        let mut y = x;
        for _ in 0..12 {
            y = batch.matmul(y, x);
        }
        batch.download(y);
        let program = batch.compile().await.unwrap();
        let (beats, done) = (Arc::new(AtomicU64::new(0)), Arc::new(AtomicBool::new(false)));
        let (beat, end) = (Arc::clone(&beats), Arc::clone(&done));
        let heart = tokio::spawn(async move {
            while !end.load(Ordering::Relaxed) {
                beat.fetch_add(1, Ordering::Relaxed);
                tokio::task::yield_now().await;
            }
        });
        program.run([(x, &vec![0.01_f32; 384 * 384])]).await.unwrap();
        done.store(true, Ordering::Relaxed);
        heart.await.unwrap();
        assert!(beats.load(Ordering::Relaxed) > 3, "{device:?}: {beats:?}");
    }
}

/// Runs that are done at their first poll must let others run now and then.
#[tokio::test(flavor = "current_thread")]
async fn a_heart_beats_between_short_runs() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", 1000);
    batch.relu(x);
    let program = batch.compile().await.unwrap();
    let (beats, data) = (Arc::new(AtomicU64::new(0)), vec![1.0_f32; 1000]);
    let beat = Arc::clone(&beats);
    let heart = tokio::spawn(async move {
        loop {
            beat.fetch_add(1, Ordering::Relaxed);
            tokio::task::yield_now().await;
        }
    });
    for _ in 0..5_000 {
        program.run([(x, &data)]).await.unwrap();
    }
    heart.abort();
    assert!(beats.load(Ordering::Relaxed) > 3, "{beats:?}");
}

/// If the cache can write nothing, or holds nonsense, kernels are compiled as if there were none.
#[tokio::test]
async fn a_cache_that_fails_is_as_good_as_none() {
    if common::gpu().await.is_none() {
        return;
    }
    let root = std::env::temp_dir().join(format!("onetrip-serving-{}", std::process::id()));
    let folder = root.join("cache");
    std::fs::create_dir_all(&root).unwrap();
    let run = async |what: &str| {
        // A device of its own, which has compiled nothing yet.
        let builder = Device::builder().cache_folder(&folder).recovery(Recovery::Fail);
        let device = builder.gpu().await.unwrap();
        let y = device.eval(|b| {
            let x = b.arange(0.0_f32, 100.0, 1.0);
            b.mul(x, x)
        });
        let squares: Vec<f32> = (0..100).map(|at| (at * at) as f32).collect();
        assert_eq!(y.await.unwrap(), squares, "{what}");
    };
    // A path that is no folder takes no files, like a full disk.
    std::fs::write(&folder, "in the way").unwrap();
    run("no folder").await;
    std::fs::remove_file(&folder).unwrap();
    run("a new folder").await;
    for nonsense in [&b""[..], b"onetrip1", &[0xff; 5000]] {
        let files: Vec<_> = std::fs::read_dir(&folder).unwrap().flatten().collect();
        assert!(!files.is_empty(), "kernels are kept");
        for file in files {
            std::fs::write(file.path(), nonsense).unwrap();
        }
        run("damaged files").await;
    }
    std::fs::remove_dir_all(&root).unwrap();
}
