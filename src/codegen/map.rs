//! Elementwise kernels.

use std::fmt::Write;

use super::Dispatch;
use super::collapse::Axes;
use super::kernel::{Function, Kernel, THREADS};
use crate::expr::wgsl::type_name;
use crate::plan::{Operand, Source};
use crate::shape::View;

/// Elements that one workgroup computes.
const GROUP: usize = THREADS * 4;

/// Lowers the map of `kernel`'s step over `dims`.
pub(super) fn lower(mut kernel: Kernel<'_>, dims: &[usize]) -> Vec<Dispatch> {
    let function = kernel.function("compute_element", &kernel.output_roots(), None);
    let space = Space::new(&kernel, dims, &function.operands);
    let inner = space.axes.dims[space.axes.rank() - 1];
    let dispatch = if inner.is_multiple_of(4) {
        quads(kernel, &space, &function)
    } else {
        single(kernel, &space, &function)
    };
    vec![dispatch]
}

/// The iteration space with the maps of the outputs and of the operands that are read.
struct Space {
    axes: Axes,
    /// Map `k` of `axes` belongs to output `k`, or to operand `operands[k − outputs]`.
    operands: Vec<usize>,
    outputs: usize,
}

impl Space {
    fn new(kernel: &Kernel<'_>, dims: &[usize], operands: &[usize]) -> Self {
        let step = kernel.step;
        let outputs = step.outputs.iter().map(|o| &o.view.strides[..]);
        let inputs = operands.iter().map(|&o| &step.operands[o].view.strides[..]);
        let strides: Vec<&[i64]> = outputs.chain(inputs).collect();
        let axes = Axes::collapse(dims, &strides);
        Self { axes, operands: operands.to_vec(), outputs: step.outputs.len() }
    }

    fn map_of(&self, operand: usize) -> usize {
        let position = self.operands.iter().position(|&o| o == operand);
        self.outputs + position.unwrap_or_default()
    }

    /// The stride along the last axis: from one lane to the next.
    fn lane_stride(&self, map: usize) -> i64 {
        self.axes.strides[map][self.axes.rank() - 1]
    }

    /// Whether every four neighbours lie in one aligned quad.
    fn is_wide(&self, map: usize, view: &View) -> bool {
        let (lane, outer) = (self.lane_stride(map), self.axes.rank() - 1);
        lane == 1
            && view.offset % 4 == 0
            && self.axes.strides[map][..outer].iter().all(|s| s % 4 == 0)
    }

    /// Whether some map needs the coordinates.
    fn needs_coordinates(&self) -> bool {
        let maps = 0..self.axes.strides.len();
        maps.into_iter().any(|map| !self.axes.is_linear(map) && !self.axes.is_uniform(map))
    }
}

/// The text of a map's index at the point with the row-major position `i`.
fn index(
    kernel: &mut Kernel<'_>,
    space: &Space,
    map: usize,
    view: &View,
    coordinates: &[String],
) -> String {
    let start = kernel.param(view.offset);
    if space.axes.is_linear(map) {
        return format!("{start} + i");
    }
    kernel.index(&start, &space.axes.strides[map], coordinates)
}

fn coordinates(kernel: &mut Kernel<'_>, space: &Space) -> (String, Vec<String>) {
    if space.needs_coordinates() {
        kernel.coordinates("c", "i", &space.axes.dims)
    } else {
        (String::new(), Vec::new())
    }
}

/// The variant for a last axis that is no multiple of four.
fn single(mut kernel: Kernel<'_>, space: &Space, function: &Function) -> Dispatch {
    let step = kernel.step;
    let elements = space.axes.len();
    kernel.bind_outputs(|_| false);
    kernel.bind_operands(&function.operands, |_| false);
    let count = kernel.size(elements);
    let (mut text, coordinates) = coordinates(&mut kernel, space);
    for &operand in &function.operands {
        let view = &step.operands[operand].view;
        let at = index(&mut kernel, space, space.map_of(operand), view, &coordinates);
        let _ = writeln!(text, "let x{operand} = {};", kernel.load(operand, &at));
    }
    let _ = writeln!(text, "let result = {};", function.call("", |o| format!("x{o}")));
    for (output, result) in function.results.iter().enumerate() {
        let at = index(&mut kernel, space, output, &step.outputs[output].view, &coordinates);
        text.push_str(&kernel.store(output, &at, &format!("result{result}")));
    }
    let holes = [("functions", function.text.as_str()), ("compute", &text), ("elements", &count)];
    kernel.dispatch(include_str!("../../shaders/map.wgsl"), &holes, "", elements.div_ceil(GROUP))
}

/// What a thread holds of an operand.
#[derive(Clone, Copy)]
enum Held {
    /// The same for the four lanes.
    One,
    /// A vector.
    Four,
}

/// The variant for a last axis that is a multiple of four.
fn quads(mut kernel: Kernel<'_>, space: &Space, function: &Function) -> Dispatch {
    let step = kernel.step;
    let quads = space.axes.len() / 4;
    let wide_operand = |o: usize| {
        let same = |&p: &usize| step.operands[p].source == step.operands[o].source;
        function.operands.iter().copied().filter(|p| same(p)).all(|p| {
            let operand = &step.operands[p];
            !operand.clamp && space.is_wide(space.map_of(p), &operand.view)
        })
    };
    let wide_output = |o: usize| space.is_wide(o, &step.outputs[o].view);
    kernel.bind_outputs(wide_output);
    kernel.bind_operands(&function.operands, wide_operand);
    let count = kernel.size(quads);
    let (mut loads, coordinates) = coordinates(&mut kernel, space);
    let mut held = vec![Held::One; step.operands.len()];
    for &operand in &function.operands {
        let wide = wide_operand(operand);
        let text = load_lanes(&mut kernel, space, operand, wide, &coordinates, &mut held[operand]);
        loads.push_str(&text);
    }
    let (results, stores) =
        evaluate_lanes(&mut kernel, space, function, &held, wide_output, &coordinates);
    let holes = [
        ("functions", function.text.as_str()),
        ("quads", &count),
        ("loads", &loads),
        ("results", &results),
        ("stores", &stores),
    ];
    let groups = quads.div_ceil(THREADS);
    kernel.dispatch(include_str!("../../shaders/map_quads.wgsl"), &holes, "", groups)
}

/// Statements that load what the four lanes at `i` need of `operand`, as `x` and its number.
fn load_lanes(
    kernel: &mut Kernel<'_>,
    space: &Space,
    operand: usize,
    wide: bool,
    coordinates: &[String],
    held: &mut Held,
) -> String {
    let Operand { source, dtype, ref view, .. } = kernel.step.operands[operand];
    let map = space.map_of(operand);
    let at = index(kernel, space, map, view, coordinates);
    let lane = space.lane_stride(map);
    if lane == 0 {
        return format!("let x{operand} = {};\n", kernel.load(operand, &at));
    }
    *held = Held::Four;
    if wide && matches!(source, Source::Value(_)) {
        let quad = kernel.load_quad(operand, &format!("({at}) / 4u"));
        return format!("let x{operand} = {quad};\n");
    }
    let start = format!("at{operand}");
    let stride = kernel.param(lane);
    let lanes: Vec<String> =
        (0..4).map(|k| kernel.load(operand, &format!("{start} + {k}u * {stride}"))).collect();
    format!(
        "let {start} = {at};\nlet x{operand} = vec4<{}>({});\n",
        type_name(dtype.lane()),
        lanes.join(", ")
    )
}

/// Statements that call `function` for each lane, and statements that store the results.
fn evaluate_lanes(
    kernel: &mut Kernel<'_>,
    space: &Space,
    function: &Function,
    held: &[Held],
    wide: impl Fn(usize) -> bool,
    coordinates: &[String],
) -> (String, String) {
    let step = kernel.step;
    let mut results = String::new();
    for lane in ["x", "y", "z", "w"] {
        let call = function.call("", |o| match held[o] {
            Held::One => format!("x{o}"),
            Held::Four => format!("x{o}.{lane}"),
        });
        let _ = writeln!(results, "let result_{lane} = {call};");
    }
    let mut stores = String::new();
    for (output, result) in function.results.iter().enumerate() {
        let values = ["x", "y", "z", "w"].map(|lane| format!("result_{lane}{result}"));
        let at = index(kernel, space, output, &step.outputs[output].view, coordinates);
        if wide(output) {
            stores.push_str(&kernel.store_quad(output, &format!("({at}) / 4u"), &values));
            continue;
        }
        let stride = kernel.param(space.lane_stride(output));
        for (k, value) in values.iter().enumerate() {
            stores.push_str(&kernel.store(output, &format!("{at} + {k}u * {stride}"), value));
        }
    }
    (results, stores)
}
