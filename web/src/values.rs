//! Typed arrays of JavaScript as elements, and back.

use std::time::Duration;

use js_sys::{
    Array, ArrayBuffer, Float32Array, Function, Int32Array, Object, Reflect, Symbol, Uint8Array,
    Uint16Array, Uint32Array,
};
use onetrip::{DType, Shape, f16};
use wasm_bindgen::prelude::*;

use crate::{no_room, wrong};

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

/// Copies the elements of `$given`, which is known to be an `$array`.
macro_rules! copied {
    ($given:expr, $array:ty) => {{
        let array = $given.unchecked_ref::<$array>();
        copied($given, array.length(), |elements| array.copy_to(elements))
    }};
}

impl Elements {
    /// The elements of a typed array: `Float32Array`, `Int32Array` and `Uint32Array` as they are, `Uint16Array` as the
    /// bits of `f16`, `Uint8Array` as truth values.
    pub fn of(given: &JsValue) -> Result<Self, JsValue> {
        match typed_array_class(given).as_deref() {
            Some("Float32Array") => copied!(given, Float32Array).map(Self::F32),
            Some("Int32Array") => copied!(given, Int32Array).map(Self::I32),
            Some("Uint32Array") => copied!(given, Uint32Array).map(Self::U32),
            Some("Uint16Array") => {
                let bits: Vec<u16> = copied!(given, Uint16Array)?;
                Ok(Self::F16(bits.into_iter().map(f16::from_bits).collect()))
            }
            Some("Uint8Array") => {
                Ok(Self::Bool(bytes_of(given)?.into_iter().map(|byte| byte != 0).collect()))
            }
            _ => Err(wrong(format!(
                "data are a Float32Array, Int32Array or Uint32Array, not {}; a Uint16Array holds the bits of f16, a \
                 Uint8Array truth values",
                kind_of(given)
            ))),
        }
    }

    /// As [`of`](Self::of), for the input `name` with elements `dtype`.
    pub fn of_input(name: &str, dtype: DType, given: &JsValue) -> Result<Self, JsValue> {
        let class = array_class(dtype);
        if typed_array_class(given).as_deref() == Some(class) {
            return Self::of(given).map_err(|error| about_input(name, error));
        }
        let holds = match dtype {
            DType::F16 => " with the bits of f16",
            DType::Bool => " with truth values",
            DType::F32 | DType::I32 | DType::U32 => "",
        };
        let (a, given) = (article(class), kind_of(given));
        Err(wrong(format!("input {name:?} takes {a} {class}{holds}, not {given}")))
    }

    pub fn len(&self) -> usize {
        for_elements!(self, data => data.len())
    }
}

/// The bytes of a `Uint8Array`.
pub(crate) fn bytes_of(given: &JsValue) -> Result<Vec<u8>, JsValue> {
    copied!(given, Uint8Array)
}

/// The name of the class of a typed array, also of one that another window has made. Whatever only inherits from such
/// a class has none: the methods of the class throw for it, and no exception may pass through WebAssembly.
fn typed_array_class(given: &JsValue) -> Option<String> {
    let is_view = ArrayBuffer::is_view(given);
    let class = is_view.then(|| Reflect::get(given, &Symbol::to_string_tag()).ok())?;
    class?.as_string()
}

/// The same error, whose message names the input.
pub(crate) fn about_input(name: &str, error: JsValue) -> JsValue {
    if let Some(error) = error.dyn_ref::<js_sys::Error>() {
        error.set_message(&format!("input {name:?}: {}", String::from(error.message())));
    }
    error
}

/// The class of the typed arrays with elements `dtype`.
fn array_class(dtype: DType) -> &'static str {
    match dtype {
        DType::F32 => "Float32Array",
        DType::F16 => "Uint16Array",
        DType::I32 => "Int32Array",
        DType::U32 => "Uint32Array",
        DType::Bool => "Uint8Array",
    }
}

fn article(class: &str) -> &'static str {
    if class.starts_with(['A', 'E', 'I', 'O']) { "an" } else { "a" }
}

/// The kind of a value in messages, such as `a Float64Array`.
fn kind_of(given: &JsValue) -> String {
    if given.is_undefined() || given.is_null() {
        return if given.is_null() { "null" } else { "undefined" }.into();
    }
    let class = match Array::is_array(given) {
        true => Some("Array".into()),
        // A getter of the page's own may throw.
        false if given.is_object() => {
            Reflect::get(given, &Symbol::to_string_tag()).ok().and_then(|tag| tag.as_string())
        }
        false => given.js_typeof().as_string(),
    };
    let class = class.unwrap_or_else(|| "Object".into());
    let article = if class.starts_with('o') { "an" } else { article(&class) };
    format!("{article} {class}")
}

/// `length` elements that `copy` fills from the typed array `given`.
fn copied<T: Clone + Default>(
    given: &JsValue,
    length: u32,
    copy: impl FnOnce(&mut [T]),
) -> Result<Vec<T>, JsValue> {
    if length == 0 && is_detached(given) {
        return Err(wrong(
            "the data are gone: their ArrayBuffer was transferred or shortened; give a copy",
        ));
    }
    let (mut elements, length) = (Vec::new(), length as usize);
    let reserved = elements.try_reserve_exact(length);
    reserved.map_err(|_| no_room(length as f64 * size_of::<T>() as f64))?;
    elements.resize(length, T::default());
    copy(&mut elements);
    Ok(elements)
}

/// True for a view whose buffer was transferred, say to a worker, or became too small for it: no copy can be made.
fn is_detached(view: &JsValue) -> bool {
    let class = Reflect::get(&js_sys::global(), &"Uint8Array".into());
    let class = class.and_then(JsCast::dyn_into::<Function>);
    class.is_ok_and(|class| Reflect::construct(&class, &Array::of1(view)).is_err())
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

/// The text of a name, `what` in messages. A `&str` would not do: the glue of wasm-bindgen takes any value for a string,
/// and damages memory.
pub(crate) fn text_of(what: &str, given: &JsValue) -> Result<String, JsValue> {
    given.as_string().ok_or_else(|| wrong(format!("{what} is a string")))
}

pub(crate) fn dtype_of(name: &JsValue) -> Result<DType, JsValue> {
    let name = text_of("an element type", name)?;
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
