//! State that is carried from run to run, on the device.

use super::Resident;
use crate::base::dtype::Element;
use crate::batch::{BufferId, GpuCommandBatch};
use crate::cost::Backend;
use crate::error::MistakeKind;
use crate::graph::NodeId;
use crate::ops::Op;
use crate::record::Recorder;
use crate::residents::{Handle, Keep, SliceUpdate};

/// State that is carried from run to run.
impl GpuCommandBatch {
    /// Makes `id` the new value of `state` at the end of each run. Operations on the bound resident read the value that
    /// the run before left, on the device: nothing is transferred between runs.
    ///
    /// A run that fails, or whose future is dropped, leaves the state as it was. Runs of batches and programs that both
    /// [bind](Self::bind) and update a resident take turns, in the order in which they came.
    ///
    /// If `id` is the bound value with a part [replaced](Self::replace_slice), only that part is written, in place,
    /// when the run has ended. So keys and values that a decoder appends cost their own bytes, not those of the whole
    /// state. If somebody holds the old value it is copied first. The part lies in contiguous stretches, one for each
    /// index of the axes before its own. With a GPU, three kinds of parts are written by writing the whole state anew:
    /// those of states of less than 4 MiB, where that takes no longer; those in more than 64 stretches; and those of
    /// `f16` whose stretches begin or end within a word of 32 bits. So a cache of more than 64 heads is better laid out
    /// with the tokens as its first axis. On the host alone, parts in more than 64 stretches are written in place where
    /// these begin 4 KiB apart or more.
    ///
    /// It is a mistake if the shapes differ, or if the batch updates the resident already.
    ///
    /// ```
    /// # pollster::block_on(async {
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
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    ///
    /// Keys and values of a decoder, in a state with room for 1000 tokens:
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Attention, Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let (heads, room, width) = (2, 1000, 4);
    /// let keys = device.resident(&vec![0.0_f32; heads * room * width], [heads, room, width])?;
    /// for token in 0..3 {
    ///     let batch = GpuCommandBatch::new(&device);
    ///     let new = batch.upload_shaped(&[token as f32; 8], [heads, 1, width]);
    ///     let all = batch.bind(&keys).replace_slice(new, 1, token);
    ///     batch.update(&keys, all); // Writes 8 elements.
    ///     let seen = all.slice([0..heads, 0..token + 1, 0..width]);
    ///     let query = batch.full([heads, 1, width], 1.0_f32);
    ///     let y = query.scaled_dot_product_attention(seen, seen, Attention::default()).download();
    ///     batch.execute().await?;
    ///     assert_eq!(batch.read(y).await?.len(), heads * width);
    /// }
    /// assert_eq!(keys.read().await?[..3 * width], [0., 0., 0., 0., 1., 1., 1., 1., 2., 2., 2., 2.]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
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
            return Err(state.handle().foreign(&recorded.device));
        }
        let node = self.check(id.value())?;
        let (old, new) = (state.shape(), &recorded.graph[node].ty.shape);
        if matches!(recorded.graph[node].op, Op::Invalid) {
            return Ok(());
        }
        if old != new {
            return Err(MistakeKind::Update { old: old.clone(), new: new.clone() });
        }
        if recorded.keeps.iter().any(|keep| keep.handle.is_same(state.handle())) {
            return Err(MistakeKind::UpdatedTwice);
        }
        let handle = state.handle().clone();
        let slice = self.slice_of(&handle, node);
        let patch = slice.map(|slice| slice.patch);
        let recorded = self.change();
        recorded.keep(slice.map_or(node, |slice| slice.new), Keep { handle, patch });
        recorded.graph.updates.extend(slice.map(|_| node));
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
