//! Blocks of steps that repeat: the text of a long plan has each of them once.
//!
//! A picture folds in [`fold`](crate::picture::fold), where an item stands for copies wherever they lie. A line of text
//! stands for a range of steps, so that copies must follow their block. This takes another walk.

use std::fmt::Write as _;
use std::mem::discriminant;
use std::ops::Range;

use crate::expr::{ExprNode, Failure};
use crate::picture::fold::{LONGEST, hash};
use crate::plan::Plan;
use crate::plan::step::Step;
use crate::plan::step_parts::OperandSource;
use crate::plan::value::ValueId;

/// Steps that a fold leaves out, at least.
const LEAST: usize = 8;

/// The steps that a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Steps {
    Every,
    /// Each block that repeats once, with a line in place of its copies.
    Folded,
}

/// The copies of a block of `period` steps, which follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Repeat {
    period: usize,
    pub copies: Range<usize>,
}

impl Repeat {
    /// The line in place of the copies.
    pub fn line(&self) -> String {
        let period = self.period;
        let same =
            if period == 1 { "same step".to_owned() } else { format!("same {period} steps") };
        let times = match self.copies.len() / period {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        let Range { start, end } = self.copies;
        format!("  … the {same} {times} more (steps {} to {end})", start + 1)
    }
}

/// The step of each line of a text, or a repeat in place of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Line {
    Step(usize),
    Copies(Repeat),
}

/// Writes steps of these kinds by `write_step`, and a line in place of copies.
pub(super) fn write_steps(
    text: &mut String,
    kinds: &[u64],
    steps: Steps,
    mut write_step: impl FnMut(&mut String, usize),
) {
    for line in lines(kinds, steps) {
        match line {
            Line::Step(at) => write_step(text, at),
            Line::Copies(repeat) => _ = writeln!(text, "{}", repeat.line()),
        }
    }
}

/// The lines for steps of these kinds.
pub(crate) fn lines(kinds: &[u64], steps: Steps) -> Vec<Line> {
    let mut lines = Vec::new();
    match steps {
        Steps::Every => lines.extend((0..kinds.len()).map(Line::Step)),
        Steps::Folded => fold(kinds, 0, &mut lines),
    }
    lines
}

/// Adds the lines for steps of these kinds, the first of which is step `first`: a block may have blocks in it.
fn fold(kinds: &[u64], first: usize, lines: &mut Vec<Line>) {
    let best = best(kinds);
    let mut at = 0;
    while let Some(&(copied, period)) = best.get(at) {
        if copied < LEAST {
            lines.push(Line::Step(first + at));
            at += 1;
            continue;
        }
        let (block_end, copies_end) = (at + period, at + period + copied);
        fold(&kinds[at..block_end], first + at, lines);
        let copies = first + block_end..first + copies_end;
        lines.push(Line::Copies(Repeat { period, copies }));
        at = copies_end;
    }
}

/// The block at each step that spares most: the number of steps in its copies, and in itself.
fn best(kinds: &[u64]) -> Vec<(usize, usize)> {
    let mut best = vec![(0, 0); kinds.len()];
    for period in 1..=LONGEST.min(kinds.len() / 2) {
        let mut alike = 0;
        for at in (0..kinds.len() - period).rev() {
            alike = if kinds[at] == kinds[at + period] { alike + 1 } else { 0 };
            let copied = alike / period * period;
            if copied > best[at].0 {
                best[at] = (copied, period);
            }
        }
    }
    best
}

/// Equal numbers for steps of one place that compute the same from values of the same types, with the same `note`. The
/// values may differ, and so may the place of the first element that a step reads of one.
pub(super) fn kind(plan: &Plan, step: &Step, note: &str) -> u64 {
    let Step { form, expr, lookups, borders, joins, place, .. } = step;
    let ty = |id: ValueId| {
        let value = &plan.values[id.index()];
        (value.dtype, &value.shape, value.channels_last)
    };
    let operands = step.operands.iter().map(|operand| {
        let (source, view) = (operand.source, &operand.view);
        // The numbers that an operand counts are constants of the step.
        let first = (source == OperandSource::Iota).then_some(view.offset);
        let lanes = (&view.dims, &view.strides, first, operand.clamp);
        (discriminant(&source), source.value().map(ty), operand.dtype, operand.space, lanes)
    });
    let outputs = step.outputs.iter().map(|of| (ty(of.value), of.dtype, of.root, &of.view));
    let (operands, outputs): (Vec<_>, Vec<_>) = (operands.collect(), outputs.collect());
    // Forms and the notes beside expressions have no hash, but all that they hold is in their text.
    let parts = format!("{form:?} {lookups:?} {borders:?} {joins:?}");
    let shown = (step.label(), place.file(), place.line(), note);
    hash(&(shown, parts, expr, constants(step), operands, outputs))
}

/// The numbers of the expressions by their bits, but for those that only tell a failing operation from others.
fn constants(step: &Step) -> Vec<Option<u32>> {
    let mut constants: Vec<Option<u32>> =
        step.scalars.iter().map(|scalar| Some(scalar.lane_bits())).collect();
    for node in step.expr.nodes() {
        if let ExprNode::Check(_, Failure { site, .. }) = node
            && let ExprNode::Scalar(at) = step.expr.node(site)
        {
            constants[usize::from(at)] = None;
        }
    }
    constants
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of `text`, a letter a kind; `…` and a number stand for so many copied steps.
    fn folded(text: &str) -> String {
        let kinds: Vec<u64> = text.bytes().map(u64::from).collect();
        let line = |line: &Line| match line {
            Line::Step(at) => text[*at..=*at].to_owned(),
            Line::Copies(repeat) => format!("…{}", repeat.copies.len()),
        };
        let shown = lines(&kinds, Steps::Folded).iter().map(line).collect();
        let each = (0..text.len()).map(Line::Step).collect::<Vec<_>>();
        assert_eq!(lines(&kinds, Steps::Every), each);
        shown
    }

    #[test]
    fn copies_of_a_block_take_one_line() {
        assert_eq!(folded(""), "");
        assert_eq!(folded("aaaaaaaa"), "aaaaaaaa", "a few stay");
        assert_eq!(folded("aaaaaaaaa"), "a…8");
        assert_eq!(folded(&format!("s{}e", "abc".repeat(100))), "sabc…297e");
        assert_eq!(folded(&format!("{}ab", "abc".repeat(4))), "abc…9ab");
        assert_eq!(folded(&"abcdefgh".repeat(2)), "abcdefgh…8");
        // Blocks in a block.
        assert_eq!(folded(&"xaaaaaaaaaaay".repeat(3)), "xa…10y…26");
        let joined = format!("{}j", "aaaaaaaaab".repeat(7));
        assert_eq!(folded(&joined.repeat(2)), "a…8b…60j…71");
        assert_eq!(folded(&format!("{}{}", "a".repeat(20), "bc".repeat(9))), "a…19bc…16");
    }

    #[test]
    fn the_line_counts_from_1() {
        let line = |period, copies| Repeat { period, copies }.line();
        assert_eq!(line(3, 3..300), "  … the same 3 steps 99 times more (steps 4 to 300)");
        assert_eq!(line(1, 5..14), "  … the same step 9 times more (steps 6 to 14)");
        assert_eq!(line(9, 9..18), "  … the same 9 steps once more (steps 10 to 18)");
    }
}
