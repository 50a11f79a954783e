//! The depth of a source's nesting.
//!
//! Quirk of naga: it follows chained operators of an expression, and the branches of an `if`, by recursion without a limit,
//! and a stack that overflows ends the process. Tests: below, `tests/own_kernels/main.rs`.

use std::mem;

use crate::error::MistakeKind;

/// Characters of operators that an expression and those around it may chain: naga takes twice as many
/// on the stack of a thread, without optimisation.
const MOST_OPERATORS: usize = 1000;
/// Branches of an `if` and of those around it.
const MOST_BRANCHES: usize = 200;

/// Checks that naga can follow `source`, whether it is valid or not.
pub(super) fn check(source: &str) -> Result<(), MistakeKind> {
    let mut depth = Depth::default();
    let mut rest = source;
    while let Some(first) = rest.chars().next() {
        let length = match comment(rest) {
            Some(length) => length,
            None => {
                let length = word(rest).unwrap_or(first.len_utf8());
                let (token, after) = rest.split_at(length);
                depth.read(token, first, after);
                length
            }
        };
        rest = &rest[length..];
        depth.check().map_err(|what| {
            let lines = source[..source.len() - rest.len()].matches('\n').count();
            MistakeKind::Kernel { line: u32::try_from(lines + 1).ok(), what }
        })?;
    }
    Ok(())
}

/// The nesting at the position of the reader.
#[derive(Default)]
struct Depth {
    /// The list that is read.
    list: ListDepth,
    /// The lists around it in the same statement, from the outermost inwards.
    around: Vec<ListDepth>,
    /// Operators of all of `around`.
    operators: usize,
    /// In each open block, from the outermost inwards, the branches before this one of the `if` there.
    blocks: Vec<usize>,
    /// The sum of `blocks`.
    branches: usize,
    /// Branches of the `if` that ends or goes on here.
    branch: usize,
    /// True if a block has just ended, after which there may be an `else`.
    is_after_block: bool,
}

/// The text between two commas of a parenthesis, or outside of all.
#[derive(Default)]
struct ListDepth {
    operators: usize,
    /// Angle brackets, whose commas are none of the list's.
    angles: usize,
}

impl Depth {
    /// Reads a token that begins with `first`, and the text after it.
    fn read(&mut self, token: &str, first: char, after: &str) {
        if first.is_whitespace() {
            return;
        }
        if mem::take(&mut self.is_after_block) {
            self.branch = if token == "else" { self.branch + 1 } else { 0 };
        }
        match first {
            '{' => {
                self.branches += self.branch;
                self.blocks.push(mem::take(&mut self.branch));
                self.end_statement();
            }
            '}' => {
                self.branch = self.blocks.pop().unwrap_or_default();
                self.branches -= self.branch;
                self.is_after_block = true;
                self.end_statement();
            }
            ';' => self.end_statement(),
            ',' if self.list.angles == 0 => self.list.operators = 0,
            '(' => self.open(),
            '[' => {
                self.list.operators += 1;
                self.open();
            }
            ')' | ']' => {
                self.list = self.around.pop().unwrap_or_default();
                self.operators -= self.list.operators;
            }
            '.' if after.starts_with(|next: char| next.is_ascii_digit()) => {}
            _ if ".+-*/%&|^!~<>=".contains(first) => {
                self.list.operators += 1;
                match first {
                    '<' => self.list.angles += 1,
                    '>' => self.list.angles = self.list.angles.saturating_sub(1),
                    _ => {}
                }
            }
            _ => {}
        }
    }

    fn open(&mut self) {
        self.operators += self.list.operators;
        self.around.push(mem::take(&mut self.list));
    }

    fn end_statement(&mut self) {
        self.around.clear();
        (self.operators, self.list) = (0, ListDepth::default());
    }

    /// # Errors
    /// The fault and its remedy.
    fn check(&self) -> Result<(), String> {
        if self.operators + self.list.operators > MOST_OPERATORS {
            let what = "an expression chains too many operators; give parts of it names by `let`";
            return Err(what.into());
        }
        if self.branches + self.branch > MOST_BRANCHES {
            return Err(format!(
                "an `if` has more than {MOST_BRANCHES} branches; take a `switch`, or several `if`s"
            ));
        }
        Ok(())
    }
}

/// The length of the word, or the number, that `text` begins with.
fn word(text: &str) -> Option<usize> {
    let ends = |c: char| !c.is_alphanumeric() && c != '_';
    Some(text.find(ends).unwrap_or(text.len())).filter(|&length| length > 0)
}

/// The length of the comment that `text` begins with. One in `/*` and `*/` may hold others.
fn comment(text: &str) -> Option<usize> {
    if text.starts_with("//") {
        return Some(text.find(ends_line).unwrap_or(text.len()));
    }
    let inner = text.strip_prefix("/*")?;
    let mut open = 1;
    let mut before = None;
    for (at, c) in inner.char_indices() {
        let mark = match (before, c) {
            (Some('*'), '/') => -1,
            (Some('/'), '*') => 1,
            _ => 0,
        };
        open += mark;
        if open == 0 {
            return Some("/*".len() + at + c.len_utf8());
        }
        before = (mark == 0).then_some(c);
    }
    Some(text.len())
}

/// A line break, as WGSL defines it.
fn ends_line(c: char) -> bool {
    matches!(c, '\u{a}'..='\u{d}' | '\u{85}' | '\u{2028}' | '\u{2029}')
}

#[cfg(test)]
mod tests {
    use super::*;

    fn function(body: &str) -> String {
        format!("@compute @workgroup_size(1)\nfn main() {{\n{body}\n}}")
    }

    fn is_refused(body: &str) -> bool {
        match check(&function(body)) {
            Ok(()) => false,
            Err(MistakeKind::Kernel { line, .. }) => {
                assert_eq!(line, Some(3), "{body:.80}");
                true
            }
            Err(other) => panic!("{other}"),
        }
    }

    #[test]
    fn what_naga_would_follow_too_far_is_refused_by_its_line() {
        let deep = |part: &str| part.repeat(MOST_OPERATORS + 1);
        for body in [
            format!("let x = 1.0{};", deep(" + y[1]")),
            format!("let x = {}1.0;", deep("- ")),
            format!("let x = {}true;", deep("!")),
            format!("let x = true{};", deep(" && y(1, 2)")),
            format!("let x = y{};", deep(".x")),
            format!("let x = y{};", deep("[0]")),
            format!("let x = 1{};", deep(" + array<f32, 2>(1.0, 2.0)[0]")),
            format!("let x = {}1{};", "(1 + 2 - 3 * 4 / -5 - y.x + ".repeat(150), ")".repeat(150)),
            format!("if a {{ }} {}", "else if b { } ".repeat(MOST_BRANCHES + 1)),
            format!(
                "if a {{ }} {}",
                "else if b(1) /* else */ { c(); if d { } else { } } ".repeat(MOST_BRANCHES + 1)
            ),
            format!("{} {}", "if a { } else if b { } else { ".repeat(120), "}".repeat(120)),
        ] {
            assert!(is_refused(&body), "{body:.80}");
        }
    }

    #[test]
    fn what_is_long_but_not_deep_is_not_refused() {
        for body in [
            format!("let x = 1.0{};", " + y[1]".repeat(400)),
            format!("let x = array<f32, 5000>({});", "-1.5 * 2.0, ".repeat(5000)),
            "x = (-1.0 + y[2]) / 2.0; ".repeat(1000),
            "if a { b(); } else { c(); } ".repeat(1000),
            "if a { b(); } else if d { } c(); ".repeat(1000),
            format!("// {}\nlet x = 1;", "-".repeat(5000)),
            format!(
                "/* {} /* + */ {} */ let x = 1;",
                "-".repeat(5000),
                "else if a { }".repeat(500)
            ),
            format!("if a {{ }} {}", "else if b { } ".repeat(150)),
        ] {
            assert!(!is_refused(&body), "{body:.80}");
        }
        let fields = (0..400).map(|at| format!("@align(16) x{at}: array<vec2<f32>, 4>,\n"));
        assert!(check(&format!("struct S {{ {} }}", fields.collect::<String>())).is_ok());
    }

    #[test]
    fn any_text_has_an_end() {
        for text in ["", "/*", "/*/", "/**", "//", ")]}>,;.", "\u{feff}é{", "/* /* */", "0x1.8p3"]
        {
            assert!(check(text).is_ok(), "{text}");
        }
        assert_eq!(comment("/* a /* b */ c */ d"), Some(17));
        assert_eq!(comment("// a\u{2028}b"), Some(4));
        assert_eq!(comment("/ a"), None);
    }
}
