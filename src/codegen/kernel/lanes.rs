//! Four neighbours at a time: loads, calls and stores of vectors.

use crate::base::shape::View;
use crate::codegen::kernel::{Function, Kernel};
use crate::expr::wgsl::type_name;
use crate::plan::{Operand, Source};

/// The names of a vector's lanes.
pub(crate) const LANES: [&str; 4] = ["x", "y", "z", "w"];

/// The positions of four neighbours.
pub(crate) const FOUR: &str = "vec4<u32>(0u, 1u, 2u, 3u)";

/// The part of an operand that a thread holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Held {
    /// The same for the four lanes.
    One,
    /// A vector.
    Four,
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
    kernel: &Kernel<'_>,
    operands: &[usize],
    operand: usize,
    wide: impl Fn(usize) -> bool,
) -> bool {
    let all = &kernel.step.operands;
    let same = operands.iter().filter(|&&o| all[o].source == all[operand].source);
    same.into_iter().all(|&o| !all[o].clamp && wide(o))
}

/// Statements that load what the four lanes from the index `at` on need of `operand`, as `x` and its
/// number, and what is held then.
pub(crate) fn load(
    kernel: &mut Kernel<'_>,
    operand: usize,
    at: &str,
    stride: i64,
    wide: bool,
) -> (String, Held) {
    if stride == 0 {
        return (format!("let x{operand} = {};\n", kernel.load(operand, at)), Held::One);
    }
    let Operand { source, dtype, .. } = kernel.step.operands[operand];
    if wide && matches!(source, Source::Value(_)) {
        let quad = kernel.load_quad(operand, &format!("({at}) / 4u"));
        return (format!("let x{operand} = {quad};\n"), Held::Four);
    }
    let start = format!("at{operand}");
    let stride = kernel.param(stride);
    let lanes: Vec<String> =
        (0..4).map(|k| kernel.load(operand, &format!("{start} + {k}u * {stride}"))).collect();
    let ty = type_name(dtype.lane());
    let lanes = lanes.join(", ");
    (format!("let {start} = {at};\nlet x{operand} = vec4<{ty}>({lanes});\n"), Held::Four)
}

/// A statement that loads four neighbours, of which the first are at the positions of the vector `inside`: those
/// outside by the last one inside.
pub(crate) fn load_inside(
    kernel: &mut Kernel<'_>,
    operand: usize,
    at: &str,
    stride: i64,
) -> String {
    let ty = type_name(kernel.step.operands[operand].dtype.lane());
    let lanes: Vec<String> = (LANES.iter())
        .map(|lane| {
            let at = kernel.index(at, &[stride], &[format!("inside.{lane}")]);
            kernel.load(operand, &at)
        })
        .collect();
    format!("let x{operand} = vec4<{ty}>({});\n", lanes.join(", "))
}

/// The calls of `function` for the four lanes of what is held; `acc` is a vector.
pub(crate) fn calls(function: &Function, acc: &str, held: impl Fn(usize) -> Held) -> [String; 4] {
    LANES.map(|lane| {
        function.call(&format!("{acc}.{lane}"), |o| match held(o) {
            Held::One => format!("x{o}"),
            Held::Four => format!("x{o}.{lane}"),
        })
    })
}

/// Statements that store the four `values` in `output`, from the index `at` on.
pub(crate) fn store(
    kernel: &mut Kernel<'_>,
    output: usize,
    at: &str,
    stride: i64,
    wide: bool,
    values: &[String; 4],
) -> String {
    if wide {
        return kernel.store_quad(output, &format!("({at}) / 4u"), values);
    }
    let stride = kernel.param(stride);
    let mut text = String::new();
    for (k, value) in values.iter().enumerate() {
        text += &format!("{}", kernel.store(output, &format!("{at} + {k}u * {stride}"), value));
    }
    text
}
