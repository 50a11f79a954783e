//! The reasons why a file is refused, each with its cure.

use std::fmt;

use crate::error::quoted;

/// The beginning of a reason that names what a later version knows.
const NO_SUCH: &str = "this version has no ";

/// The reason why a file holds no program that can be loaded. It prints with its cure.
pub(super) enum Unreadable {
    /// The file may come from a later version.
    Later(String),
    /// The file says what no version writes.
    Damaged(String),
    /// The reason has a cure of its own.
    Refused(String),
}

impl Unreadable {
    /// The reason that a name is not known.
    pub fn no_such(what: &str, name: &str) -> Self {
        Self::Later(format!("{NO_SUCH}{what} {}", quoted(name)))
    }

    /// The reason that a part differs from what was saved.
    pub fn changed(part: &str) -> Self {
        let how = "was changed after the program was saved: the checksum differs";
        Self::Damaged(format!("{part} {how}"))
    }

    /// The reason in an error of the parser, which has room for text alone. An operation that the parser does not know
    /// is named as one that a parameter names.
    pub fn of_parser(error: &serde_json::Error) -> Self {
        let text = error.to_string();
        let unknown = text.strip_prefix("unknown variant `");
        let unknown = unknown.and_then(|rest| rest.rsplit_once("`, expected "));
        match unknown {
            Some((name, _)) => {
                let (line, column) = (error.line(), error.column());
                Self::no_such("operation", name)
                    .map(|it| format!("{it} at line {line} column {column}"))
            }
            None if text.starts_with(NO_SUCH) => Self::Later(text),
            None => Self::Damaged(text),
        }
    }

    /// The reason without its cure.
    pub fn text(&self) -> &str {
        let (Self::Later(text) | Self::Damaged(text) | Self::Refused(text)) = self;
        text
    }

    /// The reason with another text.
    pub fn map(mut self, change: impl FnOnce(&str) -> String) -> Self {
        let (Self::Later(text) | Self::Damaged(text) | Self::Refused(text)) = &mut self;
        *text = change(text);
        self
    }
}

impl<T: Into<String>> From<T> for Unreadable {
    fn from(damage: T) -> Self {
        Self::Damaged(damage.into())
    }
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.text())?;
        f.write_str(match self {
            Self::Later(_) => "; load it with the version that wrote it, or copy the file again, or save the program again",
            Self::Damaged(_) => "; copy the file again, or save the program again",
            Self::Refused(_) => "",
        })
    }
}
