//! Ids of recorded values.

use std::fmt;
use std::marker::PhantomData;

use crate::base::dtype::Element;
use crate::graph::NodeId;
use crate::record::UntypedId;

/// The id of a recorded value of elements `T`. Copy it freely; it belongs to the batch that made
/// it, and another batch refuses it.
///
/// It borrows nothing: it can be kept in a struct, sent to another task, and name an output of a
/// [`Program`](crate::Program). A [`Tensor`](crate::Tensor) is an id beside its batch.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{BufferId, Device, GpuCommandBatch, Program};
///
/// /// A network as a service holds it.
/// struct Network {
///     program: Program,
///     x: BufferId<f32>,
///     y: BufferId<f32>,
/// }
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.input::<f32>("x", 2);
/// let y = x.relu();
/// let network = Network { program: batch.compile().await?, x: x.id(), y: y.id() };
/// drop(batch);
/// let outputs = network.program.run([(network.x, &[1.0, -2.0])]).await?;
/// assert_eq!(outputs.read(network.y).await?, [1.0, 0.0]);
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
pub struct BufferId<T> {
    pub(crate) node: NodeId,
    pub(crate) batch_id: u64,
    element: PhantomData<fn() -> T>,
}

impl<T> BufferId<T> {
    pub(crate) fn new(node: NodeId, batch_id: u64) -> Self {
        Self { node, batch_id, element: PhantomData }
    }

    /// The id without its element type.
    pub(crate) fn value(self) -> UntypedId {
        UntypedId { node: self.node, batch_id: self.batch_id }
    }
}

impl<T> Clone for BufferId<T> {
    fn clone(&self) -> Self {
        *self
    }
}
impl<T> Copy for BufferId<T> {}
impl<T> PartialEq for BufferId<T> {
    fn eq(&self, other: &Self) -> bool {
        (self.node, self.batch_id) == (other.node, other.batch_id)
    }
}
impl<T> Eq for BufferId<T> {}
impl<T> std::hash::Hash for BufferId<T> {
    fn hash<H: std::hash::Hasher>(&self, state: &mut H) {
        (self.node, self.batch_id).hash(state);
    }
}
impl<T: Element> fmt::Debug for BufferId<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "BufferId<{}>({:?})", T::DTYPE, self.value())
    }
}
