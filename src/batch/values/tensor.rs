//! Tensors: recorded values beside their batch.

use std::fmt;

use crate::base::dtype::Element;
use crate::base::shape::Shape;
use crate::batch::{BufferId, GpuCommandBatch, Resident};

/// A recorded value of elements `T` beside its batch, so that operations on it read as formulas: every operation of
/// [`GpuCommandBatch`] on values is a method, and operators (`+ - * / %`, `& | !` of truth values, unary `-`) take tensors, ids,
/// borrowed [residents](Resident) and numbers on either side.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, GpuCommandBatch};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload(&[0.0_f32, 3.0, -8.0]);
/// let y = batch.upload(&[2.0_f32, 4.0, 6.0]);
/// let length = (x * x + y * y).sqrt() * 0.5;
/// assert_eq!(batch.explain()?.kernels().len(), 1);
/// batch.execute().await?;
/// assert_eq!(batch.read(length).await?, [1.0, 2.5, 5.0]);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
///
/// `Debug` prints its type and where it was recorded.
///
/// A tensor is `Copy`. It borrows its batch; its [`id`](Self::id) does not. A number has the type of the tensor's elements:
/// `2.0 * x` for `f32`, `2 * n` for `i32`. Comparisons are methods, as in `x.gt(0.0)`, and give a tensor of `bool`. An axis
/// is an `isize`; a negative one counts from the last.
///
/// A mistake names the line of the method or operator that made it. In a function with `#[track_caller]`, such as a layer,
/// it names the line of the call.
pub struct Tensor<'b, T> {
    batch: &'b GpuCommandBatch,
    id: BufferId<T>,
}

/// The value and its batch.
impl<'b, T: Element> Tensor<'b, T> {
    /// `batch` may be another than that of `id`, which then is foreign to it.
    pub(crate) fn new(batch: &'b GpuCommandBatch, id: BufferId<T>) -> Self {
        Self { batch, id }
    }

    /// The id of the value, which borrows nothing. A task that outlives the batch takes it in place of the tensor ("`batch`
    /// does not live long enough").
    #[must_use]
    pub fn id(self) -> BufferId<T> {
        self.id
    }

    /// The batch that the value is recorded in.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// use onetrip::{Device, GpuCommandBatch, Tensor};
    ///
    /// /// x plus one random number for each element.
    /// fn noisy<'b>(x: Tensor<'b, f32>, seed: u64) -> Tensor<'b, f32> {
    ///     x + x.batch().random_normal(x.shape().unwrap_or_default(), seed, 0)
    /// }
    ///
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let y = noisy(batch.full([2, 3], 0.0_f32), 7);
    /// batch.execute().await?;
    /// assert_eq!(batch.read(y).await?.len(), 6);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    #[must_use]
    pub fn batch(self) -> &'b GpuCommandBatch {
        self.batch
    }

    /// The shape of the value. `None` if it comes from a mistake, or belongs to another batch.
    #[must_use]
    pub fn shape(self) -> Option<Shape> {
        self.batch.shape(self.id)
    }

    /// This tensor, to be read after a run: as [`GpuCommandBatch::download`].
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "that it is read is what is asked for")]
    pub fn download(self) -> Self {
        self.batch.download(self.id);
        self
    }

    /// This tensor, by the given name: as [`GpuCommandBatch::name`]. A name alone does not ask for the value.
    #[track_caller]
    #[expect(clippy::must_use_candidate, reason = "the batch knows the name")]
    pub fn named(self, name: &str) -> Self {
        self.batch.name(self.id, name);
        self
    }

    /// Keeps the value on the device: as [`GpuCommandBatch::keep`].
    #[track_caller]
    #[must_use]
    pub fn keep(self) -> Resident<T> {
        self.batch.keep(self.id)
    }
}

impl<T> Clone for Tensor<'_, T> {
    fn clone(&self) -> Self {
        *self
    }
}

impl<T> Copy for Tensor<'_, T> {}

impl<T: Element> fmt::Debug for Tensor<'_, T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let recorded = self.batch.recorded();
        match recorded.node(self.value()) {
            Some(node) => {
                write!(f, "Tensor({} {})", recorded.graph[node].ty, recorded.origin(node))
            }
            None => write!(f, "Tensor({:?})", self.id),
        }
    }
}

impl<T> From<Tensor<'_, T>> for BufferId<T> {
    fn from(tensor: Tensor<'_, T>) -> Self {
        tensor.id
    }
}

impl<T> From<Tensor<'_, T>> for Option<BufferId<T>> {
    fn from(tensor: Tensor<'_, T>) -> Self {
        Some(tensor.id)
    }
}
