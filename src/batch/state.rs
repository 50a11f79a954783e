//! State that is carried from run to run, on the device.

use std::sync::Arc;

use tokio::sync::{Mutex, OwnedMutexGuard};

use super::recorder::Recorder;
use super::residence::Handle;
use super::resident::Resident;
use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::Element;
use crate::cost::Backend;
use crate::error::MistakeKind;
use crate::exec::Patch;
use crate::graph::NodeId;
use crate::ops::{Op, Type};

/// Parts in more runs than this are not written in place by a GPU: each is a copy of its own.
const MOST_RUNS: usize = 64;
/// Bytes between the runs of a part from which any number of them is written in place by the host: in what lies closer,
/// most pages are touched anyway.
const PAGE: usize = 4096;
/// Bytes from which states are written in place by a GPU: what a fast one copies in the time of one more submission.
const LEAST_BYTES: usize = 4 << 20;

/// A resident that runs fill.
#[derive(Clone, Debug)]
pub(super) struct Kept {
    pub handle: Handle,
    /// The part of it that the value is, where it is not all.
    pub patch: Option<Patch>,
}

/// How a value differs from another.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Replaced {
    pub state: NodeId,
    /// The elements that are others, and where they belong.
    pub new: NodeId,
    pub patch: Patch,
}

/// State that is carried from run to run.
impl GpuCommandBatch {
    /// Makes `id` the new value of `state` at the end of each run. What binds the resident reads the value that the run
    /// before left, on the device: nothing is transferred between runs.
    ///
    /// A run that fails, or whose future is dropped, leaves the state as it was. Runs of batches and programs that both
    /// [bind](Self::bind) and update a resident take turns, in the order in which they came.
    ///
    /// Where `id` is the bound value with a part [replaced](Self::replace_slice), only that part is written, in place,
    /// when the run has ended: keys and values that a decoder appends cost what they are, not what was there before.
    /// Where somebody holds the old value it is copied first. What is written lies in runs, one for each index of the
    /// axes before that of the part. Where there is a GPU, states of less than 4 MiB are written anew, which takes no
    /// longer, and so are parts in more than 64 runs, and parts of `f16` whose runs begin or end within a word of 32
    /// bits: a cache of more than 64 heads is better laid out with the tokens as its first axis. On the host alone,
    /// parts in more than 64 runs are written in place where these begin 4 KiB apart or more.
    ///
    /// It is a mistake if the shapes differ, or if the batch updates the resident already.
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let total = device.resident(&[0.0_f32; 2], 2)?;
    /// let batch = GpuCommandBatch::new(&device);
    /// let x = batch.input::<f32>("x", 2);
    /// batch.update(&total, batch.bind(&total) + x);
    /// let program = batch.compile().await?;
    /// for x in [[1.0_f32, 2.0], [3.0, 4.0]] {
    ///     program.run([("x", &x)]).await?;
    /// }
    /// assert_eq!(total.read().await?, [4.0, 6.0]);
    /// # Ok(())
    /// # }
    /// ```
    ///
    /// Keys and values of a decoder, in a state with room for 1000 tokens:
    ///
    /// ```
    /// # #[tokio::main(flavor = "current_thread")]
    /// # async fn main() -> onetrip::Result<()> {
    /// # use onetrip::{Attention, Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let (heads, room, width) = (2, 1000, 4);
    /// let keys = device.resident(&vec![0.0_f32; heads * room * width], [heads, room, width])?;
    /// for token in 0..3 {
    ///     let batch = GpuCommandBatch::new(&device);
    ///     let new = batch.upload_shaped(&[token as f32; 8], [heads, 1, width]);
    ///     let all = batch.bind(&keys).replace_slice(new, 1, token);
    ///     batch.update(&keys, all); // Writes 8 elements.
    ///     let seen = all.slice([(0..heads, 1), (0..token + 1, 1), (0..width, 1)]);
    ///     let query = batch.full([heads, 1, width], 1.0_f32);
    ///     let y = query.scaled_dot_product_attention(seen, seen, Attention::default()).download();
    ///     batch.execute().await?;
    ///     assert_eq!(batch.read(y).await?.len(), heads * width);
    /// }
    /// assert_eq!(keys.read().await?[..3 * width], [0., 0., 0., 0., 1., 1., 1., 1., 2., 2., 2., 2.]);
    /// # Ok(())
    /// # }
    /// ```
    #[track_caller]
    pub fn update<T: Element>(&self, state: &Resident<T>, id: impl Into<BufferId<T>>) {
        let mut recorder = self.recorder.lock();
        if let Err(what) = recorder.update(state, id.into()) {
            recorder.note("update", what);
        }
    }
}

impl Recorder {
    fn update<T: Element>(
        &mut self,
        state: &Resident<T>,
        id: BufferId<T>,
    ) -> Result<(), MistakeKind> {
        let recorded = self.recorded();
        if !state.device().is_same(&recorded.device) {
            return Err(state.handle().foreign());
        }
        let node = self.check(id.value())?;
        let (old, new) = (state.shape(), &recorded.graph[node].ty.shape);
        if matches!(recorded.graph[node].op, Op::Invalid) {
            return Ok(());
        }
        if old != new {
            return Err(MistakeKind::Update { old: old.clone(), new: new.clone() });
        }
        if recorded.kept.iter().any(|kept| kept.handle.is_same(state.handle())) {
            return Err(MistakeKind::UpdatedTwice);
        }
        let handle = state.handle().clone();
        let part = self.replaced_part(&handle, node);
        let patch = part.map(|part| part.patch);
        let recorded = self.change();
        recorded.keep(part.map_or(node, |part| part.new), Kept { handle, patch });
        recorded.graph.updates.extend(part.map(|_| node));
        Ok(())
    }

    /// What alone differs between the resident and its new value, the node, where that is worth it.
    fn replaced_part(&self, state: &Handle, node: NodeId) -> Option<Replaced> {
        let recorded = self.recorded();
        let part = *self.replaced.get(&node)?;
        let Op::Resident(at) = recorded.graph[part.state].op else { return None };
        let same = recorded.residents[at as usize].is_same(state);
        let Type { dtype, shape } = &recorded.graph[node].ty;
        let size = dtype.size();
        let pays = if recorded.device.uses(Backend::Gpu) {
            // A truth value takes a word there.
            let fits = size == 1 || part.patch.is_in_words(size);
            fits && part.patch.runs <= MOST_RUNS && shape.elements() * size >= LEAST_BYTES
        } else {
            part.patch.runs <= MOST_RUNS || part.patch.spacing(size) >= PAGE
        };
        (same && pays).then_some(part)
    }
}

/// What a run must hold before it reads state that it will replace.
#[derive(Clone, Debug, Default)]
pub(super) struct Turns(Vec<Arc<Mutex<()>>>);

impl Turns {
    /// For a batch that binds and keeps these.
    pub fn of(bound: &[Handle], kept: &[Kept]) -> Self {
        let kept = kept.iter().map(|kept| &kept.handle);
        let updated = kept.filter(|kept| bound.iter().any(|bound| bound.is_same(kept)));
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
