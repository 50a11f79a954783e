//! Row normalisations: rows in registers where they fit, else statistics of rows and then the outputs.

use std::fmt::Write;

use smallvec::SmallVec;

use super::Dispatch;
use super::collapse::Axes;
use super::kernel::{Kernel, THREADS};
use super::lanes::{self, Held};
use super::norm::helpers;
use super::row_body::Body;
use crate::expr::Ref;
use crate::ops::RowKind;
use crate::plan::{Form, ROW_HELD};

/// Rows that lie side by side in memory and share a workgroup, at most.
const SIDE_BY_SIDE: usize = 32;

/// Lowers a row form; `kernel` makes an empty kernel of its step.
pub(super) fn lower<'a>(kernel: &dyn Fn() -> Kernel<'a>) -> Vec<Dispatch> {
    let first = kernel();
    let Some(row) = Row::new(&first) else { return Vec::new() };
    if row.parts > 1 {
        vec![row.dispatch(first, Phase::Gather), row.dispatch(kernel(), Phase::Apply)]
    } else {
        vec![row.dispatch(first, Phase::Whole)]
    }
}

/// A row form with its rows' dimensions collapsed. Maps are those of the outputs, then those of the
/// operands.
pub(super) struct Row {
    pub kind: RowKind,
    rows: Axes,
    pub len: usize,
    pub parts: usize,
    pub prologue: Ref,
    pub epsilon: Option<u16>,
    lane_strides: SmallVec<[i64; 4]>,
    offsets: SmallVec<[i64; 4]>,
    operands: Vec<usize>,
    outputs: usize,
    pub share: Share,
}

/// How rows are shared out to the threads of a workgroup.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Share {
    /// Elements of a unit: four that are one vector in memory, or one.
    pub lanes: usize,
    /// Threads of a row, a power of two.
    pub width: usize,
    /// Whether neighbouring threads take neighbouring rows, not neighbouring units of one.
    pub across: bool,
    /// Units that a thread holds in registers; `None` where the row is too long for that.
    pub held: Option<usize>,
}

/// What a dispatch does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    Whole,
    /// Statistics of parts of rows, to the scratch memory.
    Gather,
    /// From these to the outputs.
    Apply,
}

impl Share {
    pub fn rows(self) -> usize {
        THREADS / self.width
    }

    fn new(lanes: usize, len: usize, rows: usize, across: bool) -> Self {
        let units = len / lanes;
        if across {
            let side_by_side = SIDE_BY_SIDE.max(THREADS / len.div_ceil(4).next_power_of_two());
            let side_by_side = rows.next_power_of_two().min(side_by_side.min(THREADS));
            let width = THREADS / side_by_side;
            let each = units.div_ceil(width);
            return Self { lanes, width, across, held: (each <= 16).then(|| few_sizes(each)) };
        }
        // Measured: up to 1024 elements want more threads, longer rows more loads under way in each.
        let each = if lanes == 4 && len <= 1024 { 4 } else { 8 };
        let width = units.div_ceil(each).next_power_of_two().min(THREADS);
        let held = (len <= ROW_HELD).then(|| few_sizes(units.div_ceil(width)));
        Self { lanes, width, across, held }
    }
}

/// The next number of the form 2ⁿ or 3·2ⁿ, so that few kernels serve many lengths.
fn few_sizes(n: usize) -> usize {
    let power = n.next_power_of_two();
    if power >= 4 && n <= power / 4 * 3 { power / 4 * 3 } else { power }
}

impl Row {
    fn new(kernel: &Kernel<'_>) -> Option<Self> {
        let step = kernel.step;
        let Form::Row { kind, outer, len, prologue, epsilon, parts } = &step.form else {
            return None;
        };
        let roots: Vec<Ref> = std::iter::once(*prologue).chain(kernel.output_roots()).collect();
        let operands = kernel.operands_of(&roots);
        let maps = step.outputs.iter().map(|o| &o.view);
        let maps: Vec<_> = maps.chain(operands.iter().map(|&o| &step.operands[o].view)).collect();
        let strides: Vec<&[i64]> = maps.iter().map(|view| &view.strides[..outer.len()]).collect();
        let rows = Axes::collapse(outer, &strides);
        let mut row = Self {
            kind: *kind,
            len: *len,
            parts: *parts,
            prologue: *prologue,
            epsilon: *epsilon,
            lane_strides: maps.iter().map(|view| view.strides[outer.len()]).collect(),
            offsets: maps.iter().map(|view| view.offset).collect(),
            outputs: step.outputs.len(),
            share: Share { lanes: 1, width: THREADS, across: false, held: None },
            operands,
            rows,
        };
        let across = row.lies_across();
        let lanes = if !across && row.in_fours(kernel) { 4 } else { 1 };
        row.share = Share::new(lanes, row.len, row.rows.len(), across);
        if row.parts > 1 {
            row.share.held = None;
        }
        Some(row)
    }

    /// Whether neighbouring rows of the first output, not neighbouring elements, are close in memory.
    fn lies_across(&self) -> bool {
        let neighbours = self.rows.strides[0][self.rows.rank() - 1].abs();
        self.lane_strides[0].abs() > 1 && neighbours == 1 && self.rows.len() > 1
    }

    /// Whether all that varies along rows can be read and written in fours.
    fn in_fours(&self, kernel: &Kernel<'_>) -> bool {
        let step = kernel.step;
        let wide = |map: usize, view| {
            lanes::is_wide(view, self.lane_strides[map], &self.rows.strides[map])
                || self.rows.len() == 1 && lanes::is_wide(view, self.lane_strides[map], &[])
        };
        let by_itself = |o: usize| {
            let position = self.operands.iter().position(|&p| p == o).unwrap_or_default();
            wide(self.outputs + position, &step.operands[o].view)
        };
        let operand = |(position, &o): (usize, &usize)| {
            let stays = self.lane_strides[self.outputs + position] == 0;
            stays || lanes::binds_wide(kernel, &self.operands, o, by_itself)
        };
        self.len.is_multiple_of(4)
            && step.outputs.iter().enumerate().all(|(map, output)| wide(map, &output.view))
            && self.operands.iter().enumerate().all(operand)
    }

    /// Whether `operand` is read in fours.
    fn is_wide(&self, operand: usize) -> bool {
        let position = self.operands.iter().position(|&o| o == operand).unwrap_or_default();
        self.share.lanes == 4 && self.lane_strides[self.outputs + position] != 0
    }

    fn dispatch(&self, mut kernel: Kernel<'_>, phase: Phase) -> Dispatch {
        let four = self.share.lanes == 4;
        let scratch = self.bind(&mut kernel, phase);
        helpers(self.kind, self.share.held.is_none()).iter().for_each(|h| kernel.needs(h));
        let offsets = self.offsets.iter().copied();
        let (bases, names) = kernel.bases("o", "row", &self.rows, offsets);
        let parameters: String = names.iter().map(|name| format!(", {name}: u32")).collect();
        let arguments: String = names.iter().map(|name| format!(", {name}")).collect();
        let body = Body { row: self, phase, arguments: &arguments, scratch: &scratch };
        let texts = body.texts(&mut kernel, &names);
        let (parts, rows, units) =
            (kernel.size(self.parts), kernel.size(self.rows.len()), self.len / self.share.lanes);
        let holes = [
            ("functions", texts.functions),
            ("element", texts.element),
            ("shared", texts.shared),
            ("base_parameters", parameters),
            ("vector", if four { "vec4<f32>" } else { "f32" }.to_string()),
            ("builtins", texts.builtins),
            ("thread", texts.thread),
            ("slot", texts.slot),
            ("group_rows", self.share.rows().to_string()),
            ("parts", parts),
            ("rows", rows),
            ("units", kernel.size(units)),
            ("bases", bases),
            ("body", texts.body),
        ];
        let groups = self.rows.len().div_ceil(self.share.rows()).saturating_mul(self.parts);
        let label = if phase == Phase::Gather { " (statistics)" } else { "" };
        kernel.dispatch(include_str!("../../shaders/row.wgsl"), &holes, label, groups)
    }

    /// Binds what the phase reads and writes; the name of the scratch memory, if it is bound.
    fn bind(&self, kernel: &mut Kernel<'_>, phase: Phase) -> String {
        let mut scratch = String::new();
        if phase == Phase::Gather {
            scratch = kernel.bind_scratch(true);
            let operands = kernel.operands_of(&[self.prologue]);
            kernel.bind_operands(&operands, |o| self.is_wide(o));
            return scratch;
        }
        kernel.bind_outputs(|_| self.share.lanes == 4);
        if phase == Phase::Apply {
            scratch = kernel.bind_scratch(false);
        }
        kernel.bind_operands(&self.operands, |o| self.is_wide(o));
        scratch
    }

    /// Statements that load what unit `j` needs of the operands in `wanted`, and what is held of each.
    pub fn loads(
        &self,
        kernel: &mut Kernel<'_>,
        bases: &[String],
        wanted: &[usize],
    ) -> (String, Vec<Held>) {
        let mut text = String::new();
        let mut held = vec![Held::One; kernel.step.operands.len()];
        for (position, &operand) in self.operands.iter().enumerate() {
            if !wanted.contains(&operand) {
                continue;
            }
            let map = self.outputs + position;
            let at = self.at(kernel, bases, map);
            if self.share.lanes == 4 {
                let stride = self.lane_strides[map];
                let (load, what) = lanes::load(kernel, operand, &at, stride, self.is_wide(operand));
                text.push_str(&load);
                held[operand] = what;
            } else {
                let _ = writeln!(text, "let x{operand} = {};", kernel.load(operand, &at));
            }
        }
        (text, held)
    }

    /// The index of the first element of unit `j`.
    pub fn at(&self, kernel: &mut Kernel<'_>, bases: &[String], map: usize) -> String {
        let j = if self.share.lanes == 4 { "j * 4u" } else { "j" };
        kernel.index(&bases[map], &self.lane_strides[map..=map], &[j.to_string()])
    }
}
