//! `onetrip-bindgen IN.wasm OUT_FOLDER`: makes the module for JavaScript of a WebAssembly file.

use std::error::Error;

use wasm_bindgen_cli_support::Bindgen;

fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args_os().skip(1);
    let (Some(wasm), Some(folder)) = (arguments.next(), arguments.next()) else {
        return Err("the arguments are the WebAssembly file and a folder".into());
    };
    // The library leaves the module's own address out by default, and the command does not.
    let mut bindgen = Bindgen::new();
    bindgen.input_path(wasm).typescript(false).omit_default_module_path(false).web(true)?;
    bindgen.remove_name_section(true).remove_producers_section(true);
    Ok(bindgen.generate(folder)?)
}
