//! Imports run one way: each room may name those before it, none a later one, and each foreign crate is named only in
//! its own place.

mod circles;
mod paths;
mod tokens;

use std::fs::DirEntry;
use std::path::{Path, PathBuf};

use circles::circles;
use paths::{Exports, NamedPath, Source};
use tokens::{Token, end_of_test_item, tokens};

/// The rooms, which are the folders of `src`. Each may name rooms of earlier rows, but none of its own row.
const ROOMS: &[&[&str]] = &[
    &["base"],
    &["error"],
    &["expr"],
    &["ops"],
    &["graph"],
    &["cost"],
    &["picture"],
    &["plan"],
    &["codegen"],
    &["exec"],
    &["calibrate"],
    &["device"],
    &["residents"],
    &["record"],
    &["session"],
    &["batch"],
    &["methods"],
    &["program_file"],
    &["prelude"],
];

/// The files and folders inside of a room, or inside of a folder of it: in rows, as the rooms are.
const INSIDE: &[(&str, &[&[&str]])] = &[
    (
        "base",
        &[
            &["backend", "dtype", "shape", "clock", "units", "lru", "sync"],
            &["future", "place", "process"],
            &["trace", "test_device", "disk", "single_flight"],
        ],
    ),
    (
        "exec",
        &[
            &["arranged", "budget", "deadline", "failed_element", "janitor", "threads"],
            &["memory"],
            &["words"],
            &["host", "patch"],
            &["host_pool"],
            &["gpu", "cpu"],
        ],
    ),
    (
        "residents",
        &[
            &["storage"],
            &["handle"],
            &["location", "slice_update", "change"],
            &["commit"],
            &["update_order"],
        ],
    ),
    ("record", &[&["names", "call", "batch_ids"], &["record"], &["recorder"]]),
    (
        "session",
        &[
            &["host_or_gpu_result", "stats", "fault"],
            &["results"],
            &["piece_run"],
            &["attempt"],
            &["state"],
            &["repeat"],
            &["session"],
            &["reserve"],
            &["plans"],
            &["run_loop"],
        ],
    ),
    (
        "plan",
        &[
            &["target", "value"],
            &["step_parts"],
            &["forms"],
            &["step"],
            &["execution_plan"],
            &["passes", "order"],
            &["verify"],
            &["pipeline"],
            &["placement"],
            &["explain"],
        ],
    ),
    (
        "codegen",
        &[
            &["dispatch"],
            &["kernel"],
            &["combine", "group_fold"],
            &["rows"],
            &["map", "row", "reduce", "scan", "sort", "product", "attention", "custom"],
        ],
    ),
    (
        "exec/cpu",
        &[
            &["failures"],
            &["vectors"],
            &["operands", "values"],
            &["tape"],
            &["chain"],
            &["step_cache"],
            &["step_job"],
            &["forms"],
            &["program"],
            &["run"],
            &["offload"],
        ],
    ),
    ("exec/gpu", &[&["counts"], &["driver"], &["memory"], &["compile"], &["submit"]]),
];

/// Items of foreign crates that one layer owns, and the files that share them with the user.
const OWNED: &[(&str, &[&str], &[&str])] =
    &[("wgpu", &["Device", "Queue"], &["exec/gpu/driver", "device/wgpu_interop"])];

/// The places where a foreign crate may be named.
const PLACES: &[(&str, &[&str])] = &[
    ("wgpu", &["exec/gpu", "device/wgpu_interop", "batch/sharing"]),
    ("naga", &["exec/gpu"]),
    ("rayon", &["exec/threads"]),
    ("futures_timer", &["exec/deadline", "exec/gpu"]),
    ("bytes", &["exec", "batch"]),
    ("petgraph", &["graph", "plan/placement"]),
    ("siphasher", &["graph"]),
    ("slotmap", &["graph", "plan"]),
    ("tokio", &["exec", "device", "residents", "batch"]),
    ("pollster", &["exec/gpu", "device"]),
    ("serde_json", &["device", "program_file"]),
    ("tracing", &["base/trace"]),
    ("ndarray", &["batch/arrays"]),
    ("safetensors", &["batch/weights", "program_file"]),
    ("memmap2", &["batch/weights"]),
    ("crc32fast", &["program_file"]),
];

#[test]
fn every_import_runs_along_the_street() {
    let sources = sources();
    assert!(sources.len() > 30);
    let exports = Exports::of(&sources);
    let sources = sources.iter().filter(|source| source.file != "lib.rs");
    let found: Vec<String> = sources.flat_map(|source| offences(source, &exports)).collect();
    assert!(found.is_empty(), "against the street:\n{}", found.join("\n"));
}

#[test]
fn each_name_in_a_table_is_a_file_or_folder() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let exists = |path: &str| {
        let path = root.join(path);
        path.is_dir() || path.with_extension("rs").is_file()
    };
    assert!(exists("base") && exists("exec/host") && !exists("codegen/row_units"));
    let rooms = ROOMS.iter().map(|row| (String::new(), *row));
    let inside = INSIDE.iter();
    let inside =
        inside.flat_map(|(folder, rows)| rows.iter().map(move |row| (format!("{folder}/"), *row)));
    let rows = rooms.chain(inside);
    let names =
        rows.flat_map(|(folder, row)| row.iter().map(move |name| format!("{folder}{name}")));
    let places = PLACES.iter().map(|(_, places)| *places);
    let places = places.chain(OWNED.iter().map(|(_, _, places)| *places)).flatten();
    let mut names: Vec<String> = names.chain(places.map(|place| (*place).to_owned())).collect();
    names.retain(|name| !exists(name));
    assert!(names.is_empty(), "no file or folder of `src` has these names of a table: {names:#?}");
}

#[test]
fn no_files_import_each_other_in_a_circle() {
    let sources = sources();
    let circles = circles(&sources, &Exports::of(&sources));
    assert!(circles.is_empty(), "in a circle, or between two: {circles:#?}");
}

fn sources() -> Vec<Source> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("src");
    let mut files = Vec::new();
    collect(&root, &root, &mut files);
    files.iter().map(|file| Source::new(file, &read(&root.join(file)))).collect()
}

fn read(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The sources below `folder` that are not only for tests, as `cost/emit.rs`.
fn collect(root: &Path, folder: &Path, files: &mut Vec<String>) {
    let entries = folder.read_dir().and_then(Iterator::collect);
    let entries: Vec<DirEntry> = entries.expect("a folder that can be read");
    let mut entries: Vec<PathBuf> = entries.iter().map(DirEntry::path).collect();
    entries.sort();
    let module = entries.iter().find(|path| path.ends_with("mod.rs") || path.ends_with("lib.rs"));
    let for_tests = module.map(|path| modules_for_tests(&tokens(&read(path)))).unwrap_or_default();
    for path in entries {
        if for_tests.iter().any(|name| path.file_stem().is_some_and(|stem| stem == name.as_str())) {
            continue;
        }
        if path.is_dir() {
            collect(root, &path, files);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let inside = path.strip_prefix(root).expect("a path below the root");
            files.push(inside.to_string_lossy().replace('\\', "/"));
        }
    }
}

/// The files that a module declares for tests only: `#[cfg(test)] mod name;`.
fn modules_for_tests(tokens: &[Token]) -> Vec<String> {
    let ends = (0..tokens.len()).filter_map(|at| Some(at + end_of_test_item(&tokens[at..])?));
    let items = ends.map(|end| &tokens[end - 3..end]);
    let declared = items.filter(|item| item[0].text == "mod" && item[2].text == ";");
    declared.map(|item| item[1].text.clone()).collect()
}

/// Imports of `source` that run against the street, a line each.
fn offences(source: &Source, exports: &Exports) -> Vec<String> {
    let file = &*source.file;
    let mut found = Vec::new();
    let here: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    if position(ROOMS, here[0]).is_none() {
        return vec![format!("{file}: `{}` has no place in ROOMS", here[0])];
    }
    for NamedPath { line, names, .. } in &source.paths {
        let name = &names[0];
        if let Some((_, places)) = PLACES.iter().find(|(krate, _)| krate == name) {
            if !places.iter().any(|place| is_in(file, place)) {
                found.push(format!("{file}:{line}: names the crate `{name}`"));
            } else if let Some(item) = owned_elsewhere(file, names) {
                found.push(format!("{file}:{line}: names `{name}::{item}`"));
            }
            continue;
        }
        let target = exports.target(source, names);
        let room = target.first().filter(|room| *room != here[0]);
        let offence = room.and_then(|room| against("ROOMS", ROOMS, here[0], room));
        let offence = offence.or_else(|| against_inside(&here, &target));
        found.extend(offence.map(|offence| format!("{file}:{line}: {offence}")));
    }
    found
}

/// The item of a foreign crate that `path` names, if another layer than that of `file` owns it; `*` for all items.
fn owned_elsewhere<'a>(file: &str, path: &'a [String]) -> Option<&'a str> {
    let item = path.get(1).map_or("*", String::as_str);
    let is_owned = |(krate, items, places): &&(&str, &[&str], &[&str])| {
        *krate == path[0]
            && (item == "*" || items.contains(&item))
            && !places.iter().any(|place| is_in(file, place))
    };
    OWNED.iter().find(is_owned).map(|_| item)
}

/// The offence of the file `here` if it must not name `target` in the same folder. The folder's own `mod.rs` may name
/// all parts of it, and its items are no parts.
fn against_inside(here: &[&str], target: &[String]) -> Option<String> {
    INSIDE.iter().find_map(|(folder, rows)| {
        let folder: Vec<&str> = folder.split('/').collect();
        let here = here.strip_prefix(&folder[..])?;
        let (above, target) = target.split_at_checked(folder.len())?;
        if above != folder {
            return None;
        }
        let (part, other) = (here.first()?, target.first()?);
        let is_free = *part == "mod" || part == other || other.starts_with(char::is_uppercase);
        if is_free { None } else { against("INSIDE", rows, part, other) }
    })
}

/// The offence of `here` if it must not name `target`, by the rows of `list`.
fn against(list: &str, rows: &[&[&str]], here: &str, target: &str) -> Option<String> {
    match (position(rows, target), position(rows, here)) {
        (Some(other), Some(own)) if other < own || target == here => None,
        (Some(_), Some(_)) => Some(format!("`{here}` names `{target}`")),
        (None, _) => Some(format!("`{target}` has no place in {list}")),
        (_, None) => Some(format!("`{here}` has no place in {list}")),
    }
}

fn position(rows: &[&[&str]], module: &str) -> Option<usize> {
    rows.iter().position(|row| row.contains(&module))
}

fn is_in(file: &str, place: &str) -> bool {
    file.strip_prefix(place).is_some_and(|rest| rest.starts_with(['/', '.']))
}

#[test]
fn the_checker_finds_what_runs_against_the_street() {
    let exports = Exports::of(&[
        Source::new(
            "lib.rs",
            "pub use batch::{BufferId, GpuCommandBatch};\npub use base::dtype::DType;\n",
        ),
        Source::new("batch/mod.rs", ""),
        Source::new("base/mod.rs", ""),
        Source::new("exec/mod.rs", "pub(crate) use host::HostBuffer;\n"),
        Source::new("exec/host.rs", ""),
    ]);
    let offences = |file: &str, text: &str| offences(&Source::new(file, text), &exports);
    let source = r##"
        //! use crate::batch::Nothing; in a comment
        use crate::base::shape::Shape;
        use crate::{base::dtype::{DType, Ty}, batch::BufferId as Id, graph};
        use super::device;
        use super::super::exec::{self, gpu::Gpu};
        pub(crate) use self::fuse::fuse;
        use crate::GpuCommandBatch;
        use crate::DType as Kind;
        fn inside<'a>(x: &'a str) -> crate::codegen::Dispatch {
            let quote = '"';
            let text = "crate::batch::Text \" crate::batch::Text";
            let raw = r#"crate::batch::" "Raw"#;
            wgpu::Device::poll();
            let wgpu = x.parse::<u32>();
            crate::ops::infer::<Shape>();
            crate::nowhere::at_all();
        }
        #[cfg(test)]
        mod tests {
            use crate::batch::Fine;
        }
        #[cfg(test)]
        mod oracle;
        #[cfg(all(test, feature = "gpu"))]
        use crate::batch::Fine;
        use petgraph::graph::DiGraph;
        use rayon;
    "##;
    let found = offences("cost/emit.rs", source);
    assert_eq!(
        found,
        [
            "cost/emit.rs:4: `cost` names `batch`",
            "cost/emit.rs:6: `cost` names `exec`",
            "cost/emit.rs:6: `cost` names `exec`",
            "cost/emit.rs:8: `cost` names `batch`",
            "cost/emit.rs:10: `cost` names `codegen`",
            "cost/emit.rs:14: names the crate `wgpu`",
            "cost/emit.rs:17: `nowhere` has no place in ROOMS",
            "cost/emit.rs:27: names the crate `petgraph`",
            "cost/emit.rs:28: names the crate `rayon`",
        ]
    );
    assert_eq!(modules_for_tests(&tokens(source)), ["oracle"]);
    assert_eq!(
        offences("plan/mod.rs", "use super::device::Device;"),
        ["plan/mod.rs:1: `plan` names `device`"]
    );
    assert_eq!(
        offences("base/shape.rs", "use crate::base::dtype::DType;"),
        ["base/shape.rs:1: `shape` names `dtype`"]
    );
    assert_eq!(
        offences("exec/gpu_like.rs", "use wgpu::Device;"),
        ["exec/gpu_like.rs:1: names the crate `wgpu`"]
    );
    assert_eq!(offences("exec/gpu/driver/open.rs", "use wgpu::Device;"), [""; 0]);
    assert_eq!(
        offences(
            "exec/gpu/memory/pool.rs",
            "use wgpu::{Buffer, Queue as Q};\nuse wgpu::*;\nuse crate::exec::gpu::{GpuCounts, driver, submit::run};",
        ),
        [
            "exec/gpu/memory/pool.rs:1: names `wgpu::Queue`",
            "exec/gpu/memory/pool.rs:2: names `wgpu::*`",
            "exec/gpu/memory/pool.rs:3: `memory` names `submit`",
        ]
    );
    assert_eq!(
        offences("exec/memory.rs", "use super::{threads::share, cpu::Tape, HostBuffer};"),
        ["exec/memory.rs:1: `memory` names `cpu`", "exec/memory.rs:1: `memory` names `host`"]
    );
    assert_eq!(
        offences("exec/gpu/submit/run.rs", "use crate::exec::{HostBuffer, cpu::run, other};",),
        [
            "exec/gpu/submit/run.rs:1: `gpu` names `cpu`",
            "exec/gpu/submit/run.rs:1: `other` has no place in INSIDE"
        ]
    );
    assert_eq!(offences("exec/mod.rs", "use self::gpu::Gpu;"), [""; 0]);
    assert_eq!(offences("other.rs", ""), ["other.rs: `other` has no place in ROOMS"]);
}
