//! From a graph to a [`Plan`]: which kernels run, in which order, in which memory.
//!
//! Each pass is a function from one plain value to the next: prune ([`ir`]), scale the operands of split
//! products ([`scale`]), simplify ([`simplify`]), fold movements ([`path`]), fuse ([`fuse`], by what [`reads`],
//! [`lookup`] and [`fail`] say of operations), write expressions ([`emit`]), choose tiles ([`tune`], [`product`],
//! [`attention`]), predict ([`predict`]), order ([`schedule`]) and lay out memory ([`memory`]).
//! [`verify`] checks each result in debug builds, and [`place`] plans for both sides and takes one.

mod assign;
mod attention;
mod emit;
mod explain;
mod expression;
mod fail;
mod form;
mod fuse;
mod ir;
mod lookup;
mod memory;
mod path;
mod place;
mod predict;
mod product;
mod reads;
mod reason;
mod scale;
mod schedule;
mod share;
mod simplify;
mod split;
mod step;
mod tune;
mod verify;

pub use explain::Explanation;
pub(crate) use explain::form_name;
#[cfg(test)]
pub(crate) use form::Dims;
pub(crate) use form::{
    AttentionForm, Form, MatMulForm, OwnForm, ReduceForm, RowForm, ScanForm, SortForm, Spread,
};
pub(crate) use place::{Placed, Planned, place};
#[cfg(feature = "gpu")]
pub(crate) use product::{KnownTile, known_tiles};
pub(crate) use reason::Chooser;
#[cfg(any(feature = "gpu", test))]
pub(crate) use share::ProductSchedule;
pub(crate) use share::{
    AttentionSchedule, ProductLayout, ReduceLayout, ReduceSchedule, SortSchedule, Strip, Tile,
    UnitTile,
};
pub(crate) use split::{Made, Split, SplitPart, Stage, Supply};
#[cfg(test)]
pub(crate) use step::{Cost, Scratch};
pub(crate) use step::{Operand, Source, Space, Step, StepOutput, ValueId};
pub(crate) use tune::{ROW_HELD, SORT_COUNTS};

use std::panic::Location;
use std::sync::Arc;

use crate::cost::{Aspect, Backend, DeviceProfile, Limits, Prediction};
use crate::dtype::DType;
use crate::error::{PlanError, file_and_line};
use crate::graph::{Graph, NodeId};
use crate::ops::Op;
use crate::shape::Shape;
use fail::Sites;
use fuse::Fusion;
use ir::{Ir, Ix};
use path::Views;

/// No device binds fewer storage buffers to one kernel; WebGPU promises 8.
const MIN_BUFFERS: usize = 4;
/// More storage buffers than this in one kernel help nobody.
const MAX_BUFFERS: usize = 16;

/// What a plan is made for.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Target {
    pub backend: Backend,
    pub limits: Limits,
    /// Of both sides.
    pub profile: Arc<DeviceProfile>,
}

/// What will run: plain data, made once, run as often as wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Plan {
    pub backend: Backend,
    /// Everything that has storage.
    pub values: Vec<Value>,
    /// In the order in which they run.
    pub steps: Vec<Step>,
    /// Bytes of each buffer that lives for one run, in the device's storage.
    pub slots: Vec<u64>,
    /// The operations that can fail on the data, in the order recorded.
    pub sites: Vec<NodeId>,
    /// What is downloaded, in the order of [`Graph::outputs`].
    pub downloads: Vec<ValueId>,
    /// What stays on the device, in the order of [`Graph::keeps`].
    pub keeps: Vec<ValueId>,
    /// Bytes that a run holds at once: slots, kept results and bound residents.
    pub peak_bytes: u64,
    /// Bytes that a run holds until it is done: its slots, what it keeps, and on a GPU what the host copies from and to.
    pub held_bytes: u64,
    /// Bytes that go to the device and back, without parameters.
    pub bytes_up: u64,
    pub bytes_down: u64,
    /// Predicted seconds of a whole run.
    pub seconds: f64,
}

/// A value with storage.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Value {
    pub node: NodeId,
    /// The operation that made it, and where that was recorded.
    pub op: &'static str,
    pub place: &'static Location<'static>,
    pub dtype: DType,
    pub shape: Shape,
    pub home: Home,
}

/// Where a value is kept.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Home {
    /// The batch's upload `input`. On a GPU it is copied to the buffer `slot` at the start of a run;
    /// on the CPU it is read where it lies.
    Upload { input: u32, slot: Option<usize> },
    /// The batch's bound resident of this position.
    Resident(u32),
    /// A buffer of the run.
    Slot(usize),
    /// A buffer of its own that outlives the run: position in [`Plan::keeps`].
    Kept(usize),
}

/// Where a run failed. The first failure is that of the least site, and of that the least position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Failed {
    /// Which operation, by position in [`Plan::sites`].
    pub site: u32,
    /// Which of its elements, in row-major order.
    pub at: u32,
}

/// Plans `graph` for `target`.
pub(crate) fn plan(graph: &Graph, target: &Target) -> Result<Plan, PlanError> {
    if graph.len() == 0 {
        return Err(PlanError::Empty);
    }
    let buffers = target.limits.storage_buffers.clamp(MIN_BUFFERS, MAX_BUFFERS);
    let ir = Ir::prune(graph);
    verify::ir("prune", &ir)?;
    let ir = scale::scale(ir, target);
    verify::ir("scale", &ir)?;
    let ir = simplify::simplify(ir, buffers - 1).with_copies_to_keep().with_pairs_joined();
    verify::ir("simplify", &ir)?;
    let views = Views::resolve(&ir);
    let rates = target.profile.side(target.backend).rates();
    let sites = Sites::of(&ir);
    let fusion = fuse::fuse(&ir, &views, &sites, buffers, &rates, target.backend);
    verify::fusion(&ir, &views, &sites, &fusion, buffers)?;

    let mut storage = Storage::new(&ir, &views, &sites, target);
    let steps = storage.steps(&fusion)?;
    let (downloads, keeps) = (storage.downloads, storage.keeps);
    let values = storage.values;
    check_sizes(&values, target)?;
    check_twins(&steps, target)?;
    check_spaces(&steps, target)?;
    check_scratch(&steps, target)?;
    verify::steps("emit", &steps, &values, target)?;

    let bytes: Vec<u64> = values.iter().map(|value| value.bytes(&target.limits)).collect();
    let lasting: Vec<ValueId> = downloads.iter().chain(&keeps).copied().collect();
    let steps = schedule::schedule(steps, &bytes, &lasting);
    verify::order("schedule", &steps, &values)?;
    let uploaded = values.iter().zip(&bytes).filter(|(v, _)| matches!(v.home, Home::Upload { .. }));
    let bytes_up = predict::total(uploaded.map(|(_, &bytes)| bytes));
    let mut distinct = downloads.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let bytes_down = predict::total(distinct.iter().map(|value| bytes[value.index()]));
    let mut plan = Plan {
        backend: target.backend,
        values,
        steps,
        slots: Vec::new(),
        sites: sites.nodes,
        downloads,
        keeps,
        peak_bytes: 0,
        held_bytes: 0,
        bytes_up,
        bytes_down,
        seconds: 0.0,
    };
    memory::assign(&mut plan, &bytes);
    plan.seconds = plan.predicted(target).total();
    verify::memory(&plan)?;
    Ok(plan)
}

impl Plan {
    /// How often a GPU is dispatched.
    pub fn dispatches(&self) -> u64 {
        self.steps.iter().map(Step::dispatches).sum()
    }

    /// What a run takes on the target that the plan was made for.
    pub fn predicted(&self, target: &Target) -> Prediction {
        let steps = self.steps.iter().map(|step| match self.backend {
            Backend::Cpu => step.cost.cpu_seconds,
            Backend::Gpu => step.cost.gpu_seconds,
        });
        let profile = &target.profile;
        let run = profile.side(self.backend).run(steps.sum(), self.bytes_up, self.bytes_down);
        let learned = profile.learned.factor(Aspect::trip(self.backend));
        Prediction {
            round_trip: run.round_trip * learned,
            up: run.up * learned,
            down: run.down * learned,
            ..run
        }
    }

    /// What [`predicted`](Self::predicted) is the sum of, by what runs teach something about.
    pub fn aspects(&self, target: &Target) -> Vec<(Aspect, f64)> {
        let Prediction { round_trip, up, down, .. } = self.predicted(target);
        let mut parts = vec![(Aspect::trip(self.backend), round_trip + up + down)];
        for step in &self.steps {
            let aspect = predict::aspect(step, self.backend);
            let seconds = match self.backend {
                Backend::Cpu => step.cost.cpu_seconds,
                Backend::Gpu => step.cost.gpu_seconds,
            };
            match parts.iter_mut().find(|(of, _)| *of == aspect) {
                Some((_, part)) => *part += seconds,
                None => parts.push((aspect, seconds)),
            }
        }
        parts
    }
}

impl Value {
    /// Its size in the device's storage.
    pub fn bytes(&self, limits: &Limits) -> u64 {
        self.shape.elements() as u64 * limits.stored(self.dtype)
    }
}

/// Gives values a home as steps come to need them.
struct Storage<'a> {
    ir: &'a Ir,
    views: &'a Views,
    sites: &'a Sites,
    target: &'a Target,
    of: Vec<Option<ValueId>>,
    values: Vec<Value>,
    downloads: Vec<ValueId>,
    keeps: Vec<ValueId>,
}

impl<'a> Storage<'a> {
    fn new(ir: &'a Ir, views: &'a Views, sites: &'a Sites, target: &'a Target) -> Self {
        let of = vec![None; ir.nodes.len()];
        Self {
            ir,
            views,
            sites,
            target,
            of,
            values: Vec::new(),
            downloads: Vec::new(),
            keeps: Vec::new(),
        }
    }

    /// The steps of all groups, unordered; fills in the outputs.
    fn steps(&mut self, fusion: &Fusion) -> Result<Vec<Step>, PlanError> {
        for read in fusion.groups.iter().flat_map(|group| &group.reads) {
            self.source(read.base);
        }
        for group in &fusion.groups {
            for &ix in group.extra.iter().chain([&group.root]) {
                self.of[ix] = Some(self.add(ix, Home::Slot(0)));
            }
        }
        let mut steps = Vec::with_capacity(fusion.groups.len());
        for group in &fusion.groups {
            let step = emit::step(self.ir, self.views, self.sites, fusion, group, &self.of);
            let mut step = step.ok_or_else(|| PlanError::Invalid {
                pass: "emit",
                what: format!("{} cannot be expressed", self.ir.nodes[group.root].op.name()),
            })?;
            if self.target.backend == Backend::Gpu {
                tune::tune(&mut step, self.target);
            }
            predict::predict(&mut step, &self.values, self.target);
            steps.push(step);
        }
        let ir = self.ir;
        self.downloads =
            ir.downloads.iter().map(|&ix| self.output(ix)).collect::<Result<_, _>>()?;
        self.keeps = ir.keeps.iter().map(|&ix| self.output(ix)).collect::<Result<_, _>>()?;
        for (at, value) in self.keeps.iter().enumerate() {
            let home = &mut self.values[value.index()].home;
            if matches!(home, Home::Slot(_)) {
                *home = Home::Kept(at);
            }
        }
        Ok(steps)
    }

    /// The value that an output is read from.
    fn output(&mut self, ix: Ix) -> Result<ValueId, PlanError> {
        let base = self.views.of(ix).0;
        self.source(base);
        self.of[base].ok_or_else(|| PlanError::Invalid {
            pass: "fuse",
            what: format!("{} is an output, but no step stores it", self.ir.nodes[ix].op.name()),
        })
    }

    /// A home for data from outside, at its first use.
    fn source(&mut self, ix: Ix) {
        if self.of[ix].is_some() {
            return;
        }
        let slot = (self.target.backend == Backend::Gpu).then_some(0);
        match self.ir.nodes[ix].op {
            Op::Upload(input) => self.of[ix] = Some(self.add(ix, Home::Upload { input, slot })),
            Op::Resident(at) => self.of[ix] = Some(self.add(ix, Home::Resident(at))),
            _ => {}
        }
    }

    fn add(&mut self, ix: Ix, home: Home) -> ValueId {
        let node = &self.ir.nodes[ix];
        self.values.push(Value {
            node: node.node,
            op: node.op.name(),
            place: node.place,
            dtype: node.ty.dtype,
            shape: node.ty.shape.clone(),
            home,
        });
        ValueId(self.values.len() as u32 - 1)
    }
}

/// Refuses kernels that iterate over more points than a GPU's 32-bit indices count.
fn check_spaces(steps: &[Step], target: &Target) -> Result<(), PlanError> {
    let limit = u64::from(u32::MAX);
    let too_large = |step: &&Step| target.backend == Backend::Gpu && step.points() > limit;
    match steps.iter().find(too_large) {
        Some(step) => Err(PlanError::TooManyPoints {
            place: file_and_line(step.place),
            op: step.label(),
            points: step.points(),
            adapter: target.limits.adapter.clone(),
        }),
        None => Ok(()),
    }
}

/// Refuses kernels of the user's own that know nothing of the CPU.
fn check_twins(steps: &[Step], target: &Target) -> Result<(), PlanError> {
    let needs_gpu =
        |step: &&Step| matches!(&step.form, Form::Own(form) if form.kernel.twin.is_none());
    match steps.iter().find(needs_gpu) {
        Some(step) if target.backend == Backend::Cpu => {
            Err(PlanError::GpuOnly { place: file_and_line(step.place) })
        }
        _ => Ok(()),
    }
}

/// Refuses steps whose own memory the device cannot bind.
fn check_scratch(steps: &[Step], target: &Target) -> Result<(), PlanError> {
    let limit = target.limits.binding_bytes;
    let bytes = |step: &Step| step.scratch.map_or(0, |scratch| scratch.words.saturating_mul(4));
    let Some(step) = steps.iter().find(|step| bytes(step) > limit) else { return Ok(()) };
    Err(PlanError::TooLarge {
        place: file_and_line(step.place),
        op: step.ops.last().copied().unwrap_or_default(),
        what: "temporary memory".into(),
        bytes: bytes(step),
        limit,
        adapter: target.limits.adapter.clone(),
    })
}

/// Refuses values that the device cannot bind.
fn check_sizes(values: &[Value], target: &Target) -> Result<(), PlanError> {
    let limit = target.limits.binding_bytes;
    let Some(value) = values.iter().find(|value| value.bytes(&target.limits) > limit) else {
        return Ok(());
    };
    Err(PlanError::TooLarge {
        place: file_and_line(value.place),
        op: value.op,
        what: format!("{}{}", value.dtype, value.shape),
        bytes: value.bytes(&target.limits),
        limit,
        adapter: target.limits.adapter.clone(),
    })
}
