//! How methods record: operations become nodes with the caller's place, and mistakes are kept.

use std::panic::Location;

use smallvec::{SmallVec, smallvec};

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::base::trace::event;
use crate::error::{Mistake, MistakeKind};
use crate::graph::{Node, NodeId};
use crate::ops::{Op, Type, infer};

/// A call of the user's: the method, and where.
#[derive(Clone, Copy, Debug)]
pub(super) struct Call {
    name: &'static str,
    place: &'static Location<'static>,
}

impl GpuCommandBatch {
    /// Records the operation `name`, which is made of others: whatever the calls in between, all of it was recorded by
    /// the caller of `name`, and so are its mistakes.
    #[track_caller]
    pub(super) fn composed<R>(
        &mut self,
        name: &'static str,
        record: impl FnOnce(&mut Self) -> R,
    ) -> R {
        let outer = self.within;
        self.within = Some(self.call(name));
        let result = record(self);
        self.within = outer;
        result
    }

    /// As [`composed`](Self::composed), of what may be refused.
    #[track_caller]
    pub(super) fn composed_if<T: Element>(
        &mut self,
        name: &'static str,
        record: impl FnOnce(&mut Self) -> Result<BufferId<T>, Refusal>,
    ) -> BufferId<T> {
        self.composed(name, |b| record(b).unwrap_or_else(|what| b.refused(name, what)))
    }

    /// The call of what is being recorded, which is that of `name` if it is not part of another.
    #[track_caller]
    pub(super) fn call(&self, name: &'static str) -> Call {
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
        if inputs.iter().any(|&node| matches!(self.recorded.graph[node].op, Op::Invalid)) {
            return self.silent(op.name());
        }
        let types: SmallVec<[&Type; 3]> =
            inputs.iter().map(|&node| &self.recorded.graph[node].ty).collect();
        let inferred = infer(&op, &types);
        drop(types);
        match inferred {
            Ok(ty) => self.push(op, inputs, ty),
            Err(what) => self.mistake(op.name(), what),
        }
    }

    /// Records data from outside.
    #[track_caller]
    pub(super) fn source<T: Element>(&mut self, op: Op, dtype: DType, shape: Shape) -> BufferId<T> {
        self.recording.start();
        self.push(op, smallvec![], Type { dtype, shape })
    }

    #[track_caller]
    pub(super) fn push<T: Element>(
        &mut self,
        op: Op,
        inputs: SmallVec<[NodeId; 3]>,
        ty: Type,
    ) -> BufferId<T> {
        debug_assert_eq!(ty.dtype, T::DTYPE, "{} gives another type than its method", op.name());
        event!(
            TRACE,
            "record",
            operation = op.name(),
            ty = ty.to_string(),
            operands = inputs.len()
        );
        let call = self.call(op.name());
        self.append(call, op, inputs, ty)
    }

    fn append<T: Element>(
        &mut self,
        Call { name, place }: Call,
        op: Op,
        inputs: SmallVec<[NodeId; 3]>,
        ty: Type,
    ) -> BufferId<T> {
        let node = self.recorded.graph.push(Node { op, name, inputs, ty, place });
        self.runs.forget_plan();
        self.recording.stop();
        BufferId::new(node, self.recorded.brand)
    }

    /// Keeps the mistake of a method that makes no value.
    #[track_caller]
    pub(super) fn note(&mut self, op: &'static str, what: MistakeKind) {
        let Call { name, place } = self.call(op);
        self.mistakes.push(Mistake { place, op: name, what });
    }

    /// Keeps a mistake, and returns an id whose users will keep silent.
    #[track_caller]
    pub(super) fn mistake<T: Element>(
        &mut self,
        op: &'static str,
        what: MistakeKind,
    ) -> BufferId<T> {
        self.note(op, what);
        self.silent(op)
    }

    /// What stands for the result of `op` where a mistake was reported before.
    #[track_caller]
    pub(super) fn silent<T: Element>(&mut self, op: &'static str) -> BufferId<T> {
        let call = self.call(op);
        self.append(call, Op::Invalid, smallvec![], invalid::<T>())
    }

    /// The node behind an id of this batch.
    pub(super) fn check<T: Element>(&self, id: BufferId<T>) -> Result<NodeId, MistakeKind> {
        if id.brand == self.recorded.brand && self.recorded.graph.get(id.node).is_some() {
            Ok(id.node)
        } else {
            Err(MistakeKind::Foreign)
        }
    }

    /// The shape behind an id, for methods that are made of others and check for themselves.
    pub(super) fn shape_of<T: Element>(&self, id: BufferId<T>) -> Result<Shape, Refusal> {
        self.known_shape(&Ok(self.check(id)?)).ok_or(Refusal::Silent)
    }

    /// What stands for the result of a method that was refused.
    #[track_caller]
    pub(super) fn refused<T: Element>(&mut self, op: &'static str, what: Refusal) -> BufferId<T> {
        match what {
            Refusal::Mistake(what) => self.mistake(op, what),
            Refusal::Silent => self.silent(op),
        }
    }

    /// The shape behind an id, for methods that must know it to record; `None` where it is unknown
    /// because of a mistake that was reported.
    pub(super) fn known_shape(&self, id: &Result<NodeId, MistakeKind>) -> Option<Shape> {
        let node = &self.recorded.graph[*id.as_ref().ok()?];
        (!matches!(node.op, Op::Invalid)).then(|| node.ty.shape.clone())
    }
}

/// Why a method records nothing.
pub(super) enum Refusal {
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
pub(super) fn elsewhere(_foreign: MistakeKind) -> MistakeKind {
    MistakeKind::Elsewhere
}

fn invalid<T: Element>() -> Type {
    Type { dtype: T::DTYPE, shape: Shape::default() }
}
