//! Programs whose rows cannot be cut, padded and joined.

use thiserror::Error;

use super::data::Origin;
use super::wording;
use crate::base::shape::Shape;

/// The reason why a program does not run with any number of rows.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, Error, GpuCommandBatch, RowsError};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.input::<f32>("x", [4, 3]);
/// x.softmax(0); // over the rows
/// let program = batch.compile().await?;
/// let Err(Error::Rows(RowsError::Mixes { of, why, .. })) = program.rows() else { panic!("rows mix") };
/// println!("{of}: {why}");
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RowsError {
    /// An operation computes a row from others, or from its position.
    #[error(
        "{of} mixes rows: {why}; rows are {}: {cure}, or record a program for each number of rows and `run` it",
        wording::rows_along(inputs)
    )]
    Mixes {
        /// The operation.
        of: Origin,
        /// The reason.
        why: &'static str,
        /// The inputs that it depends on, each with its shape and with the axis that was taken for that of its rows.
        inputs: Vec<(Origin, Shape, usize)>,
        /// The cure, as part of a sentence.
        cure: &'static str,
    },
    /// An operation reads rows beside a value without rows that has an element for each recorded row.
    #[error(
        "{of} reads {operand} of shape {shape}, which has a value for each recorded row along axis {axis}, and no rows; \
         give it as an input with rows (`rows_of` names them), or run the program as it was recorded"
    )]
    Long {
        /// The operation.
        of: Origin,
        /// The value: an input without rows, an upload, a resident, or a result of such values.
        operand: Origin,
        /// Its shape.
        shape: Box<Shape>,
        /// The axis that is as long as there were rows.
        axis: usize,
    },
    /// No input has rows.
    #[error("no input has a leading axis, so there are no rows; record one with `input`")]
    NoInput,
    /// A resident that is to have rows: a weight or a state.
    #[error(
        "{of} is a weight or a state of the program, and only inputs have rows; {}",
        wording::name_an_input(inputs)
    )]
    Resident {
        /// The resident.
        of: Origin,
        /// The names of all inputs.
        inputs: Vec<String>,
    },
    /// An input that is to have rows is a scalar.
    #[error("{0} is a scalar and has no rows; name inputs with a leading axis")]
    Scalar(Origin),
    /// Two inputs have different numbers of rows.
    #[error(
        "{first} has {}, and {second} of shape {shape} has {} along axis {axis}; record both with the rows in front \
         (`permute` moves them, and recurrent layers take `batch_first`), or leave out the one without rows by `rows_of`",
        wording::rows(*rows), shape[*axis]
    )]
    Leading {
        /// An input.
        first: Origin,
        /// The size of its leading axis.
        rows: usize,
        /// An input with another number of rows.
        second: Origin,
        /// Its shape.
        shape: Box<Shape>,
        /// The axis of its rows: the first whose size is not 1, or the leading one.
        axis: usize,
    },
    /// Recorded with fewer than two rows, which no axis of size 1 can be told from.
    #[error(
        "{of} of shape {shape} was recorded with {} along axis 0; record the program with 2 or more there to trace them",
        wording::rows(*rows)
    )]
    Few {
        /// An input with rows.
        of: Origin,
        /// Its shape.
        shape: Box<Shape>,
        /// The number of rows.
        rows: usize,
    },
    /// Runs of the program fill a resident.
    #[error(
        "{0} is kept or updated by each run, so the program takes the recorded rows alone: call `run`; for any number of \
         rows output a sum, and update the resident in a second program"
    )]
    Keeps(Origin),
    /// Data that is no whole number of rows.
    #[error(
        "{of} takes rows of {row} along axis {axis}, and {given} elements are no whole number of them; {}",
        wording::whole_rows(row, *given)
    )]
    Part {
        /// The input.
        of: Origin,
        /// The shape of one row.
        row: Shape,
        /// The axis of its rows.
        axis: usize,
        /// The number of elements given.
        given: usize,
    },
    /// Inputs of one run with different numbers of rows.
    #[error(
        "{first} is given {}, and {second} {others}; give both the same number",
        wording::rows(*rows)
    )]
    Counts {
        /// An input.
        first: Origin,
        /// Its rows.
        rows: usize,
        /// An input with another number of rows.
        second: Origin,
        /// Its rows.
        others: usize,
    },
    /// The program cannot be made for so many rows.
    #[error("{of} cannot be made for {}: {why}", wording::rows(*rows))]
    Number {
        /// The operation.
        of: Origin,
        /// The number of rows.
        rows: usize,
        /// The mistake that it would be.
        why: String,
    },
}
