//! Programs.

use js_sys::{Array, Object, Promise, Reflect};
use onetrip::{Input, Outputs, Shape};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

use crate::device::Device;
use crate::values::{Elements, ToArray, for_dtype, for_elements, object, set, shape_array};
use crate::{thrown, wrong};

/// A program: recorded once, run as often as wanted.
#[wasm_bindgen]
pub struct Program(pub(crate) onetrip::Program);

#[wasm_bindgen]
impl Program {
    /// Loads the program in `bytes`, a file that any onetrip has saved.
    #[wasm_bindgen(js_name = fromBytes, unchecked_return_type = "Promise<Program>")]
    pub fn from_bytes(device: &Device, bytes: Vec<u8>) -> Promise {
        let device = device.0.clone();
        future_to_promise(async move {
            let program = onetrip::Program::load_bytes(&device, bytes).await;
            program.map(|program| Self(program).into()).map_err(|error| thrown(&error))
        })
    }

    /// Runs the program with `inputs`, typed arrays by the names of the inputs, and returns all named outputs.
    #[wasm_bindgen(unchecked_return_type = "Promise<Record<string, TypedArray>>")]
    pub fn run(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Record<string, TypedArray>")] inputs: &Object,
    ) -> Result<Promise, JsValue> {
        let given = Object::entries(inputs).into_iter().map(|entry| {
            let entry = Array::from(&entry);
            let name = entry.get(0).as_string().unwrap_or_default();
            let elements = Elements::of(&entry.get(1));
            elements.map(|elements| (name.clone(), elements)).map_err(|error| {
                let reason = Reflect::get(&error, &"message".into()).ok().and_then(|text| text.as_string());
                wrong(format!("input {name:?}: {}", reason.unwrap_or_default()))
            })
        });
        let given = given.collect::<Result<Vec<_>, _>>()?;
        let program = self.0.clone();
        Ok(future_to_promise(async move {
            let inputs = given.iter().map(|(name, elements)| {
                let name = name.as_str();
                for_elements!(elements, data => Input::from((name, data)))
            });
            let outputs = program.run(inputs).await.map_err(|error| thrown(&error))?;
            let results = Object::new();
            for (name, dtype, _) in program.outputs() {
                let Some(name) = name else { continue };
                let array = for_dtype!(dtype, T => read::<T>(&outputs, name))?;
                set(&results, name, &array);
            }
            Ok(results.into())
        }))
    }

    /// The inputs that each run must be given.
    #[wasm_bindgen(unchecked_return_type = "ValueInfo[]")]
    pub fn inputs(&self) -> Array {
        self.0.inputs().map(|(name, dtype, shape)| described(name.into(), &dtype.to_string(), shape)).collect()
    }

    /// The values that each run returns; those without a name are `null` here, and not returned.
    #[wasm_bindgen(unchecked_return_type = "ValueInfo[]")]
    pub fn outputs(&self) -> Array {
        let outputs = self.0.outputs();
        let of = |name: Option<&str>| name.map_or(JsValue::NULL, Into::into);
        outputs.map(|(name, dtype, shape)| described(of(name), &dtype.to_string(), shape)).collect()
    }

    /// The plan as text: the kernels, their side and the reason.
    pub fn explain(&self) -> Result<String, JsValue> {
        self.0.explain().map(|plan| plan.to_string()).map_err(|error| thrown(&error))
    }
}

fn read<T: ToArray>(outputs: &Outputs, name: &str) -> Result<JsValue, JsValue> {
    let view = outputs.read_view::<T>(name).map_err(|error| thrown(&error))?;
    Ok(T::to_array(&view))
}

fn described(name: JsValue, dtype: &str, shape: &Shape) -> JsValue {
    object([("name", name), ("dtype", dtype.into()), ("shape", shape_array(shape).into())]).into()
}
