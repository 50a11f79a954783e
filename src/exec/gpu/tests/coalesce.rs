//! Runs that are submitted together.

use std::pin::Pin;
use std::task::{Context, Poll, Waker};

use super::*;
use crate::exec::gpu::submit::submission::Submission;

type Running = Pin<Box<dyn Future<Output = Result<GpuRunResults, Error>> + Send>>;

/// A run that was started on this thread, and polled once; with the result of the poll.
fn started(gpu: &Gpu, inputs: GpuRunInputs) -> (Running, Poll<Result<GpuRunResults, Error>>) {
    let submitted = gpu.start_here(&inputs);
    let mut run: Running = Box::pin(async move {
        let run = submitted?;
        run.finish(&inputs.kernels, &inputs.timeline).await
    });
    let poll = || run.as_mut().poll(&mut Context::from_waker(Waker::noop()));
    let polled = threads::waiting(poll);
    (run, polled)
}

fn waiting(gpu: &Gpu, inputs: GpuRunInputs) -> Running {
    let before = gpu.submissions.coalescer.pending();
    let (run, polled) = started(gpu, inputs);
    assert!(polled.is_pending());
    assert_eq!(gpu.submissions.coalescer.pending(), before + 1);
    run
}

/// Ends the state of a busy device.
fn release(gpu: &Gpu, held: &[Arc<Submission>]) {
    held.iter().for_each(|submission| submission.abandon());
    gpu.submissions.poller.wake();
}

/// `x · 3 + 10 + p`, in three dispatches, of which the last writes where the first read.
fn chain(gpu: &Gpu, len: usize, p: u32) -> Program {
    let mut plan = Builder::new();
    let x = plan.upload(DType::U32, len, 0, 4);
    let h = plan.result(DType::U32, len, 4);
    let y = plan.result(DType::U32, len, 4);
    let z = plan.value(DType::U32, len, Home::Slot(0));
    plan.0.downloads.push(z);
    let dispatches =
        vec![map(h, x, "x * p", 3, len), map(y, h, "x + p", 10, len), map(z, y, "x + p", p, len)];
    (Arc::new(plan.0), gpu.compile_here(dispatches).unwrap())
}

/// One buffer for reading and for writing, which is refused where it is recorded.
fn bad(gpu: &Gpu) -> GpuRunInputs {
    let mut plan = Builder::new();
    let x = plan.upload(DType::U32, 100, 0, 4);
    plan.0.downloads.push(x);
    inputs(gpu, plan, vec![map(x, x, "x + p", 1, 100)], vec![host(&[0u32; 100])])
}

#[tokio::test]
async fn a_run_that_finds_the_device_idle_is_submitted_at_once_and_alone() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 1000, 5);
    for _ in 0..3 {
        let (run, polled) = started(&gpu, adder_inputs(&program, &[1; 1000]));
        assert_eq!(gpu.submissions.coalescer.pending(), 0);
        let run = match polled {
            Poll::Ready(run) => run.unwrap(),
            Poll::Pending => soon(run).await.unwrap(),
        };
        assert_eq!(run.read::<u32>(0), [6; 1000]);
        assert_eq!((run.counts.submits, run.counts.shared), (1, 0));
    }
}

#[tokio::test]
async fn runs_of_different_programs_share_a_submission_and_keep_their_results() {
    let gpu = gpu_or_return!();
    let before = gpu.memory.pool.counts().live_bytes;
    let programs: Vec<_> = (0..5)
        .map(|at| match at {
            0 | 3 => adder(&gpu, 1 + 700 * at, 7),
            _ => chain(&gpu, 300 * at, at as u32),
        })
        .collect();
    let data = |at: usize, round: u32| -> Vec<u32> {
        let len = if at == 0 || at == 3 { 1 + 700 * at } else { 300 * at };
        (0..len as u32).map(|i| i * 31 + round * 1009).collect()
    };
    let want = |at: usize, round| -> Vec<u32> {
        let of = |x: u32| if at == 0 || at == 3 { x + 7 } else { x * 3 + 10 + at as u32 };
        data(at, round).into_iter().map(of).collect()
    };
    for round in 0..3 {
        let held = gpu.submissions.coalescer.hold();
        // Programs come twice, and with others between.
        let order = [0, 1, 2, 3, 4, 2, 0, 1];
        let start = |at: usize| waiting(&gpu, adder_inputs(&programs[at], &data(at, round)));
        let runs: Vec<_> = order.into_iter().map(start).collect();
        release(&gpu, &held);
        for (at, run) in order.into_iter().zip(runs) {
            let run = soon(run).await.unwrap();
            assert_eq!(run.read::<u32>(0), want(at, round), "{at} in {round}");
            assert_eq!((run.counts.submits, run.counts.shared), (1, 1));
        }
    }
    drop(programs);
    until(|| gpu.memory.pool.counts().live_bytes == before).await;
}

/// `x`, where no element may be above `p`.
fn checked(gpu: &Gpu, len: usize, p: u32) -> Program {
    let (mut plan, x, y) = Builder::of_one(DType::U32, len, 4);
    plan.0.sites.push(NodeId::default());
    let kernels = gpu.compile_here(vec![checked_map(y, x, p, len)]).unwrap();
    (Arc::new(plan.0), kernels)
}

#[tokio::test]
async fn where_one_run_failed_others_that_were_submitted_with_it_know_nothing() {
    let gpu = gpu_or_return!();
    let program = checked(&gpu, 500, 900);
    let data = |start: u32| (start..start + 500).collect::<Vec<_>>();
    for _ in 0..2 {
        let held = gpu.submissions.coalescer.hold();
        let starts = [0, 700, 400, 900, 401, 1000];
        let runs = starts.map(|start| waiting(&gpu, adder_inputs(&program, &data(start))));
        release(&gpu, &held);
        for (start, run) in starts.into_iter().zip(runs) {
            let run = soon(run).await.unwrap();
            assert_eq!(run.read::<u32>(0), data(start));
            let first = (start..start + 500).position(|x| x > 900);
            assert_eq!(run.failed.map(|failed| failed.at as usize), first, "{start}");
        }
    }
}

#[tokio::test]
async fn no_more_wait_than_go_into_one_submission() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 100, 1);
    let held = gpu.submissions.coalescer.hold();
    let mut runs: Vec<_> =
        (0..15).map(|at| waiting(&gpu, adder_inputs(&program, &[at; 100]))).collect();
    let (last, polled) = started(&gpu, adder_inputs(&program, &[15; 100]));
    assert_eq!(
        gpu.submissions.coalescer.pending(),
        0,
        "all are submitted though the device is busy"
    );
    runs.push(match polled {
        Poll::Ready(run) => Box::pin(std::future::ready(run)),
        Poll::Pending => last,
    });
    for (at, run) in (0..).zip(runs) {
        let run = soon(run).await.unwrap();
        assert_eq!((run.read::<u32>(0), run.counts.shared), (vec![at + 1; 100], 1));
    }
    release(&gpu, &held);
}

#[tokio::test]
async fn what_is_submitted_alone_comes_after_what_waits() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 100, 1);
    let held = gpu.submissions.coalescer.hold();
    let runs = [3, 4].map(|x| waiting(&gpu, adder_inputs(&program, &[x; 100])));
    let resident = gpu.resident(DType::U32, &[0; 400]).unwrap();
    assert_eq!(gpu.submissions.coalescer.pending(), 0);
    for (run, want) in runs.into_iter().zip([4, 5]) {
        assert_eq!(soon(run).await.unwrap().read::<u32>(0), [want; 100]);
    }
    assert_eq!(gpu.read_resident(&resident).await.unwrap().to_vec::<u32>(), [0; 100]);
    release(&gpu, &held);
}

#[tokio::test]
async fn a_run_that_is_dropped_while_it_waits_is_left_out() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 5000, 1);
    let before = gpu.memory.pool.counts().live_bytes;
    let held = gpu.submissions.coalescer.hold();
    let runs: Vec<_> =
        (0..5).map(|at| waiting(&gpu, adder_inputs(&program, &[at; 5000]))).collect();
    let of_five = gpu.memory.pool.counts().live_bytes - before;
    let mut runs: Vec<_> = runs.into_iter().map(Some).collect();
    for (left, at) in [(4, 1), (3, 4)] {
        runs[at] = None;
        assert_eq!(gpu.submissions.coalescer.pending(), left);
        assert_eq!((gpu.memory.pool.counts().live_bytes - before) * 5, of_five * left as u64);
    }
    release(&gpu, &held);
    for (at, run) in runs.into_iter().enumerate() {
        let Some(run) = run else { continue };
        assert_eq!(soon(run).await.unwrap().read::<u32>(0), vec![at as u32 + 1; 5000]);
    }
    // All that are left are dropped.
    let held = gpu.submissions.coalescer.hold();
    drop([0, 1].map(|x| waiting(&gpu, adder_inputs(&program, &[x; 5000]))));
    assert_eq!(gpu.submissions.coalescer.pending(), 0);
    until(|| gpu.memory.pool.counts().live_bytes == before).await;
    release(&gpu, &held);
    let run = soon(gpu.run(adder_inputs(&program, &[1; 5000]))).await.unwrap();
    assert_eq!(run.read::<u32>(0), [2; 5000]);
}

#[tokio::test]
async fn of_runs_that_are_refused_together_only_the_bad_ones_fail() {
    let gpu = gpu_or_return!();
    let program = adder(&gpu, 100, 1);
    let before = gpu.memory.pool.counts().live_bytes;
    let held = gpu.submissions.coalescer.hold();
    let jobs = [
        adder_inputs(&program, &[1; 100]),
        bad(&gpu),
        adder_inputs(&program, &[2; 100]),
        bad(&gpu),
        adder_inputs(&program, &[3; 100]),
    ];
    let runs = jobs.map(|inputs| waiting(&gpu, inputs));
    release(&gpu, &held);
    for (at, run) in runs.into_iter().enumerate() {
        match soon(run).await {
            Ok(run) => assert_eq!(run.read::<u32>(0), vec![at as u32 / 2 + 2; 100]),
            Err(error) => {
                assert!(at % 2 == 1 && error.to_string().contains("map x + p"), "{at}: {error}");
            }
        }
    }
    until(|| gpu.memory.pool.counts().live_bytes == before).await;
    gpu.device.check_uncaptured_errors().unwrap();
}

/// A run whose device is lost before or after it was submitted with others has no results, or has them right.
#[tokio::test]
async fn a_loss_while_runs_wait_or_fly_together_is_an_error_and_never_data() {
    for stage in ["waiting", "gathered", "released", "finished"] {
        let gpu = gpu_or_return!();
        let program = chain(&gpu, 20_000, 1);
        let held = gpu.submissions.coalescer.hold();
        if stage == "waiting" {
            gpu.destroy();
        }
        let start = |at: u32| -> Running {
            // A run on a lost device may fail at once.
            match started(&gpu, adder_inputs(&program, &[at; 20_000])) {
                (_, Poll::Ready(result)) => Box::pin(std::future::ready(result)),
                (run, Poll::Pending) => run,
            }
        };
        let mut runs: Vec<_> = (0..4).map(start).collect();
        if stage == "gathered" {
            gpu.destroy();
        }
        release(&gpu, &held);
        if stage == "released" {
            gpu.destroy();
        }
        if stage == "finished" {
            let run = soon(runs.remove(0)).await.unwrap();
            gpu.destroy();
            assert_eq!(run.read::<u32>(0), [11; 20_000]);
        }
        let first = if stage == "finished" { 1 } else { 0 };
        for (at, run) in (first..).zip(runs) {
            match soon(run).await {
                Ok(run) => assert_eq!(run.read::<u32>(0), vec![at * 3 + 11; 20_000], "{stage}"),
                Err(Error::Device(DeviceError::Lost { .. })) => {}
                Err(error) => panic!("{stage}: {error}"),
            }
        }
    }
}
