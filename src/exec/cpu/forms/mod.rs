//! The kernel forms on the cores, one file or folder a form.

pub(in crate::exec::cpu) mod attention;
pub(in crate::exec::cpu) mod custom;
pub(in crate::exec::cpu) mod fold;
pub(in crate::exec::cpu) mod map;
pub(in crate::exec::cpu) mod matmul;
pub(in crate::exec::cpu) mod normalize;
pub(in crate::exec::cpu) mod order;
pub(in crate::exec::cpu) mod reduce;
pub(in crate::exec::cpu) mod row;
pub(in crate::exec::cpu) mod scan;
pub(in crate::exec::cpu) mod sort;
