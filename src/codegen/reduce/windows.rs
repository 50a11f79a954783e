//! Kernels of reductions over windows: a thread makes several results that follow each other along an axis.

use std::collections::BTreeMap;

use smallvec::SmallVec;

use super::reduction::CollapsedReduction;
use crate::base::shape::points;
use crate::codegen::Dispatch;
use crate::codegen::kernel::template::{holes, indent, shader};
use crate::codegen::kernel::{KernelBuilder, KernelFunction};
use crate::codegen::reduce::loops::COLUMN_THREADS;
use crate::expr::wgsl::type_name;
use crate::plan::{ThreadWindows, WindowElement, WindowLanes};

/// A reduction over windows with the windows of one thread.
pub(super) struct WindowKernel<'r> {
    pub reduction: &'r CollapsedReduction,
    pub windows: ThreadWindows<'r>,
}

impl WindowKernel<'_> {
    pub fn dispatch(&self, mut kernel: KernelBuilder<'_>) -> Dispatch {
        let Self { reduction, windows: ThreadWindows { lanes: WindowLanes { axis, count }, .. } } =
            *self;
        reduction.state.helpers.iter().for_each(|helper| kernel.needs(helper));
        let results = reduction.results(&mut kernel);
        let prologue = kernel.function("prologue", &[reduction.prologue], None);
        kernel.bind_outputs(|_| false);
        kernel.bind_operands(&reduction.axes.main, |_| false);
        kernel.bind_operands(&reduction.axes.out, |_| false);
        let mut threads = reduction.axes.outer.dims.clone();
        threads[axis] = threads[axis].div_ceil(count);
        let (bases, outer) = self.first_lane(&mut kernel, &threads);
        let (mut functions, mut loads) =
            ([&*prologue.text, &results.text].join("\n"), String::new());
        for map in 0..reduction.axes.main.len() {
            functions.push_str(&load_function(&mut kernel, reduction.axes.main[map]));
            loads.push_str(&self.load(&mut kernel, map, &outer));
        }
        let ids = points(&threads);
        let holes = holes! {
            count, state: reduction.state.text, functions, bases, loads, walk: self.walk(&prologue),
            write: self.write(&mut kernel, &outer, &results), ids: kernel.size(ids),
        };
        kernel.dispatch(shader!("reduce/windows.wgsl"), &holes, "", ids.div_ceil(COLUMN_THREADS))
    }

    /// Statements that find the coordinates of a thread's first result, and their names.
    fn first_lane(
        &self,
        kernel: &mut KernelBuilder<'_>,
        threads: &[usize],
    ) -> (String, Vec<String>) {
        let WindowLanes { axis, count } = self.windows.lanes;
        let (mut text, mut outer) = kernel.coordinates("o", "id", threads);
        let last = kernel.size(self.reduction.axes.outer.dims[axis] - count);
        text += &format!("let own = {} * {count}u;\n", outer[axis]);
        text += &format!("let first = min(own, {last});\n");
        outer[axis] = "first".to_string();
        (text, outer)
    }

    /// Statements that load all that is covered in the operand of `map`.
    fn load(&self, kernel: &mut KernelBuilder<'_>, map: usize, outer: &[String]) -> String {
        let operand = self.reduction.axes.main[map];
        let start = kernel.param(kernel.step.operands[operand].view.offset);
        let base = kernel.index(&start, &self.reduction.axes.outer.strides[map], outer);
        let mut text = format!("let base{operand} = {base};\n");
        let strides: SmallVec<[i64; 4]> = self.windows.strides(map).collect();
        let steps = strides.iter().enumerate().filter(|(_, stride)| !matches!(stride, 0 | 1));
        for (axis, &stride) in steps {
            let stride = kernel.param(stride);
            text += &format!("let step{operand}_{axis} = {stride};\n");
        }
        for (number, element) in self.windows.covered[map].values().copied().enumerate() {
            let mut at = format!("base{operand}");
            let coordinates =
                self.windows.coordinates(element).into_iter().zip(&strides).enumerate();
            for (axis, (coordinate, stride)) in coordinates {
                match (coordinate, stride) {
                    (0, _) | (_, 0) => {}
                    (_, 1) => at += &format!(" + {coordinate}u"),
                    _ => at += &format!(" + {coordinate}u * step{operand}_{axis}"),
                }
            }
            text += &format!("let x{operand}_{number} = load{operand}({at});\n");
        }
        text
    }

    /// Statements that combine the elements of all windows.
    fn walk(&self, prologue: &KernelFunction) -> String {
        let main = &self.reduction.axes.main;
        let number =
            |covered: &BTreeMap<i64, WindowElement>| covered.keys().copied().zip(0..).collect();
        let numbers: Vec<BTreeMap<i64, usize>> = self.windows.covered.iter().map(number).collect();
        let mut text = String::new();
        for lane in 0..self.windows.lanes.count {
            text += &format!("var state{lane} = identity();\n");
        }
        for found @ WindowElement { element, lane } in self.windows.all() {
            let value = prologue.call("", |operand| {
                let map = main.iter().position(|&o| o == operand).unwrap_or_default();
                format!("x{operand}_{}", numbers[map][&self.windows.offset(map, found)])
            });
            text += &format!("state{lane} = accept(state{lane}, {value}, {element}u);\n");
        }
        text
    }

    /// Statements that write the results of those lanes that no other thread has.
    fn write(
        &self,
        kernel: &mut KernelBuilder<'_>,
        outer: &[String],
        results: &KernelFunction,
    ) -> String {
        let (mut text, mut stores) = (String::new(), String::new());
        for lane in 0..self.windows.lanes.count {
            let mut at = outer.to_vec();
            at[self.windows.lanes.axis] = format!("(first + {lane}u)");
            let state = format!("state{lane}");
            let (compute, store) =
                self.reduction.finish(kernel, results, &at, &state, &format!("_{lane}"));
            text.push_str(&compute);
            stores += &format!("if first + {lane}u >= own {{\n{}}}\n", indent(&store));
        }
        text + &stores
    }
}

/// The function that loads an element of `operand`.
fn load_function(kernel: &mut KernelBuilder<'_>, operand: usize) -> String {
    let ty = type_name(kernel.step.operands[operand].dtype.lane());
    let value = kernel.load(operand, "at");
    format!("\nfn load{operand}(at: u32) -> {ty} {{\n    return {value};\n}}\n")
}
