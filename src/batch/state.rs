//! State that is carried from run to run, on the device.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::resident::{Handle, Resident};
use super::{BufferId, GpuCommandBatch};
use crate::dtype::Element;
use crate::error::MistakeKind;
use crate::ops::Op;

impl GpuCommandBatch {
    /// Makes `id` the new value of `state` at the end of each run. What binds the resident reads the value that the run
    /// before left, on the device: nothing is transferred between runs.
    ///
    /// A run that fails, or whose future is dropped, leaves the state as it was. Runs of batches and programs that both
    /// [bind](Self::bind) and update a resident take turns, in the order in which they came.
    ///
    /// It is a mistake if the shapes differ, or if the batch updates the resident already.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let total = device.resident(&[0.0_f32; 2], 2)?;
    /// let mut batch = GpuCommandBatch::new(&device);
    /// let x = batch.input::<f32>("x", 2);
    /// let sum = batch.bind(&total);
    /// let sum = batch.add(sum, x);
    /// batch.update(&total, sum);
    /// let program = batch.compile().await?;
    /// for x in [[1.0_f32, 2.0], [3.0, 4.0]] {
    ///     program.run([("x", &x)]).await?;
    /// }
    /// assert_eq!(total.read().await?, [4.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn update<T: Element>(&mut self, state: &Resident<T>, id: BufferId<T>) {
        if !state.device().is_same(&self.device) {
            let name = state.device().info().name.clone();
            return self.refuse_update::<T>(MistakeKind::ForeignResident(name));
        }
        let node = match self.check(id) {
            Ok(node) => node,
            Err(what) => return self.refuse_update::<T>(what),
        };
        let (old, new) = (state.shape(), &self.graph[node].ty.shape);
        if matches!(self.graph[node].op, Op::Invalid) {
            return;
        }
        if old != new {
            let what = MistakeKind::Update { old: old.clone(), new: new.clone() };
            return self.refuse_update::<T>(what);
        }
        if self.kept.iter().any(|kept| kept.is_same(state.handle())) {
            return self.refuse_update::<T>(MistakeKind::UpdatedTwice);
        }
        self.graph.keeps.push(node);
        self.kept.push(state.handle().clone());
        self.runs.forget_plan();
    }

    #[track_caller]
    fn refuse_update<T: Element>(&mut self, what: MistakeKind) {
        let _: BufferId<T> = self.mistake("update", what);
    }
}

/// What a run must hold before it reads state that it will replace.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Vec<Arc<Mutex<()>>>);

impl Turns {
    /// For a batch that binds and keeps these.
    pub fn of(bound: &[Handle], kept: &[Handle]) -> Self {
        let updated = kept.iter().filter(|kept| bound.iter().any(|bound| bound.is_same(kept)));
        let mut turns: Vec<_> = updated.map(|handle| Arc::clone(handle.turn())).collect();
        // Everybody takes them in one order, so that none waits for another in a circle.
        turns.sort_by_key(|turn| Arc::as_ptr(turn).addr());
        turns.dedup_by(|one, other| Arc::ptr_eq(one, other));
        Self(turns)
    }

    /// Waits for all of them.
    pub async fn take(&self) -> Vec<OwnedMutexGuard<()>> {
        let mut taken = Vec::with_capacity(self.0.len());
        for turn in &self.0 {
            taken.push(Arc::clone(turn).lock_owned().await);
        }
        taken
    }
}
