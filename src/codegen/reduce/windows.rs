//! Reductions over windows: a thread makes several results that follow each other along an axis, and loads what their
//! windows share once.

use std::collections::BTreeMap;
use std::fmt::Write;

use smallvec::SmallVec;

use super::Reduction;
use super::read::WRITTEN_OUT;
use crate::base::shape::points;
use crate::codegen::Dispatch;
use crate::codegen::kernel::template::indent;
use crate::codegen::kernel::{Function, Kernel};
use crate::codegen::reduce::loops::COLUMN_THREADS;
use crate::expr::wgsl::type_name;
use crate::plan::{ReduceLayout, ReduceSchedule, Source};

/// Numbers of results that a thread may make.
const COUNTS: [usize; 3] = [2, 4, 8];

/// Elements of the windows of one thread, at most: all are written out.
const TAKEN: usize = 200;

/// Threads from which on a large GPU gains by each doing more.
const BUSY: usize = 1 << 13;

/// What it takes to find the place of a thread, and what each result of it costs the others since threads are fewer, in
/// loads: by the depthwise convolutions and pools of BENCHMARKS on an H200.
const PLACE: f64 = 4.0;
const LANE: f64 = 1.0 / 3.0;

/// The results of one thread.
#[derive(Clone, Copy)]
struct Lanes {
    /// The outer axis that they follow each other along, which has as many.
    axis: usize,
    count: usize,
}

/// Where an element is met: in the window of a lane.
#[derive(Clone, Copy)]
struct Met {
    element: usize,
    lane: usize,
}

/// A reduction over windows with what a thread makes of it.
pub(super) struct Windows<'r> {
    reduction: &'r Reduction,
    lanes: Lanes,
    /// What the lanes cover in each operand, each element once, in the order of memory.
    covered: Vec<BTreeMap<i64, Met>>,
}

impl<'r> Windows<'r> {
    /// The cheapest way to share the windows of a reduction in one dispatch out, if it is cheaper than one result a
    /// thread.
    pub fn of(reduction: &'r Reduction, kernel: &Kernel<'_>) -> Option<Self> {
        let Reduction { schedule: ReduceSchedule { layout, parts }, inner, outer, .. } = reduction;
        let by_one = *layout == ReduceLayout::Thread && *parts == 1;
        if !by_one || !(1..=WRITTEN_OUT).contains(&inner.len()) {
            return None;
        }
        let with = |axis, count| Self::with(reduction, Lanes { axis, count });
        let fits = |windows: &Self| {
            let Lanes { axis, count } = windows.lanes;
            count <= outer.dims[axis]
                && count * inner.len() <= TAKEN
                && outer.len() / count >= BUSY
                && (inner.rank() > 1 || windows.overlap(kernel))
        };
        // The last axis last, since along it neighbouring threads read neighbours.
        let last = outer.rank() - 1;
        let axes = (0..last).rev().chain([last]);
        let all = axes.flat_map(|axis| COUNTS.map(|count| with(axis, count))).filter(fits);
        let costs = all.map(|windows| (windows.cost(kernel), windows));
        let (cost, cheapest) = costs.min_by(|(a, _), (b, _)| a.total_cmp(b))?;
        (cost < with(last, 1).cost(kernel)).then_some(cheapest)
    }

    fn with(reduction: &'r Reduction, lanes: Lanes) -> Self {
        let mut windows = Self { reduction, lanes, covered: Vec::new() };
        windows.covered = (0..reduction.main.len()).map(|map| windows.cover(map)).collect();
        windows
    }

    /// What one result costs, in loads.
    fn cost(&self, kernel: &Kernel<'_>) -> f64 {
        let Lanes { axis, count } = self.lanes;
        let dim = self.reduction.outer.dims[axis];
        let maps = 0..self.reduction.main.len();
        let loads: usize =
            maps.filter(|&map| self.is_value(kernel, map)).map(|map| self.covered[map].len()).sum();
        let threads = dim.div_ceil(count) as f64 / dim as f64;
        (loads as f64 + PLACE) * threads + LANE * count as f64
    }

    fn is_value(&self, kernel: &Kernel<'_>, map: usize) -> bool {
        matches!(kernel.step.operands[self.reduction.main[map]].source, Source::Value(_))
    }

    /// Whether windows of neighbouring lanes share elements.
    fn overlap(&self, kernel: &Kernel<'_>) -> bool {
        let Lanes { axis, count } = self.lanes;
        let all = count * self.reduction.inner.len();
        (0..self.reduction.main.len()).any(|map| {
            let moves = self.reduction.outer.strides[map][axis] != 0;
            moves && self.is_value(kernel, map) && self.covered[map].len() < all
        })
    }

    /// The offset of an element from the first of lane 0 in the operand of `map`.
    fn offset(&self, map: usize, met: Met) -> i64 {
        let place = self.place(met);
        let strides = self.strides(map);
        place.iter().zip(strides).fold(0, |at, (&c, s)| at.wrapping_add(s.wrapping_mul(c as i64)))
    }

    /// The coordinates of an element: along the axes of the windows and along the lanes.
    fn place(&self, Met { element, lane }: Met) -> SmallVec<[usize; 4]> {
        let dims = &self.reduction.inner.dims;
        let mut place = SmallVec::from_elem(lane, dims.len() + 1);
        let mut rest = element;
        for (coordinate, dim) in place.iter_mut().zip(dims).rev() {
            (*coordinate, rest) = (rest % dim, rest / dim);
        }
        place
    }

    /// The strides of `map` along these coordinates.
    fn strides(&self, map: usize) -> impl Iterator<Item = i64> {
        let along = self.reduction.outer.strides[map][self.lanes.axis];
        self.reduction.inner.strides[map].iter().copied().chain([along])
    }

    /// All elements of all lanes.
    fn all(&self) -> impl Iterator<Item = Met> {
        let count = self.lanes.count;
        let elements = 0..self.reduction.inner.len();
        elements.flat_map(move |element| (0..count).map(move |lane| Met { element, lane }))
    }

    fn cover(&self, map: usize) -> BTreeMap<i64, Met> {
        let mut covered = BTreeMap::new();
        for met in self.all() {
            covered.entry(self.offset(map, met)).or_insert(met);
        }
        covered
    }

    pub fn dispatch(&self, mut kernel: Kernel<'_>) -> Dispatch {
        let Self { reduction, lanes: Lanes { axis, count }, .. } = *self;
        reduction.state.helpers.iter().for_each(|helper| kernel.needs(helper));
        let results = reduction.results(&mut kernel);
        let prologue = kernel.function("prologue", &[reduction.prologue], None);
        kernel.bind_outputs(|_| false);
        kernel.bind_operands(&reduction.main, |_| false);
        kernel.bind_operands(&reduction.out, |_| false);
        let mut threads = reduction.outer.dims.clone();
        threads[axis] = threads[axis].div_ceil(count);
        let (bases, outer) = self.first_lane(&mut kernel, &threads);
        let (mut functions, mut loads) =
            ([&*prologue.text, &results.text].join("\n"), String::new());
        for map in 0..reduction.main.len() {
            functions.push_str(&load_function(&mut kernel, reduction.main[map]));
            loads.push_str(&self.load(&mut kernel, map, &outer));
        }
        let ids = points(&threads);
        let holes = [
            ("count", count.to_string()),
            ("state", reduction.state.text.clone()),
            ("functions", functions),
            ("bases", bases),
            ("loads", loads),
            ("walk", self.walk(&prologue)),
            ("write", self.write(&mut kernel, &outer, &results)),
            ("ids", kernel.size(ids)),
        ];
        let template = include_str!("../../../shaders/reduce_windows.wgsl");
        kernel.dispatch(template, &holes, "", ids.div_ceil(COLUMN_THREADS))
    }

    /// Statements that find the coordinates of a thread's first result, and their names.
    fn first_lane(&self, kernel: &mut Kernel<'_>, threads: &[usize]) -> (String, Vec<String>) {
        let Lanes { axis, count } = self.lanes;
        let (mut text, mut outer) = kernel.coordinates("o", "id", threads);
        let last = kernel.size(self.reduction.outer.dims[axis] - count);
        let _ = writeln!(text, "let own = {} * {count}u;", outer[axis]);
        let _ = writeln!(text, "let first = min(own, {last});");
        outer[axis] = "first".to_string();
        (text, outer)
    }

    /// Statements that load all that is covered in the operand of `map`.
    fn load(&self, kernel: &mut Kernel<'_>, map: usize, outer: &[String]) -> String {
        let operand = self.reduction.main[map];
        let start = kernel.param(kernel.step.operands[operand].view.offset);
        let base = kernel.index(&start, &self.reduction.outer.strides[map], outer);
        let mut text = format!("let base{operand} = {base};\n");
        let mut steps: SmallVec<[String; 4]> = SmallVec::new();
        for (axis, stride) in self.strides(map).enumerate() {
            let step = if matches!(stride, 0 | 1) {
                format!("{stride}u")
            } else {
                let stride = kernel.param(stride);
                let _ = writeln!(text, "let step{operand}_{axis} = {stride};");
                format!("step{operand}_{axis}")
            };
            steps.push(step);
        }
        for (number, met) in self.covered[map].values().copied().enumerate() {
            let mut at = format!("base{operand}");
            for (coordinate, step) in self.place(met).into_iter().zip(&steps) {
                let _ = match step.as_str() {
                    step if coordinate == 0 || step == "0u" => Ok(()),
                    "1u" => write!(at, " + {coordinate}u"),
                    _ => write!(at, " + {coordinate}u * {step}"),
                };
            }
            let _ = writeln!(text, "let x{operand}_{number} = load{operand}({at});");
        }
        text
    }

    /// Statements that combine the elements of all windows.
    fn walk(&self, prologue: &Function) -> String {
        let main = &self.reduction.main;
        let number = |covered: &BTreeMap<i64, Met>| covered.keys().copied().zip(0..).collect();
        let numbers: Vec<BTreeMap<i64, usize>> = self.covered.iter().map(number).collect();
        let mut text = String::new();
        for lane in 0..self.lanes.count {
            let _ = writeln!(text, "var state{lane} = identity();");
        }
        for met @ Met { element, lane } in self.all() {
            let value = prologue.call("", |operand| {
                let map = main.iter().position(|&o| o == operand).unwrap_or_default();
                format!("x{operand}_{}", numbers[map][&self.offset(map, met)])
            });
            let _ = writeln!(text, "state{lane} = accept(state{lane}, {value}, {element}u);");
        }
        text
    }

    /// Statements that write the results of those lanes that no other thread has.
    fn write(&self, kernel: &mut Kernel<'_>, outer: &[String], results: &Function) -> String {
        let (mut text, mut stores) = (String::new(), String::new());
        for lane in 0..self.lanes.count {
            let mut at = outer.to_vec();
            at[self.lanes.axis] = format!("(first + {lane}u)");
            let state = format!("state{lane}");
            let (compute, store) =
                self.reduction.finish(kernel, results, &at, &state, &format!("_{lane}"));
            text.push_str(&compute);
            let _ = write!(stores, "if first + {lane}u >= own {{\n{}}}\n", indent(&store));
        }
        text + &stores
    }
}

/// The function that loads an element of `operand`.
fn load_function(kernel: &mut Kernel<'_>, operand: usize) -> String {
    let ty = type_name(kernel.step.operands[operand].dtype.lane());
    let value = kernel.load(operand, "at");
    format!("\nfn load{operand}(at: u32) -> {ty} {{\n    return {value};\n}}\n")
}
