//! Blocks that repeat in a list of steps or kernels: a long text has each of them once.
//!
//! A drawing folds in [`fold`](super::fold), where an item stands for copies wherever they lie. A line of text stands for a
//! range of steps, so that copies must follow their block. This takes another walk.

use std::ops::Range;

use super::fold::LONGEST;

/// Steps that a fold leaves out, at least.
const LEAST: usize = 8;

/// The steps that a text has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum ShownSteps {
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
    /// The line in place of the copies of what `noun` names.
    pub fn line(&self, noun: &str) -> String {
        let same = match self.period {
            1 => noun.to_owned(),
            period => format!("{period} {noun}s"),
        };
        let times = match self.copies.len() / self.period {
            1 => "once".to_owned(),
            times => format!("{times} times"),
        };
        format!("  … the same {same} {times} more")
    }

    /// The line in place of copies of steps, with their numbers.
    pub fn line_of_steps(&self) -> String {
        let Range { start, end } = self.copies;
        format!("{} (steps {} to {end})", self.line("step"), start + 1)
    }
}

/// The step of each line of a text, or a repeat in place of copies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum StepLine {
    Step(usize),
    Copies(Repeat),
}

/// The lines for steps of these kinds.
pub(crate) fn fold_steps(kinds: &[u64], shown: ShownSteps) -> Vec<StepLine> {
    let mut lines = Vec::new();
    match shown {
        ShownSteps::Every => lines.extend((0..kinds.len()).map(StepLine::Step)),
        ShownSteps::Folded => fold(kinds, 0, &mut lines),
    }
    lines
}

/// Adds the lines for steps of these kinds, the first of which is step `first`: a block may have blocks in it.
fn fold(kinds: &[u64], first: usize, lines: &mut Vec<StepLine>) {
    let best = best(kinds);
    let mut at = 0;
    while let Some(&(copied, period)) = best.get(at) {
        if copied < LEAST {
            lines.push(StepLine::Step(first + at));
            at += 1;
            continue;
        }
        let (block_end, copies_end) = (at + period, at + period + copied);
        fold(&kinds[at..block_end], first + at, lines);
        let copies = first + block_end..first + copies_end;
        lines.push(StepLine::Copies(Repeat { period, copies }));
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

#[cfg(test)]
mod tests {
    use super::*;

    /// The steps of `text`, a letter a kind; `…` and a number stand for so many copied steps.
    fn folded(text: &str) -> String {
        let kinds: Vec<u64> = text.bytes().map(u64::from).collect();
        let line = |line: &StepLine| match line {
            StepLine::Step(at) => text[*at..=*at].to_owned(),
            StepLine::Copies(repeat) => format!("…{}", repeat.copies.len()),
        };
        let shown = fold_steps(&kinds, ShownSteps::Folded).iter().map(line).collect();
        let each = (0..text.len()).map(StepLine::Step).collect::<Vec<_>>();
        assert_eq!(fold_steps(&kinds, ShownSteps::Every), each);
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
    fn the_line_of_steps_counts_from_1() {
        let repeat = |period, copies| Repeat { period, copies };
        assert_eq!(
            repeat(3, 3..300).line_of_steps(),
            "  … the same 3 steps 99 times more (steps 4 to 300)"
        );
        assert_eq!(
            repeat(1, 5..14).line_of_steps(),
            "  … the same step 9 times more (steps 6 to 14)"
        );
        assert_eq!(
            repeat(9, 9..18).line_of_steps(),
            "  … the same 9 steps once more (steps 10 to 18)"
        );
        assert_eq!(repeat(2, 2..8).line("kernel"), "  … the same 2 kernels 3 times more");
        assert_eq!(repeat(1, 2..11).line("kernel"), "  … the same kernel 9 times more");
    }
}
