//! The table of docs/operations.md is the registry's. After a change, `UPDATE_README=1 cargo test --test readme` writes
//! it anew.

use std::path::PathBuf;

const BEGIN: &str = "<!-- operations -->\n";
const END: &str = "<!-- end of operations -->";
/// The page of the methods, where `#method.NAME` is the documentation of one.
const PAGE: &str = "https://docs.rs/onetrip/latest/onetrip/struct.GpuCommandBatch.html";

#[test]
fn the_table_of_operations_is_the_registry() {
    let path: PathBuf = [env!("CARGO_MANIFEST_DIR"), "docs", "operations.md"].iter().collect();
    let page = std::fs::read_to_string(&path).expect("there is a page of operations");
    let (before, rest) = page.split_once(BEGIN).expect("a mark before the table");
    let (table, after) = rest.split_once(END).expect("a mark after the table");
    let wanted = wanted();
    if std::env::var_os("UPDATE_README").is_some() {
        std::fs::write(&path, format!("{before}{BEGIN}{wanted}{END}{after}"))
            .expect("it is written");
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
