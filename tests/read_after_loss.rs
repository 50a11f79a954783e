//! Results stay while they are read, whoever else has the device that is lost. wgpu frees them when that is polled.

#![cfg(feature = "gpu")]

mod common;
#[path = "common/own_device.rs"]
mod own_device;

use std::time::Duration;

use onetrip::wgpu;
use onetrip::{Device, GpuCommandBatch, ReadView};
use own_device::open;

/// Elements of a result that has memory of its own, so that to read it once it is freed ends the process.
const LONG: usize = 1 << 24;

/// Results of `device`, which outlive it.
async fn results(device: &Device) -> ReadView<f32> {
    let batch = GpuCommandBatch::new(device);
    let y = batch.upload_shaped(vec![1.5; LONG], LONG).neg();
    batch.execute().await.expect("a run");
    batch.read_view(y).expect("a download")
}

/// Uses `device` for a while, which is lost, or will be found to be.
async fn poll(device: &Device) {
    let _ = device.eval(|b| b.full(2, 1.0_f32)).await;
    device.trim();
    tokio::time::sleep(Duration::from_millis(100)).await;
}

fn check(results: &ReadView<f32>) {
    assert!(results.iter().all(|&x| x == -1.5));
}

#[tokio::test]
async fn results_of_a_device_that_is_adopted_once_more_and_lost() {
    let Some((adapter, device, queue)) = open(wgpu::Limits::default()).await else { return };
    let first = Device::from_wgpu(&adapter, device.clone(), queue.clone()).unwrap();
    let results = results(&first).await;
    let next = Device::from_wgpu(&adapter, device, queue).unwrap();
    next.simulate_loss();
    poll(&next).await;
    poll(&first).await;
    check(&results);
}

/// Devices of two instances have the same numbers.
#[tokio::test]
async fn a_device_of_another_instance_is_not_lost() {
    let (Some(one), Some(other)) =
        (open(wgpu::Limits::default()).await, open(wgpu::Limits::default()).await)
    else {
        return;
    };
    let [one, other] = [one, other]
        .map(|(adapter, device, queue)| Device::from_wgpu(&adapter, device, queue).unwrap());
    one.simulate_loss();
    assert_eq!(other.eval(|b| b.full(2, 1.0_f32)).await.unwrap(), [1.0; 2]);
}
