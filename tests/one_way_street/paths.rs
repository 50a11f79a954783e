//! The paths that a source names, and the files that define them.

use std::collections::{HashMap, HashSet};

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
    /// True for a path of a `pub use` item that the file passes on without using it.
    pub is_export: bool,
}

impl NamedPath {
    /// Writes the path as one of the file, where it stands in so many modules inside of the file.
    fn leave(&mut self, modules: usize) {
        let above = self.names.iter().take(modules).take_while(|name| *name == "super").count();
        if above > 0 {
            self.names.splice(..above, ["self".to_owned()]);
        }
    }
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

/// The modules, and the items that the roots of folders import or re-export with their origins: all as paths below the
/// crate's root.
pub struct Exports {
    modules: HashSet<Vec<String>>,
    items: HashMap<Vec<String>, Vec<String>>,
}

impl Exports {
    pub fn of(sources: &[Source]) -> Self {
        let modules = sources.iter().map(|source| source.module.clone()).collect();
        let mut exports = Self { modules, items: HashMap::new() };
        for root in sources.iter().filter(|source| source.is_root()) {
            for NamedPath { names, .. } in root.paths.iter().filter(|path| path.is_import) {
                let origin = exports.named(root, names);
                let item = [&root.module[..], &names[names.len() - 1..]].concat();
                // A function may have the name of its module; longer paths lead through the module.
                if !origin.is_empty() && origin != item && !exports.modules.contains(&item) {
                    exports.items.insert(item, origin);
                }
            }
        }
        exports
    }

    /// The path below the crate's root of what `names` means in `source`; empty for items of other crates.
    fn named(&self, source: &Source, names: &[String]) -> Vec<String> {
        let child = [&source.module[..], &names[..1]].concat();
        if !self.modules.contains(&child) {
            return source.absolute(names);
        }
        [&source.module[..], names].concat()
    }

    /// The path by which the file that defines it knows what `names` means in `source`.
    pub fn target(&self, source: &Source, names: &[String]) -> Vec<String> {
        let mut target = self.named(source, names);
        // A re-export may name another one.
        for _ in 0..8 {
            let known =
                (1..=target.len()).find_map(|end| Some((end, self.items.get(&target[..end])?)));
            let Some((end, origin)) = known else { break };
            target = [origin, &target[end..]].concat();
        }
        target
    }
}

/// The paths in a source, those in `use` trees one by one; items for tests are left out.
fn paths(tokens: &[Token]) -> Vec<NamedPath> {
    let mut found = Vec::new();
    // The braces that are open, true for those of a module.
    let mut open = Vec::new();
    let mut at = 0;
    while at < tokens.len() {
        match &*tokens[at].text {
            "{" => open.push(at > 1 && tokens[at - 2].text == "mod"),
            "}" => _ = open.pop(),
            _ => {}
        }
        if let Some(end) = end_of_test_item(&tokens[at..]) {
            at += end;
            continue;
        }
        if is(tokens.get(at), "(") && is(tokens.get(at + 1), "in") {
            at += 3; // A visibility.
            continue;
        }
        let before = if at > 0 { &*tokens[at - 1].text } else { "" };
        let is_path = is(tokens.get(at + 1), "::") && !matches!(before, "::" | ".");
        let is_import = before == "use";
        let is_export = is_import && at > 1 && matches!(&*tokens[at - 2].text, "pub" | ")");
        if is_name(&tokens[at].text) && (is_path || is_import) {
            let first = found.len();
            at = tree(tokens, at, &mut Vec::new(), &mut found);
            let modules = open.iter().filter(|is_module| **is_module).count();
            for path in &mut found[first..] {
                path.leave(modules);
                let is_last = |token: &&Token| path.names.last() == Some(&token.text);
                path.is_import = is_import;
                path.is_export = is_export && tokens.iter().filter(is_last).count() == 1;
            }
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
    found.push(NamedPath { line, names: prefix.clone(), is_import: false, is_export: false });
    prefix.truncate(depth);
    if is(tokens.get(at), "as") { at + 2 } else { at }
}
