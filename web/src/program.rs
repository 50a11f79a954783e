//! Programs.

use js_sys::{Array, Object, Promise, Reflect};
use onetrip::{Input, LoadOptions, Outputs, Shape, Weights};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

use crate::device::Device;
use crate::values::{Elements, ToArray, for_dtype, for_elements, object, set, shape_array};
use crate::{plan, thrown, wrong};

/// A program: recorded once, run as often as wanted.
#[wasm_bindgen]
pub struct Program(pub(crate) onetrip::Program);

#[wasm_bindgen]
impl Program {
    /// Loads the program in `bytes`, a file that any onetrip has saved. Kernels of its own in WGSL are refused unless
    /// `wgsl` allows them.
    #[wasm_bindgen(js_name = fromBytes, unchecked_return_type = "Promise<Program>")]
    pub fn from_bytes(device: &Device, bytes: Vec<u8>, wgsl: bool) -> Promise {
        let device = device.0.clone();
        future_to_promise(async move {
            let options = LoadOptions { wgsl, ..LoadOptions::default() };
            let file = Weights::from_bytes(bytes).map_err(|error| thrown(&error))?;
            let program = onetrip::Program::load_with(&device, &file, options).await;
            program.map(|program| Self(program).into()).map_err(|error| thrown(&error))
        })
    }

    /// Runs the program with `inputs`, typed arrays by the names of the inputs, and returns all named outputs.
    #[wasm_bindgen(unchecked_return_type = "Promise<Record<string, TypedArray>>")]
    pub fn run(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Record<string, TypedArray>")] inputs: &Object,
    ) -> Result<Promise, JsValue> {
        let given = given(inputs)?;
        let program = self.0.clone();
        Ok(future_to_promise(async move {
            let outputs =
                program.run(given.iter().map(input)).await.map_err(|error| thrown(&error))?;
            let results = Object::new();
            for (name, dtype, _) in program.outputs() {
                let Some(name) = name else { continue };
                let array = for_dtype!(dtype, T => read::<T>(&outputs, name))?;
                set(&results, name, &array);
            }
            Ok(results.into())
        }))
    }

    /// Runs the program with `inputs`, and returns the time of each kernel beside its prediction.
    #[wasm_bindgen(unchecked_return_type = "Promise<Profile>")]
    pub fn profile(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Record<string, TypedArray>")] inputs: &Object,
    ) -> Result<Promise, JsValue> {
        let given = given(inputs)?;
        let program = self.0.clone();
        Ok(future_to_promise(async move {
            let profile = program.profile(given.iter().map(input)).await;
            profile.map(|profile| plan::profile(&profile)).map_err(|error| thrown(&error))
        }))
    }

    /// The inputs that each run must be given.
    #[wasm_bindgen(unchecked_return_type = "ValueInfo[]")]
    pub fn inputs(&self) -> Array {
        self.0
            .inputs()
            .map(|(name, dtype, shape)| described(name.into(), &dtype.to_string(), shape))
            .collect()
    }

    /// The values that each run returns; those without a name are `null` here, and not returned.
    #[wasm_bindgen(unchecked_return_type = "ValueInfo[]")]
    pub fn outputs(&self) -> Array {
        let outputs = self.0.outputs();
        let of = |name: Option<&str>| name.map_or(JsValue::NULL, Into::into);
        outputs.map(|(name, dtype, shape)| described(of(name), &dtype.to_string(), shape)).collect()
    }

    /// The plan: its kernels, their sides and the predictions.
    #[wasm_bindgen(unchecked_return_type = "Plan")]
    pub fn plan(&self) -> Result<JsValue, JsValue> {
        self.0.explain().map(|explained| plan::plan(&explained)).map_err(|error| thrown(&error))
    }

    /// The plan as text: the kernels, their side and the reason.
    pub fn explain(&self) -> Result<String, JsValue> {
        self.0.explain().map(|plan| plan.to_string()).map_err(|error| thrown(&error))
    }
}

/// The inputs of a run by name.
fn given(inputs: &Object) -> Result<Vec<(String, Elements)>, JsValue> {
    let one = |entry: JsValue| {
        let entry = Array::from(&entry);
        let name = entry.get(0).as_string().unwrap_or_default();
        match Elements::of(&entry.get(1)) {
            Ok(elements) => Ok((name, elements)),
            Err(error) => {
                let reason =
                    Reflect::get(&error, &"message".into()).ok().and_then(|text| text.as_string());
                Err(wrong(format!("input {name:?}: {}", reason.unwrap_or_default())))
            }
        }
    };
    Object::entries(inputs).into_iter().map(one).collect()
}

fn input((name, elements): &(String, Elements)) -> Input<'_> {
    let name = name.as_str();
    for_elements!(elements, data => Input::from((name, data)))
}

fn read<T: ToArray>(outputs: &Outputs, name: &str) -> Result<JsValue, JsValue> {
    let view = outputs.read_view::<T>(name).map_err(|error| thrown(&error))?;
    Ok(T::to_array(&view))
}

fn described(name: JsValue, dtype: &str, shape: &Shape) -> JsValue {
    object([("name", name), ("dtype", dtype.into()), ("shape", shape_array(shape).into())]).into()
}
