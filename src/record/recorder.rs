//! The recorder of a batch: operations become nodes with the caller's place, and mistakes are kept.

use std::collections::HashMap;
use std::sync::Arc;

use foldhash::fast::RandomState;
use smallvec::{SmallVec, smallvec};

use super::batch_ids::made_at;
use super::call::UserCall;
use super::record::{Record, UntypedId};
use crate::base::clock::Stopwatch;
use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::base::trace::event;
use crate::cost::Backend;
use crate::device::Device;
use crate::error::{DataError, Error, Mistake, MistakeKind, Mistakes, Result};
use crate::graph::{Node, NodeId};
use crate::ops::{Op, Type, infer};
use crate::residents::{Handle, Keep, SliceUpdate};

/// The number of changes of a batch.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Version {
    /// Changes of the graph or of its placement, each of which asks for another plan.
    pub graph: u64,
    pub data: u64,
}

/// All that was recorded in a batch.
#[derive(Debug)]
pub(crate) struct Recorder {
    /// Shared with runs under way and with programs: a change copies it while they hold it.
    recorded: Arc<Record>,
    /// Slice updates recorded by `replace_slice`, keyed by their result.
    pub slice_updates: HashMap<NodeId, SliceUpdate>,
    /// Positions of the uploads whose data calls of `write_with` are changing; with the message of the panic, those whose
    /// data a panic left half changed.
    pub changing: Vec<(usize, Option<String>)>,
    /// The node of each resident that the batch reads, keyed by the address of its handle. The record holds the handles, so
    /// that no address is used again.
    residents: HashMap<usize, NodeId, RandomState>,
    mistakes: Vec<Mistake>,
    pub recording: Stopwatch,
    version: Version,
}

impl Recorder {
    /// Nothing yet, for the batch of `batch_id`, which was made at this place.
    pub fn new(device: &Device, batch_id: u64, made_at: Place) -> Self {
        Self {
            recorded: Arc::new(Record::new(device, batch_id, made_at)),
            slice_updates: HashMap::new(),
            changing: Vec::new(),
            residents: HashMap::default(),
            mistakes: Vec::new(),
            recording: Stopwatch::default(),
            version: Version::default(),
        }
    }

    pub fn recorded(&self) -> &Arc<Record> {
        &self.recorded
    }

    pub fn version(&self) -> Version {
        self.version
    }

    /// The record, for a change that asks for another plan.
    pub fn change(&mut self) -> &mut Record {
        self.version.graph += 1;
        Arc::make_mut(&mut self.recorded)
    }

    /// The node of a resident, which all operations read that take it.
    #[track_caller]
    pub fn resident(&mut self, handle: &Handle) -> NodeId {
        if let Some(&node) = self.residents.get(&handle.address()) {
            return node;
        }
        let residents = &mut self.change().residents;
        let position = residents.len() as u32;
        residents.push(handle.clone());
        let node = self.push(Op::Resident(position), SmallVec::new(), handle.ty().clone());
        self.residents.insert(handle.address(), node);
        node
    }

    /// The record, for a change of the data of its uploads alone.
    pub fn change_data(&mut self) -> &mut Record {
        self.version.data += 1;
        Arc::make_mut(&mut self.recorded)
    }

    /// Gives a value a name, which changes neither plan nor results.
    pub fn name(&mut self, node: NodeId, name: &str) {
        Arc::make_mut(&mut self.recorded).names.insert(name, node);
    }

    /// Forgets the change of the upload at `position`, and its panic.
    pub fn forget_change(&mut self, position: usize) {
        self.changing.retain(|&(changed, _)| changed != position);
    }

    /// The reason why the data of an upload is not whole, if there is any.
    pub fn half_changed(&self) -> Option<DataError> {
        let (position, panicked) = self.changing.first()?;
        let of = self.recorded.origin(self.recorded.upload_node(*position)?);
        Some(match panicked.clone() {
            Some(what) => DataError::Panicked { of, what },
            None => DataError::BeingChanged(of),
        })
    }

    /// The record, if nobody else holds it.
    pub fn alone(&mut self) -> Option<&mut Record> {
        Arc::get_mut(&mut self.recorded)
    }

    /// # Errors
    /// Every mistake so far.
    pub fn check_mistakes(&self) -> Result<()> {
        if self.mistakes.is_empty() {
            Ok(())
        } else {
            Err(Error::Record(Mistakes(self.mistakes.clone())))
        }
    }

    /// Records `op` over `operands`, for a result of elements `dtype`.
    #[track_caller]
    pub fn record(&mut self, op: Op, operands: &[UntypedId], dtype: DType) -> NodeId {
        self.recording.start();
        let mut inputs: SmallVec<[NodeId; 3]> = SmallVec::with_capacity(operands.len());
        for &operand in operands {
            match self.check(operand) {
                Ok(node) => inputs.push(node),
                Err(what) => return self.mistake(op.name(), what, dtype),
            }
        }
        let graph = &self.recorded.graph;
        if inputs.iter().any(|&node| matches!(graph[node].op, Op::Invalid)) {
            return self.silent(op.name(), dtype);
        }
        let types: SmallVec<[&Type; 3]> = inputs.iter().map(|&node| &graph[node].ty).collect();
        let inferred = infer(&op, &types);
        drop(types);
        match inferred {
            Ok(ty) => {
                debug_assert_eq!(ty.dtype, dtype, "{} gives another type", op.name());
                self.push(op, inputs, ty)
            }
            Err(what) => {
                self.note_of(op.name(), what, operands);
                self.silent(op.name(), dtype)
            }
        }
    }

    /// Records an operation whose result is of the type `ty`.
    #[track_caller]
    pub fn push(&mut self, op: Op, inputs: SmallVec<[NodeId; 3]>, ty: Type) -> NodeId {
        event!(
            TRACE,
            "record",
            operation = op.name(),
            ty = ty.to_string(),
            operands = inputs.len()
        );
        let call = UserCall::current(op.name());
        self.append(call, op, inputs, ty)
    }

    fn append(
        &mut self,
        UserCall { name, place }: UserCall,
        op: Op,
        inputs: SmallVec<[NodeId; 3]>,
        ty: Type,
    ) -> NodeId {
        let node = self.change().graph_mut().push(Node { op, name, inputs, ty, place });
        self.recording.stop();
        node
    }

    /// Adds the mistake of a method that makes no value to the mistakes of the batch.
    #[track_caller]
    pub fn note(&mut self, op: &'static str, what: MistakeKind) {
        self.note_of(op, what, &[]);
    }

    /// As [`note`](Self::note), with the operands of the method if all are of this batch.
    #[track_caller]
    pub fn note_of(&mut self, op: &'static str, what: MistakeKind, operands: &[UntypedId]) {
        let UserCall { name, place } = UserCall::current(op);
        let origin = |&operand| Some(self.recorded.operand(self.recorded.node(operand)?));
        let operands = operands.iter().map(origin).collect::<Option<_>>().unwrap_or_default();
        self.mistakes.push(Mistake { place, op: name, what, operands });
    }

    /// Adds a mistake to those of the batch, and returns an invalid node: operations that read it report no mistake.
    #[track_caller]
    pub fn mistake(&mut self, op: &'static str, what: MistakeKind, dtype: DType) -> NodeId {
        self.note(op, what);
        self.silent(op, dtype)
    }

    /// Appends the invalid node that stands for the result of `op`, and reports no mistake: an earlier one explains it.
    #[track_caller]
    pub fn silent(&mut self, op: &'static str, dtype: DType) -> NodeId {
        let call = UserCall::current(op);
        self.append(call, Op::Invalid, smallvec![], Type { dtype, shape: Shape::default() })
    }

    /// The node behind an id of this batch.
    ///
    /// # Errors
    /// [`MistakeKind::Foreign`].
    pub fn check(&self, value: UntypedId) -> Result<NodeId, MistakeKind> {
        let foreign = || MistakeKind::Foreign(made_at(value.batch_id));
        self.recorded.node(value).ok_or_else(foreign)
    }

    /// As [`check`](Self::check), for a method that only the batch of an id can do.
    ///
    /// # Errors
    /// [`MistakeKind::Elsewhere`].
    pub fn check_own(&self, value: UntypedId) -> Result<NodeId, MistakeKind> {
        let elsewhere = || MistakeKind::Elsewhere(made_at(value.batch_id));
        self.recorded.node(value).ok_or_else(elsewhere)
    }

    /// The type behind an id, for operations that check their operands themselves.
    ///
    /// # Errors
    /// The mistake of a foreign id; [`Refusal::Silent`] for a value that comes from a mistake.
    pub fn type_of(&self, value: UntypedId) -> Result<&Type, Refusal> {
        let node = &self.recorded.graph[self.check(value)?];
        if matches!(node.op, Op::Invalid) { Err(Refusal::Silent) } else { Ok(&node.ty) }
    }

    /// Makes `value` the new value of `state` at the end of each run.
    pub fn update(&mut self, state: &Handle, value: UntypedId) -> Result<(), MistakeKind> {
        let recorded = self.recorded();
        if !state.device().is_same(&recorded.device) {
            return Err(state.foreign(&recorded.device));
        }
        let node = self.check(value)?;
        let (old, new) = (&state.ty().shape, &recorded.graph[node].ty.shape);
        if matches!(recorded.graph[node].op, Op::Invalid) {
            return Ok(());
        }
        if old != new {
            return Err(MistakeKind::Update { old: old.clone(), new: new.clone() });
        }
        if recorded.keeps.iter().any(|keep| keep.handle.is_same(state)) {
            return Err(MistakeKind::UpdatedTwice);
        }
        let handle = state.clone();
        let slice = self.slice_of(&handle, node);
        let patch = slice.map(|slice| slice.patch);
        let recorded = self.change();
        recorded.keep(slice.map_or(node, |slice| slice.new), Keep { handle, patch });
        recorded.graph_mut().updates.extend(slice.map(|_| node));
        Ok(())
    }

    /// The slice in which the resident alone differs from its new value, the node, where it pays to write it in place.
    fn slice_of(&self, state: &Handle, node: NodeId) -> Option<SliceUpdate> {
        let recorded = self.recorded();
        let slice = *self.slice_updates.get(&node)?;
        let Op::Resident(at) = recorded.graph[slice.state].op else { return None };
        let is_same = recorded.residents[at as usize].is_same(state);
        let has_gpu = recorded.device.uses(Backend::Gpu);
        (is_same && slice.pays(&recorded.graph[node].ty, has_gpu)).then_some(slice)
    }
}

/// The reason why a method records nothing.
pub(crate) enum Refusal {
    Mistake(MistakeKind),
    /// An operand comes from a mistake that was reported.
    Silent,
}

impl From<MistakeKind> for Refusal {
    fn from(what: MistakeKind) -> Self {
        Self::Mistake(what)
    }
}
