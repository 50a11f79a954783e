//! The types that the user holds: the batch that records, its tensors and ids, programs and residents.
//!
//! The first modules are in the order of the documentation of [`GpuCommandBatch`]: make one, bring data, run, read.

/// Calls a macro with the type names and positions of tuples of each length up to eight.
macro_rules! tuples {
    ($each:ident) => {
        $each!(A 0);
        $each!(A 0, B 1);
        $each!(A 0, B 1, C 2);
        $each!(A 0, B 1, C 2, D 3);
        $each!(A 0, B 1, C 2, D 3, E 4);
        $each!(A 0, B 1, C 2, D 3, E 4, F 5);
        $each!(A 0, B 1, C 2, D 3, E 4, F 5, G 6);
        $each!(A 0, B 1, C 2, D 3, E 4, F 5, G 6, H 7);
    };
}

mod command_batch;

mod upload;

mod resident;

mod run;

mod read;

mod program;

#[cfg(feature = "ndarray")]
mod arrays;
mod blocking;
mod input;
mod last_run;
mod profile;
#[cfg(feature = "gpu")]
mod sharing;
mod values;
#[cfg(feature = "safetensors")]
mod weights;
mod wgsl;

pub use command_batch::At;
pub use input::{Input, InputPair, Inputs};
pub use profile::{KernelKind, KernelProfile, Profile, StageProfile};
#[cfg(feature = "safetensors")]
pub use program::{LoadOptions, SaveOptions};
pub use program::{OutputKey, Outputs, Program, RowResult, Rows};
pub use read::ReadView;
pub use resident::Resident;
#[cfg(feature = "gpu")]
pub use sharing::WgpuBuffer;
pub use upload::UploadData;
pub use values::{AnyId, BufferId, Operand, OptionalOperand, Tensor, Values};
pub(crate) use values::{OperationResult, TensorResult};
#[cfg(feature = "safetensors")]
pub use weights::{TensorType, Weights};
pub use wgsl::{CpuKernel, Wgsl};

use std::fmt;
use std::sync::Arc;

use self::last_run::LastRun;
use crate::base::sync::Mutex;
use crate::device::Device;
use crate::record::Recorder;

/// Records operations and runs them in one trip.
///
/// Recording never fails and never waits: each method returns a [`Tensor`](crate::Tensor) at once, which is an id
/// beside the batch. Mistakes (shapes that do not fit, ids of another batch) are kept with the caller's file and line,
/// and [`explain`](Self::explain) and [`execute`](Self::execute) report them together.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, GpuCommandBatch};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload_shaped(&[1.0_f32, -2.0, 3.0, 4.0], [2, 2]);
/// let w = batch.upload_shaped(&[1.0_f32, 0.0, 0.0, 1.0], [2, 2]);
/// let y = (x.matmul(w) + 0.5).relu();
/// let z = batch.relu(batch.add(batch.matmul(x, w), 0.5)); // The same, as calls on the batch.
/// batch.execute().await?;
/// assert_eq!(batch.read(y).await?, [1.5, 0.0, 3.5, 4.5]);
/// assert_eq!(batch.read(z).await?, batch.read(y).await?);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
///
/// Everything takes `&self`, so calls nest, and several threads may record in one batch. Its runs take turns.
///
/// A run downloads the values passed to [`download`](Self::download) or [`outputs`](Self::outputs), else every result
/// that no other operation reads and that is not [kept](Self::keep). Values that no output needs are not computed.
///
/// # Numbers
///
/// Shapes broadcast by NumPy's rules. NaN propagates as in NumPy. `f16` is stored in 16 bits and computed
/// in `f32`; inside one fused kernel, values in between keep the precision of `f32`. Integers wrap.
///
/// Results of integers and truth values alone are the same on every device. Floats lie within the
/// [tolerances](crate::OpInfo::tolerance) of their operations. They may differ in the last bits from side to side and
/// from device to device, unless an operation says that it is exact.
///
/// # Faults
///
/// An index out of range, or an integer divided by zero, makes the run fail: [`execute`](Self::execute) returns a
/// [`Fault`](crate::Fault) that names the operation and its first element at fault. All elements of every
/// operation that an output depends on are checked, also those that `select` or `slice` drops. Other operations are not
/// checked. The operation recorded first comes first, then the lower position. This
/// does not depend on the device, on fusion, or on threads.
pub struct GpuCommandBatch {
    device: Device,
    /// The number that marks its ids as its own.
    pub(crate) brand: u64,
    recorder: Mutex<Recorder>,
    last: Mutex<LastRun>,
    /// Held by the run under way.
    running: tokio::sync::Mutex<()>,
}

impl Drop for GpuCommandBatch {
    /// The memory of uploads goes to later batches.
    fn drop(&mut self) {
        let pool = self.device.pool();
        let recorder = self.recorder.get_mut();
        if let Some(recorded) = recorder.alone() {
            recorded.uploads.drain(..).flatten().for_each(|upload| pool.give(upload));
        } else {
            let uploads = recorder.recorded().uploads.iter().flatten();
            uploads.for_each(|upload| pool.give(Arc::clone(upload)));
        }
    }
}

impl fmt::Debug for GpuCommandBatch {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "GpuCommandBatch({}, {} operations)", self.brand, self.recorded().graph.len())
    }
}
