//! Maps whose threads take four neighbours at a time.

use crate::base::shape::View;
use crate::codegen::Dispatch;
use crate::codegen::kernel::lanes::{self, Loaded};
use crate::codegen::kernel::template::{fill, holes, indent, shader};
use crate::codegen::kernel::{KernelBuilder, KernelFunction, THREADS};
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::{MapSpace, OperandSource, VectorFetch};

/// Elements that one workgroup computes with a quad a thread.
const GROUP: usize = THREADS * 4;

/// The names of the functions that compute positions of fetched quads.
const PLACES: [&str; VectorFetch::MOST] = ["place0", "place1", "place2", "place3"];

/// A quad that is fetched at once.
pub(super) struct FetchedQuad {
    /// The operand that stands for the fetched elements.
    pub operand: usize,
    pub table: usize,
    /// The position of the first lane.
    pub position: Ref,
}

/// The text of a map's index at the point with the row-major position `i`.
fn index(
    kernel: &mut KernelBuilder<'_>,
    space: &MapSpace,
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
    pub space: &'a MapSpace,
    /// True if quads keep to rows.
    in_rows: bool,
    /// True if the kernel says `row` and `column` beside `i`.
    by_row: bool,
}

impl<'a> Quads<'a> {
    pub fn new(space: &'a MapSpace) -> Self {
        Self { space, in_rows: space.has_whole_quads(), by_row: false }
    }

    /// The variant whose kernel says `row` and `column`.
    pub fn by_row(space: &'a MapSpace) -> Self {
        Self { by_row: true, ..Self::new(space) }
    }

    /// The coordinates of the first of a quad.
    fn coordinates(&self, kernel: &mut KernelBuilder<'_>) -> (String, Vec<String>) {
        let dims = &self.space.axes.dims;
        if !self.by_row {
            return kernel.coordinates("c", "i", dims);
        }
        let (text, mut names) = kernel.coordinates("c", "row", &dims[..dims.len() - 1]);
        names.push("column".to_string());
        (text, names)
    }

    /// True if four neighbours of the map always lie in one aligned quad, by strides and offset.
    fn is_wide(&self, map: usize, view: &View) -> bool {
        let axes = &self.space.axes;
        if self.in_rows {
            let (outer, lane) = (axes.rank() - 1, self.space.lane_stride(map));
            return lanes::is_wide(view, lane, &axes.strides[map][..outer]);
        }
        axes.is_linear(map) && view.offset % 4 == 0
    }

    /// True if `operand` is read in fours. Where there is a rest, the last four may reach past the
    /// value's elements, but not past its buffer.
    fn reads_wide(&self, kernel: &KernelBuilder<'_>, operand: usize) -> bool {
        let step = kernel.step;
        let by_itself = |o: usize| {
            let operand = &step.operands[o];
            let fits = match operand.source {
                OperandSource::Value(_) if self.in_rows => true,
                OperandSource::Value(value) => kernel.can_round_up(value, 4),
                OperandSource::Iota | OperandSource::Table(_) | OperandSource::Failures => false,
            };
            fits && self.is_wide(self.space.map_of(o), &operand.view)
        };
        lanes::binds_wide(kernel, &self.space.operands, operand, by_itself)
    }

    /// Binds outputs and operands.
    pub fn bind(&self, kernel: &mut KernelBuilder<'_>) {
        let wide: Vec<bool> = (0..kernel.step.operands.len())
            .map(|o| self.space.operands.contains(&o) && self.reads_wide(kernel, o))
            .collect();
        kernel.bind_outputs(|_| true);
        kernel.bind_operands(&self.space.operands, |operand| wide[operand]);
    }

    pub fn lower(
        &self,
        mut kernel: KernelBuilder<'_>,
        function: &KernelFunction,
        each: usize,
        fetched: &[FetchedQuad],
    ) -> Dispatch {
        let elements = self.space.axes.len();
        self.bind(&mut kernel);
        fetched.iter().for_each(|quad| kernel.bind_fours(quad.table));
        let count = kernel.size(elements);
        let mut loads = self.load(&mut kernel, function, &count);
        self.fetch(&mut kernel, fetched, &mut loads);
        let done = self.finish(&mut kernel, function, &loads, &count);
        let holes = holes! {
            functions: [loads.functions.as_str(), &function.text].join("\n"), group: GROUP * each,
            quad: functions("", &loads, &done), elements: count, quads: several(each, &count),
            tell: kernel.tell(),
        };
        let groups = elements.div_ceil(GROUP * each);
        kernel.dispatch(shader!("map/plain.wgsl"), &holes, "", groups)
    }

    /// Statements that load the operands of a quad.
    pub fn load(
        &self,
        kernel: &mut KernelBuilder<'_>,
        function: &KernelFunction,
        count: &str,
    ) -> Loads {
        let (space, mut out) = (self.space, Loads::default());
        let mut coordinates = Vec::new();
        if self.in_rows && space.needs_coordinates() {
            (out.loaded.text, coordinates) = self.coordinates(kernel);
        }
        for &operand in &space.operands {
            let (map, offset) = (space.map_of(operand), kernel.step.operands[operand].view.offset);
            let is_wide = kernel.is_read_in_fours(operand);
            if self.in_rows || is_wide || space.axes.is_uniform(map) {
                let at = index(kernel, space, map, offset, &coordinates);
                let stride = if self.in_rows { space.lane_stride(map) } else { 1 };
                let stride = if space.axes.is_uniform(map) { 0 } else { stride };
                out.loaded.load(kernel, operand, &at, stride);
            } else {
                self.load_apart(kernel, operand, count, &mut out);
            }
            if function.operands.contains(&operand) {
                out.hand_over(kernel, operand);
            }
        }
        out
    }

    /// Loads the elements that are fetched in fours.
    fn fetch(&self, kernel: &mut KernelBuilder<'_>, fetched: &[FetchedQuad], out: &mut Loads) {
        for (quad, name) in fetched.iter().zip(PLACES) {
            let FetchedQuad { operand, table, position } = *quad;
            let place = kernel.function(name, &[position], None);
            let at = place.call("", |o| out.loaded.lane(o, "x"));
            out.loaded.vector(operand, &format!("fetch{table}_fours(u32({at}))"));
            out.functions += &format!("{}\n", place.text);
            out.hand_over(kernel, operand);
        }
    }

    /// The loads of four lanes, each at coordinates of its own.
    fn load_apart(
        &self,
        kernel: &mut KernelBuilder<'_>,
        operand: usize,
        count: &str,
        out: &mut Loads,
    ) {
        let space = self.space;
        let (map, view) = (space.map_of(operand), &kernel.step.operands[operand].view);
        let offset = view.offset;
        let (mut text, coordinates) = kernel.coordinates("c", "i", &space.axes.dims);
        let at = index(kernel, space, map, offset, &coordinates);
        let ty = type_name(kernel.step.operands[operand].dtype.lane());
        text += &format!("return {};\n", kernel.load(operand, &at));
        let body = indent(&text);
        out.functions += &format!("fn load{operand}(i: u32) -> {ty} {{\n{body}}}\n\n");
        let lanes =
            [0, 1, 2, 3].map(|k| format!("load{operand}(min(i + {k}u, {count} - 1u))")).join(", ");
        out.loaded.vector(operand, &format!("vec4<{ty}>({lanes})"));
    }

    /// The statements that compute the four results and store them.
    pub fn finish(
        &self,
        kernel: &mut KernelBuilder<'_>,
        function: &KernelFunction,
        loads: &Loads,
        count: &str,
    ) -> Done {
        let mut done = Done::default();
        for (k, lane) in lanes::LANES.iter().enumerate() {
            let live = if self.in_rows { "true" } else { &format!("{count} - i > {k}u") };
            let call =
                function.call_if(live, "", |o| format!("quad.{}", loads.loaded.lane(o, lane)));
            done.results += &format!("let result_{lane} = {call};\n");
        }
        let (mut stores, mut rest) = (String::new(), String::new());
        for (output, result) in function.results.iter().enumerate() {
            done.hand_over(
                output,
                type_name(kernel.step.expr.ty(kernel.step.outputs[output].root)),
                result,
            );
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
            let (stores, rest) = (indent(&stores), indent(&rest));
            format!("if {count} - i >= 4u {{\n{stores}}} else {{\n{rest}}}\n")
        };
        done
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
        text += &format!(
            "let i{k} = select(i, i + {apart}u, i + {apart}u < {count});\nlet quad{k} = load(i{k});\n"
        );
    }
    for k in 0..each {
        text += &format!("let done{k} = compute(i{k}, quad{k});\n");
    }
    text.push_str("store(i, done0);\n");
    for k in 1..each {
        text += &format!("if i{k} > i {{\n    store(i{k}, done{k});\n}}\n");
    }
    text
}

/// The statements that load the operands of a quad.
#[derive(Default)]
pub(super) struct Loads {
    pub functions: String,
    pub loaded: Loaded,
    /// The fields of the loaded elements, and their values.
    fields: String,
    names: Vec<String>,
}

impl Loads {
    /// Gives the loaded elements of `operand` to the function that computes the quad.
    pub fn hand_over(&mut self, kernel: &KernelBuilder<'_>, operand: usize) {
        self.hand_over_as(&format!("x{operand}"), &self.loaded.ty(kernel, operand));
    }

    /// Gives the local `name` to the function that computes the quad.
    pub fn hand_over_as(&mut self, name: &str, ty: &str) {
        self.fields += &format!("{name}: {ty},\n");
        self.names.push(name.to_string());
    }
}

/// The statements that compute and store a quad.
#[derive(Default)]
pub(crate) struct Done {
    /// Statements that compute the results of the four lanes.
    pub results: String,
    /// The fields of the computed elements, and their values.
    pub fields: String,
    pub values: Vec<String>,
    /// Statements that store them.
    pub stores: String,
}

impl Done {
    /// Gives the `result` of each lane, of the WGSL type `ty`, to the function that stores `output`.
    pub fn hand_over(&mut self, output: usize, ty: &str, result: &str) {
        let lanes = lanes::LANES.map(|lane| format!("result_{lane}{result}")).join(", ");
        self.fields += &format!("y{output}: vec4<{ty}>,\n");
        self.values.push(format!("vec4<{ty}>({lanes})"));
    }
}

/// The functions `load`, of the position of a quad and of `parameters`, `compute` and `store`, with the structures that
/// they hand each other.
pub(crate) fn functions(parameters: &str, loads: &Loads, done: &Done) -> String {
    let (fields, loaded) = match &*loads.fields {
        "" => ("nothing: u32,", "0u".to_string()),
        fields => (fields, loads.names.join(", ")),
    };
    let holes = holes! {
        parameters, fields, loads: loads.loaded.text, loaded, done_fields: done.fields,
        results: done.results, done: done.values.join(", "), stores: done.stores,
    };
    fill(shader!("map/quad.wgsl"), &holes)
}
