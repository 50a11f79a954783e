//! Lost devices: errors, nothing hangs, and what is read stays.

use std::sync::mpsc;
use std::task::{Context, Wake, Waker};
use std::time::Instant;

use super::failures::stray;
use super::*;
use crate::exec::gpu::driver::{self, Calls};

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_lost_device_fails_every_call_and_none_hangs() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 50_000, 1);
    let resident = gpu.resident(DType::U32, &[0; 400]).unwrap();
    let runs: Vec<_> =
        (0..8).map(|_| tokio::spawn(gpu.run(adder_inputs(&program, &[1; 50_000])))).collect();
    gpu.device.raw().0.destroy();
    for run in runs {
        // Runs that were submitted before may have finished.
        if let Err(error) = soon(run).await.unwrap() {
            assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
        }
    }
    let lost = |error: DeviceError| assert!(matches!(error, DeviceError::Lost { .. }), "{error}");
    for _ in 0..3 {
        let error = soon(gpu.run(adder_inputs(&program, &[1; 50_000]))).await.err().unwrap();
        assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
    }
    assert!(gpu.loss_reason().is_some());
    lost(soon(gpu.read_resident(&resident)).await.err().unwrap());
    lost(gpu.resident(DType::U32, &[0; 400]).err().unwrap());
    lost(gpu.compile_here(vec![map(ValueId(0), ValueId(1), "x ^ p", 0, 1)]).err().unwrap());
}

/// A run whose device is lost between two of its stages has no results, or has them right.
#[tokio::test]
async fn a_loss_at_any_stage_is_an_error_and_never_data() {
    let lost =
        |error: Error| assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
    for stage in ["opened", "compiled", "encoded", "submitted", "finished"] {
        let gpu = gpu_or_return!();
        if stage == "opened" {
            // Nobody knows yet.
            gpu.device.raw().0.destroy();
        }
        let program = adder(&gpu, 70_000, 3);
        let inputs = adder_inputs(&program, &[4; 70_000]);
        if stage == "compiled" {
            gpu.destroy();
        }
        if stage == "opened" || stage == "compiled" {
            lost(soon(gpu.run(inputs)).await.err().unwrap());
            continue;
        }
        let (encoded, results) = gpu.encode_here(&inputs).unwrap();
        if stage == "encoded" {
            gpu.destroy();
        }
        let SubmittedRun { future, results: mut run } = match gpu.submit(&inputs, encoded, results)
        {
            Ok(submitted) => submitted,
            Err(error) => {
                lost(error);
                continue;
            }
        };
        if stage == "submitted" {
            gpu.destroy();
        }
        match soon(future.unwrap().finish()).await {
            Ok(readback) => run.readback = readback.map(Arc::new),
            Err(error) => {
                lost(error.into());
                continue;
            }
        }
        assert_ne!(stage, "encoded", "a lost device does not compute");
        gpu.destroy();
        assert_eq!(run.read::<u32>(0), vec![7; 70_000], "{stage}");
    }
}

#[tokio::test]
async fn a_resident_that_is_read_while_the_device_is_lost_is_whole_or_an_error() {
    'polls: for polls in 0..4 {
        let gpu = gpu_or_return!();
        let data = vec![9_u32; 100_000];
        let resident = gpu.resident(DType::U32, bytemuck::cast_slice(&data)).unwrap();
        assert!(gpu.owns(&resident) && !resident.is_lost());
        let mut reading = Box::pin(gpu.read_resident(&resident));
        for _ in 0..polls {
            if poll_fn(|context| std::task::Poll::Ready(reading.as_mut().poll(context).is_ready()))
                .await
            {
                continue 'polls;
            }
        }
        gpu.destroy();
        match soon(reading).await {
            Ok(read) => assert_eq!(read.to_vec::<u32>(), data),
            Err(error) => assert!(matches!(error, DeviceError::Lost { .. }), "{error}"),
        }
    }
}

/// Registers `call` for the next poll of the device. The caller holds the returned lease until then.
fn at_next_poll(gpu: &Gpu, call: impl FnOnce() + Send + 'static) -> Lease {
    let class = Class { kind: Kind::Readback, size: 256 };
    let lease = gpu.memory.pool.create(&gpu.device, class).unwrap();
    lease.set_reusable(false);
    lease.buffer.map_async(wgpu::MapMode::Read, .., move |_| call());
    lease
}

/// As [`at_next_poll`], with a receiver of the event.
fn told_of_next_poll(gpu: &Gpu) -> (Lease, mpsc::Receiver<()>) {
    let (sender, told) = mpsc::channel();
    (at_next_poll(gpu, move || _ = sender.send(())), told)
}

/// Checks that the lost device of `run`, whose results are 70 000 sevens, is polled only when these were read.
fn polled_once_read(run: GpuRunResults, told: &mpsc::Receiver<()>) {
    assert!(told.recv_timeout(Duration::from_millis(200)).is_err(), "the device was polled");
    assert_eq!(run.read::<u32>(0), vec![7; 70_000]);
    drop(run);
    told.recv_timeout(Duration::from_secs(20)).expect("the device is polled");
}

#[tokio::test(flavor = "multi_thread")]
async fn all_may_ask_why_a_device_is_lost_callbacks_of_who_asks_too() {
    let gpu = gpu_or_return!();
    let ask = |engine: &Engine| engine.device.confirm_loss("asked").to_string();
    let (sender, told) = mpsc::channel();
    let engine = Arc::clone(&gpu.0);
    let _held = at_next_poll(&gpu, move || drop(sender.send(ask(&engine))));
    gpu.device.raw().0.destroy();
    let asking = (0..8).map(|_| {
        let engine = Arc::clone(&gpu.0);
        std::thread::spawn(move || ask(&engine))
    });
    let mut answers: Vec<_> =
        asking.collect::<Vec<_>>().into_iter().map(|thread| thread.join().unwrap()).collect();
    answers.push(told.recv_timeout(Duration::from_secs(20)).unwrap());
    assert!(answers.iter().all(|answer| *answer == answers[0]), "{answers:?}");
}

#[tokio::test]
async fn who_checks_a_lost_device_keeps_none_of_its_callbacks_waiting() {
    let gpu = gpu_or_return!();
    let check = |engine: &Engine| engine.device.check_uncaptured_errors();
    let engine = Arc::clone(&gpu.0);
    let _held = at_next_poll(&gpu, move || drop(check(&engine)));
    driver::unscoped(|| stray(&gpu));
    gpu.device.raw().0.destroy();
    let (sender, told) = mpsc::channel();
    let engine = Arc::clone(&gpu.0);
    std::thread::spawn(move || sender.send(check(&engine)));
    let checked = told.recv_timeout(Duration::from_secs(20)).expect("an answer");
    assert!(matches!(checked, Err(DeviceError::Lost { .. })), "{checked:?}");
}

/// wgpu would free them where the device is polled.
#[tokio::test]
async fn results_may_be_read_after_the_device_is_lost() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 70_000, 3);
    let run = gpu.run(adder_inputs(&program, &[4; 70_000])).await.unwrap();
    let (_held, told) = told_of_next_poll(&gpu);
    gpu.destroy();
    gpu.run(adder_inputs(&program, &[4; 70_000])).await.err().unwrap();
    gpu.device.confirm_loss("asked");
    gpu.submissions.poller.wake();
    polled_once_read(run, &told);
}

/// wgpu polls in submissions too, and frees mapped memory if the device was destroyed meanwhile.
#[tokio::test]
async fn a_device_is_not_destroyed_while_somebody_submits() {
    let gpu = gpu_or_return!();
    let (begin, begun) = mpsc::channel();
    let (end, ended) = mpsc::channel::<()>();
    let _held = at_next_poll(&gpu, move || {
        begin.send(()).unwrap();
        _ = ended.recv();
    });
    let engine = Arc::clone(&gpu.0);
    let submit = |engine: &Engine| {
        let mut submitted = None;
        let submit = |calls: &Calls<'_>| {
            submitted = Some(calls.submit(calls.commands(|_| {})).map(drop));
            Ok::<_, DeviceError>(())
        };
        let _lost = engine.device.scoped(|| "submitting nothing".into(), submit);
        submitted.unwrap()
    };
    let submitting = std::thread::spawn(move || submit(&engine));
    begun.recv_timeout(Duration::from_secs(20)).expect("wgpu polls for who submits");
    let (lost, destroyed) = (gpu.clone(), Instant::now());
    let destroying = std::thread::spawn(move || lost.destroy());
    until(|| gpu.device.health.is_lost()).await;
    std::thread::sleep(Duration::from_millis(50));
    let is_dead_already = gpu.device.is_silently_lost();
    // It waits for a second, which may pass here where other tests have the cores.
    let is_early = destroyed.elapsed() < Duration::from_millis(900);
    assert!(!(is_early && is_dead_already), "destroyed while somebody submits");
    end.send(()).unwrap();
    submitting.join().unwrap().unwrap();
    destroying.join().unwrap();
    assert!(gpu.device.is_silently_lost());
    let late = submit(&gpu.0);
    assert!(matches!(late, Err(DeviceError::Lost { .. })), "{late:?}");
}

/// Callbacks hold buffers, and these the device.
#[tokio::test]
async fn a_lost_device_calls_back_when_the_results_that_outlive_it_were_read() {
    let gpu = gpu_or_return!();
    let run = gpu.run(adder_inputs(&adder(&gpu, 70_000, 3), &[4; 70_000])).await.unwrap();
    let (_held, told) = told_of_next_poll(&gpu);
    gpu.destroy();
    drop(gpu);
    polled_once_read(run, &told);
}

/// A device may have several users, one after the other.
#[tokio::test]
async fn results_may_be_read_after_the_next_user_has_lost_the_device() {
    let choice = AdapterChoice::best(None, true);
    let opened = GuardedDevice::open(&choice, wgpu::Features::empty()).await;
    let Some(opened) = found(opened) else { return };
    let user = || Gpu::new(opened.shared_with_another(), None).unwrap();
    let first = user();
    let run = first.run(adder_inputs(&adder(&first, 70_000, 3), &[4; 70_000])).await.unwrap();
    drop(first);
    let next = user();
    let (_held, told) = told_of_next_poll(&next);
    next.destroy();
    polled_once_read(run, &told);
}

/// As with executors that poll where they are woken.
#[tokio::test]
async fn who_is_woken_by_a_loss_may_call_the_poller_at_once() {
    struct WakesPoller(Arc<Engine>, mpsc::Sender<()>);

    impl Wake for WakesPoller {
        fn wake(self: Arc<Self>) {
            self.0.submissions.poller.wake();
            _ = self.1.send(());
        }
    }

    let gpu = gpu_or_return!();
    let (sender, told) = mpsc::channel();
    let waker = Waker::from(Arc::new(WakesPoller(Arc::clone(&gpu.0), sender)));
    let _busy = gpu.submissions.coalescer.hold();
    let inputs = adder_inputs(&adder(&gpu, 100, 1), &[1; 100]);
    let (encoded, results) = gpu.encode_here(&inputs).unwrap();
    let mut finishing =
        Box::pin(gpu.submit(&inputs, encoded, results).unwrap().future.unwrap().finish());
    assert!(finishing.as_mut().poll(&mut Context::from_waker(&waker)).is_pending());
    assert_eq!(gpu.submissions.coalescer.pending(), 1);
    gpu.destroy();
    told.recv_timeout(Duration::from_secs(20)).expect("the poller's thread went on");
    let error = soon(finishing).await.err().unwrap();
    assert!(matches!(error, DeviceError::Lost { .. }), "{error}");
}
