//! The memory behind the operands and outputs of a step: read where it lies, fetched by strides, written in chunks.

pub(crate) mod data;
pub(crate) mod input;
pub(crate) mod output;
pub(crate) mod prefetch;
pub(crate) mod strided;
