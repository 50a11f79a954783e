//! What every generated kernel is made of: parameters, bindings, loads, stores and functions.

use std::collections::BTreeSet;
use std::fmt::Write;

use super::collapse::Axes;
use super::template::{fill, indent};
use super::{Binding, BufferRef, Dispatch};
use crate::cost::Limits;
use crate::dtype::{DType, Ty};
use crate::expr::wgsl::{self, Leaves, Printed, type_name};
use crate::expr::{Node, Ref, Unary};
use crate::plan::{Operand, Plan, Source, Step, ValueId};

/// Threads of a workgroup, except where a template says otherwise.
pub(super) const THREADS: usize = 256;

/// Stands for what should be there and is not: a text with it does not compile, which is an error for the user, where
/// another buffer's name would be a wrong result.
pub(super) const UNBOUND: &str = "unbound";

/// A kernel in the making.
pub(super) struct Kernel<'a> {
    pub plan: &'a Plan,
    pub step: &'a Step,
    pub limits: &'a Limits,
    params: Vec<u32>,
    buffers: Vec<Buffer>,
    helpers: BTreeSet<&'static str>,
    /// Operands that are there as a whole.
    whole: BTreeSet<usize>,
    /// Tables that are fetched from in fours.
    fours: BTreeSet<usize>,
    /// WGSL extensions besides what the buffers ask for.
    extensions: BTreeSet<&'static str>,
}

struct Buffer {
    at: BufferRef,
    /// The WGSL type of an element.
    element: String,
    writes: bool,
}

/// A generated function of loaded values.
pub(super) struct Function {
    pub text: String,
    name: &'static str,
    takes_acc: bool,
    takes_live: bool,
    /// The operands that it takes, in order.
    pub operands: Vec<usize>,
    /// What to write after the call's result to get each root.
    pub results: Vec<String>,
}

impl Function {
    /// A call, given the text of each operand's value.
    pub fn call(&self, acc: &str, operand: impl Fn(usize) -> String) -> String {
        self.call_if("true", acc, operand)
    }

    /// As [`call`](Self::call); failures count only where `live` holds.
    pub fn call_if(&self, live: &str, acc: &str, operand: impl Fn(usize) -> String) -> String {
        let live = self.takes_live.then(|| live.to_string());
        let acc = self.takes_acc.then(|| acc.to_string());
        let operands = self.operands.iter().map(|&o| operand(o));
        let arguments: Vec<String> = live.into_iter().chain(acc).chain(operands).collect();
        format!("{}({})", self.name, arguments.join(", "))
    }
}

impl<'a> Kernel<'a> {
    pub fn new(plan: &'a Plan, step: &'a Step, limits: &'a Limits) -> Self {
        Self {
            plan,
            step,
            limits,
            params: Vec::new(),
            buffers: Vec::new(),
            helpers: BTreeSet::new(),
            whole: BTreeSet::new(),
            fours: BTreeSet::new(),
            extensions: BTreeSet::new(),
        }
    }

    /// Text that reads a new parameter with the low 32 bits of `value`.
    pub fn param(&mut self, value: i64) -> String {
        self.params.push(value as u32);
        param_text(self.params.len() - 1)
    }

    pub fn size(&mut self, value: usize) -> String {
        self.param(value as i64)
    }

    /// Text that reads a new parameter of type `f32`.
    pub fn float(&mut self, value: f32) -> String {
        self.params.push(value.to_bits());
        scalar_text(self.params.len() - 1, Ty::F32)
    }

    pub fn needs(&mut self, helper: &'static str) {
        self.helpers.insert(helper);
    }

    pub fn enable(&mut self, extension: &'static str) {
        self.extensions.insert(extension);
    }

    /// The operands that `roots` read, in ascending order.
    pub fn operands_of(&self, roots: &[Ref]) -> Vec<usize> {
        let mut operands = self.step.expr.loads(roots);
        operands.sort_unstable();
        operands
    }

    /// The roots of all outputs.
    pub fn output_roots(&self) -> Vec<Ref> {
        self.step.outputs.iter().map(|o| o.root).collect()
    }

    /// Binds the outputs, in fours where `wide` says so.
    pub fn bind_outputs(&mut self, wide: impl Fn(usize) -> bool) {
        for (index, output) in self.step.outputs.iter().enumerate() {
            self.bind(BufferRef::Value(output.value), output.dtype, true, wide(index));
        }
    }

    /// Binds what `operands` read, in fours where `wide` says so; it must say the same of all
    /// operands of one value.
    pub fn bind_operands(&mut self, operands: &[usize], wide: impl Fn(usize) -> bool) {
        for &index in operands {
            let operand = &self.step.operands[index];
            if let Source::Value(value) = operand.source
                && !self.is_void(operand)
            {
                self.bind(BufferRef::Value(value), operand.dtype, false, wide(index));
            }
        }
    }

    /// Binds the step's scratch memory and names it.
    pub fn bind_scratch(&mut self, writes: bool) -> String {
        debug_assert!(self.step.scratch.is_some(), "{} has no scratch memory", self.step.label());
        let Some(scratch) = self.step.scratch else { return UNBOUND.into() };
        let slot = scratch.slot;
        self.bind(BufferRef::Slot(slot), DType::U32, writes, false);
        self.buffer(BufferRef::Slot(slot))
    }

    /// Binds what `operand` reads as fours of 32-bit words, whatever they hold.
    pub fn bind_words(&mut self, operand: usize) {
        if let Source::Value(value) = self.step.operands[operand].source {
            self.bind(BufferRef::Value(value), DType::U32, false, true);
        }
    }

    /// The four words at the position given as text of an operand that is bound so.
    pub fn words(&self, operand: usize, at: &str) -> String {
        let Source::Value(value) = self.step.operands[operand].source else {
            return UNBOUND.into();
        };
        format!("{}[{at}]", self.buffer(BufferRef::Value(value)))
    }

    fn bind(&mut self, at: BufferRef, dtype: DType, writes: bool, wide: bool) {
        if self.buffers.iter().all(|b| b.at != at) {
            let scalar = self.stored(dtype);
            let element = if wide { format!("vec4<{scalar}>") } else { scalar.to_string() };
            self.buffers.push(Buffer { at, element, writes });
        }
    }

    /// Binds the table `operand` in fours.
    pub fn bind_fours(&mut self, operand: usize) {
        let Operand { source, dtype, .. } = self.step.operands[operand];
        if let Source::Table(value) = source {
            self.bind(BufferRef::Value(value), dtype, false, true);
            self.fours.insert(operand);
        }
    }

    /// Binds the whole operands that functions use, and makes the functions that those call.
    fn bind_whole(&mut self) -> String {
        let mut text = String::new();
        for operand in std::mem::take(&mut self.fours) {
            text.push_str(&self.fetch_fours(operand));
        }
        for operand in std::mem::take(&mut self.whole) {
            let Operand { source, dtype, .. } = self.step.operands[operand];
            match source {
                Source::Table(value) => {
                    if self.plan.values[value.index()].shape.elements() > 0 {
                        self.bind(BufferRef::Value(value), dtype, false, false);
                    }
                    text.push_str(&self.fetch(operand, value));
                }
                Source::Failures => {
                    self.buffers.push(Buffer {
                        at: BufferRef::Failures,
                        element: "atomic<u32>".to_string(),
                        writes: true,
                    });
                    let buffer = self.buffer(BufferRef::Failures);
                    let _ = write!(
                        text,
                        "\nfn fail(site: u32, at: u32) {{\n    atomicMax(&{buffer}[site], ~at);\n}}\n"
                    );
                }
                Source::Value(_) | Source::Iota => {}
            }
        }
        text
    }

    /// The function that fetches an element of the table `operand`.
    fn fetch(&mut self, operand: usize, value: ValueId) -> String {
        let (dtype, elements) =
            (self.step.operands[operand].dtype, self.plan.values[value.index()].shape.elements());
        let ty = type_name(dtype.lane());
        let body = if elements == 0 {
            format!("return {ty}(0);")
        } else {
            let last = self.size(elements - 1);
            let at = BufferRef::Value(value);
            let buffer = self.buffer(at);
            let wide = self.buffers.iter().any(|b| b.at == at && b.element.starts_with("vec4"));
            let element = if wide { "[at / 4u][at % 4u]" } else { "[at]" };
            let element = self.loaded(dtype, &format!("{buffer}{element}"));
            format!("let at = min(position, {last});\nreturn {element};")
        };
        format!("\nfn fetch{operand}(position: u32) -> {ty} {{\n{}}}\n", indent(&body))
    }

    /// The function that fetches four elements of the table `operand` from a position on that is a multiple of four.
    fn fetch_fours(&mut self, operand: usize) -> String {
        let Operand { source, dtype, .. } = self.step.operands[operand];
        let Source::Table(value) = source else { return String::new() };
        let ty = type_name(dtype.lane());
        let last = self.size(self.plan.values[value.index()].shape.elements().saturating_sub(1));
        let element =
            format!("{}[min(position, {last}) / 4u]", self.buffer(BufferRef::Value(value)));
        let element = self.loaded_quad(dtype, element);
        format!(
            "\nfn fetch{operand}_fours(position: u32) -> vec4<{ty}> {{\n    return {element};\n}}\n"
        )
    }

    /// What is stored as the four of `quad`, in its lane type.
    fn loaded_quad(&self, dtype: DType, quad: String) -> String {
        match dtype {
            DType::F16 if self.limits.f16 => format!("vec4<f32>({quad})"),
            DType::Bool => format!("({quad} != vec4<u32>())"),
            _ => quad,
        }
    }

    /// What is stored as `element`, in its lane type.
    fn loaded(&self, dtype: DType, element: &str) -> String {
        match dtype {
            DType::F16 if self.limits.f16 => format!("f32({element})"),
            DType::Bool => format!("({element} != 0u)"),
            _ => element.to_string(),
        }
    }

    /// Whether all that is bound holds two bytes an element.
    pub fn binds_halves_alone(&self) -> bool {
        self.buffers.iter().all(|b| b.element.contains("f16"))
    }

    /// Whether the buffer of `value` holds its elements rounded up to a multiple of `unit`: buffers
    /// are no smaller than 256 bytes and otherwise multiples of that, but for the largest.
    pub fn can_round_up(&self, value: ValueId, unit: usize) -> bool {
        let value = &self.plan.values[value.index()];
        let elements = value.shape.elements().next_multiple_of(unit) as u64;
        elements.saturating_mul(self.limits.stored(value.dtype)) <= self.limits.binding_bytes
    }

    /// The WGSL type that holds `dtype` in memory.
    fn stored(&self, dtype: DType) -> &'static str {
        match dtype {
            DType::F16 if self.limits.f16 => "f16",
            DType::F32 | DType::F16 => "f32",
            DType::I32 => "i32",
            DType::U32 | DType::Bool => "u32",
        }
    }

    fn buffer(&self, at: BufferRef) -> String {
        let index = self.buffers.iter().position(|b| b.at == at);
        debug_assert!(index.is_some(), "{at:?} is not bound");
        index.map_or_else(|| UNBOUND.into(), |index| format!("buffer{index}"))
    }

    /// Whether the operand's value has no elements, so that nothing can be read.
    fn is_void(&self, operand: &Operand) -> bool {
        match operand.source {
            Source::Value(value) => self.plan.values[value.index()].shape.elements() == 0,
            Source::Iota | Source::Table(_) | Source::Failures => false,
        }
    }

    /// The value of `operand` at the index given as text, in its lane type.
    pub fn load(&mut self, operand: usize, index: &str) -> String {
        let step = self.step;
        let operand = &step.operands[operand];
        let Source::Value(value) = operand.source else {
            return format!("i32({index})");
        };
        let ty = operand.dtype.lane();
        if self.is_void(operand) {
            return format!("{}(0)", type_name(ty));
        }
        let buffer = self.buffer(BufferRef::Value(value));
        let index = if operand.clamp {
            let last = self.plan.values[value.index()].shape.elements() as i64 - 1;
            let last = self.param(last);
            format!("clamp(i32({index}), 0, i32({last}))")
        } else {
            index.to_string()
        };
        self.loaded(operand.dtype, &format!("{buffer}[{index}]"))
    }

    /// Four values of `operand`, at the quad of the index given as text.
    pub fn load_quad(&self, operand: usize, quad: &str) -> String {
        let operand = &self.step.operands[operand];
        let Source::Value(value) = operand.source else { return UNBOUND.into() };
        self.loaded_quad(operand.dtype, format!("{}[{quad}]", self.buffer(BufferRef::Value(value))))
    }

    /// `value`, of a lane type, as `output` stores it.
    pub fn stored_value(&mut self, output: usize, value: &str) -> String {
        let output = &self.step.outputs[output];
        match output.dtype {
            DType::F16 if self.limits.f16 => format!("f16({value})"),
            DType::F16 => {
                let node = self.step.expr.node(output.root);
                if matches!(node, Node::Unary(Unary::RoundF16, _)) {
                    return value.to_string();
                }
                self.needs("p_round_f16");
                format!("p_round_f16({value})")
            }
            DType::Bool => format!("select(0u, 1u, {value})"),
            _ => value.to_string(),
        }
    }

    /// A statement that stores `value`, of a lane type, in `output`.
    pub fn store(&mut self, output: usize, index: &str, value: &str) -> String {
        let buffer = self.buffer(BufferRef::Value(self.step.outputs[output].value));
        format!("{buffer}[{index}] = {};\n", self.stored_value(output, value))
    }

    /// A statement that stores one lane of a quad in `output`.
    pub fn store_lane(&mut self, output: usize, quad: &str, lane: &str, value: &str) -> String {
        let buffer = self.buffer(BufferRef::Value(self.step.outputs[output].value));
        format!("{buffer}[{quad}].{lane} = {};\n", self.stored_value(output, value))
    }

    /// A statement that stores four values in `output`.
    pub fn store_quad(&mut self, output: usize, quad: &str, values: &[String; 4]) -> String {
        let step = self.step;
        let buffer = self.buffer(BufferRef::Value(step.outputs[output].value));
        let scalar = self.stored(step.outputs[output].dtype);
        let values = values.each_ref().map(|v| self.stored_value(output, v)).join(", ");
        format!("{buffer}[{quad}] = vec4<{scalar}>({values});\n")
    }

    /// The sum of `start` and coordinates times strides. Strides of 0 and 1 are in the text, all others are
    /// parameters.
    pub fn index(&mut self, start: &str, strides: &[i64], coordinates: &[String]) -> String {
        let mut text = start.to_string();
        for (&stride, coordinate) in strides.iter().zip(coordinates) {
            match stride {
                0 => {}
                1 => {
                    let _ = write!(text, " + {coordinate}");
                }
                _ => {
                    let stride = self.param(stride);
                    let _ = write!(text, " + {coordinate} * {stride}");
                }
            }
        }
        text
    }

    /// Statements that take the row-major position `position` apart, and the names of the coordinates,
    /// which start with `prefix`.
    pub fn coordinates(
        &mut self,
        prefix: &str,
        position: &str,
        dims: &[usize],
    ) -> (String, Vec<String>) {
        if dims.len() == 1 {
            return (String::new(), vec![position.to_string()]);
        }
        let names: Vec<String> = (0..dims.len()).map(|axis| format!("{prefix}{axis}")).collect();
        let mut text = String::new();
        let mut rest = position.to_string();
        for axis in (1..dims.len()).rev() {
            let dim = self.size(dims[axis]);
            let _ = writeln!(text, "let {} = {rest} % {dim};", names[axis]);
            let next = if axis == 1 { names[0].clone() } else { format!("{prefix}_rest{axis}") };
            let _ = writeln!(text, "let {next} = {rest} / {dim};");
            rest = next;
        }
        (text, names)
    }

    /// Statements that find where each map begins at the row-major position `position` of `axes`, given
    /// its offset, and the names given. Coordinates start with `prefix`.
    pub fn bases(
        &mut self,
        prefix: &str,
        position: &str,
        axes: &Axes,
        offsets: impl Iterator<Item = i64>,
    ) -> (String, Vec<String>) {
        let (mut text, coordinates) = self.coordinates(prefix, position, &axes.dims);
        let mut names = Vec::new();
        for (map, offset) in offsets.enumerate() {
            let start = self.param(offset);
            let base = self.index(&start, &axes.strides[map], &coordinates);
            let _ = writeln!(text, "let base{map} = {base};");
            names.push(format!("base{map}"));
        }
        (text, names)
    }

    /// A function `name` of the operands that `roots` read (and of `acc`, where its type is given).
    pub fn function(&mut self, name: &'static str, roots: &[Ref], acc: Option<Ty>) -> Function {
        let step = self.step;
        let operands = self.operands_of(roots);
        let Printed { statements, roots: values, helpers } = {
            let params = std::cell::RefCell::new(&mut self.params);
            let scalar = |index: u16, ty: Ty| {
                let mut params = params.borrow_mut();
                params.push(step.scalars[usize::from(index)].lane_bits());
                scalar_text(params.len() - 1, ty)
            };
            let load = |operand: u16| format!("x{operand}");
            wgsl::print(&step.expr, roots, &Leaves { load: &load, scalar: &scalar, acc: "acc" })
        };
        self.helpers.extend(helpers);
        self.whole.extend(step.expr.whole_operands(roots));
        let takes_live = step.expr.can_fail(roots);
        let live = takes_live.then(|| "live: bool".to_string());
        let acc = acc.map(|ty| format!("acc: {}", type_name(ty)));
        let takes_acc = acc.is_some();
        let loads = operands.iter().map(|&o| {
            let ty = type_name(step.operands[o].dtype.lane());
            format!("x{o}: {ty}")
        });
        let arguments = live.into_iter().chain(acc).chain(loads).collect::<Vec<_>>().join(", ");
        let types: Vec<&str> = roots.iter().map(|&r| type_name(step.expr.ty(r))).collect();
        let (structure, result, value, results) = signature(&types, &values);
        let body = indent(&format!("{statements}return {value};"));
        let text = format!("{structure}fn {name}({arguments}) -> {result} {{\n{body}}}\n");
        Function { text, name, takes_acc, takes_live, operands, results }
    }

    /// The scalar `index` of the step, as a float.
    pub fn scalar(&mut self, index: u16) -> String {
        self.params.push(self.step.scalars[usize::from(index)].lane_bits());
        scalar_text(self.params.len() - 1, Ty::F32)
    }

    /// Fills `template`, whose hole `prelude` stands for all that was bound and needed, and shares
    /// `groups` workgroups out to a grid.
    pub fn dispatch(
        mut self,
        template: &str,
        holes: &[(&str, impl AsRef<str>)],
        phase: &str,
        groups: usize,
    ) -> Dispatch {
        let whole = self.bind_whole();
        self.params.resize(self.params.len().next_multiple_of(4).max(4), 0);
        let prelude = self.prelude() + &whole;
        let mut all = vec![("prelude", prelude.as_str())];
        all.extend(holes.iter().map(|(name, text)| (*name, text.as_ref())));
        let buffers = self.buffers.iter().map(|b| Binding { buffer: b.at, writes: b.writes });
        Dispatch {
            label: format!("{}{phase}", self.step.label()),
            wgsl: fill(template, &all),
            own: None,
            buffers: buffers.collect(),
            params: self.params,
            groups: grid(groups, self.limits.groups),
        }
    }

    fn prelude(&self) -> String {
        let mut text = String::new();
        let halves = self.buffers.iter().any(|b| b.element.contains("f16"));
        let asked_for = self.extensions.iter().copied().chain(halves.then_some("f16"));
        for extension in asked_for.collect::<BTreeSet<_>>() {
            let _ = writeln!(text, "enable {extension};\n");
        }
        let quads = self.params.len() / 4;
        let _ = write!(
            text,
            "struct Params {{\n    v: array<vec4<u32>, {quads}>,\n}}\n\
             @group(0) @binding(0) var<uniform> params: Params;\n"
        );
        for (index, Buffer { element, writes, .. }) in self.buffers.iter().enumerate() {
            let access = if *writes { "read_write" } else { "read" };
            let binding = index + 1;
            let _ = writeln!(
                text,
                "@group(0) @binding({binding}) \
                 var<storage, {access}> buffer{index}: array<{element}>;"
            );
        }
        let helpers = wgsl::helpers(&self.helpers, self.limits.int64);
        if !helpers.is_empty() {
            let _ = write!(text, "\n{helpers}\n");
        }
        text
    }
}

/// What a function of these result types needs: a structure for more than one, the type that
/// it returns, what it returns, and how to get at each result.
fn signature(types: &[&str], values: &[String]) -> (String, String, String, Vec<String>) {
    if let (&[ty], [value]) = (types, values) {
        return (String::new(), ty.to_string(), value.clone(), vec![String::new()]);
    }
    let fields: String =
        types.iter().enumerate().map(|(i, ty)| format!("    r{i}: {ty},\n")).collect();
    let structure = format!("struct Results {{\n{fields}}}\n\n");
    let value = format!("Results({})", values.join(", "));
    let results = (0..types.len()).map(|i| format!(".r{i}")).collect();
    (structure, "Results".to_string(), value, results)
}

fn param_text(word: usize) -> String {
    format!("params.v[{}].{}", word / 4, ["x", "y", "z", "w"][word % 4])
}

fn scalar_text(word: usize, ty: Ty) -> String {
    let word = param_text(word);
    match ty {
        Ty::U32 => word,
        Ty::Bool => format!("{word} != 0u"),
        Ty::F32 | Ty::I32 => format!("bitcast<{}>({word})", type_name(ty)),
    }
}

/// A grid of at least `groups` workgroups with no side past `limit`. Kernels number them by
/// `(z · sides.y + y) · sides.x + x` and leave out those past the end.
pub(super) fn grid(groups: usize, limit: u32) -> [u32; 3] {
    let limit = limit as usize;
    let rows = groups.div_ceil(limit).max(1);
    let x = groups.div_ceil(rows).max(1);
    let y = rows.min(limit);
    [x, y, rows.div_ceil(y)].map(|side| side as u32)
}
