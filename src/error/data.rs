//! Data that a batch does not have, and data that does not fit.

use std::fmt;
use std::sync::Arc;

use thiserror::Error;

use super::tensor_names::{nearest_tensors, other_tensors};
use super::wording::{
    elements, foreign, not_given, or_a_name, other_results, other_rows, others, point, quoted,
    type_to_ask_for,
};
use crate::base::dtype::DType;
use crate::base::place::Place;
use crate::base::shape::{MAX_RANK, Shape};

/// The value that a message is about: which method recorded or made it, and where. Prints as
/// `input "x" (at src/main.rs:12)`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Origin {
    /// The method: `input`, `upload`, `resident`, or an operation. One of several results has its name too: `lstm.h`.
    pub op: &'static str,
    /// The name that the user gave the value, if any.
    pub name: Option<Arc<str>>,
    /// The caller's file and line.
    pub place: Place,
}

impl Origin {
    /// The origin of a value without a name.
    pub(crate) fn unnamed(op: &'static str, place: Place) -> Self {
        Self { op, name: None, place }
    }

    /// The origin of a resident.
    pub(crate) fn resident(name: Option<Arc<str>>, place: Place) -> Self {
        Self { op: "resident", name, place }
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.op)?;
        if let Some(name) = &self.name {
            write!(f, " {}", quoted(name))?;
        }
        write!(f, " (at {})", self.place)
    }
}

/// The reason why a result is not there.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum ReadError {
    /// Nothing was executed since the last change to the batch, or ever.
    #[error(
        "{0} has no result: nothing was executed since the last change to the batch; call `execute` before it is read"
    )]
    NotExecuted(Origin),
    /// The last run failed.
    #[error("{of} has no result, since `execute` failed: {why}")]
    Failed {
        /// The value that was to be read.
        of: Origin,
        /// The error that `execute` returned.
        why: String,
    },
    /// The id is not among the downloaded values.
    #[error("{0} was not downloaded; call `download(id)` on it before `execute` or `compile`")]
    NotDownloaded(Origin),
    /// An id of another batch, or of a value that was recorded after the program was compiled. `Debug` of ids and
    /// batches prints their numbers.
    #[error(
        "{}",
        foreign([*id_of, *batch], [id_made_at.as_ref(), made_at.as_ref()], "read it from")
    )]
    Foreign {
        /// The number of the batch that made the id.
        id_of: u64,
        /// The place where that batch was made; `None` if 1024 batches were made since, or another thread held its
        /// entry.
        id_made_at: Option<Place>,
        /// The number of the batch that was asked, or whose program was.
        batch: u64,
        /// The place where that batch was made; `None` for a program from a file.
        made_at: Option<Place>,
    },
    /// No result has the name.
    #[error("no result is called {}{}", quoted(name), other_results(name, there, not_downloaded))]
    UnknownName {
        /// The request.
        name: String,
        /// The names of all results that have one.
        there: Vec<String>,
        /// The names of recorded values that runs neither download nor keep.
        not_downloaded: Vec<String>,
    },
    /// Elements of another type than the result has.
    #[error("{of} has elements of type {found}, not {asked}; read it as {found}")]
    DType {
        /// The value that was to be read.
        of: Origin,
        /// Its element type.
        found: DType,
        /// The element type asked for.
        asked: DType,
    },
    /// Memory for more or fewer elements than the result has.
    #[error("{of} has {}, and what is to take them has room for {room}; give it that many", elements(shape.elements()))]
    Length {
        /// The value that was to be read.
        of: Origin,
        /// Its shape.
        shape: Shape,
        /// Elements that were given room.
        room: usize,
    },
    /// A result that was not kept.
    #[error("{0} was not kept; call `keep(id)` on it before `compile`")]
    NotKept(Origin),
    /// A resident that no run has filled.
    #[error("{0} is empty: execute the batch that keeps it first")]
    EmptyResident(Origin),
}

/// The reason why data given outside a graph does not fit.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, Error, GpuCommandBatch, DataError};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.input::<f32>("x", 3);
/// x.relu();
/// let program = batch.compile().await?;
/// let end = program.run([(x, &[1.0, 2.0])]).await;
/// assert!(matches!(end, Err(Error::Data(DataError::Length { given: 2, .. }))));
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum DataError {
    /// Data for one input twice in one run, perhaps by its id and by its name.
    #[error("{0} is given data twice in one run; give it once")]
    GivenTwice(Origin),
    /// The wrong number of elements.
    #[error(
        "{of} has shape {shape} and takes {}, not {given}; give that many, or make it of another shape{}",
        elements(shape.elements()), other_rows(of.op, shape, *given)
    )]
    Length {
        /// The input that the data is for.
        of: Origin,
        /// Elements given.
        given: usize,
        /// Its shape.
        shape: Shape,
    },
    /// An array of another shape, though it may have as many elements.
    #[error("{of} takes an array of {expected}, not of {given}; transpose or reshape it first")]
    Shape {
        /// The input that the array is for.
        of: Origin,
        /// The array's shape.
        given: Box<Shape>,
        /// The shape that it must have.
        expected: Shape,
    },
    /// More dimensions than supported.
    #[error("{of}: {given} dimensions are more than the {MAX_RANK} supported; merge some")]
    Rank {
        /// The input that they were given for.
        of: Origin,
        /// The number of dimensions.
        given: usize,
    },
    /// More elements than can be addressed.
    #[error("{of}: shape {shape} has more elements than can be addressed; split it")]
    TooLarge {
        /// The input that the shape was given for.
        of: Origin,
        /// The shape.
        shape: Shape,
    },
    /// Elements of another type than the input has.
    #[error("{of} takes {expected}, not {given}; give it elements of that type")]
    DType {
        /// The input that the data is for.
        of: Origin,
        /// Its element type.
        expected: DType,
        /// The element type of the given data.
        given: DType,
    },
    /// A 64-bit id that the elements of its input cannot hold.
    #[error(
        "{of} takes {dtype}, and the id {value}{} is out of its range; give ids that it holds",
        point(&shape.coordinates(*at))
    )]
    IdRange {
        /// The input that the ids are for.
        of: Origin,
        /// The position of the id in row-major order.
        at: usize,
        /// The id.
        value: i64,
        /// The element type of the input.
        dtype: DType,
        /// The shape of the data.
        shape: Shape,
    },
    /// Shared bytes that are more or fewer than those of the input's elements.
    #[error("{of} has shape {shape} and takes {expected} bytes, not {given}; share that many")]
    Bytes {
        /// The input that the bytes are for.
        of: Origin,
        /// The number of shared bytes.
        given: usize,
        /// The number of bytes of its elements.
        expected: usize,
        /// Its shape.
        shape: Shape,
    },
    /// Shared bytes that no kernel can read where they lie.
    #[error(
        "the bytes shared for {0} do not begin at a multiple of 4 bytes; share memory that does, or give a slice to be copied"
    )]
    Askew(Origin),
    /// A shared byte that is no truth value.
    #[error("{of} takes bool, and its shared byte {at} is neither 0 nor 1; share bytes that are")]
    Truth {
        /// The input that the bytes are for.
        of: Origin,
        /// The position of the byte.
        at: usize,
    },
    /// 64-bit ids for an input of other elements than 32-bit integers.
    #[error(
        "{of} takes {expected}, and ids are for inputs of i32 or u32; give it elements of {expected}"
    )]
    NotIds {
        /// The input that the ids are for.
        of: Origin,
        /// Its element type.
        expected: DType,
    },
    /// The function that was to change the data panicked. The data is then unspecified, and runs fail until it is written.
    #[error("{of}: the function that was to change the data panicked: {what}; write it again")]
    Panicked {
        /// The resident or input that has the data.
        of: Origin,
        /// The message of the panic.
        what: String,
    },
    /// An upload whose data a call of `write_with` is changing, on this thread or another one.
    #[error("the data of {0} is being changed by `write_with`; use it after that call")]
    BeingChanged(Origin),
    /// Inputs that have no data.
    #[error("{}", not_given(.0))]
    NotGiven(Vec<Origin>),
    /// No input has the name.
    #[error(
        "no input is called {}{}; `input` and `name` give names",
        quoted(name),
        others(name, there)
    )]
    UnknownName {
        /// The value that was given data.
        name: String,
        /// The names of all inputs, and of all uploads that have one.
        there: Vec<String>,
    },
    /// No resident has the name.
    #[error(
        "the program reads or fills no resident called {}{}; `name` gives names to values that are bound, kept or updated",
        quoted(name),
        others(name, there)
    )]
    UnknownResident {
        /// The request.
        name: String,
        /// The names of the values that residents hold.
        there: Vec<String>,
    },
    /// The value that is to be written is not an upload.
    #[error(
        "only inputs and uploads take data, and {of} is {}; use the id that `input` or `upload` returned{}",
        if *is_output { "an output" } else { "not one" },
        or_a_name(there)
    )]
    NotAnUpload {
        /// The value that was given data.
        of: Origin,
        /// True if runs download it.
        is_output: bool,
        /// The names of all uploads that have one, where a name does as well as an id.
        there: Vec<String>,
    },
    /// A file that cannot be read, or has the wrong contents.
    #[error("{name}: {reason}")]
    File {
        /// Its path.
        name: String,
        /// The mistake.
        reason: String,
    },
    /// A file has no tensor of the name.
    #[error("{file}: there is no tensor {}{}", quoted(name), other_tensors(name, there))]
    NoTensor {
        /// The file's path.
        file: String,
        /// The request.
        name: String,
        /// The names of all tensors.
        there: Vec<String>,
    },
    /// A program's file was saved without a weight that nobody gives.
    #[error(
        "{file}: the program was saved without its weight {}{}",
        quoted(name),
        match given {
            Some((weights, there)) => format!(", and {weights} has no such tensor{}", nearest_tensors(name, there)),
            None => "; give it by `LoadOptions::weights`".into(),
        }
    )]
    LeftOut {
        /// The path of the program's file.
        file: String,
        /// The weight.
        name: String,
        /// The path of the file of weights that was given, and the names of its tensors.
        given: Option<(String, Vec<String>)>,
    },
    /// A tensor of a file has an integer outside of the type asked for.
    #[error("{file}: tensor {} holds {value}{}, which no {asked} holds", quoted(name), point(at))]
    TensorRange {
        /// The file's path.
        file: String,
        /// The tensor's name.
        name: String,
        /// Coordinates of the element.
        at: Vec<usize>,
        /// The integer.
        value: String,
        /// The element type asked for.
        asked: DType,
    },
    /// A tensor that was to be transposed has fewer than two axes.
    #[error(
        "{file}: tensor {} of shape {shape} has no two axes to swap; read it as it is",
        quoted(name)
    )]
    NoMatrix {
        /// The file's path.
        file: String,
        /// The tensor's name.
        name: String,
        /// Its shape.
        shape: Shape,
    },
    /// A tensor of a file has elements of another type.
    #[error(
        "{file}: tensor {} has elements of type {found}, not {asked}; {}",
        quoted(name),
        type_to_ask_for(found)
    )]
    TensorType {
        /// The file's path.
        file: String,
        /// The tensor.
        name: String,
        /// Its element type.
        found: String,
        /// The element type asked for.
        asked: DType,
    },
    /// The id to be written is of another batch, or of a value that was recorded after the program was compiled.
    #[error(
        "{}",
        foreign([*id_of, *batch], [id_made_at.as_ref(), made_at.as_ref()], "give its data to")
    )]
    Foreign {
        /// The number of the batch that made the id.
        id_of: u64,
        /// The place where that batch was made; `None` if 1024 batches were made since, or another thread held its
        /// entry.
        id_made_at: Option<Place>,
        /// The number of the batch that was given the data, or whose program was.
        batch: u64,
        /// The place where that batch was made; `None` for a program from a file.
        made_at: Option<Place>,
    },
}
