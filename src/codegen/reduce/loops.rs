//! Loops of threads along the elements of a reduction, and the kernel that they make.

use super::reduction::CollapsedReduction;
use crate::codegen::Dispatch;
use crate::codegen::group_fold::GroupFold;
use crate::codegen::kernel::lanes::{self, Loaded};
use crate::codegen::kernel::template::{holes, indent, shader};
use crate::codegen::kernel::{KernelBuilder, THREADS, passed};
use crate::expr::wgsl::type_name;
use crate::plan::{OperandSource, ReduceLayout, ReduceSchedule, ThreadWindows};

/// Threads of a workgroup in the layout with a thread a result.
pub(super) const COLUMN_THREADS: usize = 64;

/// Elements of these that are read before the first is combined.
const AHEAD: usize = 16;

/// Units that a thread takes of a short row, so that several are under way.
const EACH: usize = 4;

/// The unit that a thread takes at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum ReduceUnit {
    State,
    Value,
    Quad,
}

impl ReduceUnit {
    pub fn lanes(self) -> usize {
        if self == Self::Quad { 4 } else { 1 }
    }

    /// Statements that take `count` units, `step` apart, from `i` on: first all are read, then each goes
    /// into one of the states `a` to `d`.
    pub fn take(self, count: usize, step: &str, arguments: &str) -> String {
        let place = |k: usize| if k == 0 { "i".into() } else { format!("i + {k}u * {step}") };
        let mut text = String::new();
        for k in 0..count {
            text += &format!("let unit{k} = element({}{arguments});\n", place(k));
        }
        const STATES: [&str; 4] = ["a", "b", "c", "d"];
        for k in 0..count {
            let (state, at) = (STATES[k % 4], place(k));
            text += &match self {
                Self::State => format!("{state} = merge({state}, unit{k});\n"),
                Self::Value => format!("{state} = accept({state}, unit{k}, {at});\n"),
                Self::Quad => STATES
                    .iter()
                    .zip(lanes::LANES)
                    .zip(0..)
                    .map(|((state, lane), j)| {
                        format!("{state} = accept({state}, unit{k}.{lane}, ({at}) * 4u + {j}u);\n")
                    })
                    .collect(),
            };
        }
        text
    }
}

/// The texts that make a kernel of a template.
pub(super) struct Texts {
    pub functions: String,
    /// The body of `element`, which returns a state, a value, or four values.
    pub element: String,
    pub unit: ReduceUnit,
    /// Statements that find where the result's elements begin in every operand.
    pub bases: String,
    /// The names of those that `element` is given.
    pub base_names: Vec<String>,
    /// The body of `write`.
    pub write: String,
}

impl CollapsedReduction {
    /// Statements in which one thread walks along the `units` of a result, or every so many of them.
    fn walk(&self, unit: ReduceUnit, units: usize, arguments: &str) -> String {
        if unit == ReduceUnit::Value && self.is_written_out() {
            let take = |first: usize| {
                let taken = unit.take(AHEAD.min(units - first), "1u", arguments);
                format!("{{\nlet i = {first}u;\n{taken}}}\n")
            };
            return (0..units).step_by(AHEAD).map(take).collect();
        }
        let (four, one) = (unit.take(4, "step", arguments), unit.take(1, "step", arguments));
        format!(
            "let rounds = count / 4u;\nvar i = part;\n\
             for (var round = 0u; round < rounds; round++) {{\n{}    i += 4u * step;\n}}\n\
             for (var rest = rounds * 4u; rest < count; rest++) {{\n{}    i += step;\n}}\n",
            indent(&four),
            indent(&one)
        )
    }

    /// The kernel that walks along `length` elements of each result, in the parts of `schedule`.
    pub(super) fn dispatch(
        &self,
        mut kernel: KernelBuilder<'_>,
        schedule: ReduceSchedule,
        length: usize,
        texts: &Texts,
        phase: &str,
    ) -> Dispatch {
        self.state.helpers.iter().for_each(|helper| kernel.needs(helper));
        let units = length / texts.unit.lanes();
        let spread = ThreadSpread::new(schedule, units);
        let Texts { unit, bases, base_names, functions, element, write } = texts;
        let (base_parameters, arguments) = passed(base_names);
        let step = match schedule.layout {
            ReduceLayout::Thread => "step".to_string(),
            ReduceLayout::Group => format!("{}u", spread.width),
        };
        let subgroups = kernel.limits.subgroups;
        let group_fold = GroupFold { width: spread.width, stride: 1, subgroups };
        let (builtins, thread) = group_fold.numbering();
        let shuffled = self.state.shuffled("all");
        let all =
            group_fold.function("state", "State", &shuffled, |a, b| format!("merge({a}, {b})"));
        let ids = self.axes.outer.len().saturating_mul(schedule.parts);
        let holes = holes! {
            state: self.state.text, functions, element_type: self.element_type(&kernel, *unit),
            element, write, bases, base_parameters, walk: self.walk(*unit, units, &arguments),
            four: unit.take(4, &step, &arguments), one: unit.take(1, &step, &arguments), all,
            builtins, thread, folded: group_fold.call("state", "merge(merge(a, b), merge(c, d))"),
            width: spread.width, round: 4 * spread.width, group_results: spread.results_of_group(),
            ids: kernel.size(ids), results: kernel.size(self.axes.outer.len()),
            parts: kernel.size(schedule.parts), chunk: kernel.size(spread.chunk),
            length: kernel.size(units),
        };
        let (template, groups) = match schedule.layout {
            ReduceLayout::Thread => (shader!("reduce/thread.wgsl"), ids.div_ceil(COLUMN_THREADS)),
            ReduceLayout::Group => {
                (shader!("reduce/group.wgsl"), ids.div_ceil(spread.results_of_group()))
            }
        };
        kernel.dispatch(template, &holes, phase, groups)
    }
}

/// The spread of the elements of a result over threads of a group.
#[derive(Clone, Copy)]
struct ThreadSpread {
    /// Units of a part.
    chunk: usize,
    /// Threads that take it.
    width: usize,
}

impl ThreadSpread {
    fn new(schedule: ReduceSchedule, units: usize) -> Self {
        let chunk = units.div_ceil(schedule.parts);
        // Few widths, so that few kernels serve many lengths.
        Self { chunk, width: chunk.div_ceil(EACH).next_power_of_two().clamp(1, THREADS) }
    }

    fn results_of_group(self) -> usize {
        THREADS / self.width
    }
}

impl CollapsedReduction {
    /// The stride of a map of `inner` from one lane to the next.
    fn lane_stride(&self, map: usize) -> i64 {
        self.axes.inner.strides[map][self.axes.inner.rank() - 1]
    }

    /// True if an operand of the prologue is read in fours.
    pub(super) fn is_wide(&self, unit: ReduceUnit, operand: usize) -> bool {
        let map = self.axes.main.iter().position(|&o| o == operand);
        unit == ReduceUnit::Quad && map.is_some_and(|map| self.lane_stride(map) != 0)
    }

    /// Quads where neighbouring threads walk along a row, and all that varies there comes in fours.
    pub(super) fn unit(&self, kernel: &KernelBuilder<'_>) -> ReduceUnit {
        let last = self.axes.inner.rank() - 1;
        let in_fours = |operand: usize| {
            let Some(map) = self.axes.main.iter().position(|&o| o == operand) else { return false };
            let view = &kernel.step.operands[operand].view;
            lanes::is_wide(view, self.lane_stride(map), &self.axes.inner.strides[map][..last])
                && (self.axes.outer.len() == 1
                    || self.axes.outer.strides[map].iter().all(|s| s % 4 == 0))
        };
        let operands: Vec<usize> = self.axes.main.iter().chain(&self.axes.out).copied().collect();
        let fits = |(map, &operand): (usize, &usize)| {
            let is_value = matches!(kernel.step.operands[operand].source, OperandSource::Value(_));
            self.lane_stride(map) == 0
                || !is_value
                || lanes::binds_wide(kernel, &operands, operand, in_fours)
        };
        let quads = self.schedule.layout == ReduceLayout::Group
            && self.axes.inner.dims[last].is_multiple_of(4)
            && self.axes.main.iter().enumerate().all(fits);
        if quads { ReduceUnit::Quad } else { ReduceUnit::Value }
    }

    /// The texts that read one unit: its place along the outer axes is found once, in `main`.
    pub(super) fn read_elements(&self, kernel: &mut KernelBuilder<'_>, unit: ReduceUnit) -> Texts {
        let step = kernel.step;
        let prologue = kernel.function("prologue", &[self.prologue], None);
        let (mut bases, outer) = kernel.coordinates("o", "result", &self.axes.outer.dims);
        let (mut element, inner) = match unit {
            ReduceUnit::Quad => {
                let (text, inner) = kernel.coordinates("c", "first", &self.axes.inner.dims);
                (format!("let first = i * 4u;\n{text}"), inner)
            }
            _ if self.is_written_out() => written_out("c", "i", &self.axes.inner.dims),
            _ => kernel.coordinates("c", "i", &self.axes.inner.dims),
        };
        let mut base_names = Vec::new();
        let mut loaded = Loaded::default();
        for (map, &operand) in self.axes.main.iter().enumerate() {
            let start = kernel.param(step.operands[operand].view.offset);
            let base = kernel.index(&start, &self.axes.outer.strides[map], &outer);
            let name = format!("base{operand}");
            bases += &format!("let {name} = {base};\n");
            let at = kernel.index(&name, &self.axes.inner.strides[map], &inner);
            if unit == ReduceUnit::Quad {
                loaded.load(kernel, operand, &at, self.lane_stride(map));
            } else {
                loaded.load(kernel, operand, &at, 0);
            }
            base_names.push(name);
        }
        let value = if unit == ReduceUnit::Quad {
            let calls = loaded.calls(&prologue, "").join(", ");
            format!("{}({calls})", self.element_type(kernel, unit))
        } else {
            prologue.call("", |o| format!("x{o}"))
        };
        element += &format!("{}return {value};\n", loaded.text);
        let functions = prologue.text;
        Texts { functions, element, unit, bases, base_names, write: String::new() }
    }

    /// True if a thread takes the few elements of a window, which lie along several axes.
    pub(super) fn is_written_out(&self) -> bool {
        let ReduceSchedule { layout, parts, .. } = self.schedule;
        let by_one = layout == ReduceLayout::Thread && parts == 1;
        by_one
            && self.axes.inner.rank() > 1
            && (1..=ThreadWindows::WRITTEN_OUT).contains(&self.axes.inner.len())
    }

    pub(super) fn element_type(&self, kernel: &KernelBuilder<'_>, unit: ReduceUnit) -> String {
        let ty = type_name(kernel.step.expr.ty(self.prologue));
        match unit {
            ReduceUnit::State => "State".to_string(),
            ReduceUnit::Value => ty.to_string(),
            ReduceUnit::Quad => format!("vec4<{ty}>"),
        }
    }
}

/// Statements that take the row-major position `position` apart by `dims`, which are in the text, and the names of the
/// coordinates.
fn written_out(prefix: &str, position: &str, dims: &[usize]) -> (String, Vec<String>) {
    let (mut text, mut after) = (String::new(), dims.iter().product::<usize>());
    let names: Vec<String> = (0..dims.len()).map(|axis| format!("{prefix}{axis}")).collect();
    for (name, &dim) in names.iter().zip(dims) {
        after /= dim;
        text += &format!("let {name} = {position} / {after}u % {dim}u;\n");
    }
    (text, names)
}
