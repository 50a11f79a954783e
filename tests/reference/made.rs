//! Values made without data: random numbers, constants and ranges.

use onetrip::{BufferId, DType, GpuCommandBatch, Numeric, f16};

use crate::case::Case;
use crate::ops::{Id, Kind};

/// Records the case's operation, or `None` if it makes nothing of nothing.
pub fn record(b: &GpuCommandBatch, case: &Case, inputs: &[Id]) -> Option<Id> {
    let shape = case.output.shape.clone();
    match case.op.as_str() {
        "full" => Some(full(b, case)),
        "arange" => match case.output.dtype {
            DType::F32 => Some(arange::<f32>(b, case)),
            DType::F16 => Some(arange::<f16>(b, case)),
            DType::I32 => Some(arange::<i32>(b, case)),
            DType::U32 => Some(arange::<u32>(b, case)),
            DType::Bool => None,
        },
        op if op.starts_with("random") || op == "dropout" => {
            let word = |key: &str| case.params[key].as_u64().expect("a number of 64 bits");
            let (seed, stream, half) =
                (word("seed"), word("stream"), case.output.dtype == DType::F16);
            match (op, half) {
                ("random_bits", _) => Some(u32::wrap(b.random_bits(shape, seed, stream))),
                ("random_uniform", false) => Some(f32::wrap(b.random_uniform(shape, seed, stream))),
                ("random_uniform", true) => Some(f16::wrap(b.random_uniform(shape, seed, stream))),
                ("random_normal", false) => Some(f32::wrap(b.random_normal(shape, seed, stream))),
                ("random_normal", true) => Some(f16::wrap(b.random_normal(shape, seed, stream))),
                ("random_bernoulli", _) => {
                    let p = case.number("p") as f32;
                    Some(bool::wrap(b.random_bernoulli(shape, p, seed, stream)))
                }
                ("random_permutation", _) => {
                    Some(u32::wrap(b.random_permutation(shape[0], seed, stream)))
                }
                _ => {
                    let x: BufferId<f32> = Kind::unwrap(inputs[0])?;
                    Some(f32::wrap(b.dropout(x, case.number("p") as f32, seed, stream)))
                }
            }
        }
        _ => None,
    }
}

fn full(b: &GpuCommandBatch, case: &Case) -> Id {
    let (shape, value) = (case.output.shape.clone(), case.number("value"));
    match case.output.dtype {
        DType::F32 => f32::wrap(b.full(shape, Kind::number(value))),
        DType::F16 => f16::wrap(b.full(shape, Kind::number(value))),
        DType::I32 => i32::wrap(b.full(shape, Kind::number(value))),
        DType::U32 => u32::wrap(b.full(shape, Kind::number(value))),
        DType::Bool => bool::wrap(b.full(shape, Kind::number(value))),
    }
}

fn arange<T: Kind + Numeric>(b: &GpuCommandBatch, case: &Case) -> Id {
    let [start, stop, step] = ["start", "stop", "step"].map(|key| T::number(case.number(key)));
    T::wrap(b.arange(start, stop, step))
}
