//! A lazy graph of GPU work that runs in one trip.
#![warn(missing_docs)]
#![allow(dead_code, unused_imports)]

mod codegen;
mod dtype;
mod error;
mod expr;
mod graph;
mod ops;
mod plan;
mod run;
mod shape;

pub use dtype::{DType, Element, Float, Logical, Numeric, Scalar, Signed};
pub use error::{
    DataError, DeviceError, Error, Mistake, MistakeKind, Mistakes, PlanError, ReadError, Result,
};
pub use shape::{MAX_RANK, Shape};
