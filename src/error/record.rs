//! Mistakes of recording: where each was made.

use std::fmt;

use thiserror::Error;

use super::mistake::MistakeKind;
use crate::base::place::Place;

/// Every mistake in a recorded graph, in the order in which they were made.
///
/// ```
/// use onetrip::{Device, Error, GpuCommandBatch};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload(&[1.0_f32, 2.0]);
/// let _ = x + batch.upload(&[1.0_f32, 2.0, 3.0]);
/// let Err(Error::Record(mistakes)) = batch.check_recorded() else { panic!("the shapes differ") };
/// let [mistake] = mistakes.list() else { panic!("one mistake") };
/// assert_eq!(mistake.op, "add");
/// println!("{}, line {}", mistake.place.file(), mistake.place.line());
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Mistakes(pub(crate) Vec<Mistake>);

impl Mistakes {
    /// The mistakes, in the order in which they were made.
    #[must_use]
    pub fn list(&self) -> &[Mistake] {
        &self.0
    }
}

impl fmt::Display for Mistakes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (index, mistake) in self.0.iter().enumerate() {
            if index > 0 {
                writeln!(f)?;
            }
            write!(f, "{mistake}")?;
        }
        Ok(())
    }
}
impl std::error::Error for Mistakes {}

/// One mistake, with its place, its operation and the reason.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{place}: {op}: {what}")]
pub struct Mistake {
    /// The caller's file and line.
    pub place: Place,
    /// The method that was called.
    pub op: &'static str,
    /// The mistake, and its cure.
    pub what: MistakeKind,
}
