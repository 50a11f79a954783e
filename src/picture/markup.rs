//! Markup in the making: elements nest by construction, and all text is escaped.

use std::fmt::{Display, Write as _};

/// The name of an attribute, and its value.
pub(super) type Attribute<'a> = (&'a str, &'a dyn Display);

/// Text that is well-formed as XML, and means the same as HTML.
#[derive(Default)]
pub(super) struct Markup {
    text: String,
}

impl Markup {
    /// An element with everything that `inside` writes.
    pub fn element(
        &mut self,
        tag: &str,
        attributes: &[Attribute<'_>],
        inside: impl FnOnce(&mut Self),
    ) {
        self.begin(tag, attributes, ">");
        inside(self);
        self.end(tag);
    }

    /// An element with a text.
    pub fn leaf(&mut self, tag: &str, attributes: &[Attribute<'_>], text: impl Display) {
        self.element(tag, attributes, |out| out.text(text));
    }

    /// An element without an end of its own: `meta`, or one of SVG.
    pub fn empty(&mut self, tag: &str, attributes: &[Attribute<'_>]) {
        self.begin(tag, attributes, "/>");
    }

    pub fn text(&mut self, text: impl Display) {
        let _ = write!(Escaped(&mut self.text), "{text}");
    }

    /// Text of this crate, as it is: a style or a script without `<` and `&`.
    pub fn verbatim(&mut self, text: &'static str) {
        self.text.push_str(text);
    }

    pub fn finish(self) -> String {
        self.text
    }

    fn begin(&mut self, tag: &str, attributes: &[Attribute<'_>], end_of_tag: &str) {
        let _ = write!(self.text, "<{tag}");
        for (name, value) in attributes {
            let _ = write!(self.text, " {name}=\"");
            let _ = write!(Escaped(&mut self.text), "{value}");
            self.text.push('"');
        }
        self.text.push_str(end_of_tag);
    }

    fn end(&mut self, tag: &str) {
        let _ = write!(self.text, "</{tag}>");
    }
}

/// A writer that escapes, for text and for attributes in double quotes.
struct Escaped<'a>(&'a mut String);

impl std::fmt::Write for Escaped<'_> {
    fn write_str(&mut self, text: &str) -> std::fmt::Result {
        for c in text.chars() {
            match c {
                '&' => self.0.push_str("&amp;"),
                '<' => self.0.push_str("&lt;"),
                '>' => self.0.push_str("&gt;"),
                '"' => self.0.push_str("&quot;"),
                // XML has no form for these.
                '\u{fffe}' | '\u{ffff}' => self.0.push('\u{fffd}'),
                c if c.is_control() && !matches!(c, '\n' | '\t') => self.0.push('\u{fffd}'),
                c => self.0.push(c),
            }
        }
        Ok(())
    }
}
