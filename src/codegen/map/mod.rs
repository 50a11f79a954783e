//! Elementwise kernels.

pub(super) mod quad;
pub(super) mod row_table;
pub(super) mod transpose;
pub(super) mod vector_fetch;

use std::fmt::Write;

use self::quad::{Done, Loads};
use self::vector_fetch::Four;
use super::Dispatch;
use super::kernel::{Function, Kernel, THREADS};
use crate::codegen::kernel::collapse::Axes;
use crate::codegen::kernel::lanes::{self, Held};
use crate::cost::Limits;
use crate::expr::wgsl::type_name;
use crate::plan::{Plan, Source, Step};

/// Elements that one workgroup computes with a quad a thread.
const GROUP: usize = THREADS * 4;

/// Lowers the map `step` over `dims`.
pub(super) fn lower(plan: &Plan, step: &Step, limits: &Limits, dims: &[usize]) -> Dispatch {
    let mut kernel = Kernel::new(plan, step, limits);
    let roots = kernel.output_roots();
    let late = step.expr.sites(&roots) == 1;
    let space = Space::new(&kernel, dims, &kernel.operands_of(&roots));
    debug_assert!((0..space.outputs).all(|map| space.axes.is_linear(map)), "an output is a view");
    if let Some(crossing) = transpose::find(&kernel, &space) {
        let function = kernel.function("compute_element", &roots, None);
        return transpose::lower(kernel, &space, &function, &crossing);
    }
    let quads = Quads::new(&space);
    if let Some((step, row)) = row_table::find(step, &space, limits) {
        let quads = Quads { by_row: true, ..quads };
        return row_table::lower(plan, &step, limits, &quads, &row);
    }
    let (with_fours, fours) =
        if quads.in_rows { vector_fetch::find(step, &space) } else { (step.clone(), Vec::new()) };
    if fours.is_empty() {
        kernel.tells_late(late);
        let function = kernel.function("compute_element", &roots, None);
        return quads.lower(kernel, &function, &[]);
    }
    let mut kernel = Kernel::new(plan, &with_fours, limits);
    kernel.tells_late(late);
    let function = kernel.function("compute_element", &roots, None);
    quads.lower(kernel, &function, &fours)
}

/// The iteration space with the maps of the outputs and of the operands that are read.
pub(super) struct Space {
    pub axes: Axes,
    /// Map `k` of `axes` belongs to output `k`, or to operand `operands[k − outputs]`.
    pub operands: Vec<usize>,
    pub outputs: usize,
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

    pub fn map_of(&self, operand: usize) -> usize {
        let position = self.operands.iter().position(|&o| o == operand);
        self.outputs + position.unwrap_or_default()
    }

    /// The stride along the last axis: from one lane to the next.
    fn lane_stride(&self, map: usize) -> i64 {
        self.axes.strides[map][self.axes.rank() - 1]
    }

    /// Whether some map needs the coordinates.
    fn needs_coordinates(&self) -> bool {
        let mut maps = 0..self.axes.strides.len();
        maps.any(|map| !self.axes.is_linear(map) && !self.axes.is_uniform(map))
    }
}

/// The text of a map's index at the point with the row-major position `i`.
fn index(
    kernel: &mut Kernel<'_>,
    space: &Space,
    map: usize,
    offset: i64,
    coordinates: &[String],
) -> String {
    let start = kernel.param(offset);
    if space.axes.is_linear(map) {
        return format!("{start} + i");
    }
    kernel.index(&start, &space.axes.strides[map], coordinates)
}

/// The variant whose threads take four neighbours. Where the last axis is a multiple of four, they
/// never span two rows; else all is walked as one row, with a rest of fewer than four at its end.
pub(super) struct Quads<'a> {
    pub space: &'a Space,
    /// Whether quads keep to rows.
    in_rows: bool,
    /// Whether the kernel says `row` and `column` beside `i`.
    by_row: bool,
}

impl<'a> Quads<'a> {
    fn new(space: &'a Space) -> Self {
        let inner = space.axes.dims[space.axes.rank() - 1];
        Self { space, in_rows: inner.is_multiple_of(4), by_row: false }
    }

    /// The coordinates of the first of a quad.
    fn coordinates(&self, kernel: &mut Kernel<'_>) -> (String, Vec<String>) {
        let dims = &self.space.axes.dims;
        if !self.by_row {
            return kernel.coordinates("c", "i", dims);
        }
        let (text, mut names) = kernel.coordinates("c", "row", &dims[..dims.len() - 1]);
        names.push("column".to_string());
        (text, names)
    }

    /// Whether four neighbours of the map always lie in one aligned quad, by strides and offset.
    fn is_wide(&self, map: usize, view: &crate::base::shape::View) -> bool {
        let axes = &self.space.axes;
        if self.in_rows {
            let (outer, lane) = (axes.rank() - 1, self.space.lane_stride(map));
            return lanes::is_wide(view, lane, &axes.strides[map][..outer]);
        }
        axes.is_linear(map) && view.offset % 4 == 0
    }

    /// Whether `operand` is read in fours. Where there is a rest, the last four may reach past the
    /// value's elements, but not past its buffer.
    fn reads_wide(&self, kernel: &Kernel<'_>, operand: usize) -> bool {
        let step = kernel.step;
        let by_itself = |o: usize| {
            let operand = &step.operands[o];
            let fits = match operand.source {
                Source::Value(_) if self.in_rows => true,
                Source::Value(value) => kernel.can_round_up(value, 4),
                Source::Iota | Source::Table(_) | Source::Failures => false,
            };
            fits && self.is_wide(self.space.map_of(o), &operand.view)
        };
        lanes::binds_wide(kernel, &self.space.operands, operand, by_itself)
    }

    /// Binds outputs and operands. For each operand, whether it is read in fours.
    pub fn bind(&self, kernel: &mut Kernel<'_>) -> Vec<bool> {
        let wide: Vec<bool> = (0..kernel.step.operands.len())
            .map(|o| self.space.operands.contains(&o) && self.reads_wide(kernel, o))
            .collect();
        kernel.bind_outputs(|_| true);
        kernel.bind_operands(&self.space.operands, |operand| wide[operand]);
        wide
    }

    fn lower(&self, mut kernel: Kernel<'_>, function: &Function, fours: &[Four]) -> Dispatch {
        let elements = self.space.axes.len();
        let wide = self.bind(&mut kernel);
        fours.iter().for_each(|four| kernel.bind_fours(four.table));
        let each = quads_a_thread(&kernel, fours, elements);
        let count = kernel.size(elements);
        let mut loads = Loads::default();
        self.load(&mut kernel, function, &wide, &count, &mut loads);
        self.fetch(&mut kernel, fours, &mut loads);
        let done = self.finish(&mut kernel, function, &loads, &count);
        let group = (GROUP * each).to_string();
        let holes = [
            ("functions", &*[loads.functions.as_str(), &function.text].join("\n")),
            ("group", &group),
            ("quad", &quad::functions("", &loads, &done)),
            ("elements", &count),
            ("quads", &several(each, &count)),
            ("tell", kernel.tell()),
        ];
        let groups = elements.div_ceil(GROUP * each);
        kernel.dispatch(include_str!("../../../shaders/map.wgsl"), &holes, "", groups)
    }

    /// Statements that load the operands of a quad.
    pub fn load(
        &self,
        kernel: &mut Kernel<'_>,
        function: &Function,
        wide: &[bool],
        count: &str,
        out: &mut Loads,
    ) {
        let space = self.space;
        out.held = vec![Held::One; kernel.step.operands.len()];
        let mut coordinates = Vec::new();
        if self.in_rows && space.needs_coordinates() {
            (out.text, coordinates) = self.coordinates(kernel);
        }
        for &operand in &space.operands {
            let (map, offset) = (space.map_of(operand), kernel.step.operands[operand].view.offset);
            let (text, held) = if self.in_rows || wide[operand] || space.axes.is_uniform(map) {
                let at = index(kernel, space, map, offset, &coordinates);
                let stride = if self.in_rows { space.lane_stride(map) } else { 1 };
                let stride = if space.axes.is_uniform(map) { 0 } else { stride };
                lanes::load(kernel, operand, &at, stride, wide[operand])
            } else {
                self.load_apart(kernel, operand, count, &mut out.functions)
            };
            let ty = type_name(kernel.step.operands[operand].dtype.lane());
            let ty = if held == Held::Four { format!("vec4<{ty}>") } else { ty.to_string() };
            out.text.push_str(&text);
            if function.operands.contains(&operand) {
                out.hand_over(operand, &ty);
            }
            out.held[operand] = held;
        }
    }

    /// Loads what is fetched in fours.
    fn fetch(&self, kernel: &mut Kernel<'_>, fours: &[Four], out: &mut Loads) {
        for (four, name) in fours.iter().zip(vector_fetch::PLACES) {
            let Four { operand, table, position } = *four;
            let place = kernel.function(name, &[position], None);
            let at = place.call("", |o| match out.held[o] {
                Held::One => format!("x{o}"),
                Held::Four => format!("x{o}.x"),
            });
            let _ = writeln!(out.text, "let x{operand} = fetch{table}_fours(u32({at}));");
            let _ = writeln!(out.functions, "{}", place.text);
            let ty = type_name(kernel.step.operands[operand].dtype.lane());
            out.hand_over(operand, &format!("vec4<{ty}>"));
            out.held[operand] = Held::Four;
        }
    }

    /// The loads of four lanes, each at coordinates of its own.
    fn load_apart(
        &self,
        kernel: &mut Kernel<'_>,
        operand: usize,
        count: &str,
        functions: &mut String,
    ) -> (String, Held) {
        let space = self.space;
        let (map, view) = (space.map_of(operand), &kernel.step.operands[operand].view);
        let offset = view.offset;
        let (mut text, coordinates) = kernel.coordinates("c", "i", &space.axes.dims);
        let at = index(kernel, space, map, offset, &coordinates);
        let ty = type_name(kernel.step.operands[operand].dtype.lane());
        let _ = writeln!(text, "return {};", kernel.load(operand, &at));
        let body = crate::codegen::kernel::template::indent(&text);
        let _ = writeln!(functions, "fn load{operand}(i: u32) -> {ty} {{\n{body}}}\n");
        let lanes =
            [0, 1, 2, 3].map(|k| format!("load{operand}(min(i + {k}u, {count} - 1u))")).join(", ");
        (format!("let x{operand} = vec4<{ty}>({lanes});\n"), Held::Four)
    }

    /// What computes the four results, and what stores them.
    pub fn finish(
        &self,
        kernel: &mut Kernel<'_>,
        function: &Function,
        loads: &Loads,
        count: &str,
    ) -> Done {
        let mut done = Done::default();
        for (k, lane) in lanes::LANES.iter().enumerate() {
            let live = if self.in_rows { "true" } else { &format!("{count} - i > {k}u") };
            let call = function.call_if(live, "", |o| match loads.held[o] {
                Held::One => format!("quad.x{o}"),
                Held::Four => format!("quad.x{o}.{lane}"),
            });
            let _ = writeln!(done.results, "let result_{lane} = {call};");
        }
        let (mut stores, mut rest) = (String::new(), String::new());
        for (output, result) in function.results.iter().enumerate() {
            done.hand_over(output, type_name(kernel.root_type(output)), result);
            let values = lanes::LANES.map(|lane| format!("done.y{output}.{lane}"));
            stores.push_str(&kernel.store_quad(output, "i / 4u", &values));
            let store = |(k, value): (usize, &String)| {
                let store = kernel.store_lane(output, "i / 4u", lanes::LANES[k], value);
                format!("if {count} - i > {k}u {{\n    {store}}}\n")
            };
            rest.extend(values.iter().enumerate().take(3).map(store));
        }
        done.stores = if self.in_rows {
            stores
        } else {
            let (stores, rest) = (
                crate::codegen::kernel::template::indent(&stores),
                crate::codegen::kernel::template::indent(&rest),
            );
            format!("if {count} - i >= 4u {{\n{stores}}} else {{\n{rest}}}\n")
        };
        done
    }
}

/// Quads that a thread computes. On an H200, two of 128-element rows took 0.94 of the time of one, four of single
/// elements 0.7, and four of `f16` 0.92 of the time of two.
fn quads_a_thread(kernel: &Kernel<'_>, fours: &[Four], elements: usize) -> usize {
    const MANY: usize = 1 << 20;
    let fetches = kernel.step.operands.iter().any(|o| matches!(o.source, Source::Table(_)));
    let many = elements >= MANY;
    match (fours.is_empty(), fetches && many) {
        (true, true) => 4,
        (false, true) => 2,
        _ if kernel.binds_halves_alone() => {
            if many {
                4
            } else {
                2
            }
        }
        _ => 1,
    }
}

/// Statements that compute `each` quads, all of which are loaded, and looked up, before the first is stored: drivers
/// move no load to before a store. Past the end, the first quad is computed again.
fn several(each: usize, count: &str) -> String {
    if each == 1 {
        return "store(i, compute(i, load(i)));\n".to_string();
    }
    let mut text = "let i0 = i;\nlet quad0 = load(i);\n".to_string();
    for k in 1..each {
        let apart = k * GROUP;
        let _ = write!(
            text,
            "let i{k} = select(i, i + {apart}u, i + {apart}u < {count});\nlet quad{k} = load(i{k});\n"
        );
    }
    for k in 0..each {
        let _ = writeln!(text, "let done{k} = compute(i{k}, quad{k});");
    }
    text.push_str("store(i, done0);\n");
    for k in 1..each {
        let _ = write!(text, "if i{k} > i {{\n    store(i{k}, done{k});\n}}\n");
    }
    text
}
