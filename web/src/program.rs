//! Programs.

use js_sys::{Array, Object, Promise, Reflect, Uint8Array};
use onetrip::{DType, Input, LoadOptions, Outputs, RowResult, Shape, Weights};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

use crate::device::Device;
use crate::plan::{MeanProfile, Plan};
use crate::values::{Elements, ToArray, bytes_of, for_dtype, for_elements, object, shape_array};
use crate::{thrown, wrong};

/// A program: recorded once, run as often as wanted.
#[wasm_bindgen]
pub struct Program(pub(crate) onetrip::Program);

#[wasm_bindgen]
impl Program {
    /// Loads the program in `bytes`, a file that any onetrip has saved. Kernels of its own in WGSL are refused unless
    /// `wgsl` allows them.
    #[wasm_bindgen(js_name = fromBytes, unchecked_return_type = "Promise<Program>")]
    pub fn from_bytes(device: &Device, bytes: &Uint8Array, wgsl: bool) -> Result<Promise, JsValue> {
        let (device, bytes) = (device.0.clone(), bytes_of(bytes)?);
        Ok(future_to_promise(async move {
            let options = LoadOptions { wgsl, ..LoadOptions::default() };
            let file = Weights::from_bytes(bytes).map_err(|error| thrown(&error))?;
            let program = onetrip::Program::load_with(&device, &file, options).await;
            program.map(|program| Self(program).into()).map_err(|error| thrown(&error))
        }))
    }

    /// Runs the program with `inputs`, typed arrays by the names of the inputs, and returns all named outputs.
    #[wasm_bindgen(unchecked_return_type = "Promise<Record<string, TypedArray>>")]
    pub fn run(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Record<string, TypedArray>")] inputs: &Object,
    ) -> Result<Promise, JsValue> {
        self.with(inputs, async |program, given| {
            results(&program.run(given.iter().map(input)).await?)
        })
    }

    /// As `run`, with any number of rows.
    #[wasm_bindgen(js_name = runRows, unchecked_return_type = "Promise<Record<string, TypedArray>>")]
    pub fn run_rows(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Record<string, TypedArray>")] inputs: &Object,
    ) -> Result<Promise, JsValue> {
        self.with(inputs, async |program, given| {
            results(&program.run_rows(given.iter().map(input)).await?)
        })
    }

    /// Runs the program so often with `inputs`, and returns the mean time of each kernel beside its prediction. The rest
    /// of the profile is that of the first run.
    #[wasm_bindgen(unchecked_return_type = "Promise<Profile>")]
    pub fn profile(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Record<string, TypedArray>")] inputs: &Object,
        runs: u32,
    ) -> Result<Promise, JsValue> {
        self.with(inputs, async move |program, given| {
            let mut mean = MeanProfile::new(program.profile(given.iter().map(input)).await?);
            for _ in 1..runs {
                mean.add(program.profile(given.iter().map(input)).await?);
            }
            Ok(mean.done().into())
        })
    }

    /// The number of rows that the program was recorded with, and how each output depends on rows.
    #[wasm_bindgen(unchecked_return_type = "Rows")]
    pub fn rows(&self) -> Result<JsValue, JsValue> {
        let rows = self.0.rows().map_err(|error| thrown(&error))?;
        let outputs = rows.outputs().map(|(name, result)| {
            let (kind, axis) = match result {
                RowResult::PerRow { axis } => ("perRow", JsValue::from(axis as f64)),
                RowResult::Sum => ("sum", JsValue::NULL),
                RowResult::Mean => ("mean", JsValue::NULL),
                RowResult::Max => ("max", JsValue::NULL),
                RowResult::Min => ("min", JsValue::NULL),
                _ => ("constant", JsValue::NULL),
            };
            let name = name.map_or(JsValue::NULL, Into::into);
            JsValue::from(object([("name", name), ("kind", kind.into()), ("axis", axis)]))
        });
        let outputs = outputs.collect::<Array>();
        let recorded = JsValue::from(rows.recorded_rows() as f64);
        Ok(object([("recorded", recorded), ("outputs", outputs.into())]).into())
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
    pub fn plan(&self) -> Result<Plan, JsValue> {
        self.0.explain().map(Plan).map_err(|error| thrown(&error))
    }

    /// The plan as text: the kernels, their side and the reason.
    pub fn explain(&self) -> Result<String, JsValue> {
        self.0.explain().map(|plan| plan.to_string()).map_err(|error| thrown(&error))
    }
}

impl Program {
    /// A promise of the result of `run`, which gets the program and its inputs. The promise holds both.
    fn with<R>(&self, inputs: &Object, run: R) -> Result<Promise, JsValue>
    where
        R: AsyncFnOnce(&onetrip::Program, &[(String, Elements)]) -> Result<JsValue, onetrip::Error>
            + 'static,
    {
        let (program, given) = (self.0.clone(), given(inputs)?);
        Ok(future_to_promise(
            async move { run(&program, &given).await.map_err(|error| thrown(&error)) },
        ))
    }
}

/// All named outputs of a run, as typed arrays by name.
fn results(outputs: &Outputs) -> Result<JsValue, onetrip::Error> {
    let result = |(name, dtype): (&str, DType)| {
        let array = for_dtype!(dtype, T => T::to_array(&outputs.read_view::<T>(name)?));
        Ok::<_, onetrip::Error>(JsValue::from(Array::of2(&name.into(), &array)))
    };
    let results = outputs.names().map(result).collect::<Result<Array, _>>()?;
    // Setting properties instead would make the result `__proto__` the prototype. Pairs with names cannot fail.
    Ok(Object::from_entries(&results).map_or(JsValue::UNDEFINED, Into::into))
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

fn described(name: JsValue, dtype: &str, shape: &Shape) -> JsValue {
    object([("name", name), ("dtype", dtype.into()), ("shape", shape_array(shape).into())]).into()
}
