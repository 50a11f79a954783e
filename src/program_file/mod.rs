//! Programs as files of the format safetensors: tensors are data of uploads and residents, and a document in JSON has the
//! graph. `operation` and `wire` are the codec of operations, `document` that of graphs, `check` verifies what a file
//! says, `reason` has the cures of what is refused; `save` and `load` bring the data.

mod check;
mod checksum;
mod describe;
mod document;
mod load;
mod operation;
mod reason;
mod save;
mod wire;

pub use describe::{ProgramInfo, ValueInfo};

/// The name of the document in the file's metadata.
const TEXT: &str = "onetrip";
