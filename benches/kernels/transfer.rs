//! Transfers of 256 MB between host memory and the device, alone and beside work.

use std::error::Error;
use std::time::Instant;

use onetrip::{Curve, Device, GpuCommandBatch};

use crate::reference::{Random, check};
use crate::timing::{median, milliseconds};
use crate::{BUDGET, Bench, SIDE};

const ELEMENTS: usize = 64_000_000;
const BYTES: usize = 4 * ELEMENTS;
const LAYERS: usize = 3;

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
        let batch = GpuCommandBatch::new(&self.device);
        let x = batch.upload_shaped(given, ELEMENTS);
        let there = batch.keep(x);
        self.transfer("upload_256MB", BYTES, start, async || {
            batch.write_with(x, |_| ())?;
            batch.execute().await
        })
        .await?;
        self.transfer("write_256MB", BYTES, Instant::now(), async || {
            batch.write(x, &data)?;
            batch.execute().await
        })
        .await?;
        self.transfer("read_256MB", BYTES, Instant::now(), async || there.read().await.map(drop))
            .await?;
        let mut out = vec![0.0; ELEMENTS];
        self.transfer("read_into_256MB", BYTES, Instant::now(), async || {
            there.read_into(&mut out).await
        })
        .await?;
        self.transfer("read_view_256MB", BYTES, Instant::now(), async || {
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
        bytes: usize,
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
        let rate = bytes as f64 / time.as_secs_f64() / 1e9;
        println!("kernel {name} {} {rate:.1} GB/s {}", milliseconds(time), milliseconds(first));
        Ok(())
    }

    /// Layers of which each brings its weights, to the device that works on those before meanwhile; and to one of which
    /// is said that uploads take no time, so that they go at once.
    pub async fn layers_with_uploads(&self) -> Result<(), Box<dyn Error>> {
        const NAME: &str = "layers_3x4096_uploaded";
        if !self.wants(NAME) || self.device.info().name == "cpu" {
            return Ok(());
        }
        let mut profile = self.device.profile();
        profile.gpu.upload = Curve::default();
        let at_once = Device::builder().with_profile(profile).without_learning().gpu().await?;
        let mut results = None;
        for (name, device) in [(NAME, &self.device), ("layers_3x4096_uploaded_at_once", &at_once)] {
            let mut random = Random::new(9);
            let data: Vec<_> = (0..=LAYERS).map(|_| random.floats(SIDE * SIDE)).collect();
            let start = Instant::now();
            let batch = GpuCommandBatch::new(device);
            let upload = |data| batch.upload_shaped(data, [SIDE, SIDE]);
            let uploads: Vec<_> = data.into_iter().map(upload).collect();
            let mut y = uploads[0];
            for &w in &uploads[1..] {
                y = y.matmul(w).tanh();
            }
            let kept = batch.keep(y);
            self.transfer(name, 4 * (LAYERS + 1) * SIDE * SIDE, start, async || {
                batch.execute().await
            })
            .await?;
            println!("# {}", batch.stats());
            let result = kept.read().await?;
            if results.get_or_insert_with(|| result.clone()) != &result {
                return Err(format!("{name}: not what came of waves").into());
            }
        }
        Ok(())
    }
}
