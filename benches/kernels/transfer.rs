//! Transfers of 256 MB between host memory and the device.

use std::error::Error;
use std::time::Instant;

use onetrip::GpuCommandBatch;

use crate::reference::{Random, check};
use crate::timing::{median, milliseconds};
use crate::{BUDGET, Bench};

const ELEMENTS: usize = 64_000_000;

impl Bench {
    /// To the device: what is timed ends when the data has arrived. Then back.
    pub async fn transfers(&self) -> Result<(), Box<dyn Error>> {
        if !["upload_256MB", "write_256MB", "read_256MB", "read_into_256MB", "read_view_256MB"]
            .iter()
            .any(|name| self.wants(name))
        {
            return Ok(());
        }
        let data = Random::new(8).floats(ELEMENTS);
        let given = data.clone();
        let start = Instant::now();
        let mut batch = GpuCommandBatch::new(&self.device);
        let x = batch.upload_vec(given, ELEMENTS);
        let there = batch.keep(x);
        self.transfer("upload_256MB", start, async || {
            batch.write_with(x, |_| ())?;
            batch.execute().await
        })
        .await?;
        self.transfer("write_256MB", Instant::now(), async || {
            batch.write(x, &data)?;
            batch.execute().await
        })
        .await?;
        self.transfer("read_256MB", Instant::now(), async || there.read().await.map(drop)).await?;
        let mut out = vec![0.0; ELEMENTS];
        self.transfer("read_into_256MB", Instant::now(), async || there.read_into(&mut out).await)
            .await?;
        self.transfer("read_view_256MB", Instant::now(), async || {
            there.read_view().await.map(drop)
        })
        .await?;
        batch.write(x, &data)?;
        batch.execute().await?;
        check("transfers", Some(there.read().await?), 0.0, |i| f64::from(data[i]))?;
        Ok(())
    }

    async fn transfer(
        &self,
        name: &str,
        start: Instant,
        mut work: impl AsyncFnMut() -> onetrip::Result<()>,
    ) -> Result<(), Box<dyn Error>> {
        work().await?;
        let first = start.elapsed();
        if self.first_only {
            println!("kernel {name} - - {}", milliseconds(first));
            return Ok(());
        }
        let time = median(BUDGET, work).await?;
        let rate = 4.0 * ELEMENTS as f64 / time.as_secs_f64() / 1e9;
        println!("kernel {name} {} {rate:.1} GB/s {}", milliseconds(time), milliseconds(first));
        Ok(())
    }
}
