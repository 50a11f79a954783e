//! The paths that a source names, and the files that define them.

use std::collections::HashMap;

use crate::tokens::{Token, end_of_test_item, is, is_name, tokens};

/// A file of the crate with the paths that it names, those of items for tests excepted.
pub struct Source {
    /// The path of the file below `src`.
    pub file: String,
    /// The path of the file's module.
    pub module: Vec<String>,
    pub paths: Vec<NamedPath>,
}

pub struct NamedPath {
    pub line: u32,
    pub names: Vec<String>,
    /// True for a path of a `use` item.
    pub is_import: bool,
}

impl Source {
    pub fn new(file: &str, text: &str) -> Self {
        let mut module: Vec<String> =
            file.trim_end_matches(".rs").split('/').map(str::to_owned).collect();
        module.pop_if(|last| matches!(&**last, "mod" | "lib"));
        Self { file: file.to_owned(), module, paths: paths(&tokens(text)) }
    }

    /// Returns true for the root of a folder.
    pub fn is_root(&self) -> bool {
        self.file.ends_with("mod.rs") || self.file == "lib.rs"
    }

    /// The names below the crate's root of a path that starts with `crate`, `self` or `super`; none for other paths.
    pub fn absolute(&self, names: &[String]) -> Vec<String> {
        let mut path = match &*names[0] {
            "crate" => Vec::new(),
            "self" | "super" => self.module.clone(),
            _ => return Vec::new(),
        };
        for name in names {
            match &**name {
                "crate" | "self" => {}
                "super" => drop(path.pop()),
                _ => path.push(name.clone()),
            }
        }
        path
    }
}

/// The items that the roots of folders import or re-export, and their origins: both as paths below the crate's root.
pub struct Exports(HashMap<Vec<String>, Vec<String>>);

impl Exports {
    pub fn of(sources: &[Source]) -> Self {
        let mut exports = HashMap::new();
        for root in sources.iter().filter(|source| source.is_root()) {
            for NamedPath { names, .. } in root.paths.iter().filter(|path| path.is_import) {
                let mut origin = root.absolute(names);
                let child = [&root.module[..], &names[..1]].concat();
                if origin.is_empty() && sources.iter().any(|source| source.module == child) {
                    origin = [&root.module[..], names].concat();
                }
                let item = [&root.module[..], &names[names.len() - 1..]].concat();
                if !origin.is_empty() && origin != item {
                    exports.insert(item, origin);
                }
            }
        }
        Self(exports)
    }

    /// The path by which the file that defines `target` knows it.
    pub fn resolved(&self, target: &[String]) -> Vec<String> {
        let mut target = target.to_vec();
        // A re-export may name another one.
        for _ in 0..8 {
            let known = (1..=target.len()).find_map(|end| Some((end, self.0.get(&target[..end])?)));
            let Some((end, origin)) = known else { break };
            target = [origin, &target[end..]].concat();
        }
        target
    }
}

/// The paths in a source, those in `use` trees one by one; items for tests are left out.
fn paths(tokens: &[Token]) -> Vec<NamedPath> {
    let mut found = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        if let Some(end) = end_of_test_item(&tokens[at..]) {
            at += end;
            continue;
        }
        let before = if at > 0 { &*tokens[at - 1].text } else { "" };
        let is_path = is(tokens.get(at + 1), "::") && !matches!(before, "::" | ".");
        let is_import = before == "use";
        if is_name(&tokens[at].text) && (is_path || is_import) {
            let first = found.len();
            at = tree(tokens, at, &mut Vec::new(), &mut found);
            found[first..].iter_mut().for_each(|path| path.is_import = is_import);
        } else {
            at += 1;
        }
    }
    found
}

/// Reads one path or `use` tree from `at`; the position after it.
fn tree(
    tokens: &[Token],
    mut at: usize,
    prefix: &mut Vec<String>,
    found: &mut Vec<NamedPath>,
) -> usize {
    let depth = prefix.len();
    while let Some(token) = tokens.get(at) {
        if token.text == "{" && !prefix.is_empty() {
            at += 1;
            while !is(tokens.get(at), "}") && at < tokens.len() {
                at = if is(tokens.get(at), ",") { at + 1 } else { tree(tokens, at, prefix, found) };
            }
            prefix.truncate(depth);
            return at + 1;
        }
        if is_name(&token.text) {
            prefix.push(token.text.clone());
            at += 1;
        } else if token.text == "*" {
            at += 1;
        }
        if !is(tokens.get(at), "::") {
            break;
        }
        at += 1;
        let goes_on = |token: &Token| is_name(&token.text) || matches!(&*token.text, "{" | "*");
        if !tokens.get(at).is_some_and(goes_on) {
            break; // A turbofish.
        }
    }
    let line = tokens[at.min(tokens.len()) - 1].line;
    found.push(NamedPath { line, names: prefix.clone(), is_import: false });
    prefix.truncate(depth);
    if is(tokens.get(at), "as") { at + 2 } else { at }
}
