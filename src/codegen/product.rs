//! Matrix products: what all their kernels share.

use std::fmt::Write;

use super::Dispatch;
use super::collapse::Axes;
use super::kernel::{Function, Kernel, THREADS};
use super::lanes::{self, Held};
use super::template::indent;
use super::{strips, tiles, units};
use crate::dtype::{DType, Ty};
use crate::expr::wgsl::type_name;
use crate::expr::{Node, Ref};
use crate::plan::{Form, Operand, ProductLayout, Source, Space};
use crate::shape::View;

/// Lowers a product; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let first = kernel();
    let Some(product) = Product::new(&first) else { return Vec::new() };
    let dispatch = match &first.step.form {
        Form::MatMul { schedule, .. } => match schedule.layout {
            ProductLayout::Tiles(tile) => tiles::lower(&product, first, tile),
            ProductLayout::Strips(strip) => strips::lower(&product, first, strip),
            ProductLayout::Units(tile) => units::lower(&product, first, tile),
        },
        _ => return Vec::new(),
    };
    if product.parts == 1 {
        return vec![dispatch];
    }
    vec![dispatch, product.combine(kernel())]
}

/// The positions of four neighbours.
const FOUR: &str = "vec4<u32>(0u, 1u, 2u, 3u)";

/// A product with its batch dimensions collapsed.
pub(super) struct Product {
    pub m: usize,
    pub n: usize,
    pub k: usize,
    /// Parts that k is cut into.
    pub parts: usize,
    /// The type of the sum.
    pub ty: Ty,
    /// The prologues.
    x: Ref,
    w: Ref,
    /// Operands of both prologues and of the outputs.
    operands: Vec<usize>,
    /// The maps along the batch: the outputs', then the operands'.
    batch: Axes,
    /// Where each of these maps begins.
    offsets: Vec<i64>,
}

/// One of the two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Side {
    X,
    W,
}

impl Side {
    /// The name of the function that reads it.
    fn load(self) -> &'static str {
        match self {
            Self::X => "load_x",
            Self::W => "load_w",
        }
    }

    fn prologue(self) -> &'static str {
        match self {
            Self::X => "prologue_x",
            Self::W => "prologue_w",
        }
    }
}

/// How one side is read: fours of neighbours along one of its two axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub side: Side,
    /// Whether the neighbours are neighbours along k.
    pub along_k: bool,
    /// Whether tiles reach outside across k, where what is read does not matter.
    pub ragged: bool,
    /// Whether tiles reach past the end of k, where zeros must be read.
    pub ragged_k: bool,
    /// Whether eight halves are read as they are stored, in four words, instead of four numbers.
    pub halves: bool,
}

/// The texts that every kernel of the product needs.
pub(super) struct Frame {
    pub functions: String,
    /// Statements that find where the batch begins in every map.
    pub bases: String,
    /// These places as arguments of `store`.
    pub base_arguments: String,
    /// One for each reading.
    pub walks: [Walk; 2],
}

/// A walk over one side along k: a position in each operand that is read, moved on by additions alone, since
/// multiplying it out for each read takes longer than the read.
pub(super) struct Walk {
    side: Side,
    /// The last place across k that may be read, if some are outside.
    last: Option<usize>,
    operands: Vec<Stepping>,
}

struct Stepping {
    operand: usize,
    /// Where the batch begins in it.
    base: String,
    outer_stride: i64,
    k_stride: i64,
}

impl Walk {
    /// Statements that start at `outer` and `k`, in variables that start with `prefix`.
    pub fn start(&self, kernel: &mut Kernel<'_>, prefix: &str, outer: &str, k: &str) -> String {
        let outer = match self.last {
            Some(last) => format!("min({outer}, {})", kernel.size(last)),
            None => outer.to_string(),
        };
        let mut text = format!("let {prefix}_outer = {outer};\n");
        let coordinates = [format!("{prefix}_outer"), format!("({k})")];
        for Stepping { operand, base, outer_stride, k_stride } in &self.operands {
            let at = kernel.index(base, &[*outer_stride, *k_stride], &coordinates);
            let _ = writeln!(text, "var {prefix}_at{operand} = {at};");
        }
        text
    }

    /// The call that reads what is at `k`, `ahead` of where the walk is; at the end of k, zeros past it.
    pub fn read(
        &self,
        kernel: &mut Kernel<'_>,
        prefix: &str,
        k: &str,
        ahead: usize,
        end: bool,
    ) -> String {
        let end = if end { "_end" } else { "" };
        let mut text = format!("{}{end}({prefix}_outer, {k}", self.side.load());
        for Stepping { operand, k_stride, .. } in &self.operands {
            let offset = k_stride * ahead as i64;
            let at = kernel.index(&format!("{prefix}_at{operand}"), &[offset], &["1u".into()]);
            let _ = write!(text, ", {at}");
        }
        text + ")"
    }

    /// Statements that move on by `step` along k.
    pub fn advance(&self, kernel: &mut Kernel<'_>, prefix: &str, step: usize) -> String {
        let mut text = String::new();
        for Stepping { operand, k_stride, .. } in self.operands.iter().filter(|o| o.k_stride != 0) {
            let step = kernel.param(k_stride * step as i64);
            let _ = writeln!(text, "{prefix}_at{operand} += {step};");
        }
        text
    }
}

impl Product {
    fn new(kernel: &Kernel<'_>) -> Option<Self> {
        let step = kernel.step;
        let Form::MatMul { batch, m, n, k, x, w, acc, schedule, .. } = &step.form else {
            return None;
        };
        let roots: Vec<_> = [*x, *w].into_iter().chain(kernel.output_roots()).collect();
        let operands = kernel.operands_of(&roots);
        let maps = step.outputs.iter().map(|o| &o.view);
        let maps: Vec<_> = maps.chain(operands.iter().map(|&o| &step.operands[o].view)).collect();
        let strides: Vec<&[i64]> = maps.iter().map(|view| &view.strides[..batch.len()]).collect();
        Some(Self {
            m: *m,
            n: *n,
            k: *k,
            parts: schedule.parts,
            ty: *acc,
            x: *x,
            w: *w,
            offsets: maps.iter().map(|view| view.offset).collect(),
            batch: Axes::collapse(batch, &strides),
            operands,
        })
    }

    pub fn ty_name(&self) -> &'static str {
        type_name(self.ty)
    }

    /// Products in the batch.
    pub fn count(&self) -> usize {
        self.batch.len()
    }

    /// Elements of k in each part but the last, a multiple of `unit`.
    pub fn chunk(&self, unit: usize) -> usize {
        self.k.div_ceil(self.parts).next_multiple_of(unit)
    }

    pub fn prologue(&self, side: Side) -> Ref {
        match side {
            Side::X => self.x,
            Side::W => self.w,
        }
    }

    /// The sizes of a side's axis across k and of k.
    fn sizes(&self, side: Side) -> [usize; 2] {
        match side {
            Side::X => [self.m, self.k],
            Side::W => [self.n, self.k],
        }
    }

    /// How neighbouring threads had best walk over `side`, in tiles of `outer` by `bk`.
    pub fn reading(&self, kernel: &Kernel<'_>, side: Side, outer: usize, bk: usize) -> Reading {
        let views = kernel.operands_of(&[self.prologue(side)]).into_iter();
        let mut steps = views.map(|o| {
            let view = &kernel.step.operands[o].view;
            let along = |axis: usize| {
                if view.dims[axis] == 1 { 0 } else { view.strides[axis].unsigned_abs() }
            };
            let [outer, k] = axes(side, view);
            (along(k), along(outer))
        });
        let first = steps.find(|&pair| pair != (0, 0));
        let along_k = first.is_none_or(|(k, o)| k != 0 && (o == 0 || k <= o));
        let [size, length] = self.sizes(side);
        let ragged_k = !length.is_multiple_of(bk) || length == 0;
        // Rows outside cost nothing in the loop, so that one text does for all numbers of rows.
        let ragged = (side == Side::X && along_k) || !size.is_multiple_of(outer);
        Reading { side, along_k, ragged, ragged_k, halves: false }
    }

    /// The operand of `reading`, if it is nothing but halves that lie in aligned eights.
    pub fn halves(&self, kernel: &Kernel<'_>, reading: &Reading) -> Option<usize> {
        let step = kernel.step;
        let Node::Load(operand) = step.expr.node(self.prologue(reading.side)) else { return None };
        let operand = usize::from(operand);
        let Operand { source, dtype, ref view, clamp, .. } = step.operands[operand];
        let [outer, k] = axes(reading.side, view);
        let (lane, other) = if reading.along_k { (k, outer) } else { (outer, k) };
        let rank = view.dims.len();
        let others = view.strides[..rank - 2].iter().chain([&view.strides[other]]);
        let eights = view.strides[lane] == 1
            && view.offset % 8 == 0
            && view.dims[lane].is_multiple_of(8)
            && others.into_iter().all(|stride| stride % 8 == 0);
        let alone = step.operands.iter().filter(|o| o.source == source).count() == 1;
        let stored = matches!(source, Source::Value(_)) && dtype == DType::F16 && kernel.limits.f16;
        (stored && eights && alone && !clamp && !view.dims.contains(&0)).then_some(operand)
    }

    /// Binds everything, each buffer in fours where all that is read of it allows, and defines the functions
    /// that read both sides (`load_x` and `load_w`, at the positions of a [`Walk`]) and
    /// `store(row, column, acc, …)`, which takes four neighbours along the row.
    pub fn frame(&self, kernel: &mut Kernel<'_>, readings: [Reading; 2]) -> Frame {
        let wide = self.wide(kernel, &readings);
        if self.parts == 1 {
            self.bind_results(kernel, &wide);
        }
        for reading in readings {
            let operands = kernel.operands_of(&[self.prologue(reading.side)]);
            if reading.halves {
                kernel.bind_words(operands[0]);
            } else {
                kernel.bind_operands(&operands, |o| wide[o]);
            }
        }
        let (bases, names) = kernel.bases("b", "batch", &self.batch, self.offsets.iter().copied());
        let mut functions = String::new();
        let walks = readings.map(|reading| {
            for end in [false, true] {
                if reading.ragged_k || !end {
                    functions += &self.load(kernel, reading, &wide, end);
                }
            }
            self.walk(kernel, &reading, &names)
        });
        let base_parameters: String = names.iter().map(|name| format!(", {name}: u32")).collect();
        functions += &if self.parts == 1 {
            self.store(kernel, &wide, &names, &base_parameters)
        } else {
            self.store_partial(kernel, &base_parameters)
        };
        let base_arguments = names.iter().map(|name| format!(", {name}")).collect();
        Frame { functions, bases, base_arguments, walks }
    }

    fn walk(&self, kernel: &Kernel<'_>, reading: &Reading, names: &[String]) -> Walk {
        let side = reading.side;
        let operands = kernel.operands_of(&[self.prologue(side)]).into_iter();
        let stepping = |operand: usize| {
            let view = &kernel.step.operands[operand].view;
            let [outer, k] = axes(side, view);
            let base = self.base(kernel, operand, names).to_string();
            let (outer_stride, k_stride) = (view.strides[outer], view.strides[k]);
            Stepping { operand, base, outer_stride, k_stride }
        };
        let [size, _] = self.sizes(side);
        let together = match reading {
            Reading { along_k: true, .. } => 1,
            Reading { halves: true, .. } => 8,
            _ if size.is_multiple_of(4) => 4,
            _ => 1,
        };
        let last = reading.ragged.then(|| size - together);
        Walk { side, last, operands: operands.map(stepping).collect() }
    }

    fn bind_results(&self, kernel: &mut Kernel<'_>, wide: &[bool]) {
        let wide_outputs: Vec<bool> =
            kernel.step.outputs.iter().map(|output| self.is_wide_result(&output.view)).collect();
        kernel.bind_outputs(|output| wide_outputs[output]);
        let operands = kernel.operands_of(&kernel.output_roots());
        kernel.bind_operands(&operands, |o| wide[o]);
    }

    /// For each operand of the step, whether its value is bound in fours.
    fn wide(&self, kernel: &Kernel<'_>, readings: &[Reading]) -> Vec<bool> {
        let operands = &kernel.step.operands;
        let alone = |o: usize| {
            let view = &operands[o].view;
            let side = match operands[o].space {
                Space::X => Side::X,
                Space::W => Side::W,
                Space::Main | Space::Out => return self.is_wide_result(view),
            };
            let Some(reading) = readings.iter().find(|r| r.side == side) else { return false };
            let [outer, k] = axes(side, view);
            let (lane, other) = if reading.along_k { (k, outer) } else { (outer, k) };
            is_wide(view, lane, other)
        };
        let all = &self.operands;
        let bound = |o| all.contains(&o) && lanes::binds_wide(kernel, all, o, alone);
        (0..operands.len()).map(bound).collect()
    }

    fn is_wide_result(&self, view: &View) -> bool {
        let rank = view.dims.len();
        is_wide(view, rank - 1, rank - 2)
    }

    fn base<'n>(&self, kernel: &Kernel<'_>, operand: usize, names: &'n [String]) -> &'n str {
        let position = self.operands.iter().position(|&o| o == operand);
        debug_assert!(position.is_some(), "operand {operand} has no map");
        &names[kernel.step.outputs.len() + position.unwrap_or_default()]
    }

    /// The function that reads four neighbours of one side, or eight halves as they are; at the end of k, zeros
    /// past it.
    fn load(&self, kernel: &mut Kernel<'_>, reading: Reading, wide: &[bool], end: bool) -> String {
        let Reading { side, along_k, ragged, halves, .. } = reading;
        let [size, length] = self.sizes(side);
        let operands = kernel.operands_of(&[self.prologue(side)]);
        let ty = if halves { "u32" } else { self.ty_name() };
        let mut text = String::new();
        if end {
            let length = kernel.size(length);
            let _ = writeln!(text, "if k >= {length} {{\n    return vec4<{ty}>();\n}}");
        }
        let (lane, lanes, cut) = if along_k { ("k", length, end) } else { ("outer", size, ragged) };
        // Four neighbours from a multiple of four on are inside or outside together.
        let cut = cut && !lanes.is_multiple_of(4);
        if cut {
            let last = kernel.size(lanes.saturating_sub(1));
            let _ = writeln!(text, "let inside = min({FOUR}, vec4<u32>({last} - {lane}));");
        }
        let (function, value) = if halves {
            (String::new(), kernel.words(operands[0], &format!("position{} / 8u", operands[0])))
        } else {
            let (loads, function, value) = self.evaluate(kernel, &reading, wide, cut);
            text.push_str(&loads);
            (function, value)
        };
        let value = if cut && along_k {
            format!("select(vec4<{ty}>(), {value}, inside == {FOUR})")
        } else {
            value
        };
        // Both variants share the prologue.
        let function = if end { String::new() } else { function };
        let name = format!("{}{}", side.load(), if end { "_end" } else { "" });
        let positions: String = operands.iter().map(|o| format!(", position{o}: u32")).collect();
        let body = indent(&format!("{text}return {value};"));
        format!("{function}\nfn {name}(outer: u32, k: u32{positions}) -> vec4<{ty}> {{\n{body}}}\n")
    }

    /// Statements that load four neighbours of all operands of a side, those past the last one inside by it if
    /// they are `cut`; the prologue; and its calls.
    fn evaluate(
        &self,
        kernel: &mut Kernel<'_>,
        reading: &Reading,
        wide: &[bool],
        cut: bool,
    ) -> (String, String, String) {
        let function =
            kernel.function(reading.side.prologue(), &[self.prologue(reading.side)], None);
        let mut text = String::new();
        let mut held = vec![Held::One; kernel.step.operands.len()];
        for &operand in &function.operands {
            let view = &kernel.step.operands[operand].view;
            let stride = view.strides[lane_axis(reading, view)];
            let at = format!("position{operand}");
            let (line, what) = if cut && stride != 0 {
                (load_inside(kernel, operand, &at, stride), Held::Four)
            } else {
                lanes::load(kernel, operand, &at, stride, wide[operand])
            };
            held[operand] = what;
            text.push_str(&line);
        }
        let calls = lanes::calls(&function, "", |o| held[o]).join(", ");
        let value = format!("vec4<{}>({calls})", self.ty_name());
        (text, function.text, value)
    }

    /// The function that computes and stores the outputs of four neighbours along a row.
    fn store(
        &self,
        kernel: &mut Kernel<'_>,
        wide: &[bool],
        names: &[String],
        base_parameters: &str,
    ) -> String {
        let roots = kernel.output_roots();
        let function = kernel.function("compute_results", &roots, Some(self.ty));
        let (m, n) = (kernel.size(self.m), kernel.size(self.n));
        let ty = self.ty_name();
        let guard = format!("    if row >= {m} || column >= {n} {{ return; }}\n");
        if self.n.is_multiple_of(4) {
            let fours = self.fours(kernel, &function, wide, names);
            return format!(
                "{}\nfn store(row: u32, column: u32, acc: vec4<{ty}>{base_parameters}) {{\n{guard}{fours}}}\n",
                function.text
            );
        }
        let each = self.each(kernel, &function, names);
        let arguments: String = names.iter().map(|name| format!(", {name}")).collect();
        let calls: String = (0..4)
            .map(|lane| format!("    store_one(row, column + {lane}u, acc[{lane}]{arguments});\n"))
            .collect();
        format!(
            "{}\nfn store_one(row: u32, column: u32, acc: {ty}{base_parameters}) {{\n{guard}{each}}}\n\n\
             fn store(row: u32, column: u32, acc: vec4<{ty}>{base_parameters}) {{\n{calls}}}\n",
            function.text
        )
    }

    /// Statements that store four neighbours that are all inside.
    fn fours(
        &self,
        kernel: &mut Kernel<'_>,
        function: &Function,
        wide: &[bool],
        names: &[String],
    ) -> String {
        let step = kernel.step;
        let axes = ["row".to_string(), "column".to_string()];
        let mut held = vec![Held::One; step.operands.len()];
        let mut text = String::new();
        for &operand in &function.operands {
            let strides = last_two(&step.operands[operand].view);
            let start = self.base(kernel, operand, names).to_string();
            let at = kernel.index(&start, strides, &axes);
            let (line, what) = lanes::load(kernel, operand, &at, strides[1], wide[operand]);
            held[operand] = what;
            text.push_str(&line);
        }
        for (lane, call) in lanes::LANES.iter().zip(lanes::calls(function, "acc", |o| held[o])) {
            let _ = writeln!(text, "let result_{lane} = {call};");
        }
        for (output, result) in function.results.iter().enumerate() {
            let view = &step.outputs[output].view;
            let strides = last_two(view);
            let at = kernel.index(&names[output], strides, &axes);
            let values = lanes::LANES.map(|lane| format!("result_{lane}{result}"));
            let wide = self.is_wide_result(view);
            text.push_str(&lanes::store(kernel, output, &at, strides[1], wide, &values));
        }
        text
    }

    /// Statements that store one element.
    fn each(&self, kernel: &mut Kernel<'_>, function: &Function, names: &[String]) -> String {
        let step = kernel.step;
        let axes = ["row".to_string(), "column".to_string()];
        let mut text = String::new();
        for &operand in &function.operands {
            let strides = last_two(&step.operands[operand].view);
            let start = self.base(kernel, operand, names).to_string();
            let at = kernel.index(&start, strides, &axes);
            let _ = writeln!(text, "let x{operand} = {};", kernel.load(operand, &at));
        }
        let _ = writeln!(text, "let values = {};", function.call("acc", |o| format!("x{o}")));
        for (output, result) in function.results.iter().enumerate() {
            let strides = last_two(&step.outputs[output].view);
            let at = kernel.index(&names[output], strides, &axes);
            text.push_str(&kernel.store(output, &at, &format!("values{result}")));
        }
        text
    }

    /// The function that leaves partial sums in the scratch memory, as `[parts, batch, m, n]`. It takes the part
    /// and the batch from private variables.
    fn store_partial(&self, kernel: &mut Kernel<'_>, base_parameters: &str) -> String {
        let scratch = kernel.bind_scratch(true);
        let (m, n) = (kernel.size(self.m), kernel.size(self.n));
        let count = kernel.size(self.count());
        let mut text = format!(
            "fn store(row: u32, column: u32, acc: vec4<{}>{base_parameters}) {{\n    \
             if row >= {m} {{ return; }}\n    \
             let at = ((part * {count} + batch_of) * {m} + row) * {n} + column;\n",
            self.ty_name()
        );
        for lane in 0..4 {
            let _ = writeln!(
                text,
                "    if column + {lane}u < {n} {{ {scratch}[at + {lane}u] = bitcast<u32>(acc[{lane}]); }}"
            );
        }
        format!("var<private> part: u32;\nvar<private> batch_of: u32;\n\n{text}}}\n")
    }

    /// Adds the parts and stores the outputs.
    fn combine(&self, mut kernel: Kernel<'_>) -> Dispatch {
        kernel.bind_outputs(|_| false);
        let operands = kernel.operands_of(&kernel.output_roots());
        kernel.bind_operands(&operands, |_| false);
        let scratch = kernel.bind_scratch(false);
        let (bases, names) = kernel.bases("b", "batch", &self.batch, self.offsets.iter().copied());
        let roots = kernel.output_roots();
        let function = kernel.function("compute_results", &roots, Some(self.ty));
        let each = self.each(&mut kernel, &function, &names);
        let results = self.m * self.n * self.count();
        let holes = [
            ("functions", function.text.clone()),
            ("ty", self.ty_name().to_string()),
            ("scratch", scratch),
            ("results", kernel.size(results)),
            ("parts", kernel.size(self.parts)),
            ("m", kernel.size(self.m)),
            ("n", kernel.size(self.n)),
            ("bases", bases),
            ("each", each),
        ];
        let template = include_str!("../../shaders/product_combine.wgsl");
        kernel.dispatch(template, &holes, " (combine)", results.div_ceil(THREADS))
    }

    /// What the label of the first dispatch says besides the step's.
    pub fn phase(&self) -> &'static str {
        if self.parts > 1 { " (parts)" } else { "" }
    }

    /// Statements for the start of a kernel whose functions store partial sums.
    pub fn announce_part(&self) -> &'static str {
        if self.parts > 1 { "part = id / tiles;\nbatch_of = batch;" } else { "" }
    }
}

/// A statement that loads four neighbours, those outside by the last one inside.
fn load_inside(kernel: &mut Kernel<'_>, operand: usize, at: &str, stride: i64) -> String {
    let ty = type_name(kernel.step.operands[operand].dtype.lane());
    let lanes: Vec<String> = (lanes::LANES.iter())
        .map(|lane| {
            let at = kernel.index(at, &[stride], &[format!("inside.{lane}")]);
            kernel.load(operand, &at)
        })
        .collect();
    format!("let x{operand} = vec4<{ty}>({});\n", lanes.join(", "))
}

/// The axis of `view` along which four neighbours are read.
fn lane_axis(reading: &Reading, view: &View) -> usize {
    let [outer, k] = axes(reading.side, view);
    if reading.along_k { k } else { outer }
}

/// The positions of a side's axis across k and of k among the axes of its view.
fn axes(side: Side, view: &View) -> [usize; 2] {
    let rank = view.dims.len();
    match side {
        Side::X => [rank - 2, rank - 1],
        Side::W => [rank - 1, rank - 2],
    }
}

fn last_two(view: &View) -> &[i64] {
    &view.strides[view.strides.len() - 2..]
}

/// Whether four neighbours along axis `lane` from any multiple of four on lie in one aligned quad.
fn is_wide(view: &View, lane: usize, other: usize) -> bool {
    let rank = view.dims.len();
    let mut others: Vec<i64> = view.strides[..rank - 2].to_vec();
    others.push(view.strides[other]);
    let whole = view.dims[lane].is_multiple_of(4) && !view.dims.contains(&0);
    whole && lanes::is_wide(view, view.strides[lane], &others)
}
