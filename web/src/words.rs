//! Words of messages: the names that Rust has, and those of JavaScript.

/// Parts of the crate's messages, each with its text in JavaScript, in the order in which they are replaced. A test of the
/// crate looks for each part in the crate's sources.
pub(crate) const WORDS: &[(&str, &str)] = &[
    (
        "give it to the run, or `write` it before the batch is executed or compiled",
        "give it to the run",
    ),
    (
        "give them to the run, or `write` them before the batch is executed or compiled",
        "give them to the run",
    ),
    ("`rows_of`", "`rowsOf`"),
    ("`run_rows`", "`runRows`"),
    ("`input` and `name` give names", "`input` and `named` give names"),
    ("; `name` gives names", "; `named` gives names"),
    (
        " was not downloaded; call `download(id)` on it before `execute` or `compile`",
        " is no result: once a value has a name, only values with names are; call `named` on it",
    ),
    (
        "`w.transpose()`, of a resident `batch.bind(&w).transpose()`, or `Weights::resident_transposed` for [outputs, inputs] as in files of PyTorch",
        "`w.transpose()`, for [outputs, inputs] as in files of PyTorch",
    ),
    ("upload_shaped", "upload"),
    ("`unsqueeze` adds", "`reshape` adds"),
    ("`slice` or `pad` it first", "ask for that many elements"),
    ("; give it by `LoadOptions::weights`", "; load a file that has it"),
    ("by `Program::save`", "by `batch.toBytes()`"),
    ("load it with `LoadOptions::wgsl`", "load it with the option `{ wgsl: true }`"),
    (
        "let the batch run on a GPU, or give one by `Wgsl::on_cpu`, for a program of a file by `LoadOptions::on_cpu`",
        "open the device by `Device::gpu()`",
    ),
    ("`Device::gpu()` and `ONETRIP_BACKEND=gpu` take any", "`Device::gpu()` takes any"),
    (
        ", go on with `Device::cpu()`, or have `DeviceBuilder::recovery` do so",
        ", or go on with `Device::cpu()`",
    ),
    ("`Device::calibrate` measures", "`device.calibrate()` measures"),
    ("Device::", "Device."),
];

/// The message `text` with the names of JavaScript.
pub(crate) fn in_javascript(text: &str) -> String {
    WORDS.iter().fold(text.to_owned(), |text, (rust, here)| text.replace(rust, here))
}
