//! Without an executor: the blocking twins of the async methods.
#![cfg(feature = "blocking")]

use std::time::Duration;

use onetrip::{Backend, Device, GpuCommandBatch, Input, Wgsl};

const NOTHING: [Input<'static>; 0] = [];

#[test]
fn programs_run_without_an_executor() {
    let device = Device::cpu();
    let state = device.resident(&[1.0_f32, 2.0], 2).expect("room");
    state.keep_host_copy_blocking().expect("a copy");
    let data = state.read_blocking().expect("the data");
    state.write_blocking(&[7.0; 2]).expect("a write");
    assert_eq!(state.read_blocking().expect("the data"), [7.0; 2]);
    state.write_blocking(&data).expect("a write");
    let batch = GpuCommandBatch::new(&device);
    let (x, bound) = (batch.input::<f32>("x", 2), batch.bind(&state));
    let sum = batch.add(x, bound);
    batch.update(&state, sum);
    batch.download(sum);
    let program = batch.compile_blocking().expect("a sound batch");
    let outputs = program.run_blocking([(x, &[10.0, 20.0])]).expect("a run");
    assert_eq!(outputs.read_blocking(sum).expect("a result"), [11.0, 22.0]);
    let outputs = program.run_blocking([("x", &[100.0_f32, 200.0])]).expect("a run");
    let mut out = [0.0; 2];
    outputs.read_into_blocking(sum, &mut out).expect("a result");
    assert_eq!(out, [111.0, 222.0]);
    assert_eq!(outputs.into_vec_blocking(sum).expect("a result"), out);
    assert_eq!(state.read_blocking().expect("the data"), out);
    let profile = program.profile_blocking([(x, &[0.0; 2])]).expect("a run");
    assert_eq!((profile.backend, profile.kernels.len()), (Backend::Cpu, 1));
    assert!(program.run_blocking([(x, &[1.0])]).is_err());
    let data = [(x, &[10.0, 20.0])];
    program.run_within_blocking(Duration::from_secs(600), data).expect("a run in time");
    program.run_unless_blocking(std::future::pending(), data).expect("a run to its end");

    let batch = GpuCommandBatch::new(&device);
    let y = batch.input::<f32>("x", [2, 2]).scale(2.0);
    let program = batch.compile_blocking().expect("a sound batch");
    let (row, hour) = ([("x", &[1.5_f32, -2.0])], Duration::from_secs(3600));
    for outputs in [
        program.run_rows_blocking(row),
        program.run_rows_within_blocking(hour, row),
        program.run_rows_unless_blocking(std::future::pending(), row),
        program.rows().expect("rows").run_blocking(row),
        program.rows().expect("rows").run_within_blocking(hour, row),
    ] {
        assert_eq!(outputs.expect("a run").read_blocking(y).expect("a result"), [3.0, -4.0]);
    }
}

/// Runs on rayon's threads that wait for their turn keep all of them, and whose turn it is needs one.
#[test]
fn all_of_rayon_s_threads_may_wait_for_a_run_that_is_handed_over() {
    const LEN: usize = 1 << 20;
    const RUNS: usize = 50;
    let device = Device::cpu();
    let total = device.resident(&vec![0.0_f32; LEN], LEN).expect("room");
    let batch = GpuCommandBatch::new(&device);
    let new = batch.bind(&total).add_scalar(1.0);
    batch.update(&total, new);
    let program = batch.compile_blocking().expect("a sound batch");
    let runtime = tokio::runtime::Runtime::new().expect("threads");
    let awaited = program.clone();
    let elsewhere = runtime.spawn(async move {
        for _ in 0..RUNS {
            awaited.run(NOTHING).await.expect("a run");
        }
    });
    let run = |_: rayon::BroadcastContext<'_>| {
        for _ in 0..RUNS {
            program.run_blocking(NOTHING).expect("a run");
        }
    };
    let threads = rayon::broadcast(run).len();
    runtime.block_on(elsewhere).expect("no panic");
    let runs = (RUNS * (threads + 1)) as f32;
    assert!(total.read_blocking().expect("the data").iter().all(|&x| x == runs));
}

/// The memory that a thread keeps for the next run may be gone by then.
#[test]
fn a_thread_that_ends_may_still_run() {
    use std::cell::OnceCell;
    use std::sync::mpsc::{self, Sender};
    use std::thread;

    /// Runs a program when it is dropped, and tells the result.
    struct Last(Device, Sender<Option<Vec<f32>>>);

    impl Drop for Last {
        fn drop(&mut self) {
            let run = std::panic::catch_unwind(|| {
                self.0.eval_blocking(|b| {
                    let x = b.upload(&[1.5_f32; 3]);
                    b.add(x, x)
                })
            });
            let _ = self.1.send(run.ok().and_then(Result::ok));
        }
    }

    thread_local!(static LAST: OnceCell<Last> = const { OnceCell::new() });
    for has_run in [false, true] {
        let (tell, told) = mpsc::channel();
        let thread = thread::spawn(move || {
            let device = Device::cpu();
            // Values made last are dropped first.
            LAST.with(|last| assert!(last.set(Last(device.clone(), tell)).is_ok()));
            if has_run {
                device.eval_blocking(|b| b.full(3, 1.0_f32)).expect("a run");
            }
        });
        thread.join().expect("no panic");
        assert_eq!(told.recv().expect("it was dropped"), Some(vec![3.0; 3]), "{has_run}");
    }
}

#[cfg(feature = "ndarray")]
#[test]
fn arrays_are_read_without_an_executor() {
    use ndarray::array;

    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let x = batch.upload_array(array![[1.0_f32, -2.0], [3.0, -4.0]].view());
    let y = batch.relu(x);
    batch.download(y);
    let kept = batch.keep(y);
    let want = array![[1.0, 0.0], [3.0, 0.0]].into_dyn();
    batch.execute_blocking().expect("a run");
    assert_eq!(batch.read_array_blocking(y).expect("a result"), want);
    assert_eq!(kept.read_array_blocking().expect("the data"), want);
    let program = batch.compile_blocking().expect("a sound batch");
    let outputs = program.run_blocking([(x, &[-1.0, 1.0, 0.0, 5.0])]).expect("a run");
    let want = array![[0.0, 1.0], [0.0, 5.0]].into_dyn();
    assert_eq!(outputs.read_array_blocking(y).expect("a result"), want);
}

#[test]
fn a_device_is_measured_without_an_executor() {
    let device = Device::builder().without_cache().cpu().expect("the cores");
    assert!(device.calibrate_blocking().expect("a profile").measured);
    let mut steps = 0;
    let measured = device.calibrate_with_blocking(|_| steps += 1).expect("a profile");
    assert!(measured.measured && steps > 0);
}

#[test]
fn a_task_may_block_as_often_as_it_likes() {
    let runtime = tokio::runtime::Builder::new_current_thread().build().expect("a runtime");
    runtime.block_on(async {
        let device = Device::cpu();
        let batch = GpuCommandBatch::new(&device);
        let source = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(1) fn main() { y[0] = 1.0; }";
        let kernel = Wgsl::new(source).groups([1, 1, 1]).on_cpu(|y: &mut [f32]| y[0] = 1.0);
        let y = batch.wgsl::<f32>(kernel, 1);
        batch.download(y);
        let program = batch.compile_blocking().expect("a sound batch");
        // More often than a task may poll before it gives its thread back.
        for _ in 0..300 {
            let hour = Duration::from_secs(3600);
            let outputs = program.run_within_blocking(hour, NOTHING).expect("a run elsewhere");
            assert_eq!(outputs.read_blocking(y).expect("a result"), [1.0]);
        }
    });
}

#[test]
fn a_run_that_cannot_be_given_up_is_done_on_the_thread_that_waits() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let source = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
        @compute @workgroup_size(1) fn main() { y[0] = 1.0; }";
    let (sender, threads) = std::sync::mpsc::channel();
    let sender = std::sync::Mutex::new(sender);
    let kernel = Wgsl::new(source).groups([1, 1, 1]).on_cpu(move |y: &mut [f32]| {
        sender.lock().expect("the sender").send(std::thread::current().id()).expect("a listener");
        y[0] = 1.0;
    });
    batch.wgsl::<f32>(kernel, 1).download();
    let here = std::thread::current().id();
    batch.execute_blocking().expect("a run");
    assert_eq!(threads.recv(), Ok(here));
    let program = batch.compile_blocking().expect("a sound batch");
    program.run_blocking(NOTHING).expect("a run");
    assert_eq!(threads.recv(), Ok(here));
    program.run_within_blocking(Duration::from_secs(3600), NOTHING).expect("a run in time");
    assert_ne!(threads.recv(), Ok(here), "its end could not have been noticed");
    pollster::block_on(program.run(NOTHING)).expect("a run");
    assert_ne!(threads.recv(), Ok(here), "other tasks would have waited");
}

/// The files with async methods of the public types.
const METHODS: [&str; 9] = [
    "batch/arrays.rs",
    "batch/program/mod.rs",
    "batch/program/outputs.rs",
    "batch/read.rs",
    "batch/resident/mod.rs",
    "batch/run.rs",
    "device/calibration.rs",
    "device/mod.rs",
    "device/open.rs",
];

#[test]
fn every_async_method_has_a_twin() {
    let source = |path: &str| {
        let path = format!("{}/src/{path}", env!("CARGO_MANIFEST_DIR"));
        std::fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
    };
    let twins: String =
        ["batch/blocking/mod.rs", "batch/arrays.rs", "batch/resident/mod.rs"].map(source).concat();
    let mut count = 0;
    for path in METHODS {
        for method in source(path).split("\n    pub ").skip(1) {
            let signature = method.split('{').next().unwrap_or_default();
            let is_async = signature.starts_with("async fn ") || signature.contains("BoxFuture<");
            let Some((_, method)) = signature.split_once("fn ").filter(|_| is_async) else {
                continue;
            };
            let name = &method[..method.find(['<', '(']).expect("a list of parameters")];
            let (row, function) =
                (format!("{name}: {name}_blocking"), format!("fn {name}_blocking"));
            assert!(
                twins.contains(&row) || twins.contains(&function),
                "{path}: `{name}` has no twin"
            );
            count += 1;
        }
    }
    assert!(count > 20, "{count}");
}

#[test]
fn the_batch_of_one_result_has_the_callers_line() {
    let device = Device::cpu();
    let foreign = GpuCommandBatch::new(&device).upload(&[1.0_f32]).id();
    let mut error = None;
    let line = line!() + 1;
    let result = device.eval_blocking(|batch| {
        error = batch.write(foreign, &[2.0]).err();
        batch.full(1, 0.0_f32)
    });
    assert_eq!(result.expect("a run"), [0.0]);
    let error = error.expect("an id of another batch").to_string();
    assert!(error.contains(&format!(", made at tests/blocking.rs:{line};")), "{error}");
}
