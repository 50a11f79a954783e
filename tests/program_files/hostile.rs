//! Files that were made to do harm.

use std::collections::HashMap;

use onetrip::{Device, Program, Result, Weights};
use safetensors::tensor::{Dtype, TensorView};
use serde_json::{Value, json};

/// A file of one tensor of four numbers, with this document.
pub fn file(document: &Value) -> Vec<u8> {
    let data = [0_u8; 16];
    let tensor = TensorView::new(Dtype::F32, vec![4], &data).expect("16 bytes");
    let info = HashMap::from([("onetrip".to_owned(), document.to_string())]);
    safetensors::serialize([("w", tensor)], Some(info)).expect("a file")
}

fn load(document: &Value) -> Result<Program> {
    pollster::block_on(Program::load_bytes(&Device::cpu(), file(document)))
}

fn error(document: &Value) -> String {
    load(document).expect_err("a hostile file").to_string()
}

fn document(nodes: &Value) -> Value {
    json!({
        "version": 1, "onetrip": "0.1.0", "fingerprint": "0", "nodes": nodes, "names": {}, "uploads": ["w"],
        "residents": [], "bound": [], "downloads": [], "keeps": [],
    })
}

fn node(op: impl Into<Value>, inputs: &[u32], dtype: &str, shape: &[u64]) -> Value {
    json!({ "op": op.into(), "inputs": inputs, "type": dtype, "shape": shape, "place": "a.py:3" })
}

fn upload() -> Value {
    node(json!({ "upload": 0 }), &[], "f32", &[4])
}

/// One operation over the upload.
fn one(op: Value, shape: &[u64]) -> Value {
    document(&json!([upload(), node(op, &[0], "f32", shape)]))
}

#[test]
fn sound_files_load() {
    load(&document(&json!([upload()]))).unwrap();
    load(&one(json!({ "elementwise": ["relu", []] }), &[4])).unwrap();
}

#[test]
fn a_file_without_operations_is_refused() {
    let mut empty = document(&json!([]));
    empty["uploads"] = json!([]);
    let error = error(&empty);
    assert!(error.contains("the program in it is empty"), "{error}");
}

#[test]
fn later_versions_are_refused_by_name() {
    let mut later = document(&json!([upload()]));
    later["version"] = 2.into();
    later["nodes"] = "of another form".into();
    let error = error(&later);
    assert!(error.contains("version 2") && error.contains("reads version 1"), "{error}");
    let no_program =
        safetensors::serialize([("w", TensorView::new(Dtype::F32, vec![0], &[]).unwrap())], None);
    let file = Weights::from_bytes(no_program.unwrap()).unwrap();
    let error = Program::describe(&file).unwrap_err().to_string();
    assert!(error.contains("no program"), "{error}");
}

#[test]
fn a_fingerprint_is_a_number() {
    for fingerprint in ["", "relu", "123456789abcdef0123456789abcdef01"] {
        let mut document = document(&json!([upload()]));
        document["fingerprint"] = fingerprint.into();
        let expected =
            format!("its fingerprint {fingerprint:?} is no number of hexadecimal digits");
        assert!(error(&document).contains(&expected), "{}", error(&document));
        let file = Weights::from_bytes(file(&document)).expect("a file");
        assert!(Program::describe(&file).is_err());
    }
}

#[test]
fn unknown_operations_are_named() {
    let cure = "; load it with the version that wrote it, or copy the file again, or save the program again";
    for (op, what) in [
        (json!({ "warp": 3 }), "operation"),
        (json!("warp"), "operation"),
        (json!({ "elementwise": ["warp", []] }), "operation"),
        (json!({ "move": { "name": "reshape", "to": { "warp": [] } } }), "operation"),
        (json!({ "gather": { "name": "warp", "axis": 0 } }), "method"),
    ] {
        let error = error(&one(op, &[4]));
        let expected =
            format!("its graph cannot be read: this version has no {what} \"warp\" at line ");
        assert!(error.contains(&expected), "{error}");
        assert!(error.ends_with(cure), "{error}");
    }
    let relu = node(json!({ "elementwise": ["relu", []] }), &[0], "f64", &[4]);
    let expected = "node 1, `relu` of a.py:3, this version has no element type \"f64\"";
    let of_a_type = error(&document(&json!([upload(), relu])));
    assert!(of_a_type.ends_with(&format!("{expected}{cure}")), "{of_a_type}");
    let error = error(&one(json!({ "w".repeat(100_000): 3 }), &[4]));
    assert!(error.len() < 300 && error.contains("no operation \"wwww"), "{error}");
}

#[test]
fn parameters_that_do_not_fit_are_errors() {
    let f32 = |x: f64| json!(["f32", x]);
    let slice = |start: i64, step: i64, count: u64| json!({ "move": { "name": "slice", "to": { "slice": [[start, step, count]] } } });
    let moved = |to: Value| json!({ "move": { "name": "reshape", "to": to } });
    let cases: Vec<(Value, Vec<u64>)> = vec![
        (json!({ "reduce": { "op": "sum", "axes": [1], "keep": false } }), vec![]),
        (json!({ "reduce": { "op": "sum", "axes": [0, 0], "keep": false } }), vec![]),
        (json!({ "row": { "op": ["softmax", null], "axis": 9 } }), vec![4]),
        (json!({ "row": { "op": ["softmax", 1.0], "axis": 0 } }), vec![4]),
        (json!({ "row": { "op": ["layer_norm", -1.0], "axis": 0 } }), vec![4]),
        (json!({ "scan": { "op": "cumsum", "axis": 1 } }), vec![4]),
        (json!({ "sort": { "how": [0, "ascending", 5], "part": "values" } }), vec![4]),
        (json!({ "elementwise": ["clip", [f32(0.0)]] }), vec![4]),
        (json!({ "elementwise": ["scale", [["i32", 1]]] }), vec![4]),
        (json!({ "elementwise": ["add", []] }), vec![4]),
        (json!({ "pad": { "before": [1], "after": [], "value": f32(0.0) } }), vec![5]),
        (json!({ "pad": { "before": [u64::MAX], "after": [1], "value": f32(0.0) } }), vec![4]),
        (json!({ "concat": { "axis": 1 } }), vec![4]),
        (slice(0, 1, 5), vec![5]),
        (slice(-1, 1, 2), vec![2]),
        (slice(0, 0, 2), vec![2]),
        (slice(0, i64::MAX, 1), vec![1]),
        (slice(1, i64::MIN, 2), vec![2]),
        (slice(i64::MAX, 1, 2), vec![2]),
        (slice(0, 1, 0), vec![1 << 40]),
        (moved(json!({ "reshape": [5] })), vec![5]),
        (moved(json!({ "permute": [1] })), vec![4]),
        (moved(json!({ "permute": [0, 0] })), vec![4, 4]),
        (moved(json!({ "broadcast": [3] })), vec![3]),
        (moved(json!({ "broadcast": [1_u64 << 60, 4] })), vec![1 << 60, 4]),
        (moved(json!({ "window": { "axis": 0, "window": [0, 1, 1] } })), vec![5, 0]),
        (moved(json!({ "window": { "axis": 0, "window": [2, 0, 1] } })), vec![3, 2]),
        (moved(json!({ "window": { "axis": 0, "window": [5, 1, 1] } })), vec![0, 5]),
        (moved(json!({ "window": { "axis": 0, "window": [2, 1, u64::MAX] } })), vec![1, 2]),
        (json!({ "full": f32(0.0) }), vec![1 << 60]),
        (json!({ "random": ["bits", null, 1, 2] }), vec![4]),
        (
            json!({ "in_range": { "name": "one_hot", "axis": null, "size": 3, "ignored": null } }),
            vec![4],
        ),
        ("invalid".into(), vec![4]),
        (json!({ "resident": 0 }), vec![4]),
        (json!({ "upload": 0 }), vec![4]),
        (json!({ "upload": 7 }), vec![4]),
        (json!({ "cast": "f64" }), vec![4]),
        (json!({ "wgsl": ["", "main", [1, 1, 1]] }), vec![4]),
        (json!({ "gather": { "name": "gather", "axis": 0 } }), vec![4]),
        (json!({ "matmul": "wrong" }), vec![4]),
    ];
    for (op, shape) in cases {
        let error = error(&one(op.clone(), &shape));
        assert!(error.starts_with("the file in memory: "), "{op}: {error}");
        let cures = [
            "; copy the file again, or save the program again",
            ", or copy the file again, or save the program again",
            "; load it with `LoadOptions::wgsl` if you trust it",
        ];
        assert!(cures.iter().any(|cure| error.ends_with(cure)), "{op}: {error}");
    }
    let far = node(json!({ "elementwise": ["relu", []] }), &[1], "f32", &[4]);
    let error = error(&document(&json!([upload(), far])));
    assert!(error.contains("no node before it"), "{error}");
    let none = node(json!({ "full": f32(0.0) }), &[], "f32", &[1 << 60]);
    assert!(load(&document(&json!([upload(), none]))).is_err());
}

#[test]
fn tables_that_do_not_fit_are_errors() {
    let with = |key: &str, value: Value| {
        let mut document = document(&json!([upload()]));
        document[key] = value;
        document
    };
    let resident =
        |tensor: Value| json!([{ "type": "f32", "shape": [4], "place": "", "tensor": tensor }]);
    let mut kept = with("residents", resident(Value::Null));
    kept["keeps"] =
        json!([{ "value": 0, "resident": 0, "slice": { "new": 0, "axis": 0, "at": 1 } }]);
    let mut twice = with("residents", resident("w".into()));
    twice["bound"] = json!([0]);
    for wrong in [
        with("names", json!({ "x": 1 })),
        with("downloads", json!([1])),
        with("uploads", json!([])),
        with("uploads", json!(["w", "w"])),
        with("uploads", json!(["v"])),
        with("bound", json!([0])),
        with("keeps", json!([{ "value": 0, "resident": 0 }])),
        with("nodes", json!([node(json!({ "upload": 0 }), &[], "i32", &[4])])),
        with("nodes", json!([node(json!({ "upload": 0 }), &[], "f32", &[2, 2])])),
        with("nodes", json!([])),
        with("more", json!(1)),
        kept,
        twice,
    ] {
        let error = error(&wrong);
        assert!(error.contains("the file in memory: "), "{wrong}: {error}");
    }
}

/// Long chains, values used twice by each next one, and many nodes: planned in little time and on a small stack.
#[test]
fn deep_graphs_are_no_harm() {
    let chain = |count: u32, inputs: &dyn Fn(u32) -> Vec<u32>, op: &str| {
        let nodes =
            (0..count).map(|at| node(json!({ "elementwise": [op, []] }), &inputs(at), "f32", &[4]));
        document(&std::iter::once(upload()).chain(nodes).collect())
    };
    for (count, op, doubled) in
        [(20_000, "relu", false), (2_000, "add", true), (5_000, "tanh", false)]
    {
        let inputs = |at: u32| if doubled { vec![at, at] } else { vec![at] };
        let program = load(&chain(count, &inputs, op)).unwrap();
        pollster::block_on(program.run(())).unwrap();
    }
}
