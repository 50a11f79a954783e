//! What is asked of a batch that it has not, and what is given that does not fit.

use thiserror::Error;

use crate::dtype::DType;
use crate::shape::{MAX_RANK, Shape};

/// Why a result is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing has been executed yet.
    #[error(
        "nothing was executed since the last change to the batch; call `execute` before `read`"
    )]
    NotExecuted,
    /// The id was not among what was downloaded.
    #[error(
        "{op} (recorded at {place}) was not downloaded; call `download(id)` on it before `execute`"
    )]
    NotDownloaded {
        /// The operation.
        op: &'static str,
        /// Where it was recorded.
        place: String,
    },
    /// An id of another batch.
    #[error("this id belongs to another batch; read it from the batch that made it")]
    Foreign,
    /// No value has the name.
    #[error("no value is called {0:?}; `input` and `name` give names")]
    UnknownName(String),
    /// Elements of another type than the result has.
    #[error("{name:?} has elements of type {found}, not {asked}; read it as {found}")]
    DType {
        /// What it is called.
        name: String,
        /// Its element type.
        found: DType,
        /// The element type asked for.
        asked: DType,
    },
    /// A result that was not kept.
    #[error("{op} (recorded at {place}) was not kept; call `keep(id)` on it before `compile`")]
    NotKept {
        /// The operation.
        op: &'static str,
        /// Where it was recorded.
        place: String,
    },
    /// A resident that no run has filled.
    #[error("{place}: the resident made here is empty: execute the batch that keeps it first")]
    EmptyResident {
        /// Where it was made.
        place: String,
    },
}

/// Why data given outside a graph does not fit.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DataError {
    /// The wrong number of elements.
    #[error("{given} elements do not fill shape {shape}, which has {}", shape.elements())]
    Length {
        /// Elements given.
        given: usize,
        /// The shape.
        shape: Shape,
    },
    /// An array of another shape, though it may have as many elements.
    #[error("an array of {given} does not fit {expected}; transpose or reshape it first")]
    Shape {
        /// The array's shape.
        given: Shape,
        /// The shape that it must have.
        expected: Shape,
    },
    /// More dimensions than supported.
    #[error("{0} dimensions are more than the {MAX_RANK} supported; merge some")]
    Rank(usize),
    /// Elements of another type than the input has.
    #[error("the input takes {expected}, not {given}; give it elements of that type")]
    DType {
        /// The input's element type.
        expected: DType,
        /// The element type of what was given.
        given: DType,
    },
    /// The function that was to change the data panicked; what it left is unspecified.
    #[error("what was to change the data panicked: {0}; write it again")]
    Panicked(String),
    /// An input that has no data.
    #[error("the input {name:?} has no data; give it to the run, or `write` it")]
    NotGiven {
        /// What it is called.
        name: String,
    },
    /// No value has the name.
    #[error("no value is called {0:?}; `input` and `name` give names")]
    UnknownName(String),
    /// The id to be written is not an upload.
    #[error(
        "only an upload can be written, and this id is the result of `{0}`; use the id that `upload` returned"
    )]
    NotAnUpload(&'static str),
    /// A file that cannot be read, or is not what it should be.
    #[error("{name}: {reason}")]
    File {
        /// Its path.
        name: String,
        /// What is wrong.
        reason: String,
    },
    /// A file has no tensor of the name.
    #[error("there is no tensor {name:?}; there are {there:?}")]
    NoTensor {
        /// What was asked for.
        name: String,
        /// The names of all tensors.
        there: Vec<String>,
    },
    /// A tensor of a file has elements of another type.
    #[error(
        "tensor {name:?} has elements of type {found}, not {asked}; ask for that type, or convert the file"
    )]
    TensorType {
        /// The tensor.
        name: String,
        /// Its element type.
        found: String,
        /// The element type asked for.
        asked: DType,
    },
    /// The id to be written is of another batch.
    #[error("this id belongs to another batch; write to the batch that made it")]
    Foreign,
}
