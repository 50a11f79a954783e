//! Maps that look up in rows of a table: a row is read in order and goes through workgroup memory.

use super::quads::{Loads, Quads, functions};
use crate::codegen::Dispatch;
use crate::codegen::kernel::template::{holes, shader};
use crate::codegen::kernel::{KernelBuilder, lanes};
use crate::cost::Limits;
use crate::expr::wgsl::type_name;
use crate::plan::{MapSpace, Plan, RowTable, Step};

/// Lowers the map `step`, whose fetch is a load of `operand` now.
pub(super) fn lower(
    plan: &Plan,
    step: &Step,
    limits: &Limits,
    quads: &Quads<'_>,
    row: &RowTable,
    operand: usize,
) -> Dispatch {
    let row = &RowKernel { row, operand };
    let mut kernel = KernelBuilder::new(plan, step, limits);
    let space = quads.space;
    let roots = kernel.output_roots();
    kernel.tells_late(step.expr.sites(&[&roots[..], &[row.row.index]].concat()) == 1);
    let function = kernel.function("compute_element", &roots, None);
    quads.bind(&mut kernel);
    let count = kernel.size(space.axes.len());
    let mut loads = quads.load(&mut kernel, &function, &count);
    let ty = type_name(step.operands[row.operand].dtype.lane());
    row.find_places(&mut kernel, ty, &mut loads);
    let done = quads.finish(&mut kernel, &function, &loads, &count);
    let columns = space.columns();
    let (lines, parts) = (row.row.lines(columns), row.row.parts(columns));
    let groups = space.axes.len() / columns * parts;
    let [group_count, part_count, column_count] =
        [groups, parts, columns].map(|size| kernel.size(size));
    let (start, pieces) = row.bring(&mut kernel, space, lines);
    let holes = holes! {
        group: lines * RowTable::LINE, apart: RowTable::LINE, piece: row.row.piece,
        threads: RowTable::THREADS,
        functions: [loads.functions.as_str(), &function.text].join("\n"),
        quad: functions(", row: u32, column: u32", &loads, &done), held: row.held(&kernel, space),
        element: kernel.loaded(step.operands[row.row.table].dtype, "element"), ty,
        fetched: format!("x{}", row.operand), quads: load_quads(lines, &column_count),
        done_stores: store_quads(lines, &column_count), start, pieces, tell: kernel.tell(),
        groups: group_count, parts: part_count, columns: column_count,
    };
    kernel.dispatch(shader!("map/row_table.wgsl"), &holes, "", groups)
}

/// A look-up in rows of a table, in a kernel.
struct RowKernel<'a> {
    row: &'a RowTable,
    /// The operand that stands for the fetched elements.
    operand: usize,
}

impl RowKernel<'_> {
    /// Elements of the table that are read at once: four if all rows are made of aligned fours.
    fn unit(&self, step: &Step, space: &MapSpace) -> usize {
        let strides = &space.axes.strides[space.map_of(self.row.first)];
        let aligned = step.operands[self.row.first].view.offset % 4 == 0
            && self.row.size.is_multiple_of(4)
            && strides.iter().all(|stride| stride % 4 == 0);
        if aligned { 4 } else { 1 }
    }

    /// Lets the loader of a quad find its places in the row, with room for the elements there.
    fn find_places(&self, kernel: &mut KernelBuilder<'_>, ty: &str, out: &mut Loads) {
        let place = kernel.function("place", &[self.row.index], None);
        let places = lanes::LANES.map(|lane| {
            let call = place.call("", |o| out.loaded.lane(o, lane));
            format!("u32({call})")
        });
        let operand = self.operand;
        out.functions += &format!("{}\n", place.text);
        out.loaded.text += &format!("let places = vec4<u32>({});\n", places.join(", "));
        out.loaded.vector(operand, &format!("vec4<{ty}>()"));
        out.hand_over_as("places", "vec4<u32>");
        out.hand_over(kernel, operand);
    }

    /// Statements that find where the row of the table begins; and those that bring it to workgroup memory, each piece
    /// on its way while the one before is there, and take from it what the quads want.
    fn bring(
        &self,
        kernel: &mut KernelBuilder<'_>,
        space: &MapSpace,
        lines: usize,
    ) -> (String, String) {
        let outer = space.axes.rank() - 1;
        let strides = &space.axes.strides[space.map_of(self.row.first)][..outer];
        let (mut start, coordinates) = kernel.coordinates("r", "row", &space.axes.dims[..outer]);
        let offset = kernel.param(kernel.step.operands[self.row.first].view.offset);
        let at = kernel.index(&offset, strides, &coordinates);
        start += &format!("let start = {at};\n");
        let unit = self.unit(kernel.step, space);
        let (buffer, size) =
            (kernel.bind_table(self.row.table, unit == 4), kernel.size(self.row.size));
        let rounds = || (0..self.row.piece / unit).step_by(RowTable::THREADS);
        let fetch = |piece: usize, text: &mut String| {
            for at in rounds() {
                let further = piece * self.row.piece + at * unit;
                let place = format!("start + min(thread * {unit}u + {further}u, {size} - {unit}u)");
                let place = if unit == 4 { format!("({place}) / 4u") } else { place };
                *text += &format!("let held{piece}_{at} = {buffer}[{place}];\n");
            }
        };
        let mut text = String::new();
        fetch(0, &mut text);
        for piece in 0..self.row.pieces() {
            if piece > 0 {
                text.push_str("workgroupBarrier();\n");
            }
            for at in rounds() {
                text += &format!("piece[thread + {at}u] = held{piece}_{at};\n");
            }
            if piece + 1 < self.row.pieces() {
                fetch(piece + 1, &mut text);
            }
            text.push_str("workgroupBarrier();\n");
            for k in 0..lines {
                let first = piece * self.row.piece;
                text += &format!("quad{k}.x{} = take(quad{k}, {first}u);\n", self.operand);
            }
        }
        (start, text)
    }

    /// The declaration of workgroup memory, and a statement that reads the element `at`.
    fn held(&self, kernel: &KernelBuilder<'_>, space: &MapSpace) -> String {
        let stored = kernel.stored(kernel.step.operands[self.row.table].dtype);
        let (ty, count, at) = match self.unit(kernel.step, space) {
            4 => (format!("vec4<{stored}>"), self.row.piece / 4, "[at / 4u][at % 4u]"),
            _ => (stored.to_string(), self.row.piece, "[at]"),
        };
        format!(
            "var<workgroup> piece: array<{ty}, {count}>;\n\n\
             fn held(at: u32) -> {stored} {{\n    return piece{at};\n}}"
        )
    }
}

/// Statements that load a thread's quads; past the end of the row, its last one.
fn load_quads(lines: usize, columns: &str) -> String {
    let mut text = String::new();
    for k in 0..lines {
        let further = k * RowTable::LINE;
        text += &format!("let column{k} = min(own_column + {further}u, {columns} - 4u);\n");
        text += &format!("let i{k} = row * {columns} + column{k};\n");
        text += &format!("var quad{k} = load(i{k}, row, column{k});\n");
    }
    text
}

fn store_quads(lines: usize, columns: &str) -> String {
    let mut text = String::new();
    for k in 0..lines {
        text += &format!(
            "if own_column + {}u < {columns} {{\n    store(i{k}, compute(i{k}, quad{k}));\n}}\n",
            k * RowTable::LINE
        );
    }
    text
}
