//! Blocks of steps that repeat: the text of a long plan has each of them once.

use std::hash::{DefaultHasher, Hash, Hasher};
use std::ops::Range;

use crate::plan::Plan;
use crate::plan::step::Step;
use crate::plan::value::ValueId;

/// Steps that a fold leaves out, at least.
const LEAST: usize = 8;
/// Steps of the longest block that is looked for.
const LONGEST: usize = 512;

/// A block of steps and its copies, which follow it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Repeat {
    pub block: Range<usize>,
    pub copies: Range<usize>,
}

impl Repeat {
    /// The line in place of the copies.
    pub fn line(&self) -> String {
        let period = self.block.len();
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
pub(super) enum Line {
    Step(usize),
    Copies(Repeat),
}

/// The lines for steps of these kinds: `every` step has one, or copies have one together.
pub(super) fn lines(kinds: &[u64], every: bool) -> Vec<Line> {
    let mut lines = Vec::new();
    if every {
        lines.extend((0..kinds.len()).map(Line::Step));
    } else {
        fold(kinds, 0, &mut lines);
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
        let block = at..at + period;
        at = block.end + copied;
        fold(&kinds[block.clone()], first + block.start, lines);
        let copies = first + block.end..first + at;
        let block = first + block.start..first + block.end;
        lines.push(Line::Copies(Repeat { block, copies }));
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

/// Equal numbers for steps of one place that compute the same from values of the same types, with the same `note`.
pub(super) fn kind(plan: &Plan, step: &Step, note: &str) -> u64 {
    let mut hasher = DefaultHasher::new();
    let (form, place) = (step.form.kernel().name(), &step.place);
    (step.label(), form, place.file(), place.line(), note).hash(&mut hasher);
    let ty = |id: ValueId| {
        let value = &plan.values[id.index()];
        (value.dtype, &value.shape, value.channels_last)
    };
    let reads = step.reads();
    reads.iter().map(|&id| ty(id)).collect::<Vec<_>>().hash(&mut hasher);
    let outputs = step.outputs.iter().map(|output| ty(output.value));
    outputs.collect::<Vec<_>>().hash(&mut hasher);
    hasher.finish()
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
        let shown = lines(&kinds, false).iter().map(line).collect();
        let each = (0..text.len()).map(Line::Step).collect::<Vec<_>>();
        assert_eq!(lines(&kinds, true), each);
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
        let line = |block, copies| Repeat { block, copies }.line();
        assert_eq!(line(0..3, 3..300), "  … the same 3 steps 99 times more (steps 4 to 300)");
        assert_eq!(line(4..5, 5..14), "  … the same step 9 times more (steps 6 to 14)");
        assert_eq!(line(0..9, 9..18), "  … the same 9 steps once more (steps 10 to 18)");
    }
}
