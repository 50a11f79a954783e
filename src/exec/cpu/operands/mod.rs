//! The memory behind the operands and outputs of a step: read where it lies, fetched by strides, written in chunks.

pub(in crate::exec::cpu) mod data;
pub(in crate::exec::cpu) mod input;
pub(in crate::exec::cpu) mod output;
pub(in crate::exec::cpu) mod prefetch;
pub(in crate::exec::cpu) mod strided;
