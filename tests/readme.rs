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
