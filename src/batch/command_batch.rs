//! The batch: what it holds, and what it can be asked.

use std::fmt;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use super::BufferId;
use super::operand::Values;
use super::run::LastRun;
use crate::base::dtype::Element;
use crate::base::shape::Shape;
use crate::base::sync::Mutex;
use crate::cost::Placement;
use crate::device::Device;
use crate::error::{MistakeKind, Result};
use crate::plan::Explanation;
use crate::record::{Recorded, Recorder, Value, elsewhere};
use crate::session::RunStats;

/// Records operations and runs them in one trip.
///
/// Recording never fails and never waits: each method returns a [`Tensor`](crate::Tensor) at once, which is an id beside
/// the batch. Mistakes (shapes that do not fit, ids of another batch) are kept with the caller's file and line,
/// and [`explain`](Self::explain) and [`execute`](Self::execute) report them together.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> onetrip::Result<()> {
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
/// # Ok(())
/// # }
/// ```
///
/// Everything takes `&self`, so calls nest, and several threads may record in one batch. Its runs take turns.
///
/// A run downloads what was passed to [`download`](Self::download) or [`outputs`](Self::outputs), else every result that
/// no other operation reads and that is not [kept](Self::keep). Values that no output needs are not computed.
///
/// # Numbers
///
/// Shapes broadcast by NumPy's rules. NaN propagates as in NumPy. `f16` is stored in 16 bits and computed
/// in `f32`; inside one fused kernel, values in between keep the precision of `f32`. Integers wrap.
///
/// Results of integers and truth values alone are the same on every device. Floats lie within the
/// [tolerances](crate::OpInfo::tolerance) of their operations, and may differ in the last bits from side to side and
/// from device to device, unless an operation says that it is exact.
///
/// # Faults
///
/// An index out of range, or an integer divided by zero, makes the run fail: [`execute`](Self::execute) returns a
/// [`Fault`](crate::Fault) that names the operation and its first element at fault. Every element counts of every
/// operation that an output depends on, and no other: an element that `select` or `slice` then leaves out counts, an
/// operation that no output needs does not. First is what was recorded first, and then the lower position; this does not
/// depend on the device, on fusion, or on threads.
pub struct GpuCommandBatch {
    pub(super) device: Device,
    /// By which its ids are known.
    pub(crate) brand: u64,
    pub(super) recorder: Mutex<Recorder>,
    pub(super) last: Mutex<LastRun>,
    /// Held by the run under way.
    pub(super) turn: tokio::sync::Mutex<()>,
}

static NEXT_BRAND: AtomicU64 = AtomicU64::new(0);

impl GpuCommandBatch {
    /// An empty batch for `device`.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        let brand = NEXT_BRAND.fetch_add(1, Ordering::Relaxed);
        Self {
            device: device.clone(),
            brand,
            recorder: Mutex::new(Recorder::new(device, brand)),
            last: Mutex::default(),
            turn: tokio::sync::Mutex::default(),
        }
    }

    /// The device that the batch runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// Sets how later runs choose their side: at first as the device does.
    pub fn set_placement(&self, placement: Placement) {
        let mut recorder = self.recorder.lock();
        if recorder.recorded().placement != placement {
            recorder.change().placement = placement;
        }
    }

    /// The shape of a value. `None` if the id is of another batch, or comes from a mistake.
    #[must_use]
    pub fn shape<T: Element>(&self, id: impl Into<BufferId<T>>) -> Option<Shape> {
        self.shape_of(id.into().value()).ok()
    }

    /// Asks for `id` to be read after a run. Once anything was asked for, only that is downloaded.
    #[track_caller]
    pub fn download<T: Element>(&self, id: impl Into<BufferId<T>>) {
        self.output("download", id.into().value());
    }

    /// Asks for several values to be read after a run, as [`download`](Self::download) does for one: an array, a slice
    /// or a vector of ids or tensors, or a tuple where their element types differ.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload(&[1.0_f32, 5.0, 3.0]);
    /// let shares = x.softmax(0);
    /// let best = shares.argmax(0);
    /// batch.outputs((shares, best));
    /// batch.execute().await?;
    /// assert_eq!(batch.read(best).await?, [1]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn outputs(&self, values: impl Values) {
        let mut all = Vec::new();
        values.each(&mut |value| all.push(value));
        for value in all {
            self.output("outputs", value);
        }
    }

    #[track_caller]
    fn output(&self, method: &'static str, value: Value) {
        let mut recorder = self.recorder.lock();
        match recorder.check(value).map_err(elsewhere) {
            Ok(node) if !recorder.recorded().graph.downloads.contains(&node) => {
                recorder.change().graph.downloads.push(node);
            }
            Ok(_) => {}
            Err(what) => recorder.note(method, what),
        }
    }

    /// Gives a value a name, by which runs of a [`Program`](crate::Program) can find it. It is a mistake to give a name
    /// twice.
    #[track_caller]
    pub fn name<T: Element>(&self, id: impl Into<BufferId<T>>, name: &str) {
        let mut recorder = self.recorder.lock();
        let node = recorder.check(id.into().value()).map_err(elsewhere).and_then(|node| {
            let recorded = recorder.recorded();
            match recorded.names.get(name) {
                Some(other) => Err(MistakeKind::NameTaken(recorded.origin(other))),
                None => Ok(node),
            }
        });
        match node {
            Ok(node) => recorder.name(node, name),
            Err(what) => recorder.note("name", what),
        }
    }

    /// The plan of a run: every kernel with the operations fused in it, its shapes, bytes, flops and predicted time,
    /// where it runs and why, and the whole with its transfers and its peak of memory.
    ///
    /// # Errors
    /// Every mistake made while recording, or why the graph cannot be planned for the device.
    pub fn explain(&self) -> Result<Explanation> {
        self.explanation()
    }

    /// The recorded graph in Graphviz's language.
    #[must_use]
    pub fn to_dot(&self) -> String {
        self.recorded().graph.to_dot()
    }

    /// The counters of the last run, or zeros before the first.
    #[must_use]
    pub fn stats(&self) -> RunStats {
        self.last.lock().stats().clone()
    }

    /// Every mistake so far, as [`execute`](Self::execute) would report it.
    ///
    /// # Errors
    /// All mistakes, in the order in which they were made.
    pub fn check_recorded(&self) -> Result<()> {
        self.recorder.lock().check_mistakes()
    }

    /// What was recorded so far. While the result is held, further recording copies it.
    pub(crate) fn recorded(&self) -> Arc<Recorded> {
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
        write!(f, "GpuCommandBatch({}, {} operations)", self.brand, self.recorded().graph.len())
    }
}
