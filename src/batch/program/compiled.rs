//! The program itself: a record with its plan.

use std::fmt;
use std::sync::{Arc, OnceLock};

use super::rows::plans::RowPlans;
use crate::base::future::BoxFuture;
use crate::device::Device;
use crate::error::Result;
use crate::record::{Record, Version};
use crate::residents::UpdateOrder;
use crate::session::LastChoice;

/// A compiled batch: immutable, cheap to clone, shared among tasks. Its runs share plan, pipelines, bind groups and
/// buffers, and any number of them may be under way at once. Give inputs of one element type as an array, others as
/// a tuple.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, GpuCommandBatch};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.input::<f32>("x", 3);
/// let y = x.relu().named("y");
/// let program = batch.compile().await?;
///
/// let outputs = program.run([(x, &[1.0, -2.0, 3.0])]).await?;
/// assert_eq!(outputs.read(y).await?, [1.0, 0.0, 3.0]);
/// let outputs = program.run([("x", &[-1.0_f32, 2.0, 0.5])]).await?;
/// assert_eq!(outputs.read::<f32>("y").await?, [0.0, 2.0, 0.5]);
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let (x, rows) = (batch.input::<f32>("x", 3), batch.input::<u32>("rows", 2));
/// let y = x.gather(rows, 0);
/// let program = batch.compile().await?;
/// let outputs = program.run(((x, &[1.0, -2.0, 3.0]), (rows, &[2, 0]))).await?; // Of two element types.
/// assert_eq!(outputs.read(y).await?, [3.0, 1.0]);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone)]
pub struct Program(pub(super) Arc<Inner>);

pub(super) struct Inner {
    /// Each run must bring the data of uploads that have none here.
    pub recorded: Arc<Record>,
    pub order: UpdateOrder,
    pub last_choice: LastChoice,
    /// The rows of all inputs, once they were traced.
    pub rows: OnceLock<Arc<RowPlans<Program>>>,
}

impl Inner {
    pub fn new(recorded: Arc<Record>) -> Self {
        let order = recorded.update_order();
        Self { recorded, order, last_choice: LastChoice::default(), rows: OnceLock::new() }
    }
}

/// The program itself.
impl Program {
    #[cfg(feature = "safetensors")]
    pub(crate) fn recorded(&self) -> &Arc<Record> {
        &self.0.recorded
    }

    pub(crate) fn compiled(recorded: Arc<Record>) -> BoxFuture<'static, Result<Self>> {
        Box::pin(async {
            let program = Self(Arc::new(Inner::new(recorded)));
            let Inner { recorded, last_choice, .. } = &*program.0;
            if recorded.session(Version::default(), last_choice).compile().await? {
                Box::pin(program.run_on_zeros()).await;
            }
            Ok(program)
        })
    }

    /// A 128-bit hash of the program's structure: its operations with their parameters, element types and shapes. It
    /// excludes data. It is equal in every process of one crate version. A [`Device`] finds its plans by it. It covers
    /// which kernels have a function for [the CPU](crate::Wgsl::on_cpu), not the function itself.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let program = async |scale: f32| {
    ///     let batch = GpuCommandBatch::new(&device);
    ///     (batch.input::<f32>("x", 2) * batch.upload(&[scale, scale])).named("y");
    ///     batch.compile().await
    /// };
    /// let [one, other] = [program(1.0).await?, program(2.0).await?];
    /// assert_eq!(one.fingerprint(), other.fingerprint()); // They differ in data alone.
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn fingerprint(&self) -> u128 {
        self.0.recorded.graph.fingerprint().0
    }

    /// The device that the program runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.0.recorded.device
    }
}

impl fmt::Debug for Program {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "Program({:032x}, {} operations)",
            self.fingerprint(),
            self.0.recorded.graph.len()
        )
    }
}
