//! Ids, tensors and operands, and how operations over them are recorded.

mod any;
mod id;
pub(super) mod key;
mod operand;
mod recording;
mod tensor;

pub use any::AnyId;
pub use id::BufferId;
pub use key::{KeyOf, ValueKey};
pub use operand::{Operand, OptionalOperand, Values};
pub(crate) use recording::{OperationResult, TensorResult};
pub use tensor::Tensor;
