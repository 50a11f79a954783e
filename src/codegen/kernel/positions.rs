//! Positions of elements: coordinates of a position, and sums of coordinates times strides.

use super::builder::{KernelBuilder, UNBOUND};
use crate::expr::Ref;
use crate::plan::CollapsedAxes;

/// The leading axes of a step's space, collapsed, with the maps of the outputs and then of operands along them.
pub(in crate::codegen) struct OuterMaps {
    pub axes: CollapsedAxes,
    /// The start of each map.
    pub offsets: Vec<i64>,
    /// The operands, in the order of their maps.
    pub operands: Vec<usize>,
    outputs: usize,
}

impl OuterMaps {
    /// The maps along `dims` of the outputs, and of all operands that they and `prologues` read.
    pub fn new(kernel: &KernelBuilder<'_>, dims: &[usize], prologues: &[Ref]) -> Self {
        let step = kernel.step;
        let operands = kernel.operands_of(&[prologues, &kernel.output_roots()].concat());
        let outputs = step.outputs.iter().map(|output| &output.view);
        let views: Vec<_> =
            outputs.chain(operands.iter().map(|&o| &step.operands[o].view)).collect();
        let strides: Vec<&[i64]> = views.iter().map(|view| &view.strides[..dims.len()]).collect();
        let axes = CollapsedAxes::collapse(dims, &strides);
        let offsets = views.iter().map(|view| view.offset).collect();
        Self { axes, offsets, operands, outputs: step.outputs.len() }
    }

    /// The map of `operand`, if it has one.
    pub fn map_of(&self, operand: usize) -> Option<usize> {
        let position = self.operands.iter().position(|&o| o == operand);
        debug_assert!(position.is_some(), "operand {operand} has no map");
        position.map(|position| self.outputs + position)
    }

    /// The name of the base of `operand`.
    pub fn base<'n>(&self, operand: usize, names: &'n [String]) -> &'n str {
        self.map_of(operand).map_or(UNBOUND, |map| &names[map])
    }

    /// Statements that find the base of each map, which is its start at the row-major position `position`, and the
    /// names of the bases. Coordinates start with `prefix`.
    pub fn bases(
        &self,
        kernel: &mut KernelBuilder<'_>,
        prefix: &str,
        position: &str,
    ) -> (String, Vec<String>) {
        kernel.bases(prefix, position, &self.axes, self.offsets.iter().copied())
    }
}

/// The bases as further parameters of a function, and as further arguments of a call.
pub(in crate::codegen) fn passed(bases: &[String]) -> (String, String) {
    let parameters = bases.iter().map(|name| format!(", {name}: u32")).collect();
    let arguments = bases.iter().map(|name| format!(", {name}")).collect();
    (parameters, arguments)
}

impl KernelBuilder<'_> {
    /// The sum of `start` and coordinates times strides. Strides of 0 and 1 are in the text, all others are
    /// parameters.
    pub fn index(&mut self, start: &str, strides: &[i64], coordinates: &[String]) -> String {
        let mut text = start.to_string();
        for (&stride, coordinate) in strides.iter().zip(coordinates) {
            match stride {
                0 => {}
                1 => {
                    text += &format!(" + {coordinate}");
                }
                _ => {
                    let stride = self.param(stride);
                    text += &format!(" + {coordinate} * {stride}");
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
            text += &format!("let {} = {rest} % {dim};\n", names[axis]);
            let next = if axis == 1 { names[0].clone() } else { format!("{prefix}_rest{axis}") };
            text += &format!("let {next} = {rest} / {dim};\n");
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
        axes: &CollapsedAxes,
        offsets: impl Iterator<Item = i64>,
    ) -> (String, Vec<String>) {
        let (mut text, coordinates) = self.coordinates(prefix, position, &axes.dims);
        let mut names = Vec::new();
        for (map, offset) in offsets.enumerate() {
            let start = self.param(offset);
            let base = self.index(&start, &axes.strides[map], &coordinates);
            text += &format!("let base{map} = {base};\n");
            names.push(format!("base{map}"));
        }
        (text, names)
    }
}
