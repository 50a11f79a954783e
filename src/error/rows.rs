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
/// let Err(Error::Rows(RowsError::Mixes { of, why })) = program.rows() else { panic!("rows mix") };
/// println!("{of}: {why}");
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RowsError {
    /// An operation computes a row from others, or from its position.
    #[error("{of} mixes rows: {why}; run the program as it was recorded")]
    Mixes {
        /// The operation.
        of: Origin,
        /// The reason.
        why: &'static str,
    },
    /// No input has rows.
    #[error("no input has a leading axis, so there are no rows; record one with `input`")]
    NoInput,
    /// An input that is to have rows is a scalar.
    #[error("{0} is a scalar and has no rows; name inputs with a leading axis")]
    Scalar(Origin),
    /// The sizes of leading axes differ.
    #[error(
        "{first} has {} and {second} has {others}; name the inputs that have rows by `rows_of`",
        wording::rows(*rows)
    )]
    Leading {
        /// An input.
        first: Origin,
        /// The size of its leading axis.
        rows: usize,
        /// An input of another size.
        second: Origin,
        /// The size of its leading axis.
        others: usize,
    },
    /// Recorded with fewer than two rows, which no axis of size 1 can be told from.
    #[error(
        "{of} was recorded with {}; record the program with 2 or more to trace them",
        wording::rows(*rows)
    )]
    Few {
        /// An input with rows.
        of: Origin,
        /// The number of rows.
        rows: usize,
    },
    /// Runs of the program fill a resident.
    #[error(
        "{0} is kept or updated by each run, so its runs are not cut; run the program as it was recorded"
    )]
    Keeps(Origin),
    /// Data that is no whole number of rows.
    #[error(
        "{of} takes rows of {row}, and {given} elements are no whole number of them; {}",
        wording::whole_rows(row, *given)
    )]
    Part {
        /// The input.
        of: Origin,
        /// The shape of one row.
        row: Shape,
        /// The number of elements given.
        given: usize,
    },
    /// Inputs of one run with different numbers of rows.
    #[error(
        "{first} is given {}, and {second} {others}; give both as many",
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
