//! Residents in batches: read by its operations, filled by its runs, and carried from run to run.

use super::Resident;
use crate::base::dtype::Element;
use crate::base::place::Place;
use crate::base::shape::Shape;
use crate::batch::{BufferId, GpuCommandBatch, Operand, Tensor};
use crate::error::Origin;
use crate::graph::NodeId;
use crate::ops::{Op, Type};
use crate::residents::{Handle, Keep, Storage};

/// Residents: data that stays on the device from batch to batch.
impl GpuCommandBatch {
    /// A resident as an input of this batch, of its shape. The batch keeps the resident as long as it lives
    /// itself. A resident of another device is a mistake. One that no run has filled yet fails the run.
    #[track_caller]
    pub fn bind<T: Element>(&self, resident: &Resident<T>) -> Tensor<'_, T> {
        self.bound(resident, "bind")
    }

    /// A resident as an input, for `method`.
    #[track_caller]
    pub(crate) fn bound<T: Element>(
        &self,
        resident: &Resident<T>,
        method: &'static str,
    ) -> Tensor<'_, T> {
        self.tensor(self.bound_handle(resident.handle(), method))
    }

    /// The node of the resident behind `handle`. A resident of another device is a mistake of `method`.
    #[track_caller]
    pub(in crate::batch) fn bound_handle(&self, handle: &Handle, method: &'static str) -> NodeId {
        let mut recorder = self.recorder.lock();
        if !handle.device().is_same(&self.device) {
            return recorder.mistake(method, handle.foreign(&self.device), handle.ty().dtype);
        }
        recorder.recording.start();
        recorder.resident(handle)
    }

    /// Keeps a result on the device. Each run of this batch fills the resident, which is empty until the first. A kept
    /// value is downloaded only if [`download`](Self::download) asks for it. An id of another batch is a mistake.
    /// Messages name the resident as the value is [named](Self::name) at this call.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let device = Device::cpu();
    /// let batch = GpuCommandBatch::new(&device);
    /// let sums = batch.upload(&[1.0_f32, 2.0]).cumsum(0).keep(); // or `batch.keep(sums)`
    /// batch.execute().await?;
    ///
    /// let next = GpuCommandBatch::new(&device);
    /// let y = next.bind(&sums) * 2.0;
    /// next.execute().await?;
    /// assert_eq!(next.read(y).await?, [2.0, 6.0]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[track_caller]
    pub fn keep<T: Element>(&self, id: impl Into<BufferId<T>>) -> Resident<T> {
        let mut recorder = self.recorder.lock();
        let node = recorder.check_own(id.into().value());
        let mut of = Origin::resident(None, Place::caller());
        let ty = match node {
            Ok(node) => {
                of.name = recorder.recorded().origin(node).name;
                recorder.recorded().graph[node].ty.clone()
            }
            Err(_) => Type { dtype: T::DTYPE, shape: Shape::default() },
        };
        let handle = Handle::new(&self.device, ty, of, Storage::default());
        match node {
            Ok(node) if matches!(recorder.recorded().graph[node].op, Op::Invalid) => {}
            Ok(node) => {
                recorder.change().keep(node, Keep { handle: handle.clone(), patch: None });
            }
            Err(what) => recorder.note("keep", what),
        }
        Resident::of(handle)
    }
}

/// State that is carried from run to run.
impl GpuCommandBatch {
    /// Makes `value` the new value of `state` at the end of each run. Operations on the bound resident read the value that
    /// the run before left, on the device: nothing is transferred between runs.
    ///
    /// A run that fails, or whose future is dropped, leaves the state as it was. Runs of batches and programs that both
    /// [bind](Self::bind) and update a resident take turns, in the order in which they came.
    ///
    /// If `value` is the bound value with a part [replaced](Self::replace_slice), only that part is written, in place,
    /// when the run has ended. So keys and values that a decoder appends cost their own bytes, not those of the whole
    /// state. If somebody holds the old value it is copied first. The part lies in contiguous stretches, one for each
    /// index of the axes before its own. On a device with a GPU, the whole state is rewritten in three cases: the state
    /// is smaller than 4 MiB; the slice covers more than 64 stretches; or a stretch of `f16` starts or ends inside a
    /// 32-bit word. So a cache of more than 64 heads is better laid out with the tokens as its first axis. On the host
    /// alone, parts in more than 64 stretches are written in place where these begin 4 KiB apart or more.
    ///
    /// It is a mistake if the shapes differ, or if the batch updates the resident already. A number is a value of shape `[]`.
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
    pub fn update<T: Element>(&self, state: &Resident<T>, value: impl Operand<T>) {
        let value = value.operand_of(self, "update").value();
        let mut recorder = self.recorder.lock();
        if let Err(what) = recorder.update(state.handle(), value) {
            recorder.note("update", what);
        }
    }
}
