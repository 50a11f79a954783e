//! The card at the clocks of one that is in use.

use std::time::{Duration, Instant};

use onetrip::{Device, GpuCommandBatch, Placement, Resident, Result};

/// Rows and columns of the product that wakes the card.
const SIDE: usize = 2048;
/// After so long at work, a card that has rested is as fast as it gets.
const LONGEST: Duration = Duration::from_secs(1);

/// Keeps a card awake that waits for the host most of the time.
pub struct Card {
    work: GpuCommandBatch,
    _factor: Resident<f32>,
    worked: Instant,
}

impl Card {
    pub fn new(device: &Device) -> Result<Self> {
        let factor = device.resident(&vec![0.25; SIDE * SIDE], [SIDE, SIDE])?;
        let work = GpuCommandBatch::new(device);
        let x = work.bind(&factor);
        let product = work.matmul(x, x);
        work.sum(product, 1);
        work.set_placement(Placement::Gpu);
        Ok(Self { work, _factor: factor, worked: Instant::now() })
    }

    /// Multiplies for as long as the card has rested since it [`worked`](Self::worked).
    pub async fn wake(&mut self) -> Result<()> {
        let rested = self.worked.elapsed().min(LONGEST);
        let start = Instant::now();
        while start.elapsed() < rested {
            self.work.execute().await?;
        }
        Ok(())
    }

    pub fn worked(&mut self) {
        self.worked = Instant::now();
    }
}
