//! Maps that look up in rows of a table: where all that a workgroup fetches lies in one row, that row is read in order
//! and goes through workgroup memory. Fetched one by one, its elements come in pieces of memory that are used in part.

use std::fmt::Write;

use super::quad::{self, Loads};
use crate::base::dtype::Ty;
use crate::codegen::Dispatch;
use crate::codegen::kernel::Kernel;
use crate::codegen::kernel::lanes::{self, Held};
use crate::codegen::map::{Quads, Space};
use crate::cost::Limits;
use crate::expr::wgsl::type_name;
use crate::expr::{Binary, Const, Failure, Node, Ref};
use crate::plan::{Plan, Source, Step};

/// Threads of a workgroup. On an H200, with 256 it took 1.6 times as long.
const THREADS: usize = 512;
/// Elements of which each thread has four.
const LINE: usize = 4 * THREADS;
/// The most lines of results of a workgroup, where a row of the table is one piece and where it is several. On an H200,
/// four in place of two took 0.85 of the time with one piece, and 1.04 with two.
const MOST_LINES: [usize; 2] = [4, 2];
/// Bytes of a row that are in workgroup memory at a time. On an H200, twice as many took 1.3 times as long.
const PIECE_BYTES: usize = 16 << 10;
const MOST_PIECES: usize = 4;
/// The shortest rows of the table and of results: what is looked up in shorter ones comes from the first-level cache.
const LEAST: usize = 4096;
/// The longest row of the table for each element that is looked up in it.
const SPARSE: usize = 2;
/// Workgroups from which on they keep a large GPU busy.
const GROUPS: usize = 128;

/// A look-up in rows of a table.
#[derive(Clone, Copy)]
pub(crate) struct RowTable {
    /// The operand that stands for what is fetched.
    operand: usize,
    table: usize,
    /// The operand that is where the row of the table begins.
    first: usize,
    /// Of the place in the row.
    place: Ref,
    /// Elements of a row of the table.
    size: usize,
    /// Those that are in workgroup memory at a time.
    piece: usize,
}

/// The step with a load in place of its only fetch, and what that is, if tables' rows go through workgroup memory.
/// `space` has a last axis of whole fours.
pub(crate) fn find(step: &Step, space: &Space, limits: &Limits) -> Option<(Step, RowTable)> {
    let roots: Vec<Ref> = step.outputs.iter().map(|output| output.root).collect();
    let mut fetches = step.expr.reachable(&roots).into_iter().filter_map(|r| {
        let Node::Fetch(table, position) = step.expr.node(r) else { return None };
        Some((r, usize::from(table), position))
    });
    let (fetch, table, position) = fetches.next()?;
    let alone = fetches.next().is_none() && is_read_once(step, table);
    let (first, place, size) = in_row(step, position)?;
    let stored = limits.stored(step.operands[table].dtype) as usize;
    let piece = (PIECE_BYTES / stored).min(size.next_multiple_of(LINE));
    let row = RowTable { operand: step.operands.len(), table, first, place, size, piece };
    let fits = limits.threads as usize >= THREADS && limits.workgroup_bytes as usize >= PIECE_BYTES;
    if !alone || !fits || !row.pays(space) {
        return None;
    }
    let mut step = step.clone();
    step.operands.push(step.operands[table].clone());
    step.expr.load_instead(fetch, row.operand as u16);
    Some((step, row))
}

/// Whether nothing else reads the table's value.
fn is_read_once(step: &Step, table: usize) -> bool {
    let value = step.operands[table].source.value();
    step.operands.iter().filter(|operand| operand.source.value() == value).count() == 1
}

/// The operand that is where a row begins, the place in the row and the row's elements, if `position` is the sum of the
/// first two and the place is checked to be in the row.
fn in_row(step: &Step, position: Ref) -> Option<(usize, Ref, usize)> {
    let node = |r: Ref| step.expr.node(r);
    let scalar = |r: Ref| match node(r) {
        Node::Scalar(n) => Some(step.scalars[usize::from(n)].lane_bits()),
        _ => None,
    };
    let Node::Binary(Binary::Add, place, first) = node(position) else { return None };
    let Node::Load(first) = node(first) else { return None };
    let Node::Binary(Binary::Mul, place, stride) = node(place) else { return None };
    let index = if let Node::Cast(Ty::I32, index) = node(place) { index } else { place };
    let Node::Select(fails, instead, _) = node(index) else { return None };
    let Node::Check(_, Failure { holds, .. }) = node(fails) else { return None };
    let Node::Binary(Binary::Ge, _, size) = node(holds) else { return None };
    let by_ones =
        scalar(stride)? == 1 && matches!(node(instead), Node::Const(Const { bits: 0, .. }));
    let (first, size) = (usize::from(first), scalar(size)? as usize);
    let counts = step.operands[first].source == Source::Iota;
    (by_ones && counts).then_some((first, place, size))
}

impl RowTable {
    /// Whether rows are such that this is faster, and all of a row of `space` looks up in one row of the table.
    fn pays(&self, space: &Space) -> bool {
        let columns = columns(space);
        let stays = space.axes.strides[space.map_of(self.first)].last() == Some(&0);
        stays
            && columns.is_multiple_of(4)
            && columns.min(self.size) >= LEAST
            && self.pieces() <= MOST_PIECES
            && self.size <= SPARSE * columns
            && space.axes.len() / columns * self.parts(columns) >= GROUPS
    }

    fn pieces(&self) -> usize {
        self.size.div_ceil(self.piece)
    }

    /// Lines of results of a workgroup.
    fn lines(&self, columns: usize) -> usize {
        let most = MOST_LINES[usize::from(self.pieces() > 1)];
        columns.div_ceil(LINE).next_power_of_two().min(most)
    }

    /// Workgroups of a row of results.
    fn parts(&self, columns: usize) -> usize {
        columns.div_ceil(self.lines(columns) * LINE)
    }

    /// Elements of the table that are read at once: fours where all rows are made of aligned ones.
    fn unit(&self, step: &Step, space: &Space) -> usize {
        let strides = &space.axes.strides[space.map_of(self.first)];
        let aligned = step.operands[self.first].view.offset % 4 == 0
            && self.size.is_multiple_of(4)
            && strides.iter().all(|stride| stride % 4 == 0);
        if aligned { 4 } else { 1 }
    }
}

/// Elements of a row of results.
fn columns(space: &Space) -> usize {
    space.axes.dims[space.axes.rank() - 1]
}

/// Lowers the map `step`, whose fetch is a load now.
pub(crate) fn lower(
    plan: &Plan,
    step: &Step,
    limits: &Limits,
    quads: &Quads<'_>,
    row: &RowTable,
) -> Dispatch {
    let mut kernel = Kernel::new(plan, step, limits);
    let space = quads.space;
    let roots = kernel.output_roots();
    kernel.tells_late(step.expr.sites(&[&roots[..], &[row.place]].concat()) == 1);
    let function = kernel.function("compute_element", &roots, None);
    let wide = quads.bind(&mut kernel);
    let count = kernel.size(space.axes.len());
    let mut loads = Loads::default();
    quads.load(&mut kernel, &function, &wide, &count, &mut loads);
    let ty = type_name(step.operands[row.operand].dtype.lane());
    row.find_places(&mut kernel, ty, &mut loads);
    let done = quads.finish(&mut kernel, &function, &loads, &count);
    let columns = columns(space);
    let (lines, parts) = (row.lines(columns), row.parts(columns));
    let groups = space.axes.len() / columns * parts;
    let all = [groups, parts, columns].map(|size| kernel.size(size));
    let (start, pieces) = row.bring(&mut kernel, space, lines);
    let numbers =
        [("group", lines * LINE), ("apart", LINE), ("piece", row.piece), ("threads", THREADS)];
    let mut holes: Vec<(&str, String)> = numbers.map(|(name, n)| (name, n.to_string())).into();
    holes.extend([
        ("functions", [loads.functions.as_str(), &function.text].join("\n")),
        ("quad", quad::functions(", row: u32, column: u32", &loads, &done)),
        ("held", row.held(&kernel, space)),
        ("element", kernel.loaded(step.operands[row.table].dtype, "element")),
        ("ty", ty.to_string()),
        ("fetched", format!("x{}", row.operand)),
        ("quads", load_quads(lines, &all[2])),
        ("done_stores", store_quads(lines, &all[2])),
        ("start", start),
        ("pieces", pieces),
        ("tell", kernel.tell().to_string()),
    ]);
    let [groups_text, parts, columns] = all;
    holes.extend([("groups", groups_text), ("parts", parts), ("columns", columns)]);
    kernel.dispatch(include_str!("../../../shaders/map_row_table.wgsl"), &holes, "", groups)
}

impl RowTable {
    /// Has who loads a quad find its places in the row, and have room for what is there.
    fn find_places(&self, kernel: &mut Kernel<'_>, ty: &str, out: &mut Loads) {
        let place = kernel.function("place", &[self.place], None);
        let places = lanes::LANES.map(|lane| {
            let call = place.call("", |o| match out.held[o] {
                Held::One => format!("x{o}"),
                Held::Four => format!("x{o}.{lane}"),
            });
            format!("u32({call})")
        });
        let operand = self.operand;
        let _ = writeln!(out.functions, "{}", place.text);
        let _ = writeln!(out.text, "let places = vec4<u32>({});", places.join(", "));
        let _ = writeln!(out.text, "let x{operand} = vec4<{ty}>();");
        out.hand_over_as("places", "vec4<u32>");
        out.hand_over(operand, &format!("vec4<{ty}>"));
        out.held[operand] = Held::Four;
    }

    /// Statements that find where the row of the table begins; and those that bring it to workgroup memory, each piece
    /// on its way while the one before is there, and take from it what the quads want.
    fn bring(&self, kernel: &mut Kernel<'_>, space: &Space, lines: usize) -> (String, String) {
        let outer = space.axes.rank() - 1;
        let strides = &space.axes.strides[space.map_of(self.first)][..outer];
        let (mut start, coordinates) = kernel.coordinates("r", "row", &space.axes.dims[..outer]);
        let offset = kernel.param(kernel.step.operands[self.first].view.offset);
        let at = kernel.index(&offset, strides, &coordinates);
        let _ = writeln!(start, "let start = {at};");
        let unit = self.unit(kernel.step, space);
        let (buffer, size) = (kernel.bind_table(self.table, unit == 4), kernel.size(self.size));
        let rounds = || (0..self.piece / unit).step_by(THREADS);
        let fetch = |piece: usize, text: &mut String| {
            for at in rounds() {
                let further = piece * self.piece + at * unit;
                let place = format!("start + min(thread * {unit}u + {further}u, {size} - {unit}u)");
                let place = if unit == 4 { format!("({place}) / 4u") } else { place };
                let _ = writeln!(text, "let held{piece}_{at} = {buffer}[{place}];");
            }
        };
        let mut text = String::new();
        fetch(0, &mut text);
        for piece in 0..self.pieces() {
            if piece > 0 {
                text.push_str("workgroupBarrier();\n");
            }
            for at in rounds() {
                let _ = writeln!(text, "piece[thread + {at}u] = held{piece}_{at};");
            }
            if piece + 1 < self.pieces() {
                fetch(piece + 1, &mut text);
            }
            text.push_str("workgroupBarrier();\n");
            for k in 0..lines {
                let first = piece * self.piece;
                let _ = writeln!(text, "quad{k}.x{} = take(quad{k}, {first}u);", self.operand);
            }
        }
        (start, text)
    }

    /// The declaration of workgroup memory, and a statement that reads the element `at`.
    fn held(&self, kernel: &Kernel<'_>, space: &Space) -> String {
        let stored = kernel.stored(kernel.step.operands[self.table].dtype);
        if self.unit(kernel.step, space) == 4 {
            let fours = self.piece / 4;
            return format!(
                "var<workgroup> piece: array<vec4<{stored}>, {fours}>;\n\nfn held(at: u32) -> {stored} {{\n    return piece[at / 4u][at % 4u];\n}}"
            );
        }
        let piece = self.piece;
        format!(
            "var<workgroup> piece: array<{stored}, {piece}>;\n\nfn held(at: u32) -> {stored} {{\n    return piece[at];\n}}"
        )
    }
}

/// Statements that load a thread's quads; past the end of the row, its last one.
fn load_quads(lines: usize, columns: &str) -> String {
    let mut text = String::new();
    for k in 0..lines {
        let further = k * LINE;
        let _ = writeln!(text, "let column{k} = min(own_column + {further}u, {columns} - 4u);");
        let _ = writeln!(text, "let i{k} = row * {columns} + column{k};");
        let _ = writeln!(text, "var quad{k} = load(i{k}, row, column{k});");
    }
    text
}

fn store_quads(lines: usize, columns: &str) -> String {
    let mut text = String::new();
    for k in 0..lines {
        let _ = writeln!(
            text,
            "if own_column + {}u < {columns} {{\n    store(i{k}, compute(i{k}, quad{k}));\n}}",
            k * LINE
        );
    }
    text
}
