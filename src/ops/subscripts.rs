//! The subscripts of Einstein's summation, as NumPy writes them.

/// An axis that a subscript names: a letter, or one of those that an ellipsis stands for, counted from its last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(crate) enum Label {
    Ellipsis(usize),
    Letter(char),
}

impl std::fmt::Display for Label {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ellipsis(_) => f.write_str("..."),
            Self::Letter(c) => write!(f, "{c}"),
        }
    }
}

/// The labels of the axes of each operand and of the result.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Subscripts {
    pub operands: Vec<Vec<Label>>,
    pub result: Vec<Label>,
}

/// The mistake, and the position of its character, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SubscriptError {
    pub at: usize,
    pub what: String,
}

/// A label or an ellipsis, and where it stands.
#[derive(Clone, Copy)]
enum Token {
    Letter(usize, char),
    Ellipsis(usize),
}

impl Subscripts {
    /// Reads `text` for operands of `ranks` dimensions. Without `->`, the result has the labels that appear once, in
    /// alphabetical order, after the axes that ellipses stand for.
    pub fn parse(text: &str, ranks: &[usize]) -> Result<Self, SubscriptError> {
        let characters: Vec<char> = text.chars().collect();
        let arrow = characters.windows(2).position(|pair| pair == ['-', '>']);
        let (inputs, output) = match arrow {
            Some(at) => (&characters[..at], Some((at + 2, &characters[at + 2..]))),
            None => (&characters[..], None),
        };
        let mut operands = Vec::new();
        let mut start = 0;
        for part in inputs.split(|&c| c == ',') {
            let Some(&rank) = ranks.get(operands.len()) else {
                return Err(wrong(
                    start,
                    "there is no operand for these subscripts; leave out what follows",
                ));
            };
            operands.push(labels(&tokens(part, start)?, rank, start)?);
            start += part.len() + 1;
        }
        if operands.len() < ranks.len() {
            let what = format!(
                "there are {} operands, and no subscripts for one; put commas between them",
                ranks.len()
            );
            return Err(wrong(inputs.len(), what));
        }
        let result = match output {
            Some((start, part)) => result(&tokens(part, start)?, &operands)?,
            None => implied(&operands),
        };
        Ok(Self { operands, result })
    }
}

fn wrong(at: usize, what: impl Into<String>) -> SubscriptError {
    SubscriptError { at, what: what.into() }
}

/// The tokens of `part`, which begins at `start`.
fn tokens(part: &[char], start: usize) -> Result<Vec<Token>, SubscriptError> {
    let mut tokens = Vec::new();
    let mut at = 0;
    while at < part.len() {
        match part[at] {
            ' ' => {}
            c if c.is_ascii_alphabetic() => tokens.push(Token::Letter(start + at, c)),
            '.' if part[at..].starts_with(&['.', '.', '.']) => {
                if tokens.iter().any(|token| matches!(token, Token::Ellipsis(_))) {
                    return Err(wrong(
                        start + at,
                        "a second ellipsis; one stands for all axes that have no label",
                    ));
                }
                tokens.push(Token::Ellipsis(start + at));
                at += 2;
            }
            c => return Err(wrong(start + at, format!("`{c}` is no label; use letters"))),
        }
        at += 1;
    }
    Ok(tokens)
}

/// The labels of an operand of `rank` dimensions, whose subscripts begin at `start`.
fn labels(tokens: &[Token], rank: usize, start: usize) -> Result<Vec<Label>, SubscriptError> {
    let letters = tokens.iter().filter(|token| matches!(token, Token::Letter(..))).count();
    let open = letters < tokens.len();
    if letters > rank || letters < rank && !open {
        return Err(wrong(
            start,
            format!(
                "{letters} labels for an operand of rank {rank}; give each axis its own, or `...` for some"
            ),
        ));
    }
    let hidden = (0..rank - letters).rev().map(Label::Ellipsis);
    Ok(tokens.iter().flat_map(|token| token.labels(hidden.clone())).collect())
}

impl Token {
    /// The meaning of the label, if an ellipsis stands for `hidden`.
    fn labels(self, hidden: impl Iterator<Item = Label>) -> Vec<Label> {
        match self {
            Self::Letter(_, c) => vec![Label::Letter(c)],
            Self::Ellipsis(_) => hidden.collect(),
        }
    }
}

/// The labels of a result that is written out.
fn result(tokens: &[Token], operands: &[Vec<Label>]) -> Result<Vec<Label>, SubscriptError> {
    let known = || operands.iter().flatten();
    let hidden = ellipsis(operands);
    let mut result: Vec<Label> = Vec::new();
    for &token in tokens {
        let (Token::Letter(at, _) | Token::Ellipsis(at)) = token;
        if let Token::Letter(_, c) = token {
            let label = Label::Letter(c);
            if !known().any(|&other| other == label) {
                return Err(wrong(
                    at,
                    format!("no operand has the label `{c}`; use those of operands"),
                ));
            }
            if result.contains(&label) {
                return Err(wrong(
                    at,
                    format!("the result has the label `{c}` twice; name each once"),
                ));
            }
        }
        result.extend(token.labels(hidden.iter().copied()));
    }
    Ok(result)
}

/// The labels of a result that is not written out.
fn implied(operands: &[Vec<Label>]) -> Vec<Label> {
    let known = || operands.iter().flatten().copied();
    let once = |label: &Label| known().filter(|other| other == label).count() == 1;
    let mut letters: Vec<Label> =
        known().filter(|label| matches!(label, Label::Letter(_)) && once(label)).collect();
    letters.sort_unstable();
    ellipsis(operands).into_iter().chain(letters).collect()
}

/// The labels that ellipses stand for, first to last.
fn ellipsis(operands: &[Vec<Label>]) -> Vec<Label> {
    let hidden = |label: &Label| match label {
        Label::Ellipsis(at) => Some(at + 1),
        Label::Letter(_) => None,
    };
    let count = operands.iter().flatten().filter_map(hidden).max().unwrap_or(0);
    (0..count).rev().map(Label::Ellipsis).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(labels: &[Label]) -> String {
        let letter = |label: &Label| match label {
            Label::Ellipsis(at) => at.to_string(),
            Label::Letter(c) => c.to_string(),
        };
        labels.iter().map(letter).collect()
    }

    #[test]
    fn subscripts_are_read() {
        let cases: [(&str, &[usize], &[&str], &str); 9] = [
            ("ij,jk->ik", &[2, 2], &["ij", "jk"], "ik"),
            ("ij,jk", &[2, 2], &["ij", "jk"], "ik"),
            (" i j , j k -> k i ", &[2, 2], &["ij", "jk"], "ki"),
            ("ba", &[2], &["ba"], "ab"),
            ("ii", &[2], &["ii"], ""),
            ("...ij,...jk", &[4, 3], &["10ij", "0jk"], "10ik"),
            ("i...->...", &[3], &["i10"], "10"),
            ("i...j->ij...", &[2], &["ij"], "ij"),
            (",->", &[0, 0], &["", ""], ""),
        ];
        for (given, ranks, operands, result) in cases {
            let found = Subscripts::parse(given, ranks).expect(given);
            let got: Vec<String> = found.operands.iter().map(|labels| text(labels)).collect();
            assert_eq!(
                (got, text(&found.result)),
                (operands.iter().map(|s| (*s).into()).collect(), result.into()),
                "{given}"
            );
        }
    }

    #[test]
    fn mistakes_have_a_place() {
        let cases: [(&str, &[usize], usize, &str); 10] = [
            ("ij,j1->i", &[2, 2], 4, "`1` is no label; use letters"),
            ("ij..->i", &[2], 2, "`.` is no label; use letters"),
            (
                "...i...->i",
                &[2],
                4,
                "a second ellipsis; one stands for all axes that have no label",
            ),
            ("ij,jk", &[2], 3, "there is no operand for these subscripts; leave out what follows"),
            (
                "ij",
                &[2, 2],
                2,
                "there are 2 operands, and no subscripts for one; put commas between them",
            ),
            (
                "ij,jkl",
                &[2, 2],
                3,
                "3 labels for an operand of rank 2; give each axis its own, or `...` for some",
            ),
            (
                "ij",
                &[3],
                0,
                "2 labels for an operand of rank 3; give each axis its own, or `...` for some",
            ),
            ("ij->ik", &[2], 5, "no operand has the label `k`; use those of operands"),
            ("ij->ii", &[2], 5, "the result has the label `i` twice; name each once"),
            ("ij->i->j", &[2], 5, "`-` is no label; use letters"),
        ];
        for (given, ranks, at, what) in cases {
            assert_eq!(Subscripts::parse(given, ranks), Err(wrong(at, what)), "{given}");
        }
    }
}
