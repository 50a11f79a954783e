//! The kernel forms: the kinds of kernels, with holes for expressions.
//!
//! Each form has a file or folder of its own, with all that the plan must know of it: the spaces that it iterates over,
//! its work, its schedule on a GPU and its name. A new form implements [`KernelForm`] and has one row of the table
//! below; `CONTRIBUTING.md` lists the other files that know of it.

pub(super) mod attention;
pub(super) mod axes;
pub(super) mod custom;
mod host_work;
mod kernel_form;
pub(super) mod map;
pub(super) mod product;
pub(super) mod reduce;
pub(super) mod row;
pub(super) mod scan;
pub(super) mod sort;
mod tally;

pub(crate) use self::attention::{AttentionForm, AttentionLayout, AttentionSchedule};
pub(crate) use self::axes::{CollapsedAxes, Dims};
pub(crate) use self::custom::CustomForm;
pub(crate) use self::host_work::{SHORTEST_STRETCH, without_repeats};
pub(crate) use self::kernel_form::{KernelForm, Measure, WORKGROUP_THREADS};
pub(crate) use self::map::{MapForm, MapSchedule};
pub(crate) use self::product::{
    ProductForm, ProductLayout, ProductSchedule, Spread, Strip, Tile, UnitTile,
};
pub(crate) use self::reduce::{ReduceForm, ReduceLayout, ReduceSchedule, Sliding, SlidingAxis};
pub(crate) use self::row::RowForm;
pub(crate) use self::scan::ScanForm;
pub(crate) use self::sort::{SortForm, SortSchedule};
pub(crate) use self::tally::Tally;

macro_rules! forms {
    ($($name:ident($form:ty)),* $(,)?) => {
        /// The kernel form of a step.
        #[derive(Clone, Debug, PartialEq)]
        pub(crate) enum Form {
            $($name($form)),*
        }

        impl Form {
            pub fn kernel(&self) -> &dyn KernelForm {
                match self {
                    $(Self::$name(form) => form),*
                }
            }

            pub fn kernel_mut(&mut self) -> &mut dyn KernelForm {
                match self {
                    $(Self::$name(form) => form),*
                }
            }
        }
    };
}

forms! {
    Map(MapForm),
    Reduce(ReduceForm),
    Row(RowForm),
    Scan(ScanForm),
    Sort(SortForm),
    Product(ProductForm),
    Attention(AttentionForm),
    Custom(CustomForm),
}

#[cfg(test)]
impl Form {
    /// A map over `dims`, not yet scheduled.
    pub fn map(dims: &[usize]) -> Self {
        Self::Map(MapForm::new(dims.into()))
    }
}
