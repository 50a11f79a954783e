//! What the user holds: the batch that records, ids of what was recorded, and residents.

mod adaptive;
#[cfg(feature = "ndarray")]
mod arrays;
mod attention;
mod axes;
mod blocking;
mod class_loss;
mod conv;
mod conv_transpose;
mod counting;
mod create;
mod einsum;
mod elementwise;
mod formula;
mod id;
mod indexing;
mod input;
mod linear;
mod loss;
mod movement;
mod normalize;
mod own;
mod pool;
mod profile;
mod program;
mod random;
mod read;
mod record;
mod recurrent;
mod reduce;
mod resident;
mod resize;
mod rotary;
mod run;
mod scan;
mod scatter;
#[cfg(feature = "gpu")]
mod sharing;
mod sort;
mod state;
#[cfg(test)]
mod tests;
mod triangle;
mod upload;
mod waiting;
#[cfg(feature = "safetensors")]
mod weights;
mod window;

use std::collections::HashMap;
use std::sync::atomic::{AtomicU64, Ordering};

pub use attention::{Attention, AttentionMask, Causal};
pub use axes::Axes;
pub use class_loss::ClassLoss;
pub use conv::{Conv, Conv1d, Conv2d};
pub use conv_transpose::{ConvTranspose, ConvTranspose1d, ConvTranspose2d};
pub use formula::{Formula, Operand, Term};
pub use id::BufferId;
pub use input::Input;
pub use loss::LossReduction;
pub use own::{CpuInputs, Wgsl};
pub use pool::{Pool, Pool1d, Pool2d};
pub use profile::{KernelProfile, Profile, StageProfile};
pub use program::{OutputKey, Outputs, Program};
pub use read::ReadView;
pub use recurrent::{CellWeights, LstmState, Recurrence};
pub use resident::Resident;
pub use resize::{Corners, ImageSize};
pub use rotary::Rotary;
#[cfg(feature = "gpu")]
pub use sharing::WgpuBuffer;
#[cfg(feature = "safetensors")]
pub use weights::{TensorType, Weights};

use self::record::{Call, Refusal, elsewhere};
use crate::base::clock::Stopwatch;
use crate::base::dtype::Element;
use crate::base::shape::Shape;
use crate::cost::Placement;
use crate::device::Device;
use crate::error::{Error, Mistake, MistakeKind, Mistakes, Result};
use crate::graph::NodeId;
use crate::ops::Op;
use crate::plan::Explanation;
use crate::record::Recorded;
use crate::residents::SliceUpdate;
pub use crate::session::RunStats;

/// Records operations and runs them in one trip.
///
/// Recording never fails and never blocks: each method returns the id of its result at once.
/// Mistakes (shapes that do not fit, ids of another batch) are kept with the caller's file and line,
/// and [`explain`](Self::explain) and [`execute`](Self::execute) report them together.
///
/// ```
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> onetrip::Result<()> {
/// use onetrip::{Device, GpuCommandBatch};
///
/// let device = Device::cpu();
/// let mut batch = GpuCommandBatch::new(&device);
/// let x = batch.upload_shaped(&[1.0_f32, -2.0, 3.0, 4.0], [2, 2]);
/// let w = batch.upload_shaped(&[1.0_f32, 0.0, 0.0, 1.0], [2, 2]);
/// let y = batch.matmul(x, w);
/// let y = batch.relu(y);
/// batch.execute().await?;
/// assert_eq!(batch.read(y).await?, [1.0, 0.0, 3.0, 4.0]);
/// # Ok(())
/// # }
/// ```
///
/// What a run downloads is what was passed to [`download`](Self::download), else every result that
/// no other operation reads and that is not [kept](Self::keep). What no output needs is not computed.
///
/// # Numbers
///
/// Shapes broadcast by NumPy's rules. NaN propagates as in NumPy. `f16` is stored in 16 bits and computed
/// in `f32`; inside one fused kernel, values in between keep the precision of `f32`. Integers wrap.
///
/// What is computed of integers and truth values alone is the same on every device. Floats lie within the
/// [tolerances](crate::OpInfo::tolerance) of their operations, and may differ in the last bits from side to side and
/// from device to device, unless an operation says that it is exact.
///
/// # Faults
///
/// An index out of range, or an integer divided by zero, makes the run fail: [`execute`](Self::execute) returns a
/// [`Fault`](crate::Fault) that says which operation and which element was the first. Every element counts of every
/// operation that an output depends on, and no other: one that `select` or `slice` then leaves out does, an operation
/// that no output needs does not. The order of the first is that in which operations were recorded, then that of
/// positions; it does not depend on the device, on what is fused, or on threads.
#[derive(Debug)]
pub struct GpuCommandBatch {
    pub(crate) recorded: Recorded,
    /// Slice updates recorded by [`replace_slice`](Self::replace_slice), keyed by their result node.
    slice_updates: HashMap<NodeId, SliceUpdate>,
    mistakes: Vec<Mistake>,
    runs: run::Runs,
    recording: Stopwatch,
    /// The call that what is being recorded is part of.
    within: Option<Call>,
}

static NEXT_BRAND: AtomicU64 = AtomicU64::new(0);

impl GpuCommandBatch {
    /// An empty batch for `device`.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            recorded: Recorded::new(device, NEXT_BRAND.fetch_add(1, Ordering::Relaxed)),
            slice_updates: HashMap::new(),
            mistakes: Vec::new(),
            runs: run::Runs::default(),
            recording: Stopwatch::default(),
            within: None,
        }
    }

    /// The device that the batch runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.recorded.device
    }

    /// How the side that the batch runs on is chosen from now on: at first as the device says.
    pub fn set_placement(&mut self, placement: Placement) {
        if self.recorded.placement != placement {
            self.recorded.placement = placement;
            self.runs.forget_plan();
        }
    }

    /// The shape of a result. `None` if the id is of another batch, or comes from a mistake.
    #[must_use]
    pub fn shape<T: Element>(&self, id: BufferId<T>) -> Option<Shape> {
        let node = self.recorded.graph.get(id.node).filter(|_| id.brand == self.recorded.brand)?;
        (!matches!(node.op, Op::Invalid)).then(|| node.ty.shape.clone())
    }

    /// Asks for `id` to be read after a run. Once anything was asked for, only that is downloaded.
    #[track_caller]
    pub fn download<T: Element>(&mut self, id: BufferId<T>) {
        match self.check(id).map_err(elsewhere) {
            Ok(node) if !self.recorded.graph.downloads.contains(&node) => {
                self.recorded.graph.downloads.push(node);
                self.runs.forget_plan();
            }
            Ok(_) => {}
            Err(what) => self.note("download", what),
        }
    }

    /// Gives a value a name, by which runs of a [`Program`] can find it. It is a mistake to give a name twice.
    #[track_caller]
    pub fn name<T: Element>(&mut self, id: BufferId<T>, name: &str) {
        let node = self.check(id).map_err(elsewhere).and_then(|node| {
            match self.recorded.names.get(name) {
                Some(other) => Err(MistakeKind::NameTaken(self.recorded.origin(other))),
                None => Ok(node),
            }
        });
        match node {
            Ok(node) => self.recorded.names.insert(name, node),
            Err(what) => self.note("name", what),
        }
    }

    /// What will run, where and why: every kernel with what is fused in it, its shapes, bytes, flops and
    /// predicted time, and the whole with its transfers and its peak of memory.
    ///
    /// # Errors
    /// Every mistake made while recording, or why the graph cannot be planned for the device.
    pub fn explain(&mut self) -> Result<Explanation> {
        self.explanation()
    }

    /// The recorded graph in Graphviz's language.
    #[must_use]
    pub fn to_dot(&self) -> String {
        self.recorded.graph.to_dot()
    }

    /// What the last run did, or zeros before the first.
    #[must_use]
    pub fn stats(&self) -> &RunStats {
        self.runs.stats()
    }

    /// Every mistake so far, as [`execute`](Self::execute) would report it.
    ///
    /// # Errors
    /// All mistakes, in the order in which they were made.
    pub fn check_recorded(&self) -> Result<()> {
        if self.mistakes.is_empty() {
            Ok(())
        } else {
            Err(Error::Record(Mistakes(self.mistakes.clone())))
        }
    }
}
