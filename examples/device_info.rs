//! The devices of this machine and their rates: as kept on disk, or measured with `-- --calibrate`.

#[path = "common/flags.rs"]
mod flags;

use std::error::Error;

use onetrip::Device;
use pico_args::Arguments;

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = Arguments::from_env();
    flags::help(&mut arguments, include_str!("device_info.rs"));
    let measure = arguments.contains("--calibrate");
    flags::nothing_else(arguments)?;
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
    let profile = device.profile();
    if device.is_gpu() || profile.measured {
        print!("{profile}");
    } else {
        // Its figures of a GPU are those of none that is here.
        print!("typical figures\ncpu: {}", profile.cpu);
    }
    Ok(())
}
