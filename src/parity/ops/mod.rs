//! Every operation, by element type, shape and edge values.

mod attention;
mod constants;
mod elementwise;
mod indexing;
#[cfg(feature = "gpu")]
mod matmul;
mod movement;
mod random;
mod reduce;
mod row;
mod scan;
mod sort;
