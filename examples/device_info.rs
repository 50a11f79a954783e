//! What the devices of this machine are, and how fast: as kept on disk, or measured with `-- --calibrate`.

use onetrip::{Device, Result};

#[tokio::main]
async fn main() -> Result<()> {
    let measure = std::env::args().any(|argument| argument == "--calibrate");
    let device = Device::auto().await?;
    println!("{}", device.info());
    if let Some(why) = &device.info().fallback {
        println!("no GPU is used: {why}");
    }
    if measure {
        let started = std::time::Instant::now();
        let progress = |step: onetrip::Progress| {
            eprintln!("{}/{}: {} on {}", step.done + 1, step.of, step.what, step.side);
        };
        device.calibrate_with(progress).await?;
        println!("calibrated in {:.3} s", started.elapsed().as_secs_f64());
    }
    print!("{}", device.profile());
    Ok(())
}
