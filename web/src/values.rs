//! Typed arrays of JavaScript as elements, and back.

use std::time::Duration;

use js_sys::{
    Array, Float32Array, Int32Array, Object, Reflect, Uint8Array, Uint16Array, Uint32Array,
};
use onetrip::{DType, Shape, f16};
use wasm_bindgen::prelude::*;

use crate::wrong;

/// Elements that came from JavaScript.
pub(crate) enum Elements {
    F32(Vec<f32>),
    F16(Vec<f16>),
    I32(Vec<i32>),
    U32(Vec<u32>),
    Bool(Vec<bool>),
}

/// Calls `$body` with the elements as a vector `$data` of their type `$t`.
macro_rules! for_elements {
    ($elements:expr, $data:ident => $body:expr) => {
        match $elements {
            $crate::values::Elements::F32($data) => $body,
            $crate::values::Elements::F16($data) => $body,
            $crate::values::Elements::I32($data) => $body,
            $crate::values::Elements::U32($data) => $body,
            $crate::values::Elements::Bool($data) => $body,
        }
    };
}
pub(crate) use for_elements;

/// Calls `$body` with `$t` as the Rust type of `$dtype`.
macro_rules! for_dtype {
    ($dtype:expr, $t:ident => $body:expr) => {
        match $dtype {
            onetrip::DType::F32 => {
                type $t = f32;
                $body
            }
            onetrip::DType::F16 => {
                type $t = onetrip::f16;
                $body
            }
            onetrip::DType::I32 => {
                type $t = i32;
                $body
            }
            onetrip::DType::U32 => {
                type $t = u32;
                $body
            }
            onetrip::DType::Bool => {
                type $t = bool;
                $body
            }
        }
    };
}
pub(crate) use for_dtype;

impl Elements {
    /// The elements of a typed array: `Float32Array`, `Int32Array` and `Uint32Array` as they are, `Uint16Array` as the
    /// bits of `f16`, `Uint8Array` as truth values.
    pub fn of(given: &JsValue) -> Result<Self, JsValue> {
        if let Some(array) = given.dyn_ref::<Float32Array>() {
            return Ok(Self::F32(array.to_vec()));
        }
        if let Some(array) = given.dyn_ref::<Int32Array>() {
            return Ok(Self::I32(array.to_vec()));
        }
        if let Some(array) = given.dyn_ref::<Uint32Array>() {
            return Ok(Self::U32(array.to_vec()));
        }
        if let Some(array) = given.dyn_ref::<Uint16Array>() {
            return Ok(Self::F16(array.to_vec().into_iter().map(f16::from_bits).collect()));
        }
        if let Some(array) = given.dyn_ref::<Uint8Array>() {
            return Ok(Self::Bool(array.to_vec().into_iter().map(|byte| byte != 0).collect()));
        }
        Err(wrong(
            "data are a Float32Array, Int32Array or Uint32Array; a Uint16Array holds the bits of f16, a Uint8Array \
             truth values",
        ))
    }
}

/// Elements that go to JavaScript, by the rules of [`Elements::of`].
pub(crate) trait ToArray: onetrip::Element {
    fn to_array(elements: &[Self]) -> JsValue;
}

macro_rules! to_array {
    ($($t:ty: |$elements:ident| $array:expr;)*) => {$(
        impl ToArray for $t {
            fn to_array($elements: &[Self]) -> JsValue {
                $array.into()
            }
        }
    )*};
}
to_array! {
    f32: |x| Float32Array::from(x);
    i32: |x| Int32Array::from(x);
    u32: |x| Uint32Array::from(x);
    f16: |x| Uint16Array::from(onetrip::bytemuck::cast_slice::<f16, u16>(x));
    bool: |x| Uint8Array::from(onetrip::bytemuck::cast_slice::<bool, u8>(x));
}

pub(crate) fn dtype_of(name: &str) -> Result<DType, JsValue> {
    let all = [DType::F32, DType::F16, DType::I32, DType::U32, DType::Bool];
    let found = all.into_iter().find(|dtype| dtype.to_string() == name);
    found.ok_or_else(|| {
        wrong(format!("{name:?} is no element type: f32, f16, i32, u32 and bool are"))
    })
}

/// The shape that `given` holds: one size, or an array of them.
pub(crate) fn shape_of(given: &JsValue) -> Result<Shape, JsValue> {
    let size = |size: &JsValue| {
        let whole = size
            .as_f64()
            .filter(|size| size.fract() == 0.0 && *size >= 0.0 && *size <= f64::from(u32::MAX));
        whole
            .map(|size| size as usize)
            .ok_or_else(|| wrong("a shape is a size or an array of sizes"))
    };
    match given.dyn_ref::<Array>() {
        Some(sizes) => {
            Ok(sizes.iter().map(|one| size(&one)).collect::<Result<Vec<_>, _>>()?[..].into())
        }
        None => Ok([size(given)?][..].into()),
    }
}

pub(crate) fn shape_array(shape: &Shape) -> Array {
    shape.dims().iter().map(|&size| JsValue::from(size as f64)).collect()
}

/// An object with these properties.
pub(crate) fn object<const N: usize>(properties: [(&str, JsValue); N]) -> Object {
    let object = Object::new();
    for (name, value) in properties {
        set(&object, name, &value);
    }
    object
}

pub(crate) fn set(object: &Object, name: &str, value: &JsValue) {
    // It fails for frozen objects and setters that throw, and this crate's own have neither.
    let _ = Reflect::set(object, &name.into(), value);
}

/// Seconds as a number; `null` if they are not known.
pub(crate) fn seconds(time: Option<Duration>) -> JsValue {
    time.map_or(JsValue::NULL, |time| time.as_secs_f64().into())
}
