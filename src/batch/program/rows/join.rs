//! Results of chunks of the rows become those of all.

use std::sync::Arc;

use super::cut::RowChunk;
use crate::base::dtype::{DType, Scalar, Ty};
use crate::error::DeviceError;
use crate::exec::{HostBuffer, HostPool};
use crate::graph::{RowAxis, RowReduction, RowTrace};
use crate::ops::Type;

/// A result of a run of `total` rows, of which chunks come one after another.
pub(super) struct Joined {
    total: usize,
    state: State,
}

enum State {
    /// The rows so far, along an axis of the result.
    Rows(RowAxis, HostBuffer),
    /// The reduction of the chunks so far.
    Reduced { by: RowReduction, dtype: DType, numbers: Vec<f64>, bits: Vec<u32> },
    /// The value of the first chunk, which is that of all.
    Fixed(Option<Arc<HostBuffer>>),
}

impl Joined {
    /// Nothing yet of a result that has type `ty` for `total` rows.
    pub fn new(
        pool: &HostPool,
        ty: &Type,
        trace: RowTrace,
        total: usize,
    ) -> Result<Self, DeviceError> {
        let elements = ty.shape.elements();
        let state = match trace {
            RowTrace::Each(at) => State::Rows(at, pool.buffer(ty.dtype, elements)?.0),
            RowTrace::Reduced(by, _) => {
                let start = match by {
                    RowReduction::Sum | RowReduction::Mean => 0.0,
                    RowReduction::Max => f64::NEG_INFINITY,
                    RowReduction::Min => f64::INFINITY,
                };
                let (numbers, bits) = (vec![start; elements], vec![0; elements]);
                State::Reduced { by, dtype: ty.dtype, numbers, bits }
            }
            RowTrace::Fixed => State::Fixed(None),
        };
        Ok(Self { total, state })
    }

    /// Adds the result of a chunk, whose type is `ty`.
    pub fn add(&mut self, chunk: RowChunk, ty: &Type, result: &Arc<HostBuffer>) {
        match &mut self.state {
            State::Rows(at, all) => {
                copy_rows(*at, chunk, self.total, ty, result.bytes(), all.bytes_mut());
            }
            State::Reduced { by, dtype, numbers, bits } => {
                let share = chunk.rows as f64 / self.total as f64;
                for (at, own) in numbers.iter_mut().enumerate() {
                    let (value, word) = element(result, *dtype, at);
                    bits[at] = bits[at].wrapping_add(word);
                    *own = match by {
                        RowReduction::Sum => *own + value,
                        RowReduction::Mean => *own + value * share,
                        _ if own.is_nan() || value.is_nan() => f64::NAN,
                        RowReduction::Max => own.max(value),
                        RowReduction::Min => own.min(value),
                    };
                }
            }
            State::Fixed(first) => _ = first.get_or_insert_with(|| Arc::clone(result)),
        }
    }

    pub fn done(self) -> Result<Arc<HostBuffer>, DeviceError> {
        let missing = || DeviceError::broken("a result of rows has no chunk");
        match self.state {
            State::Rows(_, all) => Ok(Arc::new(all)),
            State::Fixed(first) => first.ok_or_else(missing),
            State::Reduced { by, dtype, numbers, bits } => {
                let mut all = HostBuffer::try_zeroed(dtype, numbers.len())?;
                let is_sum = by == RowReduction::Sum;
                let size = dtype.size();
                let elements = all.bytes_mut().chunks_exact_mut(size);
                for ((to, number), word) in elements.zip(numbers).zip(bits) {
                    let word = match dtype {
                        // Sums of integers wrap.
                        DType::I32 | DType::U32 if is_sum => word,
                        DType::F16 => u32::from(half::f16::from_f64(number).to_bits()),
                        DType::I32 => Ty::I32.bits(number),
                        DType::U32 => Ty::U32.bits(number),
                        DType::F32 | DType::Bool => Ty::F32.bits(number),
                    };
                    if size == 2 {
                        to.copy_from_slice(&(word as u16).to_ne_bytes());
                    } else {
                        to.copy_from_slice(&word.to_ne_bytes()[..size]);
                    }
                }
                Ok(Arc::new(all))
            }
        }
    }
}

/// Element `at` as a number, and as the bits of an integer.
fn element(buffer: &HostBuffer, dtype: DType, at: usize) -> (f64, u32) {
    let bytes = &buffer.bytes()[at * dtype.size()..(at + 1) * dtype.size()];
    if dtype == DType::F16 {
        let half: half::f16 = bytemuck::pod_read_unaligned(bytes);
        return (half.to_f64(), 0);
    }
    if dtype == DType::Bool {
        return (Scalar::new(dtype, f64::from(bytes[0])).value(), 0);
    }
    let word: u32 = bytemuck::pod_read_unaligned(bytes);
    let number = match dtype {
        DType::F32 => f64::from(f32::from_bits(word)),
        DType::I32 => f64::from(word.cast_signed()),
        _ => f64::from(word),
    };
    (number, word)
}

/// Copies the rows of a chunk, without its padding, to their places among all.
fn copy_rows(at: RowAxis, chunk: RowChunk, total: usize, ty: &Type, from: &[u8], to: &mut [u8]) {
    let bytes = at.stride(&ty.shape) * ty.dtype.size();
    if bytes == 0 || chunk.planned == 0 {
        return;
    }
    for (outer, from) in from.chunks_exact(chunk.planned * bytes).enumerate() {
        let start = (outer * total + chunk.start) * bytes;
        to[start..start + chunk.rows * bytes].copy_from_slice(&from[..chunk.rows * bytes]);
    }
}
