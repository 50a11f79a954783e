//! Runs, programs and residents after a loss of the GPU.

#![cfg(feature = "gpu")]

#[path = "../common/mod.rs"]
mod common;
#[path = "../common/losses.rs"]
mod losses;
mod residents;

use std::future::poll_fn;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::task::Poll;
use std::time::Duration;

use losses::{device, polled, soon};
use onetrip::{
    Backend, BufferId, Device, DeviceError, Error, GpuCommandBatch, Placement, Program, Recovery,
    Resident,
};

/// x·w, rounded nowhere: the numbers are small and whole.
async fn product(device: &Device, w: &Resident<f32>) -> (Program, BufferId<f32>, BufferId<f32>) {
    let batch = GpuCommandBatch::new(device);
    let x = batch.input::<f32>("x", [40, 30]);
    let w = batch.bind(w);
    let y = batch.matmul(x, w);
    (batch.compile().await.expect("a sound graph"), x.id(), y.id())
}

fn whole_numbers(seed: usize, count: usize) -> Vec<f32> {
    (0..count).map(|at| ((at * 7 + seed * 5) % 11) as f32 - 5.0).collect()
}

fn product_by_hand(x: &[f32], w: &[f32]) -> Vec<f32> {
    let element = |row: usize, column: usize| {
        (0..30).map(|k| x[row * 30 + k] * w[k * 20 + column]).sum::<f32>()
    };
    (0..40 * 20).map(|at| element(at / 20, at % 20)).collect()
}

#[tokio::test]
async fn without_recovery_a_loss_is_told_and_every_run_fails() {
    let Some(device) = device(Recovery::Fail).await else { return };
    let told = Arc::new(Mutex::new(Vec::new()));
    let heard = Arc::clone(&told);
    device.on_lost(|_| panic!("as a listener may"));
    device.on_lost(move |loss| heard.lock().unwrap().push(loss.clone()));
    let w = device.resident(&whole_numbers(1, 600), [30, 20]).unwrap();
    let (program, x, _) = product(&device, &w).await;
    device.simulate_loss();
    for _ in 0..3 {
        let error = soon(program.run([(x, &[1.0; 1200])])).await.unwrap_err();
        assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
    }
    let error = soon(device.eval(|b| b.full(3, 1.0_f32))).await.unwrap_err();
    assert!(matches!(error, Error::Device(DeviceError::Lost { .. })), "{error}");
    let metrics = device.metrics();
    assert_eq!((metrics.repeated, metrics.failed), (0, 4), "{metrics}");
    assert!(device.resident(&[1.0_f32], 1).is_err() && w.read().await.is_err());
    let told = told.lock().unwrap();
    assert_eq!(told.len(), 1, "{told:?}");
    assert_eq!((told[0].losses, told[0].recovery), (1, Recovery::Fail));
    assert_eq!(device.pool_stats().losses, 1);
}

#[tokio::test]
async fn a_loss_that_a_transfer_finds_is_told() {
    for (recovery, by_reading) in [Recovery::Fail, Recovery::Reopen, Recovery::Cpu]
        .map(|it| [(it, true), (it, false)])
        .concat()
    {
        let Some(device) = device(recovery).await else { return };
        let told = Arc::new(Mutex::new(Vec::new()));
        let heard = Arc::clone(&told);
        device.on_lost(move |loss| heard.lock().unwrap().push(loss.clone()));
        let w = device.resident(&[1.0_f32; 600], 600).unwrap();
        device.simulate_loss();
        if by_reading {
            let mut out = [0.0; 600];
            let results = [
                soon(w.read()).await.map(drop),
                soon(w.read_into(&mut out)).await,
                soon(w.read_view()).await.map(drop),
                soon(w.keep_host_copy()).await,
            ];
            for result in results {
                let Err(Error::Device(error)) = result else { panic!("{recovery:?}: {result:?}") };
                // If the device goes on, the error names the resident that is lost.
                let is_told = match recovery {
                    Recovery::Fail => matches!(error, DeviceError::Lost { .. }),
                    _ => matches!(error, DeviceError::ResidentLost { .. }),
                };
                assert!(is_told, "{recovery:?}: {error}");
            }
        } else {
            let made = device.resident(&[1.0_f32], 1);
            assert_eq!(made.is_ok(), recovery != Recovery::Fail);
        }
        assert_eq!(told.lock().unwrap().len(), 1, "{recovery:?}");
        let next = soon(device.eval(|b| b.full(1, 1.0_f32))).await;
        assert_eq!(next.is_ok(), recovery != Recovery::Fail);
        assert_eq!(device.pool_stats().losses, 1, "{recovery:?}: told once");
    }
}

#[tokio::test]
async fn what_is_explained_is_what_runs_once_the_gpu_was_given_up() {
    let Some(device) = device(Recovery::Cpu).await else { return };
    let batch = GpuCommandBatch::new(&device);
    let y = batch.upload(&[1.0_f32, 4.0]).sqrt();
    batch.set_placement(Placement::Gpu);
    assert_eq!(batch.explain().unwrap().backend(), Backend::Gpu);
    device.simulate_loss();
    soon(batch.execute()).await.unwrap();
    assert_eq!(batch.stats().backend, Some(Backend::Cpu));
    assert_eq!(batch.explain().unwrap().backend(), Backend::Cpu);
    assert_eq!(batch.read(y).await.unwrap(), [1.0, 2.0]);
}

#[tokio::test]
async fn a_profile_is_of_the_attempt_that_came_to_its_end() {
    for recovery in [Recovery::Reopen, Recovery::Cpu] {
        let Some(device) = device(recovery).await else { return };
        let weights = whole_numbers(1, 600);
        let w = device.resident(&weights, [30, 20]).unwrap();
        w.keep_host_copy().await.unwrap();
        let (program, x, _) = product(&device, &w).await;
        let data = whole_numbers(2, 1200);
        let mut repeated = 0;
        for polls in 0..8 {
            let mut profiling = pin!(program.profile([(x, &data)]));
            let mut done = None;
            for _ in 0..polls {
                done = poll_fn(|context| {
                    Poll::Ready(match profiling.as_mut().poll(context) {
                        Poll::Ready(done) => Some(done),
                        Poll::Pending => None,
                    })
                })
                .await;
                if done.is_some() {
                    break;
                }
            }
            device.simulate_loss();
            let profile = match done {
                Some(done) => done.unwrap(),
                None => soon(profiling).await.unwrap(),
            };
            repeated += profile.stats.recoveries;
            for stage in
                ["execute", "choose", "admit", "collect", "run", "compile", "submit", "compute"]
            {
                let times = profile.stages.iter().filter(|it| it.stage == stage).count();
                assert!(times <= 1, "{recovery:?}: {stage} {times} times after {polls} polls");
            }
            let whole = profile.stages.iter().find(|it| it.stage == "execute").expect("the whole");
            for kernel in &profile.kernels {
                assert!(kernel.time.is_none_or(|time| time <= whole.time), "{profile}");
            }
            if recovery == Recovery::Cpu {
                break;
            }
        }
        assert!(repeated > 0, "{recovery:?}: some run was repeated");
    }
}

/// Loses the device after each number of polls of a run, which covers all of its stages.
#[tokio::test]
async fn a_run_is_finished_whenever_the_device_is_lost() {
    for recovery in [Recovery::Reopen, Recovery::Cpu] {
        let mut recovered = 0;
        for polls in 0..8 {
            let Some(device) = device(recovery).await else { return };
            let weights = whole_numbers(1, 600);
            let w = device.resident(&weights, [30, 20]).unwrap();
            w.keep_host_copy().await.unwrap();
            let (program, x, y) = product(&device, &w).await;
            let data = whole_numbers(polls, 1200);
            let mut run = pin!(program.run([(x, &data)]));
            let done = polled(run.as_mut(), polls).await;
            device.simulate_loss();
            let outputs = match done {
                Some(done) => done.unwrap(),
                None => soon(run).await.unwrap(),
            };
            recovered += outputs.stats().recoveries;
            let metrics = device.metrics();
            let counted = (metrics.repeated, metrics.failed);
            assert_eq!(counted, (outputs.stats().recoveries, 0), "{recovery:?}, {polls} polls");
            assert_eq!(outputs.read(y).await.unwrap(), product_by_hand(&data, &weights));
            // And so are all that follow.
            let outputs = soon(program.run([(x, &data)])).await.unwrap();
            assert_eq!(outputs.read(y).await.unwrap(), product_by_hand(&data, &weights));
            let side = if recovery == Recovery::Cpu { Backend::Cpu } else { Backend::Gpu };
            assert_eq!(outputs.stats().backend, Some(side));
            assert_eq!(device.pool_stats().losses, 1, "{recovery:?} after {polls} polls");
        }
        assert!(recovered > 0, "some run was under way");
    }
}

#[tokio::test]
async fn who_opens_the_device_again_and_is_not_polled_keeps_nobody_waiting() {
    let Some(device) = device(Recovery::Reopen).await else { return };
    for times in 1..12 {
        device.simulate_loss();
        let mut parked = pin!(device.eval(|b| b.full(3, times as f32)));
        let done = polled(parked.as_mut(), times).await;
        for _ in 0..3 {
            let others = soon(device.eval(|b| b.full(2, 7.0_f32))).await.unwrap();
            assert_eq!(others, [7.0; 2], "beside one that was polled {times} times");
        }
        let parked = match done {
            Some(done) => done,
            None => soon(parked).await,
        };
        assert_eq!(parked.unwrap(), [times as f32; 3]);
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn many_tasks_go_on_over_many_losses() {
    let Some(device) = device(Recovery::Reopen).await else { return };
    let weights = whole_numbers(1, 600);
    let w = device.resident(&weights, [30, 20]).unwrap();
    w.keep_host_copy().await.unwrap();
    let (program, x, y) = product(&device, &w).await;
    let end = Arc::new(AtomicBool::new(false));
    let tasks = (0..8).map(|task| {
        let (program, weights, end) = (program.clone(), weights.clone(), Arc::clone(&end));
        tokio::spawn(async move {
            while !end.load(Ordering::Relaxed) {
                let data = whole_numbers(task, 1200);
                let outputs = soon(program.run([(x, &data)])).await.unwrap();
                let got = outputs.read(y).await.unwrap();
                assert_eq!(got, product_by_hand(&data, &weights));
            }
        })
    });
    let tasks: Vec<_> = tasks.collect();
    // No more than one run may meet: on a busy machine a single one may meet all.
    for _ in 0..3 {
        tokio::time::sleep(Duration::from_millis(150)).await;
        device.simulate_loss();
    }
    tokio::time::sleep(Duration::from_millis(150)).await;
    end.store(true, Ordering::Relaxed);
    for task in tasks {
        task.await.unwrap();
    }
    assert!((1..=3).contains(&device.pool_stats().losses));
}

#[tokio::test]
async fn programs_and_residents_outlive_the_handle_of_their_device() {
    for device in common::devices().await {
        let weights = whole_numbers(1, 600);
        let w = device.resident(&weights, [30, 20]).unwrap();
        let (program, x, y) = product(&device, &w).await;
        drop(device);
        let data = whole_numbers(2, 1200);
        let outputs = program.run([(x, &data)]).await.unwrap();
        assert_eq!(outputs.read(y).await.unwrap(), product_by_hand(&data, &weights));
        drop((program, outputs));
        assert_eq!(w.read().await.unwrap(), weights);
    }
}

/// Runs that wait for memory while others give the GPU up have a plan for a GPU that is gone once they may go on.
#[tokio::test(flavor = "multi_thread", worker_threads = 4)]
async fn runs_that_wait_for_memory_outlive_a_loss() {
    const LENGTH: usize = 1 << 18;
    for recovery in [Recovery::Reopen, Recovery::Cpu] {
        if device(recovery).await.is_none() {
            return;
        }
        // Room for one run, whose data, results and copies are 4 MiB.
        let builder = Device::builder().without_cache().recovery(recovery);
        let device = builder.memory_budget(5 << 20).gpu().await.expect("the adapter is there");
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", LENGTH);
        let mut y = x;
        for _ in 0..3 {
            y = batch.cumsum(y, 0);
            y = batch.scale(y, 0.5);
        }
        let program = batch.compile().await.expect("a sound graph");
        let (x, y) = (x.id(), y.id());
        let data = vec![0.25_f32; LENGTH];
        let want = soon(program.run([(x, &data)])).await.unwrap().read(y).await.unwrap();
        let runs = (0..16).map(|_| {
            let (program, data, want) = (program.clone(), data.clone(), want.clone());
            tokio::spawn(async move {
                let got = soon(program.run([(x, &data)])).await.unwrap().read(y).await.unwrap();
                let is_near = |(a, b): (&f32, &f32)| (a - b).abs() <= 1e-5 * b.abs();
                assert!(got.iter().zip(&want).all(is_near));
            })
        });
        let runs: Vec<_> = runs.collect();
        tokio::time::sleep(Duration::from_millis(5)).await;
        device.simulate_loss();
        for run in runs {
            run.await.unwrap();
        }
        assert_eq!(device.metrics().failed, 0, "{recovery:?}");
    }
}
