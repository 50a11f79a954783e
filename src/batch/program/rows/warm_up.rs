//! Plans of all sizes of chunks, before the first request.

use std::sync::atomic::Ordering;

use super::traced::Rows;
use crate::base::future::BoxFuture;
use crate::error::{Error, Result, RunError};

impl Rows {
    /// Plans and compiles the program for chunks of 1, 2, 4, … rows, so that no request waits for that. Stops at chunks for
    /// which the [memory budget](crate::DeviceBuilder::memory_budget) has no room. Returns the rows of the largest chunk:
    /// [`run`](Self::run) cuts more rows into several.
    ///
    /// A software adapter compiles when a kernel first computes: there, run each size once too.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.input::<f32>("x", [8, 2]);
    /// x.relu().named("y");
    /// let program = batch.compile().await?;
    /// assert_eq!(program.rows()?.warm_up().await?, 1024);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// As [`program`](Self::program).
    pub fn warm_up(&self) -> BoxFuture<'_, Result<usize>> {
        Box::pin(async {
            let (mut largest, mut rows) = (0, 1);
            while rows <= self.plans.most.load(Ordering::Relaxed) {
                match self.program_for_rows(rows).await {
                    Ok(_) => (largest, rows) = (rows, 2 * rows),
                    Err(Error::Run(RunError::OverBudget { .. })) if largest > 0 => {
                        self.plans.most.fetch_min(largest, Ordering::Relaxed);
                    }
                    Err(error) => return Err(error),
                }
            }
            Ok(largest)
        })
    }
}
