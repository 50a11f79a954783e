//! Folds over the threads of a workgroup, through subgroups where there are any.

use super::kernel::THREADS;
use crate::codegen::kernel::template::{fill, holes, shader};
use crate::cost::Subgroups;

/// The threads of a workgroup of [`THREADS`] that fold together, and their way to do so.
#[derive(Clone, Copy)]
pub(super) struct GroupFold {
    /// The number of threads, a power of two.
    pub width: usize,
    /// The distance of one thread from the next; 1 if subgroups are used.
    pub stride: usize,
    /// If `None`, the fold goes through workgroup memory.
    pub subgroups: Option<Subgroups>,
}

impl GroupFold {
    /// The parameters of `main` that give each thread its number, and a statement that completes it.
    pub fn numbering(self) -> (&'static str, &'static str) {
        match self.subgroups {
            Some(_) => (
                "@builtin(subgroup_id) subgroup: u32,\n@builtin(subgroup_size) size: u32,\n\
                 @builtin(subgroup_invocation_id) invocation: u32,\n",
                "let thread = subgroup * size + invocation;\n",
            ),
            None => ("@builtin(local_invocation_index) thread: u32,\n", ""),
        }
    }

    /// A call of the function `all_` and its name.
    pub fn call(self, name: &str, value: &str) -> String {
        let place = if self.subgroups.is_some() { "size" } else { "lane" };
        format!("all_{name}({value}, thread, {place})")
    }

    /// The function `all_` and its name, over values of the WGSL type `ty`. `shuffled` takes a text to that of
    /// the value `step` threads on.
    pub fn function(
        self,
        name: &str,
        ty: &str,
        shuffled: &str,
        merge: impl Fn(&str, &str) -> String,
    ) -> String {
        let mut holes = holes! {
            name, type: ty, width: self.width, stride: self.stride, shuffled,
            merge: merge("all", "other"),
            merge_memory: merge(&format!("{name}_parts[thread]"), "other"),
        };
        let Some(subgroups) = self.subgroups else {
            return fill(shader!("fold/all_memory.wgsl"), &holes);
        };
        let (mut array, mut across) = (String::new(), String::new());
        if self.width > subgroups.least as usize {
            let parts = THREADS / subgroups.least as usize;
            array = format!("var<workgroup> {name}_parts: array<{ty}, {parts}>;\n\n");
            across = fill(shader!("fold/all_across.wgsl"), &holes);
        }
        holes.extend(holes! { across });
        array + &fill(shader!("fold/all_subgroup.wgsl"), &holes)
    }

    /// A call of the function `around`, given the text of the thread's place among those that fold.
    pub fn around_of(self, value: &str, lane: &str) -> String {
        let place = if self.subgroups.is_some() { "size" } else { lane };
        format!("around({value}, thread, {place})")
    }

    /// The function `around`: the fold of the threads before each, and that of all. Values are of a type `State`, with
    /// functions `identity` and `merge`.
    pub fn around(self) -> String {
        let mut holes = holes! { width: self.width, stride: self.stride };
        let Some(subgroups) = self.subgroups else {
            return fill(shader!("fold/around_memory.wgsl"), &holes);
        };
        let subgroup = shader!("fold/around_subgroup.wgsl");
        if self.width <= subgroups.least as usize {
            let last = "thread % size / segment * segment + segment - 1u";
            let all = format!("return Around(before, subgroupShuffle(upto, {last}));");
            holes.extend(holes! { all });
            return fill(subgroup, &holes);
        }
        let parts = THREADS / subgroups.least as usize;
        let array = format!("var<workgroup> around_parts: array<State, {parts}>;\n\n");
        let across = fill(shader!("fold/around_across.wgsl"), &holes);
        holes.extend(holes! { all: across });
        array + &fill(subgroup, &holes)
    }
}
