//! Elementwise kernels with transposed operands, which go through tiles in workgroup memory.

use smallvec::SmallVec;

use crate::base::dtype::Ty;
use crate::codegen::Dispatch;
use crate::codegen::kernel::template::{holes, indent, shader};
use crate::codegen::kernel::{KernelBuilder, KernelFunction, passed};
use crate::expr::wgsl::type_name;
use crate::plan::{CollapsedAxes, MapSpace, TransposeTiles};

const SIDE: usize = TransposeTiles::SIDE;
/// Lines of a tile that a workgroup's threads take at a time.
const LINES: usize = 4;

/// Lowers a map with crossed operands.
pub(super) fn lower(
    mut kernel: KernelBuilder<'_>,
    space: &MapSpace,
    function: &KernelFunction,
    crossing: &TransposeTiles,
) -> Dispatch {
    kernel.bind_outputs(|_| false);
    kernel.bind_operands(&function.operands, |_| false);
    let dims = &space.axes.dims;
    let sides = [dims[crossing.axis], dims[dims.len() - 1]];
    let rest = others(&space.axes, crossing.axis);
    let count = rest.len().saturating_mul(sides[0].div_ceil(SIDE) * sides[1].div_ceil(SIDE));
    let step = kernel.step;
    let outputs = step.outputs.iter().map(|o| o.view.offset);
    let offsets = outputs.chain(space.operands.iter().map(|&o| step.operands[o].view.offset));
    let (bases, names) = kernel.bases("o", "rest", &rest, offsets);
    let [across, along] = sides.map(|side| kernel.size(side));
    let mut tiles =
        Tiles { space, function, crossing, bases: &names, across: &across, along: &along };
    let (loads, arrays) = tiles.loads(&mut kernel);
    let compute = tiles.compute(&mut kernel);
    let (parameters, arguments) = passed(&names);
    let holes = holes! {
        functions: function.text, loads, tiles: arrays, compute, parameters, arguments,
        count: kernel.size(count), across, along, bases, fill: tiles.fill(), side: SIDE,
        last: SIDE - 1, lines: LINES, threads: SIDE * LINES,
    };
    kernel.dispatch(shader!("map/tiles.wgsl"), &holes, "", count)
}

/// The axes but `axis` and the last.
fn others(axes: &CollapsedAxes, axis: usize) -> CollapsedAxes {
    let kept: SmallVec<[usize; 4]> = (0..axes.rank() - 1).filter(|&a| a != axis).collect();
    if kept.is_empty() {
        return CollapsedAxes::collapse(&[], &vec![&[][..]; axes.strides.len()]);
    }
    CollapsedAxes {
        dims: kept.iter().map(|&a| axes.dims[a]).collect(),
        strides: axes.strides.iter().map(|s| kept.iter().map(|&a| s[a]).collect()).collect(),
    }
}

/// The writer of the texts of the tiles.
struct Tiles<'a> {
    space: &'a MapSpace,
    function: &'a KernelFunction,
    crossing: &'a TransposeTiles,
    /// The names of where each map begins.
    bases: &'a [String],
    across: &'a str,
    along: &'a str,
}

impl Tiles<'_> {
    /// The strides of a map along the two axes of a tile.
    fn strides(&self, map: usize) -> [i64; 2] {
        let strides = &self.space.axes.strides[map];
        [strides[self.crossing.axis], strides[strides.len() - 1]]
    }

    /// The index of a map at `c` and `j` of the two axes.
    fn at(&self, kernel: &mut KernelBuilder<'_>, map: usize, start: &str) -> String {
        kernel.index(start, &self.strides(map), &["c".to_string(), "j".to_string()])
    }

    /// Functions that load the crossed operands, and their tiles.
    fn loads(&mut self, kernel: &mut KernelBuilder<'_>) -> (String, String) {
        let (mut loads, mut arrays) = (String::new(), String::new());
        for &operand in &self.crossing.operands {
            let at = self.at(kernel, self.space.map_of(operand), "start");
            let value = kernel.load(operand, &at);
            // Truth values of type `bool` in workgroup memory come back wrong from NVIDIA's driver.
            let (ty, value) = match kernel.step.operands[operand].dtype.lane() {
                Ty::Bool => ("u32", format!("select(0u, 1u, {value})")),
                ty => (type_name(ty), value),
            };
            let body = indent(&format!("return {value};"));
            loads +=
                &format!("fn load{operand}(c: u32, j: u32, start: u32) -> {ty} {{\n{body}}}\n\n");
            let cells = SIDE * (SIDE + 1);
            arrays += &format!("var<workgroup> tile{operand}: array<{ty}, {cells}>;\n");
        }
        (loads, arrays)
    }

    /// Statements that fill the tiles, with all loads under way before the first is stored.
    fn fill(&self) -> String {
        let mut text = format!("let fill_c = min(first_c + column, {} - 1u);\n", self.across);
        for k in 0..SIDE / LINES {
            let line = k * LINES;
            text +=
                &format!("let fill_j{k} = min(first_j + row + {line}u, {} - 1u);\n", self.along);
        }
        for &operand in &self.crossing.operands {
            let base = &self.bases[self.space.map_of(operand)];
            for k in 0..SIDE / LINES {
                text +=
                    &format!("let v{operand}_{k} = load{operand}(fill_c, fill_j{k}, {base});\n");
            }
        }
        for &operand in &self.crossing.operands {
            for k in 0..SIDE / LINES {
                let (line, pitch) = (k * LINES, SIDE + 1);
                text += &format!(
                    "tile{operand}[(row + {line}u) * {pitch}u + column] = v{operand}_{k};\n"
                );
            }
        }
        text
    }

    /// Statements that compute one element, at `c` and `j`.
    fn compute(&self, kernel: &mut KernelBuilder<'_>) -> String {
        let mut text = String::new();
        for &operand in &self.function.operands {
            let map = self.space.map_of(operand);
            let value = if self.crossing.operands.contains(&operand) {
                let cell = format!("tile{operand}[(j % {SIDE}u) * {}u + c % {SIDE}u]", SIDE + 1);
                let truth = kernel.step.operands[operand].dtype.lane() == Ty::Bool;
                if truth { format!("{cell} != 0u") } else { cell }
            } else {
                let at = self.at(kernel, map, &self.bases[map]);
                kernel.load(operand, &at)
            };
            text += &format!("let x{operand} = {value};\n");
        }
        let call = self.function.call("", |o| format!("x{o}"));
        text += &format!("let result = {call};\n");
        for (output, result) in self.function.results.iter().enumerate() {
            let at = self.at(kernel, output, &self.bases[output]);
            text.push_str(&kernel.store(output, &at, &format!("result{result}")));
        }
        text
    }
}
