//! The kernel forms on the cores, one file or folder a form.

pub(crate) mod attention;
pub(crate) mod custom;
pub(crate) mod epilogue;
pub(crate) mod fold;
pub(crate) mod log_sum_exp;
pub(crate) mod map;
pub(crate) mod order;
pub(crate) mod product;
pub(crate) mod reduce;
pub(crate) mod row;
pub(crate) mod scan;
pub(crate) mod sliding;
pub(crate) mod sort;
