//! The table of operations in the README is what the registry says. After a change,
//! `UPDATE_README=1 cargo test --test readme` writes it anew.

use std::path::PathBuf;

const BEGIN: &str = "<!-- operations -->\n";
const END: &str = "<!-- end of operations -->";

#[test]
fn the_table_of_operations_is_the_registry() {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "README.md"].iter().collect();
    let readme = std::fs::read_to_string(&path).expect("there is a README");
    let (before, rest) = readme.split_once(BEGIN).expect("a mark before the table");
    let (table, after) = rest.split_once(END).expect("a mark after the table");
    let wanted = wanted();
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}"))
            .expect("it is written");
        return;
    }
    assert!(table == wanted, "README.md should have this table:\n{wanted}");
}

fn wanted() -> String {
    let mut table =
        "| operation | family | element types | GPU | CPU | fused with |\n|---|---|---|---|---|---|\n"
            .to_owned();
    for op in onetrip::registry() {
        let sides = "✓ | ✓"; // No operation is on one side alone: the tests run all on both.
        let (name, family, dtypes) = (op.name, op.family, op.dtypes);
        table += &format!("| `{name}` | {family} | {dtypes} | {sides} | {} |\n", op.fusion);
    }
    table
}

/// What a method records that returns an id is an operation, unless it brings data.
#[test]
fn every_operation_is_in_the_registry() {
    // They bring data, or record what the registry has by another name.
    const OTHERS: [&str; 10] = [
        "upload",
        "upload_shaped",
        "upload_vec",
        "upload_with",
        "upload_array",
        "input",
        "bind",
        "map_expr",
        "wgsl",
        "swish",
    ];
    let folder: PathBuf = [env!("CARGO_MANIFEST_DIR"), "src", "batch"].iter().collect();
    let mut found = 0;
    for file in std::fs::read_dir(folder).expect("a folder") {
        let file = file.expect("a file").path();
        if file.is_dir() {
            continue;
        }
        let text = std::fs::read_to_string(&file).expect("a source");
        for method in text.split("\n    pub fn ").skip(1) {
            let name = method.split(['(', '<']).next().expect("a name");
            let signature = method.split(" {\n").next().expect("a signature");
            let result = signature.split(" -> ").last().unwrap_or_default();
            let records = signature.contains("&mut self")
                && ["BufferId", "(BufferId", "LstmState"].iter().any(|id| result.starts_with(id));
            if !records || OTHERS.contains(&name) {
                continue;
            }
            found += 1;
            let known = onetrip::registry().any(|op| op.name == name);
            assert!(known, "{name} of {} is not in the registry", file.display());
        }
    }
    assert!(found > 60, "only {found} methods were found");
}
