//! The operations that JavaScript can record, from the crate's registry.

use js_sys::Array;
use onetrip::{Parameter, ParameterKind};
use wasm_bindgen::prelude::*;

use crate::values::object;

/// All operations that batches record by name, each with its name, family, documentation, number of operands, and
/// parameters.
#[wasm_bindgen(unchecked_return_type = "Operation[]")]
pub fn operations() -> Array {
    let all = onetrip::signatures().map(|operation| {
        let parameters = operation.parameters.iter().map(|&(name, kind)| {
            let kind = match kind {
                ParameterKind::Number => "number",
                ParameterKind::Axis => "axis",
                ParameterKind::Axes => "axes",
                ParameterKind::Flag => "flag",
                ParameterKind::List => "list",
            };
            JsValue::from(object([("name", name.into()), ("kind", kind.into())]))
        });
        let info = operation.info;
        JsValue::from(object([
            ("name", info.name.into()),
            ("family", info.family.into()),
            ("doc", plain(info.doc).into()),
            ("dtypes", info.dtypes.into()),
            ("operands", (operation.operands as u32).into()),
            ("parameters", parameters.collect::<Array>().into()),
        ]))
    });
    all.collect()
}

/// `doc` without the targets of its links, whose paths are those of Rust.
fn plain(doc: &str) -> String {
    let mut parts = doc.split("](");
    let mut text = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        if let Some(open) = text.rfind('[') {
            text.remove(open);
        }
        text.push_str(part.split_once(')').map_or(part, |(_, rest)| rest));
    }
    text.replace("`Fault`", "`FaultError`")
}

/// The names of all operations of the registry.
#[wasm_bindgen(unchecked_return_type = "string[]")]
pub fn registry() -> Array {
    onetrip::registry().map(|info| JsValue::from(info.name)).collect()
}

/// The parameters in `given`: numbers, truth values and arrays of whole numbers. Those from the first `undefined` on
/// are left out.
pub(crate) fn parameters(given: &Array) -> Result<Vec<Parameter>, &'static str> {
    let known = given.iter().take_while(|value| !value.is_undefined());
    known.map(|value| parameter(&value)).collect()
}

fn parameter(value: &JsValue) -> Result<Parameter, &'static str> {
    if let Some(number) = value.as_f64() {
        return Ok(Parameter::Number(number));
    }
    if let Some(flag) = value.as_bool() {
        return Ok(Parameter::Number(f64::from(u8::from(flag))));
    }
    let whole = |one: JsValue| {
        let number = one.as_f64().filter(|number| number.fract() == 0.0);
        number.map(|number| number as isize)
    };
    let list = value.dyn_ref::<Array>().and_then(|list| list.iter().map(whole).collect());
    list.map(Parameter::List)
        .ok_or("a parameter is a number, a truth value or an array of whole numbers")
}
