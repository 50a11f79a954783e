//! Residents after a loss of the GPU: what the host has a copy of is read, and counts once.

use std::pin::pin;

use onetrip::{DeviceError, Error, GpuCommandBatch, Recovery};

use super::losses::{device, polled, soon};
use super::{product, product_by_hand, whole_numbers};

/// The host copies are read whatever a run left on the device before its loss.
#[tokio::test]
async fn residents_with_a_host_copy_are_read_after_a_loss() {
    for recovery in [Recovery::Reopen, Recovery::Cpu] {
        let Some(device) = device(recovery).await else { return };
        let data = whole_numbers(4, 1000);
        let made = device.resident(&data, 1000).unwrap();
        made.keep_host_copy().await.unwrap();
        let batch = GpuCommandBatch::new(&device);
        let x = batch.bind(&made);
        let y = batch.neg(x);
        let kept = batch.keep(y);
        kept.keep_host_copy().await.unwrap();
        soon(batch.execute()).await.unwrap();
        device.simulate_loss();
        let negative: Vec<f32> = data.iter().map(|x| -x).collect();
        for (resident, want) in [(&made, &data), (&kept, &negative)] {
            let mut out = vec![f32::NAN; 1000];
            soon(resident.read_into(&mut out)).await.unwrap();
            assert_eq!(&out, want, "{recovery:?}");
            assert_eq!(&soon(resident.read()).await.unwrap(), want, "{recovery:?}");
            assert_eq!(&soon(resident.read_view()).await.unwrap()[..], want, "{recovery:?}");
            soon(resident.keep_host_copy()).await.unwrap();
        }
        soon(batch.execute()).await.unwrap();
        assert_eq!(soon(kept.read()).await.unwrap(), negative);
    }
}

#[tokio::test]
async fn state_with_a_host_copy_counts_each_step_once() {
    for recovery in [Recovery::Reopen, Recovery::Cpu] {
        let Some(device) = device(recovery).await else { return };
        let total = device.resident(&[0.0_f32; 300], 300).unwrap();
        total.keep_host_copy().await.unwrap();
        let batch = GpuCommandBatch::new(&device);
        let x = batch.input::<f32>("x", 300);
        let sum = batch.bind(&total).add(x);
        batch.update(&total, sum);
        let program = batch.compile().await.unwrap();
        for step in 1..=12 {
            if step % 3 == 0 {
                device.simulate_loss();
            }
            soon(program.run([(x, &[step as f32; 300])])).await.unwrap();
        }
        assert_eq!(soon(total.read()).await.unwrap(), [78.0; 300]);
        let losses = if recovery == Recovery::Cpu { 1 } else { 4 };
        assert_eq!(device.pool_stats().losses, losses);
    }
}

/// A state so large that a GPU writes its parts in place. What is written is made of what was there, so that to write
/// it twice shows.
#[tokio::test]
async fn a_part_written_in_place_counts_once_whenever_the_device_is_lost() {
    const LONG: usize = 1 << 18;
    for recovery in [Recovery::Reopen, Recovery::Cpu] {
        let Some(device) = device(recovery).await else { return };
        let state = device.resident(&[1_i32; 4 * LONG], [4, LONG]).unwrap();
        state.keep_host_copy().await.unwrap();
        let batch = GpuCommandBatch::new(&device);
        let (old, x) = (batch.bind(&state), batch.input::<i32>("x", [1, 1]));
        let row = batch.slice(old, [(2..3, 1), (0..LONG, 1)]).add(x);
        let all = batch.replace_slice(old, row, 0, 2);
        batch.update(&state, all);
        let program = batch.compile().await.unwrap();
        for step in 1..=8_i32 {
            let data = [step];
            let mut run = pin!(program.run([(x, &data)]));
            let done = polled(run.as_mut(), step as usize - 1).await;
            if step % 2 == 0 {
                device.simulate_loss();
            }
            match done {
                Some(done) => done.unwrap(),
                None => soon(run).await.unwrap(),
            };
        }
        let rows = soon(state.read()).await.unwrap();
        for (row, want) in rows.chunks(LONG).zip([1, 1, 37, 1]) {
            assert!(row.iter().all(|&x| x == want), "{} … {}, not {want}", row[0], row[LONG - 1]);
        }
    }
}

#[tokio::test]
async fn what_lay_on_the_lost_device_alone_is_named() {
    for recovery in [Recovery::Reopen, Recovery::Cpu] {
        let Some(device) = device(recovery).await else { return };
        let (w, line) = (device.resident(&whole_numbers(1, 600), [30, 20]).unwrap(), line!());
        let (program, x, _) = product(&device, &w).await;
        device.simulate_loss();
        let run = soon(program.run([(x, &[1.0; 1200])])).await.map(|_| ());
        for result in [run, w.read().await.map(|_| ())] {
            let Err(Error::Device(DeviceError::ResidentLost { of, what })) = result else {
                panic!("{recovery:?}: {result:?}")
            };
            assert_eq!(what, "f32[30, 20]");
            assert!(of.to_string().ends_with(&format!("residents.rs:{line})")), "{of}");
        }
        // The device goes on, with residents that are made again.
        let w = device.resident(&whole_numbers(1, 600), [30, 20]).unwrap();
        let (program, x, _) = product(&device, &w).await;
        soon(program.run([(x, &[1.0; 1200])])).await.unwrap();
    }
}

#[tokio::test]
async fn a_resident_made_on_a_lost_device_goes_to_the_next() {
    let Some(device) = device(Recovery::Reopen).await else { return };
    device.simulate_loss();
    let weights = whole_numbers(2, 600);
    let w = device.resident(&weights, [30, 20]).unwrap();
    let (program, x, y) = product(&device, &w).await;
    let data = whole_numbers(3, 1200);
    let outputs = soon(program.run([(x, &data)])).await.unwrap();
    assert_eq!(outputs.read(y).await.unwrap(), product_by_hand(&data, &weights));
}
