//! onetrip for JavaScript: the classes that `package/index.js` completes with the operations of the registry.
//!
//! Every call that may wait returns a promise, and holds what it needs until it ends: an object that is freed meanwhile
//! disturbs no run.

mod batch;
mod device;
mod operations;
mod plan;
mod program;
mod values;
mod words;

use std::fmt;

use js_sys::{Function, RangeError, Reflect, TypeError};
use wasm_bindgen::prelude::*;

use crate::words::in_javascript;

#[wasm_bindgen]
unsafe extern "C" {
    #[wasm_bindgen(js_namespace = console, js_name = error)]
    fn log(text: &str);
}

/// Reports panics, which are bugs of onetrip, with their place.
#[wasm_bindgen(start)]
pub fn start() {
    std::panic::set_hook(Box::new(|panic| report(&format!("onetrip: {panic}"))));
}

/// Reports an error that no call throws, to the listeners of the event `error`. Promises under way never settle.
fn report(text: &str) {
    let global = js_sys::global();
    match Reflect::get(&global, &"reportError".into()).map(JsCast::dyn_into::<Function>) {
        // It fails for a listener that throws, whose error the browser reports itself.
        Ok(Ok(report_error)) => {
            drop(report_error.call1(&global, &named_error("PanicError", &text)))
        }
        _ => log(text),
    }
}

/// An `Error` with the text of `error` in the names of JavaScript. Its name tells its kind.
fn thrown(error: &onetrip::Error) -> JsValue {
    let name = match error {
        onetrip::Error::Record(_) => "RecordError",
        onetrip::Error::Plan(_) => "PlanError",
        onetrip::Error::Device(_) => "DeviceError",
        onetrip::Error::Fault(_) => "FaultError",
        onetrip::Error::Run(_) => "RunError",
        onetrip::Error::Read(_) => "ReadError",
        onetrip::Error::Rows(_) => "RowsError",
        onetrip::Error::Data(_) => "DataError",
        _ => "Error",
    };
    named_error(name, &in_javascript(&error.to_string()))
}

/// The error for an argument of a wrong type or form.
fn wrong(text: impl fmt::Display) -> JsValue {
    TypeError::new(&text.to_string()).into()
}

/// The error for data that WebAssembly has no memory for.
fn no_room(bytes: f64) -> JsValue {
    let text = format!(
        "the memory of WebAssembly, 4 GB at most, has no room for data of {bytes} bytes; free objects, or give less"
    );
    RangeError::new(&text).into()
}

fn named_error(name: &str, text: &dyn fmt::Display) -> JsValue {
    let error = js_sys::Error::new(&text.to_string());
    error.set_name(name);
    error.into()
}
