//! Files that name each other in a circle.

use std::collections::{BTreeMap, BTreeSet};

use crate::paths::{Exports, NamedPath, Source};

/// The files of `sources` that are in a circle, each with those of the circle that it names.
pub fn circles<'a>(sources: &'a [Source], exports: &Exports) -> Vec<(&'a str, BTreeSet<&'a str>)> {
    let names: BTreeMap<&str, BTreeSet<&str>> =
        sources.iter().map(|source| (&*source.file, named(source, sources, exports))).collect();
    let mut circles = Vec::new();
    for (&file, named) in &names {
        let mut back = named.clone();
        back.retain(|next| reached(next, &names).contains(file));
        if !back.is_empty() {
            circles.push((file, back));
        }
    }
    circles
}

/// The files that `file` names, and those that these name.
fn reached<'a>(file: &'a str, names: &BTreeMap<&str, BTreeSet<&'a str>>) -> BTreeSet<&'a str> {
    let (mut reached, mut left) = (BTreeSet::from([file]), vec![file]);
    while let Some(file) = left.pop() {
        left.extend(names[file].iter().filter(|next| reached.insert(next)));
    }
    reached
}

/// The files that define what `source` names, without itself and without its family: the roots of the folders that hold
/// it, and, if it is a root, the files of its folder. A circle within a family is natural. A root defines what its files
/// are about, as `batch/mod.rs` does the batch, of which `batch/run.rs` has methods and the last run.
fn named<'a>(source: &Source, sources: &'a [Source], exports: &Exports) -> BTreeSet<&'a str> {
    let is_of_family = |other: &Source| {
        source.module.starts_with(&other.module) || other.module.starts_with(&source.module)
    };
    let holder = |path: &NamedPath| {
        let target = exports.resolved(&source.absolute(&path.names));
        let holders = sources.iter().filter(|other| target.starts_with(&other.module));
        holders.max_by_key(|other| other.module.len())
    };
    let holders = source.paths.iter().filter_map(holder);
    holders.filter(|other| !is_of_family(other)).map(|other| &*other.file).collect()
}

#[test]
fn a_circle_through_a_root_is_found() {
    let sources = [
        ("a/mod.rs", "mod one; mod two; pub use one::One; pub use self::two::{Two};"),
        ("a/one.rs", "use super::Two;"),
        ("a/two.rs", "use crate::a::One; use crate::b::Far;"),
        ("b.rs", ""),
        ("c.rs", "use crate::a::One;"),
    ];
    let sources = sources.map(|(file, text)| Source::new(file, text));
    let exports = Exports::of(&sources);
    let circle = [("a/one.rs", ["a/two.rs"].into()), ("a/two.rs", ["a/one.rs"].into())];
    assert_eq!(circles(&sources, &exports), circle);
    assert_eq!(circles(&sources[1..], &Exports::of(&sources[1..])), []);
}
