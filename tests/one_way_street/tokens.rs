//! Tokens of Rust sources, without comments and literals.

pub fn is(token: Option<&Token>, text: &str) -> bool {
    token.is_some_and(|token| token.text == text)
}

pub fn is_name(text: &str) -> bool {
    text.starts_with(|c: char| c.is_alphabetic() || c == '_')
}

/// If an item under `#[cfg(test)]` or `#[cfg(all(test, …))]` starts here, how many tokens it takes.
pub fn end_of_test_item(tokens: &[Token]) -> Option<usize> {
    let starts =
        |attribute: &[&str]| attribute.iter().enumerate().all(|(i, text)| is(tokens.get(i), text));
    if !starts(&["#", "[", "cfg", "(", "test", ")"])
        && !starts(&["#", "[", "cfg", "(", "all", "(", "test", ","])
    {
        return None;
    }
    let attribute = tokens.iter().position(|token| token.text == "]")?;
    let mut depth = 0;
    for (index, token) in tokens.iter().enumerate().skip(attribute + 1) {
        match token.text.as_str() {
            "{" => depth += 1,
            "}" if depth == 1 => return Some(index + 1),
            "}" => depth -= 1,
            ";" if depth == 0 => return Some(index + 1),
            _ => {}
        }
    }
    Some(tokens.len())
}

/// A name, `::` or one other character of code.
pub struct Token {
    pub text: String,
    pub line: u32,
}

/// The tokens of a source, without comments and literals.
pub fn tokens(source: &str) -> Vec<Token> {
    let mut tokens = Vec::new();
    let mut rest = source;
    let mut line = 1;
    while let Some(first) = rest.chars().next() {
        let length = length_of_silence(rest).unwrap_or_else(|| {
            let name = rest.find(|c: char| !c.is_alphanumeric() && c != '_').unwrap_or(rest.len());
            let length = if name > 0 {
                name
            } else if rest.starts_with("::") {
                2
            } else {
                first.len_utf8()
            };
            tokens.push(Token { text: rest[..length].to_owned(), line });
            length
        });
        line += rest[..length].matches('\n').count() as u32;
        rest = &rest[length..];
    }
    tokens
}

/// The length of the blank, comment or literal that `text` starts with.
fn length_of_silence(text: &str) -> Option<usize> {
    let until = |end: &str, from: usize| {
        text[from..].find(end).map_or(text.len(), |at| from + at + end.len())
    };
    let first = text.chars().next()?;
    if first.is_whitespace() {
        return Some(first.len_utf8());
    }
    if text.starts_with("//") {
        return Some(until("\n", 0));
    }
    if text.starts_with("/*") {
        return Some(until("*/", 2));
    }
    let hashes = text[1..].chars().take_while(|&c| c == '#').count();
    if first == 'r' && text[1 + hashes..].starts_with('"') {
        return Some(until(&format!("\"{}", "#".repeat(hashes)), 2 + hashes));
    }
    match first {
        '"' => Some(quoted(text, '"')),
        // A lifetime has no second quote after its first character.
        '\'' if text[1..].starts_with('\\') || text.chars().nth(2) == Some('\'') => {
            Some(quoted(text, '\''))
        }
        _ => None,
    }
}

/// The length of a literal between quotes, which a backslash escapes.
fn quoted(text: &str, quote: char) -> usize {
    let mut escaped = false;
    for (at, c) in text.char_indices().skip(1) {
        match c {
            _ if escaped => escaped = false,
            '\\' => escaped = true,
            _ if c == quote => return at + c.len_utf8(),
            _ => {}
        }
    }
    text.len()
}
