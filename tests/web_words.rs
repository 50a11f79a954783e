//! The words that the package for JavaScript replaces in messages are words of messages.

use std::fs;
use std::path::Path;

#[path = "../web/src/words.rs"]
mod words;

/// Adds the text of all sources in `folder`, with literals of several lines joined.
fn collect(folder: &Path, all: &mut String) {
    for entry in fs::read_dir(folder).expect("a folder") {
        let path = entry.expect("an entry").path();
        if path.is_dir() {
            collect(&path, all);
        } else if path.extension().is_some_and(|extension| extension == "rs") {
            let text = fs::read_to_string(&path).expect("a text file");
            all.push_str(&text.split("\\\n").map(str::trim_start).collect::<String>());
        }
    }
}

#[test]
fn each_replaced_part_is_in_the_sources() {
    let mut sources = String::new();
    collect(&Path::new(env!("CARGO_MANIFEST_DIR")).join("src"), &mut sources);
    for (rust, _) in words::WORDS {
        assert!(
            sources.contains(rust),
            "no message has {rust:?} any more: change web/src/words.rs"
        );
    }
}

#[test]
fn messages_have_the_names_of_javascript() {
    let lost = "the device is lost (unplugged); open a new one with `Device::gpu()`, go on with `Device::cpu()`, \
                or have `DeviceBuilder::recovery` do so";
    let here = "the device is lost (unplugged); open a new one with `Device.gpu()`, or go on with `Device.cpu()`";
    assert_eq!(words::in_javascript(lost), here);
    assert_eq!(words::in_javascript("upload_shaped: 2 elements"), "upload: 2 elements");
    assert_eq!(words::in_javascript("(`rows_of` names them)"), "(`rowsOf` names them)");
    assert_eq!(words::in_javascript("axis 7 is out of range"), "axis 7 is out of range");
}
