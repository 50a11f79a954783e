//! Batches: recording, and runs of what was recorded.

use std::cell::RefCell;
use std::rc::Rc;

use js_sys::{Array, Promise, Uint8Array};
use onetrip::{AnyId, GpuCommandBatch};
use wasm_bindgen::prelude::*;
use wasm_bindgen_futures::future_to_promise;

use crate::operations::parameters;
use crate::plan::{Plan, plan_text};
use crate::program::Program;
use crate::values::{
    Elements, ToArray, dtype_of, for_dtype, for_elements, shape_array, shape_of, text_of,
};
use crate::{thrown, wrong};

/// A batch of recorded operations. Values are known by their position, in the order of recording.
#[wasm_bindgen]
pub struct Batch {
    batch: Rc<GpuCommandBatch>,
    values: RefCell<Vec<AnyId>>,
}

impl Batch {
    pub(crate) fn new(batch: Rc<GpuCommandBatch>) -> Self {
        Self { batch, values: RefCell::default() }
    }

    fn push(&self, value: impl Into<AnyId>) -> u32 {
        let mut values = self.values.borrow_mut();
        values.push(value.into());
        values.len() as u32 - 1
    }

    fn value(&self, at: u32) -> Result<AnyId, JsValue> {
        let found = self.values.borrow().get(at as usize).copied();
        found.ok_or_else(|| wrong("the tensor is of another batch"))
    }
}

#[wasm_bindgen]
impl Batch {
    /// Records an input, whose data comes with each run of a program.
    pub fn input(
        &self,
        name: &JsValue,
        shape: &JsValue,
        dtype: &JsValue,
        file: &str,
        line: u32,
    ) -> Result<u32, JsValue> {
        let name = text_of("the name of an input", name)?;
        let (shape, dtype) = (shape_of(shape)?, dtype_of(dtype)?);
        let _at = self.batch.at(file, line);
        Ok(for_dtype!(dtype, T => self.push(self.batch.input::<T>(&name, shape))))
    }

    /// Records an upload of `data`; a vector if `shape` is `undefined`.
    pub fn upload(
        &self,
        data: &JsValue,
        shape: &JsValue,
        file: &str,
        line: u32,
    ) -> Result<u32, JsValue> {
        let data = Elements::of(data)?;
        let shape = if shape.is_undefined() { data.len().into() } else { shape_of(shape)? };
        let _at = self.batch.at(file, line);
        Ok(for_elements!(data, data => self.push(self.batch.upload_shaped(data, shape))))
    }

    /// Records the operation `name` over values.
    pub fn call(
        &self,
        name: &JsValue,
        operands: &[u32],
        given: &Array,
        file: &str,
        line: u32,
    ) -> Result<u32, JsValue> {
        let name = text_of("the name of an operation", name)?;
        let operands = operands.iter().map(|&at| self.value(at)).collect::<Result<Vec<_>, _>>()?;
        let parameters =
            parameters(given).map_err(|why| wrong(format!("{file}:{line}: {name}: {why}")))?;
        let _at = self.batch.at(file, line);
        let called = self.batch.call(&name, &operands, &parameters);
        called
            .map(|value| self.push(value))
            .ok_or_else(|| wrong(format!("there is no operation {name:?}")))
    }

    /// Records the values of a value as elements of another type.
    pub fn cast(&self, at: u32, dtype: &JsValue, file: &str, line: u32) -> Result<u32, JsValue> {
        let (value, dtype) = (self.value(at)?, dtype_of(dtype)?);
        let _at = self.batch.at(file, line);
        let cast = for_dtype!(value.dtype(), T => value.typed::<T>().map(|id| {
            for_dtype!(dtype, U => self.push(self.batch.cast::<T, U>(id)))
        }));
        cast.ok_or_else(|| wrong("the tensor is of another type"))
    }

    /// Names a value, which a program then returns.
    pub fn name(&self, at: u32, name: &JsValue, file: &str, line: u32) -> Result<(), JsValue> {
        let (value, name) = (self.value(at)?, text_of("the name of a tensor", name)?);
        let _at = self.batch.at(file, line);
        for_dtype!(value.dtype(), T => if let Some(id) = value.typed::<T>() {
            self.batch.name(id, &name);
            self.batch.download(id);
        });
        Ok(())
    }

    /// The shape of a value; `undefined` if it comes from a mistake.
    #[wasm_bindgen(unchecked_return_type = "number[] | undefined")]
    pub fn shape(&self, at: u32) -> Result<JsValue, JsValue> {
        let value = self.value(at)?;
        let shape =
            for_dtype!(value.dtype(), T => value.typed::<T>().and_then(|id| self.batch.shape(id)));
        Ok(shape.map_or(JsValue::UNDEFINED, |shape| shape_array(&shape).into()))
    }

    /// The element type of a value.
    pub fn dtype(&self, at: u32) -> Result<String, JsValue> {
        self.value(at).map(|value| value.dtype().to_string())
    }

    /// Runs the batch.
    #[wasm_bindgen(unchecked_return_type = "Promise<void>")]
    pub fn execute(&self) -> Promise {
        let batch = Rc::clone(&self.batch);
        future_to_promise(async move {
            batch.execute().await.map(|()| JsValue::UNDEFINED).map_err(|error| thrown(&error))
        })
    }

    /// Reads a value of the last run.
    #[wasm_bindgen(unchecked_return_type = "Promise<TypedArray>")]
    pub fn read(&self, at: u32) -> Result<Promise, JsValue> {
        let (batch, value) = (Rc::clone(&self.batch), self.value(at)?);
        Ok(future_to_promise(async move {
            for_dtype!(value.dtype(), T => read::<T>(&batch, value).await)
        }))
    }

    /// Compiles the batch to a program.
    #[wasm_bindgen(unchecked_return_type = "Promise<Program>")]
    pub fn compile(&self) -> Promise {
        let batch = Rc::clone(&self.batch);
        future_to_promise(async move {
            let program = batch.compile().await;
            program.map(|program| Program::new(program).into()).map_err(|error| thrown(&error))
        })
    }

    /// The batch as a file of a program.
    #[wasm_bindgen(js_name = toBytes, unchecked_return_type = "Promise<Uint8Array>")]
    pub fn to_bytes(&self) -> Promise {
        let batch = Rc::clone(&self.batch);
        future_to_promise(async move {
            let bytes = batch.to_bytes().await;
            bytes.map(|bytes| Uint8Array::from(&bytes[..]).into()).map_err(|error| thrown(&error))
        })
    }

    /// The plan as text: the kernels, their side and the reason. Blocks of kernels that repeat are printed once; `plan()` has
    /// all of them.
    pub fn explain(&self) -> Result<String, JsValue> {
        self.batch.explain().map(|plan| plan_text(&plan)).map_err(|error| thrown(&error))
    }

    /// The plan: its kernels, their sides and the predictions.
    pub fn plan(&self) -> Result<Plan, JsValue> {
        self.batch.explain().map(Plan).map_err(|error| thrown(&error))
    }

    /// Throws all mistakes made so far, each with its file and line.
    pub fn check(&self) -> Result<(), JsValue> {
        self.batch.check_recorded().map_err(|error| thrown(&error))
    }
}

async fn read<T: ToArray>(batch: &GpuCommandBatch, value: AnyId) -> Result<JsValue, JsValue> {
    let of_type = || wrong(format!("the value has elements {}", value.dtype()));
    let id = value.typed::<T>().ok_or_else(of_type)?;
    let data = batch.read(id).await.map_err(|error| thrown(&error))?;
    Ok(T::to_array(&data))
}
