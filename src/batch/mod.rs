//! What the user holds: the batch that records, ids of what was recorded, and residents.

#[cfg(feature = "ndarray")]
mod arrays;
mod attempt;
mod attention;
mod axes;
mod blocking;
mod class_loss;
mod conv;
mod conv_transpose;
mod create;
mod einsum;
mod elementwise;
mod fault;
mod formula;
mod id;
mod indexing;
mod input;
mod launch;
mod linear;
mod loss;
mod movement;
mod names;
mod normalize;
mod own;
mod parts;
mod pool;
mod profile;
mod program;
mod random;
mod read;
mod recurrent;
mod reduce;
mod residence;
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
mod stats;
mod store;
#[cfg(test)]
mod tests;
mod upload;
#[cfg(feature = "safetensors")]
mod weights;
mod window;

use std::collections::HashMap;
use std::panic::Location;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use smallvec::{SmallVec, smallvec};

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
pub use stats::RunStats;
#[cfg(feature = "safetensors")]
pub use weights::Weights;

use crate::clock::Stopwatch;
use crate::cost::Placement;
use crate::device::Device;
use crate::dtype::{DType, Element};
use crate::error::{Error, Mistake, MistakeKind, Mistakes, Result};
use crate::graph::{Graph, Node, NodeId};
use crate::ops::{Op, Type, infer};
use crate::plan::Explanation;
use crate::run::HostBuffer;
use crate::shape::Shape;
use crate::trace::event;

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
/// # Faults
///
/// An index out of range, or an integer divided by zero, makes the run fail: [`execute`](Self::execute) returns a
/// [`Fault`](crate::Fault) that says which operation and which element was the first. Every element counts of every
/// operation that an output depends on, and no other: one that `select` or `slice` then leaves out does, an operation
/// that no output needs does not. The order of the first is that in which operations were recorded, then that of
/// positions; it does not depend on the device, on what is fused, or on threads.
#[derive(Debug)]
pub struct GpuCommandBatch {
    device: Device,
    pub(crate) brand: u64,
    pub(crate) graph: Graph,
    /// By position; `None` for an [input](Self::input) that no run was given yet.
    uploads: Vec<Option<Arc<HostBuffer>>>,
    names: names::Names,
    residents: Vec<residence::Handle>,
    kept: Vec<state::Kept>,
    /// Of what [`replace_slice`](Self::replace_slice) made.
    replaced: HashMap<NodeId, state::Replaced>,
    mistakes: Vec<Mistake>,
    runs: run::Runs,
    recording: Stopwatch,
    placement: Placement,
    /// The call that what is being recorded is part of.
    within: Option<Call>,
}

/// A call of the user's: the method, and where.
#[derive(Clone, Copy, Debug)]
struct Call {
    name: &'static str,
    place: &'static Location<'static>,
}

static NEXT_BRAND: AtomicU64 = AtomicU64::new(0);

impl GpuCommandBatch {
    /// An empty batch for `device`.
    #[must_use]
    pub fn new(device: &Device) -> Self {
        Self {
            device: device.clone(),
            brand: NEXT_BRAND.fetch_add(1, Ordering::Relaxed),
            graph: Graph::default(),
            uploads: Vec::new(),
            names: names::Names::default(),
            residents: Vec::new(),
            kept: Vec::new(),
            replaced: HashMap::new(),
            mistakes: Vec::new(),
            runs: run::Runs::default(),
            recording: Stopwatch::default(),
            placement: device.placement(),
            within: None,
        }
    }

    /// The device that the batch runs on.
    #[must_use]
    pub fn device(&self) -> &Device {
        &self.device
    }

    /// How the side that the batch runs on is chosen from now on: at first as the device says.
    pub fn set_placement(&mut self, placement: Placement) {
        if self.placement != placement {
            self.placement = placement;
            self.runs.forget_plan();
        }
    }

    /// The shape of a result. `None` if the id is of another batch, or comes from a mistake.
    #[must_use]
    pub fn shape<T: Element>(&self, id: BufferId<T>) -> Option<Shape> {
        let node = self.graph.get(id.node).filter(|_| id.brand == self.brand)?;
        (!matches!(node.op, Op::Invalid)).then(|| node.ty.shape.clone())
    }

    /// Asks for `id` to be read after a run. Once anything was asked for, only that is downloaded.
    #[track_caller]
    pub fn download<T: Element>(&mut self, id: BufferId<T>) {
        match self.check(id).map_err(elsewhere) {
            Ok(node) if !self.graph.downloads.contains(&node) => {
                self.graph.downloads.push(node);
                self.runs.forget_plan();
            }
            Ok(_) => {}
            Err(what) => {
                let _: BufferId<T> = self.mistake("download", what);
            }
        }
    }

    /// Gives a value a name, by which runs of a [`Program`] can find it. It is a mistake to give a name twice.
    #[track_caller]
    pub fn name<T: Element>(&mut self, id: BufferId<T>, name: &str) {
        let node = self.check(id).map_err(elsewhere).and_then(|node| match self.names.get(name) {
            Some(other) => Err(MistakeKind::NameTaken(self.names.origin(&self.graph, other))),
            None => Ok(node),
        });
        match node {
            Ok(node) => self.names.insert(name, node),
            Err(what) => {
                let _: BufferId<T> = self.mistake("name", what);
            }
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
        self.graph.to_dot()
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

    // What follows is for the methods that record.

    /// Records the operation `name`, which is made of others: whatever the calls in between, all of it was recorded by
    /// the caller of `name`, and so are its mistakes.
    #[track_caller]
    fn composed<R>(&mut self, name: &'static str, record: impl FnOnce(&mut Self) -> R) -> R {
        let outer = self.within;
        self.within = Some(self.call(name));
        let result = record(self);
        self.within = outer;
        result
    }

    /// As [`composed`](Self::composed), of what may be refused.
    #[track_caller]
    fn composed_if<T: Element>(
        &mut self,
        name: &'static str,
        record: impl FnOnce(&mut Self) -> Result<BufferId<T>, Refusal>,
    ) -> BufferId<T> {
        self.composed(name, |b| record(b).unwrap_or_else(|what| b.refused(name, what)))
    }

    /// The call of what is being recorded, which is that of `name` if it is not part of another.
    #[track_caller]
    fn call(&self, name: &'static str) -> Call {
        match self.within {
            Some(call) => call,
            None => Call { name, place: Location::caller() },
        }
    }

    /// Records `op` over the operands that `ids` gives.
    #[track_caller]
    pub(crate) fn record<T: Element>(
        &mut self,
        op: Op,
        ids: &[Result<NodeId, MistakeKind>],
    ) -> BufferId<T> {
        self.recording.start();
        let mut inputs: SmallVec<[NodeId; 3]> = SmallVec::with_capacity(ids.len());
        for id in ids {
            match id {
                Ok(node) => inputs.push(*node),
                Err(what) => return self.mistake(op.name(), what.clone()),
            }
        }
        if inputs.iter().any(|&node| matches!(self.graph[node].op, Op::Invalid)) {
            return self.push(Op::Invalid, smallvec![], invalid::<T>());
        }
        let types: SmallVec<[&Type; 3]> = inputs.iter().map(|&node| &self.graph[node].ty).collect();
        let inferred = infer(&op, &types);
        drop(types);
        match inferred {
            Ok(ty) => self.push(op, inputs, ty),
            Err(what) => self.mistake(op.name(), what),
        }
    }

    /// Records data from outside.
    #[track_caller]
    fn source<T: Element>(&mut self, op: Op, dtype: DType, shape: Shape) -> BufferId<T> {
        self.recording.start();
        self.push(op, smallvec![], Type { dtype, shape })
    }

    #[track_caller]
    fn push<T: Element>(&mut self, op: Op, inputs: SmallVec<[NodeId; 3]>, ty: Type) -> BufferId<T> {
        debug_assert_eq!(ty.dtype, T::DTYPE, "{} gives another type than its method", op.name());
        event!(
            TRACE,
            "record",
            operation = op.name(),
            ty = ty.to_string(),
            operands = inputs.len()
        );
        let Call { name, place } = self.call(op.name());
        let node = self.graph.push(Node { op, name, inputs, ty, place });
        self.runs.forget_plan();
        self.recording.stop();
        BufferId::new(node, self.brand)
    }

    /// Keeps a mistake, and returns an id whose users will keep silent.
    #[track_caller]
    fn mistake<T: Element>(&mut self, op: &'static str, what: MistakeKind) -> BufferId<T> {
        let Call { name: op, place } = self.call(op);
        self.mistakes.push(Mistake { place, op, what });
        self.push(Op::Invalid, smallvec![], invalid::<T>())
    }

    /// The node behind an id of this batch.
    fn check<T: Element>(&self, id: BufferId<T>) -> Result<NodeId, MistakeKind> {
        if id.brand == self.brand && self.graph.get(id.node).is_some() {
            Ok(id.node)
        } else {
            Err(MistakeKind::Foreign)
        }
    }

    /// The shape behind an id, for methods that are made of others and check for themselves.
    fn shape_of<T: Element>(&self, id: BufferId<T>) -> Result<Shape, Refusal> {
        self.known_shape(&Ok(self.check(id)?)).ok_or(Refusal::Silent)
    }

    /// What stands for the result of a method that was refused.
    #[track_caller]
    fn refused<T: Element>(&mut self, op: &'static str, what: Refusal) -> BufferId<T> {
        match what {
            Refusal::Mistake(what) => self.mistake(op, what),
            Refusal::Silent => self.push(Op::Invalid, smallvec![], invalid::<T>()),
        }
    }

    /// The shape behind an id, for methods that must know it to record; `None` where it is unknown
    /// because of a mistake that was reported.
    fn known_shape(&self, id: &Result<NodeId, MistakeKind>) -> Option<Shape> {
        let node = &self.graph[*id.as_ref().ok()?];
        (!matches!(node.op, Op::Invalid)).then(|| node.ty.shape.clone())
    }
}

/// Why a method records nothing.
enum Refusal {
    Mistake(MistakeKind),
    /// An operand comes from a mistake that was reported.
    Silent,
}

impl From<MistakeKind> for Refusal {
    fn from(what: MistakeKind) -> Self {
        Self::Mistake(what)
    }
}

/// The mistake of a method that only the batch of an id can do, after [`GpuCommandBatch::check`].
fn elsewhere(_foreign: MistakeKind) -> MistakeKind {
    MistakeKind::Elsewhere
}

fn invalid<T: Element>() -> Type {
    Type { dtype: T::DTYPE, shape: Shape::default() }
}
