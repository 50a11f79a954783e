//! An elementwise expression of one's own over units of one's own, and where its time goes.
//!
//! Run with `cargo run --release --example formula`; `ONETRIP_BACKEND=cpu` or `=gpu` overrides the choice.

use onetrip::bytemuck::{Pod, TransparentWrapper, Zeroable};
use onetrip::{Device, GpuCommandBatch, Newtype, Result};

#[derive(Clone, Copy, Debug, Default, PartialEq, Pod, Zeroable, TransparentWrapper)]
#[repr(transparent)]
struct Metres(f32);

impl Newtype for Metres {
    type Inner = f32;
}

/// The radius of the earth.
const RADIUS: Metres = Metres(6_371_000.0);

#[tokio::main]
async fn main() -> Result<()> {
    let device = Device::auto().await?;
    let batch = GpuCommandBatch::new(&device);
    let heights: Vec<Metres> = (0..1_000_000_u32).map(|h| Metres(h as f32 / 100.0)).collect();
    let height = batch.input::<Metres>("height", heights.len());
    // The distance to the horizon: √(h·(2·r + h)).
    let distance = (height * (height + Metres(2.0 * RADIUS.0))).sqrt();
    distance.amax(..).named("furthest");
    println!("{}", batch.explain()?);

    let program = batch.compile().await?;
    let outputs = program.run([("height", &heights)]).await?;
    let furthest = outputs.read::<Metres>("furthest").await?;
    println!("from {:?} one sees {:?}\n", heights[heights.len() - 1], furthest[0]);
    println!("{}", program.profile([("height", &heights)]).await?);
    Ok(())
}
