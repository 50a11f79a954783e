//! Programs.

use std::cell::RefCell;
use std::collections::HashMap;

use js_sys::{Array, Object, Promise, Uint8Array};
use onetrip::{DType, Input, LoadOptions, Outputs, RowResult, Rows, Shape, Weights};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

use crate::device::Device;
use crate::plan::{MeanProfile, Plan, plan_text};
use crate::thrown;
use crate::values::{
    Elements, ToArray, about_input, bytes_of, for_dtype, for_elements, object, shape_array,
};

/// A program: recorded once, run as often as wanted.
#[wasm_bindgen]
pub struct Program {
    program: onetrip::Program,
    /// The last names of inputs with rows, and what was traced and planned for them.
    rows_of: RefCell<Option<(Vec<String>, Rows)>>,
}

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
            program.map(|program| Self::new(program).into()).map_err(|error| thrown(&error))
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

    /// As `run`, with any number of rows: of the inputs `rows_of`, or of all if it is `undefined`.
    #[wasm_bindgen(js_name = runRows, unchecked_return_type = "Promise<Record<string, TypedArray>>")]
    pub fn run_rows(
        &self,
        #[wasm_bindgen(unchecked_param_type = "Record<string, TypedArray>")] inputs: &Object,
        rows_of: Option<Array>,
    ) -> Result<Promise, JsValue> {
        let rows = self.traced(rows_of);
        self.with(inputs, async move |_, given| results(&rows?.run(given.iter().map(input)).await?))
    }

    /// Runs the program so often with `inputs`, and returns the mean time of each kernel beside its prediction, and that
    /// of the run. The rest of the profile is that of the first run.
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
    pub fn rows(&self, rows_of: Option<Array>) -> Result<JsValue, JsValue> {
        let rows = self.traced(rows_of).map_err(|error| thrown(&error))?;
        let names = self.program.output_names().into_iter();
        let outputs = rows.outputs().zip(names).map(|((_, result), name)| {
            let (kind, axis) = match result {
                RowResult::PerRow { axis } => ("perRow", JsValue::from(axis as f64)),
                RowResult::Sum => ("sum", JsValue::NULL),
                RowResult::Mean => ("mean", JsValue::NULL),
                RowResult::Max => ("max", JsValue::NULL),
                RowResult::Min => ("min", JsValue::NULL),
                _ => ("constant", JsValue::NULL),
            };
            JsValue::from(object([("name", name.into()), ("kind", kind.into()), ("axis", axis)]))
        });
        let outputs = outputs.collect::<Array>();
        let recorded = JsValue::from(rows.recorded_rows() as f64);
        Ok(object([("recorded", recorded), ("outputs", outputs.into())]).into())
    }

    /// The inputs that each run must be given.
    #[wasm_bindgen(unchecked_return_type = "ValueInfo[]")]
    pub fn inputs(&self) -> Array {
        let inputs = self.program.inputs();
        inputs.map(|(name, dtype, shape)| described(name, dtype, shape)).collect()
    }

    /// The values that each run returns.
    #[wasm_bindgen(unchecked_return_type = "ValueInfo[]")]
    pub fn outputs(&self) -> Array {
        let names = self.program.output_names();
        let outputs = self.program.outputs().zip(&names);
        outputs.map(|((_, dtype, shape), name)| described(name, dtype, shape)).collect()
    }

    /// The plan: its kernels, their sides and the predictions.
    pub fn plan(&self) -> Result<Plan, JsValue> {
        self.program.explain().map(Plan).map_err(|error| thrown(&error))
    }

    /// The plan as text: the kernels, their side and the reason. Blocks of kernels that repeat are printed once; `plan()` has
    /// all of them.
    pub fn explain(&self) -> Result<String, JsValue> {
        self.program.explain().map(|plan| plan_text(&plan)).map_err(|error| thrown(&error))
    }
}

impl Program {
    pub(crate) fn new(program: onetrip::Program) -> Self {
        Self { program, rows_of: RefCell::default() }
    }

    /// The rows of the inputs with these names, or of all inputs.
    fn traced(&self, names: Option<Array>) -> Result<Rows, onetrip::Error> {
        let Some(names) = names else { return self.program.rows() };
        let names: Vec<_> = names.iter().filter_map(|name| name.as_string()).collect();
        let mut last = self.rows_of.borrow_mut();
        match &*last {
            Some((known, rows)) if *known == names => Ok(rows.clone()),
            _ => {
                let rows = self.program.rows_of(names.iter().map(String::as_str))?;
                Ok(last.insert((names, rows)).1.clone())
            }
        }
    }

    /// A promise of the result of `run`, which gets the program and its inputs. The promise holds both.
    fn with<R>(&self, inputs: &Object, run: R) -> Result<Promise, JsValue>
    where
        R: AsyncFnOnce(&onetrip::Program, &[(String, Elements)]) -> Result<JsValue, onetrip::Error>
            + 'static,
    {
        let (program, given) = (self.program.clone(), self.given(inputs)?);
        Ok(future_to_promise(
            async move { run(&program, &given).await.map_err(|error| thrown(&error)) },
        ))
    }

    /// The inputs of a run by name.
    fn given(&self, inputs: &Object) -> Result<Vec<(String, Elements)>, JsValue> {
        let types: HashMap<_, _> =
            self.program.inputs().map(|(name, dtype, _)| (name, dtype)).collect();
        let one = |entry: JsValue| {
            let entry = Array::from(&entry);
            let (name, data) = (entry.get(0).as_string().unwrap_or_default(), entry.get(1));
            let elements = match types.get(&*name) {
                Some(&dtype) => Elements::of_input(&name, dtype, &data),
                // The run refuses the name.
                None => Elements::of(&data).map_err(|error| about_input(&name, error)),
            };
            Ok((name, elements?))
        };
        Object::entries(inputs).into_iter().map(one).collect()
    }
}

/// All outputs of a run, as typed arrays by name.
fn results(outputs: &Outputs) -> Result<JsValue, onetrip::Error> {
    let result = |(name, dtype): (String, DType)| {
        let array = for_dtype!(dtype, T => T::to_array(&outputs.read_view::<T>(&*name)?));
        Ok::<_, onetrip::Error>(JsValue::from(Array::of2(&name.into(), &array)))
    };
    let results = outputs.names().map(result).collect::<Result<Array, _>>()?;
    // Setting properties instead would make the result `__proto__` the prototype. Pairs with names cannot fail.
    Ok(Object::from_entries(&results).map_or(JsValue::UNDEFINED, Into::into))
}

fn input((name, elements): &(String, Elements)) -> Input<'_> {
    let name = name.as_str();
    for_elements!(elements, data => Input::from((name, data)))
}

fn described(name: &str, dtype: DType, shape: &Shape) -> JsValue {
    let dtype = dtype.to_string().into();
    object([("name", name.into()), ("dtype", dtype), ("shape", shape_array(shape).into())]).into()
}
