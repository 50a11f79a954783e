//! Memory of lost devices is freed. The memory is the whole process's, which no other test may share.

#![cfg(feature = "gpu")]

mod common;
#[path = "common/losses.rs"]
mod losses;

use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;

use losses::{device, polled, soon};
use onetrip::{GpuCommandBatch, Recovery};

/// Bytes of memory that the process has, where the system says so.
fn memory() -> Option<usize> {
    let pages = std::fs::read_to_string("/proc/self/statm").ok()?;
    Some(4096 * pages.split(' ').nth(1)?.parse::<usize>().ok()?)
}

/// A software adapter has its memory from the host, so that whatever a lost device keeps is seen.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_lost_devices_held_is_freed() {
    const LONG: usize = 1 << 19;
    const LOSSES: usize = 20;
    let Some(device) = device(Recovery::Reopen).await else { return };
    let batch = GpuCommandBatch::new(&device);
    let x = batch.input::<f32>("x", LONG);
    let y = batch.neg(x).id();
    let (program, x) = (batch.compile().await.unwrap(), x.id());
    let data = Arc::new(vec![1.5; LONG]);
    let mut before = None;
    for loss in 0..LOSSES {
        // Some of them are dropped, at several stages.
        let runs = (0..6).map(|polls| {
            let (program, data) = (program.clone(), Arc::clone(&data));
            tokio::spawn(async move {
                let mut run = pin!(program.run([(x, &data[..])]));
                match polled(run.as_mut(), polls).await {
                    Some(done) => drop(done.unwrap()),
                    None if polls % 2 == 0 => drop(soon(run).await.unwrap()),
                    None => {}
                }
            })
        });
        let runs: Vec<_> = runs.collect();
        tokio::time::sleep(Duration::from_micros(300 * (loss as u64 % 4))).await;
        device.simulate_loss();
        for run in runs {
            run.await.unwrap();
        }
        let outputs = soon(program.run([(x, &data[..])])).await.unwrap();
        assert_eq!(outputs.read_view(y).unwrap()[LONG - 1], -1.5);
        before = before.or(memory().filter(|_| loss == LOSSES / 4));
    }
    assert!(device.pool_stats().losses >= LOSSES as u64 / 2, "{:?}", device.pool_stats());
    drop((program, batch));
    device.trim();
    let Some(before) = before else { return };
    // Each of the runs holds 8 MiB.
    let bounded = async {
        while memory() > Some(before + (100 << 20)) {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    let end = tokio::time::timeout(Duration::from_secs(20), bounded).await;
    assert!(end.is_ok(), "from {before} to {:?} bytes", memory());
}
