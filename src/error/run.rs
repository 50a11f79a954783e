//! Ends of a run: data that an operation cannot work with, and bounds of the caller.

use std::time::Duration;

use thiserror::Error;

use super::data::Origin;
use crate::base::place::Place;
use crate::base::shape::Shape;

/// Data that an operation cannot work with, found by the run: the first that there is, by the order in which operations
/// were recorded, and by the position of the element.
///
/// ```
/// # pollster::block_on(async {
/// use onetrip::{Device, Error, GpuCommandBatch, FaultKind};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let table = batch.upload(&[1.0_f32, 2.0]);
/// table.gather(batch.upload(&[0_u32, 7]), 0);
/// let Err(Error::Fault(fault)) = batch.execute().await else { panic!("7 is out of range") };
/// assert_eq!((fault.op, &fault.at[..]), ("gather", &[1][..]));
/// assert!(matches!(fault.what, FaultKind::Index { index: Some(7), size: 2, .. }));
/// # Ok::<_, onetrip::Error>(()) }).unwrap();
/// ```
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[error("{place}: {op}: {}", what.message(op, at))]
pub struct Fault {
    /// The place where the operation was recorded.
    pub place: Place,
    /// The method that recorded it.
    pub op: &'static str,
    /// The position of the index among the indices, or of the result of a division.
    pub at: Vec<usize>,
    /// The fault.
    pub what: FaultKind,
}

/// The fault that a run found in its data.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FaultKind {
    /// An index out of range.
    Index {
        /// The index, if the host knows it: for uploaded indices, and for those that arithmetic of integers made of
        /// uploads alone.
        index: Option<i64>,
        /// The axis that it indexes.
        axis: usize,
        /// The number of elements along that axis.
        size: usize,
        /// The values behind it; `None` for the places of a scatter.
        lookup: Option<Box<Lookup>>,
    },
    /// A class that is none of those from 0 on.
    Class {
        /// The class, if the host knows it, as an index.
        class: Option<i64>,
        /// The number of classes.
        classes: usize,
    },
    /// An integer divided by 0.
    DivisionByZero,
}

/// The values that an operation looks up by indices.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Lookup {
    /// The table.
    pub table: Origin,
    /// The shape of the table.
    pub shape: Shape,
    /// The source of the indices: the indices themselves, or the value that moves such as `unsqueeze` made them from.
    pub indices: Origin,
    /// True if an operation computed the indices.
    pub(crate) computed: bool,
    /// The position of the operation among the nodes of its graph.
    pub(crate) operation: usize,
}

impl FaultKind {
    /// The message for the element `at` of the operation `op`.
    fn message(&self, op: &str, at: &[usize]) -> String {
        match self {
            Self::Index { index, axis, size, lookup } => {
                let index = index.map_or("an index".to_owned(), |index| format!("index {index}"));
                let values = lookup.as_deref().map_or(String::new(), |lookup| {
                    let Lookup { table, shape, indices, computed, .. } = lookup;
                    let fix = match computed {
                        true => " (check the data that they are computed from, or `clip` them)",
                        false => "",
                    };
                    format!(
                        "; the indices come from {indices}{fix}; the table is {table}, of shape {shape}"
                    )
                });
                format!("{index} at {at:?} is out of range for axis {axis} of size {size}{values}")
            }
            Self::Class { class, classes } => {
                let class = class.map_or("a class".to_owned(), |class| format!("class {class}"));
                let fix = match op {
                    "cross_entropy" | "nll_loss" => "; `ClassLoss::ignore` leaves out one class",
                    "accuracy" => "; `accuracy_with` leaves out one class",
                    _ => "; check the classes, or `clip` them",
                };
                format!("{class} at {at:?} is none of 0..{classes}{fix}")
            }
            Self::DivisionByZero => {
                format!("division by zero at {at:?}; `select` can replace such divisors")
            }
        }
    }
}

/// The reason for which a run was refused or stopped.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum RunError {
    /// The run needs more memory than runs may ever hold at once.
    #[error(
        "the run that makes {of} holds {needs} bytes at once, and the device's budget is {budget}; \
         split the batch, or open the device with another `memory_budget`"
    )]
    OverBudget {
        /// The first result of the run.
        of: Origin,
        /// Bytes that the run holds at once.
        needs: u64,
        /// The device's budget in bytes.
        budget: u64,
    },
    /// The run took longer than its limit.
    #[error(
        "the run that makes {of} was not done within {limit:?}; give it longer, or run it again"
    )]
    Deadline {
        /// The first result of the program.
        of: Origin,
        /// The limit.
        limit: Duration,
    },
    /// The caller stopped the run.
    #[error(
        "the run was cancelled: its signal to stop came before its end; run it again if it is still wanted"
    )]
    Cancelled,
    /// A function that the caller gave to the run panicked.
    #[error("the function that is told of the progress panicked: {0}; the device works on")]
    Panicked(String),
}
