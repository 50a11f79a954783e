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

/// The files that define what `source` names, without itself. What a root only passes on by `pub use` it does not need.
fn named<'a>(source: &Source, sources: &'a [Source], exports: &Exports) -> BTreeSet<&'a str> {
    let holder = |path: &NamedPath| {
        let target = exports.target(source, &path.names);
        let holders = sources.iter().filter(|other| target.starts_with(&other.module));
        holders.max_by_key(|other| other.module.len())
    };
    let needed = source.paths.iter().filter(|path| !path.is_export);
    let holders = needed.filter_map(holder);
    holders.filter(|other| other.file != source.file).map(|other| &*other.file).collect()
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

#[test]
fn a_circle_of_a_root_and_its_file_is_found() {
    let of = |root: &str| {
        let sources = [("a/mod.rs", root), ("a/one.rs", "use super::Root; use crate::a::one::x;")];
        let sources = sources.map(|(file, text)| Source::new(file, text));
        circles(&sources, &Exports::of(&sources)).len()
    };
    assert_eq!(of("mod one; use self::one::One;"), 2);
    assert_eq!(of("mod one; pub use self::one::One; fn f(x: One) {}"), 2);
    assert_eq!(of("mod one; fn f() { one::One::new() }"), 2);
    assert_eq!(of("mod one; pub(crate) use self::one::One;"), 0);
    assert_eq!(of("mod one; pub(in crate::a::one) struct Root;"), 0);
}

#[test]
fn a_module_inside_of_a_file_is_that_file() {
    let inside =
        "mod inside { use super::Own; use super::super::b::Other; fn f() {} } use super::Root;";
    let file = Source::new("a/one.rs", inside);
    let of_file: Vec<_> =
        file.paths.iter().map(|path| file.absolute(&path.names).join("::")).collect();
    assert_eq!(of_file, ["a::one::Own", "a::b::Other", "a::Root"]);
}
