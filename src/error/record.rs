//! Mistakes of recording: where each was made.

use std::fmt;

use thiserror::Error;

use super::data::Origin;
use super::mistake::MistakeKind;
use crate::base::place::Place;
use crate::base::units::count;

/// Every mistake in a recorded graph, in the order in which they were made. Prints one line for each, with the number of
/// times that the same one was made in a loop: at most twenty lines, and five for one place.
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
        const SHOWN: usize = 20;
        // The mistakes of a loop leave room for others.
        const SHOWN_OF_A_PLACE: usize = 5;
        let mut lines: Vec<(&Mistake, usize)> = Vec::new();
        let mut left_out = 0_u64;
        for mistake in &self.0 {
            let alike = lines.iter().filter(|(line, _)| line.place == mistake.place).count();
            match lines.iter().position(|&(line, _)| line == mistake) {
                Some(line) => lines[line].1 += 1,
                None if lines.len() < SHOWN && alike < SHOWN_OF_A_PLACE => lines.push((mistake, 1)),
                None => left_out += 1,
            }
        }
        for (index, (mistake, times)) in lines.into_iter().enumerate() {
            f.write_str(if index > 0 { "\n" } else { "" })?;
            write!(f, "{mistake}")?;
            if times > 1 {
                write!(f, " (made {times} times)")?;
            }
        }
        if left_out > 0 {
            let more = count(left_out, "more mistake");
            write!(f, "\nand {more}, listed by `Mistakes::list`")?;
        }
        Ok(())
    }
}
impl std::error::Error for Mistakes {}

/// One mistake, with its place, its operation, the reason and the operands.
#[derive(Clone, Debug, PartialEq, Error)]
#[error("{place}: {op}: {what}{}", of_operands(operands))]
#[non_exhaustive]
pub struct Mistake {
    /// The caller's file and line.
    pub place: Place,
    /// The method that was called.
    pub op: &'static str,
    /// The mistake, and its cure.
    pub what: MistakeKind,
    /// The values that the operation was to work on, in order. There are none if the method refused them before.
    pub operands: Vec<Origin>,
}

/// The end of the message of a mistake: its operands, of which a `concat` may have many.
fn of_operands(operands: &[Origin]) -> String {
    const SHOWN: usize = 4;
    let shown: Vec<String> = operands.iter().take(SHOWN).map(Origin::to_string).collect();
    let more = if operands.len() > SHOWN { ", …" } else { "" };
    match &shown[..] {
        [] => String::new(),
        [one] => format!("; the operand: {one}"),
        _ => format!("; the operands: {}{more}", shown.join(", ")),
    }
}
