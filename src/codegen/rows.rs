//! Rows of elements and where they lie in every operand and output: what the row and scan forms share.

use smallvec::SmallVec;

use super::group_fold::GroupFold;
use super::kernel::{KernelBuilder, KernelFunction, OuterMaps, THREADS, passed};
use crate::base::dtype::Ty;
use crate::codegen::kernel::lanes::{self, Loaded};
use crate::codegen::kernel::template::{Holes, holes, indent};
use crate::cost::Subgroups;
use crate::expr::Ref;
use crate::expr::wgsl::type_name;
use crate::plan::OperandSource;

/// Rows that lie side by side in memory and share a workgroup, at most.
const SIDE_BY_SIDE: usize = 32;
/// The shortest rows with edges. Their threads are more than the edges, which are six at most.
const EDGED: usize = 256;

/// A form's rows: their space `outer ++ [len]`, and the prologue over it.
pub(super) type RowSpace<'a> = (&'a [usize], usize, Ref);

/// A [`RowSpace`] with the dimensions of its rows collapsed. Maps are those of the outputs, then those of the operands.
pub(super) struct CollapsedRows {
    maps: OuterMaps,
    pub len: usize,
    pub units: RowUnits,
    prologue: Ref,
    lane_strides: SmallVec<[i64; 4]>,
    /// The operands that are read in fours, where units are fours.
    wide: Vec<usize>,
}

impl CollapsedRows {
    pub fn new(kernel: &KernelBuilder<'_>, (outer, len, prologue): RowSpace<'_>) -> Self {
        let maps = OuterMaps::new(kernel, outer, &[prologue]);
        let step = kernel.step;
        let outputs = step.outputs.iter().map(|output| &output.view);
        let views = outputs.chain(maps.operands.iter().map(|&o| &step.operands[o].view));
        let mut rows = Self {
            lane_strides: views.map(|view| view.strides[outer.len()]).collect(),
            maps,
            len,
            units: RowUnits::One,
            prologue,
            wide: Vec::new(),
        };
        let varies = |&o: &usize| rows.lane_strides[rows.map_of(o)] != 0;
        rows.wide = rows.maps.operands.iter().copied().filter(varies).collect();
        if rows.lies_across() {
            rows.units = RowUnits::Across;
        } else if rows.in_fours(kernel) {
            rows.units = RowUnits::Fours;
        }
        rows
    }

    /// As [`new`](Self::new), with units of one element.
    pub fn one_by_one(kernel: &KernelBuilder<'_>, space: RowSpace<'_>) -> Self {
        let rows = Self::new(kernel, space);
        let units = if rows.is_across() { RowUnits::Across } else { RowUnits::One };
        Self { units, ..rows }
    }

    /// As [`new`](Self::new), with edges where that makes fours of a long row.
    pub fn with_edges(kernel: &KernelBuilder<'_>, space: RowSpace<'_>) -> Self {
        let mut rows = Self::new(kernel, space);
        if rows.units == RowUnits::One && rows.len >= EDGED && rows.in_step(kernel) {
            let in_step = |&o: &usize| rows.is_in_step(kernel, o);
            rows.wide = rows.maps.operands.iter().copied().filter(in_step).collect();
            rows.units = RowUnits::FoursWithEdges;
        }
        rows
    }

    /// Elements of a unit.
    pub fn lanes(&self) -> usize {
        self.units.lanes()
    }

    pub fn is_across(&self) -> bool {
        self.units == RowUnits::Across
    }

    pub fn has_edges(&self) -> bool {
        self.units == RowUnits::FoursWithEdges
    }

    /// The number of rows.
    pub fn count(&self) -> usize {
        self.maps.axes.len()
    }

    /// The threads of a row, a power of two, where rows lie across.
    pub fn width_across(&self) -> usize {
        let side_by_side = SIDE_BY_SIDE.max(THREADS / self.len.div_ceil(4).next_power_of_two());
        THREADS / self.count().next_power_of_two().min(side_by_side.min(THREADS))
    }

    /// The fold of the `width` threads of a row, and the holes by which each finds its row in its workgroup and its place
    /// among these threads.
    pub fn threads(&self, width: usize, subgroups: Option<Subgroups>) -> (GroupFold, Holes) {
        let rows = THREADS / width;
        let across = self.is_across();
        let stride = if across { rows } else { 1 };
        let group_fold = GroupFold { width, stride, subgroups: subgroups.filter(|_| !across) };
        let (builtins, thread) = group_fold.numbering();
        let [row, place] =
            ["/", "%"].map(|part| format!("thread {part} {}u", if across { rows } else { width }));
        let [slot, lane] = if across { [place, row] } else { [row, place] };
        let thread = format!("{thread}let lane = {lane};\n");
        (group_fold, holes! { builtins, thread, slot, group_rows: rows })
    }

    fn lies_across(&self) -> bool {
        let neighbours = self.maps.axes.strides[0][self.maps.axes.rank() - 1].abs();
        self.lane_strides[0].abs() > 1 && neighbours == 1 && self.maps.axes.len() > 1
    }

    /// True if all that varies along rows can be read and written in fours.
    fn in_fours(&self, kernel: &KernelBuilder<'_>) -> bool {
        let step = kernel.step;
        let wide = |map: usize, view| {
            lanes::is_wide(view, self.lane_strides[map], &self.maps.axes.strides[map])
                || self.maps.axes.len() == 1 && lanes::is_wide(view, self.lane_strides[map], &[])
        };
        let by_itself = |o: usize| wide(self.map_of(o), &step.operands[o].view);
        let operand = |&o: &usize| {
            let stays = self.lane_strides[self.map_of(o)] == 0;
            stays || lanes::binds_wide(kernel, &self.maps.operands, o, by_itself)
        };
        self.len.is_multiple_of(4)
            && step.outputs.iter().enumerate().all(|(map, output)| wide(map, &output.view))
            && self.maps.operands.iter().all(operand)
    }

    /// True if all outputs and some operand begin each row at the same place in a vector.
    fn in_step(&self, kernel: &KernelBuilder<'_>) -> bool {
        let mut outputs = kernel.step.outputs.iter().enumerate();
        outputs.all(|(map, output)| self.goes_along(map) && kernel.can_round_up(output.value, 4))
            && self.lane_strides.iter().all(|stride| [0, 1].contains(stride))
            && self.maps.operands.iter().any(|&o| self.is_in_step(kernel, o))
    }

    /// True if `operand` can be read in fours that begin where those of the first output do.
    fn is_in_step(&self, kernel: &KernelBuilder<'_>, operand: usize) -> bool {
        let by_itself = |o: usize| match kernel.step.operands[o].source {
            OperandSource::Value(value) => {
                kernel.can_round_up(value, 4) && self.goes_along(self.map_of(o))
            }
            OperandSource::Iota | OperandSource::Table(_) | OperandSource::Failures => false,
        };
        lanes::binds_wide(kernel, &self.maps.operands, operand, by_itself)
    }

    /// True if `map` begins each row at the same place in a vector as the first output does.
    fn goes_along(&self, map: usize) -> bool {
        let alike = |a: i64, b: i64| (a - b) % 4 == 0;
        let mut strides = self.maps.axes.strides[map].iter().zip(&self.maps.axes.strides[0]);
        self.lane_strides[map] == 1
            && alike(self.maps.offsets[map], self.maps.offsets[0])
            && strides.all(|(&a, &b)| alike(a, b))
    }

    fn map_of(&self, operand: usize) -> usize {
        self.maps.map_of(operand).unwrap_or_default()
    }

    /// True if `operand` is read in fours.
    fn is_wide(&self, operand: usize) -> bool {
        self.lanes() == 4 && self.wide.contains(&operand)
    }

    /// Binds the memory that a dispatch reads and writes; the name of the scratch memory, if it is bound. A dispatch that
    /// combines reads all operands `again`, or none.
    pub fn bind(&self, kernel: &mut KernelBuilder<'_>, role: DispatchRole, again: bool) -> String {
        if role == DispatchRole::Partial {
            let scratch = kernel.bind_scratch(true);
            self.bind_prologue(kernel);
            return scratch;
        }
        self.bind_outputs(kernel);
        let combines = role == DispatchRole::Combine;
        let scratch = if combines { kernel.bind_scratch(false) } else { String::new() };
        if again || !combines {
            self.bind_operands(kernel);
        }
        scratch
    }

    /// Binds the operands of the prologue.
    pub fn bind_prologue(&self, kernel: &mut KernelBuilder<'_>) {
        let operands = kernel.operands_of(&[self.prologue]);
        kernel.bind_operands(&operands, |o| self.is_wide(o));
    }

    /// Binds the outputs.
    pub fn bind_outputs(&self, kernel: &mut KernelBuilder<'_>) {
        kernel.bind_outputs(|_| self.lanes() == 4);
    }

    /// Binds the operands of the prologue and of the outputs.
    pub fn bind_operands(&self, kernel: &mut KernelBuilder<'_>) {
        kernel.bind_operands(&self.maps.operands, |o| self.is_wide(o));
    }

    /// Statements that find where `row` begins in every map, and the names of these places.
    pub fn bases(&self, kernel: &mut KernelBuilder<'_>) -> (String, Vec<String>) {
        self.maps.bases(kernel, "o", "row")
    }

    /// The bases of a row's first unit as further arguments of a call.
    pub fn arguments(&self, bases: &[String]) -> String {
        let shifted = |(map, name): (usize, &String)| match self.lane_strides[map] {
            1 if self.has_edges() => format!(", {name} + head"),
            _ => format!(", {name}"),
        };
        bases.iter().enumerate().map(shifted).collect()
    }

    /// Statements that find how many `units` a row has, and none for a thread without a row; with edges, where the
    /// `head` before its units ends, how many `edges` there are, and where the thread's `edge` lies from there on.
    pub fn units(&self, kernel: &mut KernelBuilder<'_>) -> String {
        let len = if self.has_edges() { self.len } else { self.len / self.lanes() };
        let (len, count) = (kernel.size(len), kernel.size(self.count()));
        if self.has_edges() {
            return format!(
                "let elements = select(0u, {len}, place < {count});\nlet head = min((0u - base0) % 4u, elements);\n\
                 let units = (elements - head) / 4u;\nlet edges = elements - units * 4u;\n\
                 let edge = lane - head + select(0u, units * 4u, lane >= head);\n"
            );
        }
        format!("let units = select(0u, {len}, place < {count});\n")
    }

    /// The WGSL type of a unit of values of type `ty`.
    pub fn unit_type(&self, ty: Ty) -> String {
        let scalar = type_name(ty);
        if self.lanes() == 4 { format!("vec4<{scalar}>") } else { scalar.to_string() }
    }

    /// The prologue's function and, where there are edges, the function `element_edge`, which returns the one at `j`;
    /// and statements that return unit `j` of a row.
    pub fn element(&self, kernel: &mut KernelBuilder<'_>, bases: &[String]) -> (String, String) {
        let prologue = kernel.function("prologue", &[self.prologue], None);
        let unit = self.read(kernel, bases, &prologue, self.lanes());
        if !self.has_edges() {
            return (prologue.text, unit);
        }
        let edge = indent(&self.read(kernel, bases, &prologue, 1));
        let (parameters, ty) = (passed(bases).0, type_name(kernel.step.expr.ty(self.prologue)));
        let edge = format!("fn element_edge(j: u32{parameters}) -> {ty} {{\n{edge}}}\n");
        ([prologue.text, edge].join("\n"), unit)
    }

    /// Statements that return unit `j` of `lanes` elements.
    fn read(
        &self,
        kernel: &mut KernelBuilder<'_>,
        bases: &[String],
        prologue: &KernelFunction,
        lanes: usize,
    ) -> String {
        let loaded = self.loads(kernel, bases, &prologue.operands, lanes);
        let value = if lanes == 4 {
            let ty = self.unit_type(kernel.step.expr.ty(self.prologue));
            format!("{ty}({})", loaded.calls(prologue, "").join(", "))
        } else {
            prologue.call("", |o| format!("x{o}"))
        };
        format!("{}return {value};\n", loaded.text)
    }

    /// The function that makes the outputs of the form's result, of type `ty`, and the function `write`, which stores
    /// them for unit `j` of a row. Where there are edges, `write_edge` stores the one at `j`.
    pub fn write(
        &self,
        kernel: &mut KernelBuilder<'_>,
        bases: &[String],
        ty: Ty,
    ) -> (String, String) {
        let function = kernel.function("compute_results", &kernel.output_roots(), Some(ty));
        let mut text = self.store(kernel, bases, &function, (ty, self.lanes()));
        if self.has_edges() {
            text = [text, self.store(kernel, bases, &function, (ty, 1))].join("\n");
        }
        (function.text, text)
    }

    /// The function that stores the results of a unit of so many elements of the type.
    fn store(
        &self,
        kernel: &mut KernelBuilder<'_>,
        bases: &[String],
        function: &KernelFunction,
        (ty, lanes): (Ty, usize),
    ) -> String {
        let loaded = self.loads(kernel, bases, &function.operands, lanes);
        let mut text = loaded.text.clone();
        let four = lanes == 4;
        if four {
            for (lane, call) in lanes::LANES.iter().zip(loaded.calls(function, "acc")) {
                text += &format!("let values_{lane} = {call};\n");
            }
        } else {
            text += &format!("let values = {};\n", function.call("acc", |o| format!("x{o}")));
        }
        for (output, result) in function.results.iter().enumerate() {
            let at = self.at(kernel, bases, output, lanes);
            text.push_str(&if four {
                let values = lanes::LANES.map(|lane| format!("values_{lane}{result}"));
                kernel.store_quad(output, &format!("({at}) / 4u"), &values)
            } else {
                kernel.store(output, &at, &format!("values{result}"))
            });
        }
        let parameters = passed(bases).0;
        let edge = lanes < self.lanes();
        let unit = if edge { type_name(ty).to_string() } else { self.unit_type(ty) };
        let name = if edge { "write_edge" } else { "write" };
        format!("fn {name}(j: u32, acc: {unit}{parameters}) {{\n{}}}\n", indent(&text))
    }

    /// The operands in `wanted` of unit `j`, loaded.
    fn loads(
        &self,
        kernel: &mut KernelBuilder<'_>,
        bases: &[String],
        wanted: &[usize],
        lanes: usize,
    ) -> Loaded {
        let mut loaded = Loaded::default();
        for &operand in wanted {
            let map = self.map_of(operand);
            let at = self.at(kernel, bases, map, lanes);
            let stride = if lanes == 4 { self.lane_strides[map] } else { 0 };
            loaded.load(kernel, operand, &at, stride);
        }
        loaded
    }

    /// The index of the first element of unit `j` of `lanes` elements.
    pub fn at(
        &self,
        kernel: &mut KernelBuilder<'_>,
        bases: &[String],
        map: usize,
        lanes: usize,
    ) -> String {
        let j = if lanes == 4 { "j * 4u" } else { "j" };
        kernel.index(&bases[map], &self.lane_strides[map..=map], &[j.to_string()])
    }
}

/// The work of a dispatch over rows that may be cut into parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum DispatchRole {
    /// Everything, for rows in one part.
    Whole,
    /// The partial results of each part of a row, to the scratch memory.
    Partial,
    /// The outputs, from the partial results.
    Combine,
}

impl DispatchRole {
    /// The roles of the dispatches over rows in so many parts, in their order.
    pub fn of(parts: usize) -> &'static [Self] {
        if parts > 1 { &[Self::Partial, Self::Combine] } else { &[Self::Whole] }
    }
}

/// The part of a row that a thread takes at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum RowUnits {
    /// An element.
    One,
    /// An element, where not its neighbours are close in memory, but those of neighbouring rows of the first output.
    Across,
    /// Four elements that are one vector in memory.
    Fours,
    /// The same of rows that begin anywhere in a vector: elements before and after whole ones are edges, which are read
    /// and written one by one.
    FoursWithEdges,
}

impl RowUnits {
    /// Elements of a unit.
    pub fn lanes(self) -> usize {
        match self {
            Self::One | Self::Across => 1,
            Self::Fours | Self::FoursWithEdges => 4,
        }
    }
}
