//! Recording of operations: under their name, by the recorder, with tensors for results.

use smallvec::SmallVec;

use crate::base::dtype::{DType, Element};
use crate::base::shape::Shape;
use crate::batch::{AnyId, BufferId, GpuCommandBatch, Operand, OptionalOperand, Tensor};
use crate::graph::NodeId;
use crate::ops::{Op, Type, infer};
use crate::record::{Refusal, UntypedId, UserCall};
use crate::residents::SliceUpdate;

impl GpuCommandBatch {
    pub(crate) fn tensor<T: Element>(&self, node: NodeId) -> Tensor<'_, T> {
        Tensor::new(self, BufferId::new(node, self.batch_id))
    }

    /// An operand as a tensor. A number is recorded, a foreign id stays foreign.
    #[track_caller]
    pub(crate) fn operand<T: Element>(&self, x: impl Operand<T>) -> Tensor<'_, T> {
        Tensor::new(self, x.operand_of(self, "operand"))
    }

    /// The id of an operand that `method` puts into options.
    #[track_caller]
    pub(crate) fn option<T: Element>(
        &self,
        method: &'static str,
        x: impl Operand<T>,
    ) -> BufferId<T> {
        x.operand_of(self, method)
    }

    #[track_caller]
    pub(crate) fn record<T: Element>(&self, op: Op, operands: &[UntypedId]) -> Tensor<'_, T> {
        let node = self.recorder.lock().record(op, operands, T::DTYPE);
        self.tensor(node)
    }

    /// Records `op`, whose operands tell the type of its result. There is at least one.
    #[track_caller]
    pub(crate) fn record_any(&self, op: Op, operands: &[AnyId]) -> AnyId {
        let values: SmallVec<[UntypedId; 3]> =
            operands.iter().map(|operand| operand.value).collect();
        let mut recorder = self.recorder.lock();
        let types = values.iter().map(|&value| recorder.type_of(value).ok());
        let types: Option<Vec<&Type>> = types.collect();
        let inferred = types.and_then(|types| infer(&op, &types).ok());
        // A mistake is recorded under any type.
        let dtype = inferred.map_or(operands[0].dtype, |ty| ty.dtype);
        let node = recorder.record(op, &values, dtype);
        AnyId { value: UntypedId { node, batch_id: self.batch_id }, dtype }
    }

    /// Records values that come from no others.
    #[track_caller]
    pub(crate) fn source<T: Element>(&self, op: Op, shape: Shape) -> Tensor<'_, T> {
        let mut recorder = self.recorder.lock();
        recorder.recording.start();
        let node = recorder.push(op, SmallVec::new(), Type { dtype: T::DTYPE, shape });
        self.tensor(node)
    }

    /// Records the operation `name`, which is made of others: all of its nodes and mistakes name the caller of `name`
    /// as their place, in spite of the calls in between.
    #[track_caller]
    pub(crate) fn composed<'b, R: OperationResult<'b>>(
        &'b self,
        name: &'static str,
        record: impl FnOnce() -> Result<R, Refusal>,
    ) -> R {
        self.composed_of(name, |_| record())
    }

    /// As [`composed`](Self::composed), where `record` lists the operands, which its mistake names.
    #[track_caller]
    pub(crate) fn composed_of<'b, R: OperationResult<'b>>(
        &'b self,
        name: &'static str,
        record: impl FnOnce(&mut SmallVec<[UntypedId; 3]>) -> Result<R, Refusal>,
    ) -> R {
        let _entered = UserCall::enter(name);
        let mut operands = SmallVec::new();
        record(&mut operands).unwrap_or_else(|refusal| {
            if let Refusal::Mistake(what) = refusal {
                self.recorder.lock().note_of(name, what, &operands);
            }
            R::silent(self, name)
        })
    }

    /// The shape behind an id, for operations that must know it to record.
    pub(crate) fn shape_of(&self, value: UntypedId) -> Result<Shape, Refusal> {
        Ok(self.recorder.lock().type_of(value)?.shape.clone())
    }

    /// Keeps in mind that `result` differs from another value in one slice.
    pub(crate) fn note_slice_update(&self, result: NodeId, slice: SliceUpdate) {
        self.recorder.lock().slice_updates.insert(result, slice);
    }

    #[track_caller]
    fn silent(&self, op: &'static str, dtype: DType) -> NodeId {
        self.recorder.lock().silent(op, dtype)
    }
}

pub(crate) trait OperationResult<'b>: Sized {
    /// A placeholder for the result of the failed `op`. Operations on it report no further mistakes.
    #[track_caller]
    fn silent(batch: &'b GpuCommandBatch, op: &'static str) -> Self;
}

impl<'b> OperationResult<'b> for AnyId {
    fn silent(batch: &'b GpuCommandBatch, op: &'static str) -> Self {
        batch.tensor::<f32>(batch.silent(op, DType::F32)).into()
    }
}

impl<'b, T: Element> OperationResult<'b> for Tensor<'b, T> {
    fn silent(batch: &'b GpuCommandBatch, op: &'static str) -> Self {
        batch.tensor(batch.silent(op, T::DTYPE))
    }
}

impl<'b, A: OperationResult<'b>, B: OperationResult<'b>> OperationResult<'b> for (A, B) {
    fn silent(batch: &'b GpuCommandBatch, op: &'static str) -> Self {
        (A::silent(batch, op), B::silent(batch, op))
    }
}

impl<'b, T: Element> Tensor<'b, T> {
    /// The id without its element type.
    pub(crate) fn value(self) -> UntypedId {
        self.id().value()
    }

    /// The shape, for operations that must know it to record.
    pub(crate) fn known_shape(self) -> Result<Shape, Refusal> {
        self.batch().shape_of(self.value())
    }

    /// The name of the value in messages, such as `lstm.h`, if it is of this batch.
    pub(crate) fn recorded_by(self) -> Option<&'static str> {
        let recorder = self.batch().recorder.lock();
        let node = recorder.check(self.value()).ok()?;
        Some(recorder.recorded().graph[node].name)
    }

    /// Sets the method and the result by which messages name the value, such as `lstm.h`.
    pub(crate) fn rename_in_messages(self, name: &'static str) {
        let mut recorder = self.batch().recorder.lock();
        recorder.change().graph_mut().rename(self.value().node, name);
    }

    /// An argument of the same batch that may be missing, as a tensor.
    #[track_caller]
    pub(crate) fn optional<U: Element>(self, x: impl OptionalOperand<U>) -> Option<Tensor<'b, U>> {
        let batch = self.batch();
        x.optional_of(batch).map(|id| Tensor::new(batch, id))
    }

    /// Records `op` over this tensor alone.
    #[track_caller]
    pub(crate) fn apply<U: Element>(self, op: Op) -> Tensor<'b, U> {
        self.batch().record(op, &[self.value()])
    }
}

/// The result of a function that records an operation.
pub(crate) type TensorResult<'b, T> = Result<Tensor<'b, T>, Refusal>;
