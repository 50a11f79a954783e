//! Four neighbours at a time: loads, calls and stores of vectors.

use std::collections::BTreeSet;

use super::builder::KernelBuilder;
use super::function::KernelFunction;
use crate::base::shape::View;
use crate::expr::wgsl::type_name;

/// The names of a vector's lanes.
pub(crate) const LANES: [&str; 4] = ["x", "y", "z", "w"];

/// The positions of four neighbours.
pub(crate) const FOUR: &str = "vec4<u32>(0u, 1u, 2u, 3u)";

/// The operands that a thread has loaded for four lanes, each as `x` and its number: a vector, or one value that is the
/// same for all lanes.
#[derive(Default)]
pub(crate) struct Loaded {
    /// The statements that load them.
    pub text: String,
    vectors: BTreeSet<usize>,
}

impl Loaded {
    /// Loads the elements of `operand` for the four lanes from the index `at` on.
    pub fn load(&mut self, kernel: &mut KernelBuilder<'_>, operand: usize, at: &str, stride: i64) {
        if stride == 0 {
            self.text += &format!("let x{operand} = {};\n", kernel.load(operand, at));
            return;
        }
        if kernel.is_read_in_fours(operand) {
            self.vector(operand, &kernel.load_quad(operand, &format!("({at}) / 4u")));
            return;
        }
        let start = format!("at{operand}");
        self.text += &format!("let {start} = {at};\n");
        let stride = kernel.param(stride);
        self.each(kernel, operand, |_, k| format!("{start} + {k}u * {stride}"));
    }

    /// As [`load`](Self::load), where the vector `inside` has the positions of the lanes: those past the end have that of
    /// the last element.
    pub fn load_inside(
        &mut self,
        kernel: &mut KernelBuilder<'_>,
        operand: usize,
        at: &str,
        stride: i64,
    ) {
        self.each(kernel, operand, |kernel, k| {
            kernel.index(at, &[stride], &[format!("inside.{}", LANES[k])])
        });
    }

    /// Loads the element of each lane at the index that `at` gives for the number of the lane.
    pub fn each(
        &mut self,
        kernel: &mut KernelBuilder<'_>,
        operand: usize,
        at: impl Fn(&mut KernelBuilder<'_>, usize) -> String,
    ) {
        let ty = type_name(kernel.step.operands[operand].dtype.lane());
        let lanes = [0, 1, 2, 3].map(|k| {
            let at = at(kernel, k);
            kernel.load(operand, &at)
        });
        self.vector(operand, &format!("vec4<{ty}>({})", lanes.join(", ")));
    }

    /// Adds an operand whose four lanes are the vector `value`.
    pub fn vector(&mut self, operand: usize, value: &str) {
        self.text += &format!("let x{operand} = {value};\n");
        self.vectors.insert(operand);
    }

    /// The WGSL type of the local for `operand`.
    pub fn ty(&self, kernel: &KernelBuilder<'_>, operand: usize) -> String {
        let ty = type_name(kernel.step.operands[operand].dtype.lane());
        if self.vectors.contains(&operand) { format!("vec4<{ty}>") } else { ty.to_string() }
    }

    /// The text of one lane of `operand`.
    pub fn lane(&self, operand: usize, lane: &str) -> String {
        let part = if self.vectors.contains(&operand) { format!(".{lane}") } else { String::new() };
        format!("x{operand}{part}")
    }

    /// The calls of `function` for the four lanes; `acc` is a vector.
    pub fn calls(&self, function: &KernelFunction, acc: &str) -> [String; 4] {
        LANES.map(|lane| function.call(&format!("{acc}.{lane}"), |o| self.lane(o, lane)))
    }
}

/// True if every four neighbours along the lanes lie in one aligned quad, given the strides of the
/// other axes.
pub(crate) fn is_wide(view: &View, lane_stride: i64, others: &[i64]) -> bool {
    lane_stride == 1 && view.offset % 4 == 0 && others.iter().all(|s| s % 4 == 0)
}

/// True if four neighbours along axis `lane` from any multiple of four on lie in one aligned quad.
pub(crate) fn is_wide_along(view: &View, lane: usize, other: usize) -> bool {
    let rank = view.dims.len();
    let mut others: Vec<i64> = view.strides[..rank - 2].to_vec();
    others.push(view.strides[other]);
    let whole = view.dims[lane].is_multiple_of(4) && !view.dims.contains(&0);
    whole && is_wide(view, view.strides[lane], &others)
}

/// True if `operand` and all in `operands` that read the same value can be bound in fours, given which
/// can by themselves.
pub(crate) fn binds_wide(
    kernel: &KernelBuilder<'_>,
    operands: &[usize],
    operand: usize,
    wide: impl Fn(usize) -> bool,
) -> bool {
    let all = &kernel.step.operands;
    let same = operands.iter().filter(|&&o| all[o].source == all[operand].source);
    same.into_iter().all(|&o| !all[o].clamp && wide(o))
}
