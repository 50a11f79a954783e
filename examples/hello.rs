//! The shortest program: y = relu(2·x + 1), computed in one trip.

use onetrip::{Device, GpuCommandBatch, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let device = Device::auto().await?;
    let batch = GpuCommandBatch::new(&device);
    let y = batch.upload(&[-2.0_f32, -1.0, 0.0, 1.0, 2.0]).scale(2.0).add_scalar(1.0).relu();
    batch.execute().await?;
    println!("{:?}\n{}", batch.read(y).await?, batch.stats());
    Ok(())
}
