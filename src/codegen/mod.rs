//! From a plan's step to WGSL: text, bindings, parameters and grid, as plain values.

mod attention;
mod combine;
mod custom;
mod dispatch;
mod group_fold;
mod kernel;
mod map;
mod product;
mod reduce;
mod row;
mod rows;
mod scan;
mod sort;
#[cfg(test)]
mod tests;

pub(crate) use self::dispatch::{Binding, BufferRef, CustomModule, Dispatch};
use self::kernel::KernelBuilder;
use crate::cost::Limits;
use crate::plan::{Form, Plan, Step};

/// The dispatches of `step`, in the order in which they run; none where there is nothing to write.
///
/// Every dimension of the step's spaces, and every product of them that a kernel counts through,
/// is below 2³²: all index arithmetic wraps in `u32`, which is also how negative strides work.
pub(crate) fn lower(plan: &Plan, step: &Step, limits: &Limits) -> Vec<Dispatch> {
    if step.is_empty() {
        return Vec::new();
    }
    let kernel = || KernelBuilder::new(plan, step, limits);
    match &step.form {
        Form::Map(form) => vec![map::lower(plan, step, limits, form)],
        Form::Reduce(form) => reduce::lower(form, &kernel),
        Form::Row(form) => row::lower(form, &kernel),
        Form::Scan(form) => scan::lower(form, &kernel),
        Form::Sort(form) => sort::lower(form, &kernel),
        Form::Product(form) => product::lower(form, &kernel),
        Form::Attention(form) => attention::lower(form, &kernel),
        Form::Custom(form) => custom::lower(form, kernel),
    }
}
