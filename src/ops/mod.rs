//! The operations. Each is defined once: what it computes, its shape rule, the element types it
//! takes, its tolerance and its documentation; planner, kernels, tests and docs read it from here.

mod attention;
mod custom_kernel;
mod elementwise;
mod infer;
mod matmul;
mod op;
mod random;
mod reduce;
mod row;
mod scan;
mod sort;
mod subscripts;

pub use self::matmul::Precision;
pub(crate) use attention::{AttentionDims, Scores};
pub(crate) use custom_kernel::{CpuFunction, CustomKernel, MOST_BINDINGS, MOST_INPUTS};
#[cfg(test)]
pub(crate) use elementwise::Def;
pub(crate) use elementwise::{Accepts, ELEMENTWISE, Elementwise, Tolerance, table};
pub(crate) use infer::{check_size, expected_type, infer};
pub(crate) use matmul::MatMulDims;
pub(crate) use op::{Op, Type};
pub(crate) use random::{Distribution, Random};
pub(crate) use reduce::{Combine, Reduction, reduce_table};
pub(crate) use row::{Normalization, RowKind, row_table};
pub(crate) use scan::{Scan, scan_table};
pub use sort::{SearchSide, SortOrder};
pub(crate) use sort::{Sort, Sorted, key_bits};
pub(crate) use subscripts::{Label, Subscripts};
