//! [`GpuCommandBatch`]: the struct, how it is made and placed, its plan, its graph and its counters.

use std::fmt;
use std::marker::PhantomData;
use std::sync::Arc;

use super::last_run::LastRun;
use crate::base::place::Place;
use crate::base::sync::Mutex;
use crate::cost::Placement;
use crate::device::Device;
use crate::error::Result;
use crate::plan::Explanation;
use crate::record::{Record, Recorder, new_batch_id};
use crate::session::{LastChoice, RunStats};

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
    pub(super) device: Device,
    /// The number that marks its ids as its own.
    pub(crate) batch_id: u64,
    pub(super) recorder: Mutex<Recorder>,
    pub(super) last: Mutex<LastRun>,
    pub(super) last_choice: LastChoice,
    /// Held by the run under way.
    pub(super) running: tokio::sync::Mutex<()>,
}

impl GpuCommandBatch {
    /// An empty batch for `device`.
    #[must_use]
    #[track_caller]
    pub fn new(device: &Device) -> Self {
        Self::made_at(device, Place::caller())
    }

    /// An empty batch, made at a line of another language's code. Operations get such a line by [`at`](Self::at).
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new_at(&Device::cpu(), "model.py", 7);
    /// let error = batch.explain().unwrap_err().to_string();
    /// assert!(error.starts_with("model.py:7: the batch made here is empty"));
    /// ```
    #[must_use]
    pub fn new_at(device: &Device, file: &str, line: u32) -> Self {
        Self::made_at(device, Place::given(file, line))
    }

    pub(super) fn made_at(device: &Device, place: Place) -> Self {
        let batch_id = new_batch_id(&place);
        Self {
            device: device.clone(),
            batch_id,
            recorder: Mutex::new(Recorder::new(device, batch_id, place)),
            last: Mutex::default(),
            last_choice: LastChoice::default(),
            running: tokio::sync::Mutex::default(),
        }
    }

    /// The device that the batch runs on.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// assert!(!batch.device().is_gpu());
    /// ```
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sets how later runs choose their side: at first as the device does. A run fails if the device lacks the side
    /// ([`PlanError::NoSuchSide`](crate::PlanError::NoSuchSide)).
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Backend, Device, GpuCommandBatch, Placement};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// batch.set_placement(Placement::Cpu);
    /// batch.upload(&[1.0_f32, -2.0]).relu();
    /// batch.execute().await?;
    /// assert_eq!(batch.stats().backend, Some(Backend::Cpu));
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    pub fn set_placement(&self, placement: Placement) {
        let mut recorder = self.recorder.lock();
        if recorder.recorded().placement != placement {
            recorder.change().placement = placement;
        }
    }

    /// Gives a place to all that this thread records until the result is dropped: bindings of other languages name a
    /// line of their user's code. Errors, [`explain`](Self::explain) and [`to_dot`](Self::to_dot) then name that line,
    /// in place of one of the binding.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let (x, y) = (batch.upload(&[1.0_f32; 2]), batch.upload(&[1.0_f32; 3]));
    /// {
    ///     let _at = batch.at("model.py", 12);
    ///     batch.add(x, y);
    /// }
    /// let error = batch.check_recorded().unwrap_err().to_string();
    /// assert!(error.starts_with("model.py:12: add: "));
    /// ```
    pub fn at(&self, file: &str, line: u32) -> PlaceGuard<'_> {
        PlaceGuard { before: Place::set(Some(Place::given(file, line))), of: PhantomData }
    }

    /// The plan of a run. It lists every kernel with the operations fused in it, its shapes, bytes, flops and predicted
    /// time. It says where the kernels run and why, and gives the transfers and the peak of memory of the whole.
    ///
    /// # Errors
    /// Every mistake made while recording, or why the graph cannot be planned for the device.
    pub fn explain(&self) -> Result<Explanation> {
        let (recorded, version) = self.snapshot().checked_record()?;
        recorded.session(version, &self.last_choice).explanation()
    }

    /// The recorded graph in Graphviz's language.
    ///
    /// ```
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// batch.upload(&[1.0_f32, -2.0]).relu();
    /// assert!(batch.to_dot().starts_with("digraph"));
    /// ```
    #[must_use]
    pub fn to_dot(&self) -> String {
        self.recorded().graph.to_dot()
    }

    /// The counters of the last run, or zeros before the first.
    #[must_use]
    pub fn stats(&self) -> RunStats {
        self.last.lock().stats.clone()
    }

    /// Every mistake so far, as [`execute`](Self::execute) would report it.
    ///
    /// # Errors
    /// All mistakes, in the order in which they were made.
    pub fn check_recorded(&self) -> Result<()> {
        self.recorder.lock().check_mistakes()
    }

    /// The record so far. While the result is held, further recording copies it.
    pub(crate) fn recorded(&self) -> Arc<Record> {
        Arc::clone(self.recorder.lock().recorded())
    }
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
        write!(f, "GpuCommandBatch({}, {} operations)", self.batch_id, self.recorded().graph.len())
    }
}

/// Guard of [`GpuCommandBatch::at`]. Its drop restores the previous place.
#[derive(Debug)]
#[must_use = "the place counts until this is dropped"]
pub struct PlaceGuard<'b> {
    before: Option<Place>,
    /// It stays on its thread.
    of: PhantomData<(&'b GpuCommandBatch, *const ())>,
}

impl Drop for PlaceGuard<'_> {
    fn drop(&mut self) {
        Place::set(self.before.take());
    }
}
