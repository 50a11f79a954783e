//! The table of docs/operations.md is the registry's. After a change, `UPDATE_README=1 cargo test --test readme` writes
//! it anew. Paths that documents name exist.

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
    let mut table =
        "| operation | family | element types | fused with |\n|---|---|---|---|\n".to_owned();
    for op in onetrip::registry() {
        let (name, family, dtypes, fusion) = (op.name, op.family, op.dtypes, op.fusion);
        table +=
            &format!("| [`{name}`]({PAGE}#method.{name}) | {family} | {dtypes} | {fusion} |\n");
    }
    table
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
        for path in text.split('`').skip(1).step_by(2).filter(|text| is_path(text)) {
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

/// The paths of `before{a,b}after`, or the one path.
fn expanded(path: &str) -> Vec<String> {
    let Some((before, rest)) = path.split_once('{') else { return vec![path.to_owned()] };
    let (names, after) = rest.split_once('}').expect("a closed brace");
    names.split(',').map(|name| format!("{before}{name}{after}")).collect()
}
