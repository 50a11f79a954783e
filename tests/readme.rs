//! The table of docs/operations.md is the registry's. After a change, `UPDATE_README=1 cargo test --test readme` writes
//! it anew. Paths that documents name exist. Each operation and each public method is called in an example.

use std::fs;
use std::path::{Path, PathBuf};

const BEGIN: &str = "<!-- operations -->\n";
const END: &str = "<!-- end of operations -->";
/// The page of the methods, where `#method.NAME` is the documentation of one.
const PAGE: &str = "https://docs.rs/onetrip/latest/onetrip/struct.GpuCommandBatch.html";

#[test]
fn the_table_of_operations_is_the_registry() {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "docs", "operations.md"].iter().collect();
    let page = fs::read_to_string(&path).expect("there is a page of operations");
    let (before, rest) = page.split_once(BEGIN).expect("a mark before the table");
    let (table, after) = rest.split_once(END).expect("a mark after the table");
    let wanted = wanted();
    if std::env::var_os("UPDATE_README").is_some() {
        fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}")).expect("it is written");
        return;
    }
    assert!(table == wanted, "docs/operations.md should have this table:\n{wanted}");
}

fn wanted() -> String {
    let methods = sources(&source("methods"));
    let mut table =
        "| operation | arguments | family | element types | fused with | JavaScript |\n|---|---|---|---|---|---|\n"
            .to_owned();
    // The package for JavaScript records `cast` by a method of its own.
    let by_name = onetrip::signatures().map(|operation| operation.info.name);
    let recorded: Vec<_> = by_name.chain(["cast"]).collect();
    for op in onetrip::registry() {
        let (name, family, dtypes, fusion) = (op.name, op.family, op.dtypes, op.fusion);
        let arguments = shown(&arguments(name, &methods));
        let script = if recorded.contains(&name) { "yes" } else { "by files" };
        table += &format!(
            "| [`{name}`]({PAGE}#method.{name}) | {arguments} | {family} | {dtypes} | {fusion} | {script} |\n"
        );
    }
    table
}

fn source(path: &str) -> PathBuf {
    [env!("CARGO_MANIFEST_DIR"), "src", path].iter().collect()
}

/// The text of a source, or of all sources in a folder.
fn sources(path: &Path) -> String {
    let Ok(entries) = path.read_dir() else {
        return fs::read_to_string(path).expect("a source");
    };
    let mut paths: Vec<PathBuf> = entries.map(|entry| entry.expect("an entry").path()).collect();
    paths.sort();
    paths.iter().map(|path| sources(path)).collect()
}

/// The arguments of an operation. They stand in its method's row or head, or, for a table in `src/ops`, in the
/// operation's row there and in the macro that makes its methods.
fn arguments(name: &str, methods: &str) -> String {
    for (table, macros) in
        [("elementwise", ""), ("reduce", "reduce"), ("scan", "scan"), ("row", "rows")]
    {
        let text = sources(&source(&format!("ops/{table}.rs")));
        let mut rows = text.lines().filter_map(|line| line.trim().strip_prefix(name));
        let is_row = |rest: &&str| {
            rest.strip_prefix(' ').is_some_and(|rest| rest.starts_with(char::is_uppercase))
        };
        let Some(row) = rows.find(is_row) else { continue };
        if table == "elementwise" {
            return in_parentheses(row).to_owned();
        }
        let macros = sources(&source(&format!("methods/{macros}.rs")));
        let head = macros.split_once("fn $name").expect("a macro of methods").1;
        let epsilon = if row.contains("(epsilon") { ", epsilon: f32" } else { "" };
        return in_parentheses(head).replace(" $(, $epsilon: f32)?", epsilon);
    }
    let start = format!("fn {name}");
    let heads = methods.split(&start).skip(1).filter(|head| head.starts_with(['<', '(']));
    let is_public = |list: &&str| !list.contains("Tensor<") && !list.contains("Batch");
    heads.map(in_parentheses).find(is_public).expect("a method").to_owned()
}

/// Tensors by name, parameters with their types.
fn shown(list: &str) -> String {
    let mut depth = 0;
    let parts = list.split(|c| {
        depth += i32::from("(<[".contains(c)) - i32::from(")>]".contains(c));
        depth == 0 && matches!(c, ',' | ';')
    });
    let parts = parts.map(str::trim).filter(|part| !part.is_empty() && *part != "&self");
    let texts = parts.map(|part| match part.split_once(": ") {
        Some((name, ty)) if ty.len() == 1 || ty.starts_with("impl Operand") => format!("`{name}`"),
        _ => format!("`{part}`"),
    });
    texts.collect::<Vec<_>>().join(", ")
}

/// The text between the first parenthesis and its match.
fn in_parentheses(text: &str) -> &str {
    let start = text.find('(').expect("a list of arguments") + 1;
    let mut depth = 1;
    let end = text[start..].find(|c| {
        depth += i32::from(c == '(') - i32::from(c == ')');
        depth == 0
    });
    &text[start..start + end.expect("a closed parenthesis")]
}

#[test]
fn paths_that_documents_name_exist() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let mut documents: Vec<PathBuf> =
        ["README.md", "ARCHITECTURE.md", "CONTRIBUTING.md"].map(PathBuf::from).into();
    for folder in ["docs", "docs/design"] {
        let entries = fs::read_dir(root.join(folder)).expect("a folder of documents");
        let names = entries.map(|entry| entry.expect("an entry").file_name());
        documents.extend(names.map(|name| Path::new(folder).join(name)));
    }
    documents.retain(|path| path.extension().is_some_and(|extension| extension == "md"));
    let (mut named, mut missing) = (0, Vec::new());
    for document in &documents {
        let text = fs::read_to_string(root.join(document)).expect("a document");
        let quoted: Vec<&str> = text.split('`').skip(1).step_by(2).collect();
        // The map of the code names files of `src` and of the GPU's runner without these folders.
        for path in quoted
            .iter()
            .filter(|text| document.ends_with("ARCHITECTURE.md") && is_file_of_rust(text))
        {
            named += 1;
            if !["src", "src/exec/gpu", ""]
                .iter()
                .any(|folder| root.join(folder).join(path).exists())
            {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
        for path in quoted.into_iter().filter(|text| is_path(text)) {
            named += 1;
            if !expanded(path).iter().all(|path| root.join(path).exists()) {
                missing.push(format!("{}: {path}", document.display()));
            }
        }
    }
    assert!(documents.len() > 15 && named > 200, "{named} paths in {documents:?}");
    assert!(missing.is_empty(), "{missing:#?}");
}

/// True for a path from the root of the repository: a folder or file, without arguments or placeholders.
fn is_path(text: &str) -> bool {
    const STARTS: &[&str] = &["src/", "tests/", "docs/", "examples/", "benches/", "shaders/"];
    STARTS.iter().any(|start| text.starts_with(start)) && !text.contains(['*', ' ', '<', '\n'])
}

/// True for a file of Rust in a folder.
fn is_file_of_rust(text: &str) -> bool {
    text.contains('/') && text.ends_with(".rs") && !text.contains(['*', ' ', '{', '\n'])
}

/// The paths of `before{a,b}after`, or the one path.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (names, after) = rest.split_once('}').expect("a closed brace");
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}

/// Links to docs.rs are of no use before the crate is published, nor without a network.
#[test]
fn pages_that_link_to_docs_rs_say_how_to_read_them_from_a_clone() {
    let docs = Path::new(env!("CARGO_MANIFEST_DIR")).join("docs");
    let mut linking = 0;
    for entry in fs::read_dir(docs).expect("a folder of documents") {
        let path = entry.expect("an entry").path();
        let Some(text) = fs::read_to_string(&path).ok().filter(|text| text.contains(PAGE)) else {
            continue;
        };
        linking += 1;
        let (head, _) = text.split_once(PAGE).expect("a link");
        assert!(head.contains("cargo doc --no-deps --all-features --open"), "{}", path.display());
    }
    assert!(linking > 0);
}

#[test]
fn the_first_documents_stay_short() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    for (file, most) in [("README.md", 150), ("ARCHITECTURE.md", 150), ("BENCHMARKS.md", 200)] {
        let lines = fs::read_to_string(root.join(file)).expect(file).lines().count();
        assert!(lines <= most, "{file} has {lines} lines, more than {most}");
    }
}

#[test]
fn documentation_has_an_example_of_each_operation_and_method() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let readme = fs::read_to_string(root.join("README.md")).expect("README.md");
    let sources = sources(&source(""));
    let code = [(&*readme, ""), (&*sources, "///"), (&*sources, "//!")];
    let code: String = code.into_iter().map(|(text, marker)| code_blocks(text, marker)).collect();
    let is_called = |name: &str| {
        [".", "::"]
            .iter()
            .any(|of| ["(", "::<"].iter().any(|then| code.contains(&format!("{of}{name}{then}"))))
    };
    assert!(is_called("relu") && !is_called("no_such_operation"));
    let exports = fs::read_to_string(source("lib.rs")).expect("lib.rs");
    // These rooms have types of the same names for themselves alone.
    let rooms = source("").read_dir().expect("the rooms").map(|room| room.expect("a room").path());
    let rooms = rooms.filter(|room| !room.ends_with("exec") && !room.ends_with("picture"));
    let methods = rooms.flat_map(|room| public_methods(&self::sources(&room), &exports));
    let methods: Vec<_> = methods.collect();
    assert!(methods.len() > 150 && methods.contains(&("Program".into(), "run_within".into())));
    let names = onetrip::registry().map(|op| ("GpuCommandBatch".to_owned(), op.name.to_owned()));
    let missing: Vec<_> = names.chain(methods).filter(|(_, name)| !is_called(name)).collect();
    assert!(missing.is_empty(), "no example in the documentation calls these: {missing:#?}");
}

/// The public methods of types that `exports` names, with their types, by the lines of `sources` alone.
fn public_methods(sources: &str, exports: &str) -> Vec<(String, String)> {
    let words = |text: &str| -> Vec<String> {
        let words = text.split(|c: char| !c.is_alphanumeric() && c != '_');
        words.filter(|word| !word.is_empty()).map(str::to_owned).collect()
    };
    let exports: Vec<String> = exports.split("pub use ").skip(1).flat_map(words).collect();
    let (mut methods, mut of) = (Vec::new(), None);
    for line in sources.lines() {
        if let Some(head) = line.strip_prefix("impl") {
            // Generic arguments in angle brackets, such as those of `impl<T: Element>`, name no type of the block.
            let mut depth = 0;
            let head: String = head
                .replace("->", "")
                .chars()
                .filter(|&c| {
                    depth += i32::from(c == '<') - i32::from(c == '>');
                    depth == 0 && c != '>'
                })
                .collect();
            of = words(&head).into_iter().next().filter(|name| exports.contains(name));
        }
        let head = line.strip_prefix("    pub ").map(|head| head.split('(').next().unwrap_or(head));
        let Some((of, (_, name))) = of.as_ref().zip(head.and_then(|head| head.split_once("fn ")))
        else {
            continue;
        };
        methods.extend(words(name).into_iter().next().map(|name| (of.clone(), name)));
    }
    methods
}

/// The lines between fences of a text, of which only lines that start with `marker` count.
fn code_blocks(text: &str, marker: &str) -> String {
    let mut is_code = false;
    let mut code = String::new();
    for line in text.lines() {
        let Some(line) = line.trim_start().strip_prefix(marker) else {
            is_code = false;
            continue;
        };
        if line.trim_start().starts_with("```") {
            is_code = !is_code;
        } else if is_code {
            code += line;
            code.push('\n');
        }
    }
    code
}
