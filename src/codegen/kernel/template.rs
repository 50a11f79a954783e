//! Kernel templates: WGSL with `{{holes}}`.

/// The names of holes, and their texts.
pub(crate) type Holes = Vec<(&'static str, String)>;

/// [`Holes`] in the order of their evaluation: `name: value`, or the `name` of a variable.
macro_rules! holes {
    (@ $name:ident) => { $name };
    (@ $name:ident $value:expr) => { $value };
    ($($name:ident $(: $value:expr)?),* $(,)?) => {
        vec![$((stringify!($name), holes!(@ $name $($value)?).to_string())),*]
    };
}
pub(crate) use holes;

/// The text of a file in `shaders/`.
macro_rules! shader {
    ($file:literal) => {
        include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/shaders/", $file))
    };
}
pub(crate) use shader;

/// Puts texts into the holes of `template`. Every line of a text is indented as its hole is, and
/// a line that holds nothing but an empty hole vanishes.
pub(crate) fn fill(template: &str, holes: &Holes) -> String {
    let mut out = String::with_capacity(template.len() * 2);
    for line in template.lines() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let filled = fill_line(line, indent, holes);
        if line.contains("{{") && filled.trim().is_empty() {
            continue;
        }
        out.push_str(filled.trim_end());
        out.push('\n');
    }
    out
}

fn fill_line(line: &str, indent: &str, holes: &Holes) -> String {
    let mut out = String::new();
    let mut rest = line;
    while let Some((before, after)) = rest.split_once("{{") {
        let Some((name, after)) = after.split_once("}}") else { break };
        let text = holes.iter().find(|(hole, _)| *hole == name);
        debug_assert!(text.is_some(), "no text for the hole {name}");
        out.push_str(before);
        for (index, text) in text.map_or("", |(_, text)| text).trim_end().lines().enumerate() {
            if index > 0 {
                out.push('\n');
                if !text.is_empty() {
                    out.push_str(indent);
                }
            }
            out.push_str(text);
        }
        rest = after;
    }
    out.push_str(rest);
    out
}

/// Indents every line of `text` by one level.
pub(crate) fn indent(text: &str) -> String {
    text.lines().map(|line| format!("    {line}\n")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn texts_take_the_indent_of_their_hole() {
        let template = "fn f() {\n    {{body}}\n    {{none}}\n    g({{x}}, {{x}});\n}\n";
        let holes = holes! { body: "let a = 1;\nlet b = 2;\n", none: "", x: "a" };
        let want = "fn f() {\n    let a = 1;\n    let b = 2;\n    g(a, a);\n}\n";
        assert_eq!(fill(template, &holes), want);
    }
}
