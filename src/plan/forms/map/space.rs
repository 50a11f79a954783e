//! The iteration space of a map.

use crate::plan::forms::axes::CollapsedAxes;
use crate::plan::step_parts::StepContext;

/// The iteration space with the index maps of the outputs and of the operands that are read.
pub(crate) struct MapSpace {
    pub axes: CollapsedAxes,
    /// Index map `k` of `axes` belongs to output `k`, or to operand `operands[k − outputs]`.
    pub operands: Vec<usize>,
    pub outputs: usize,
}

impl MapSpace {
    pub fn new(dims: &[usize], context: &StepContext<'_>) -> Self {
        let operands = context.operands_of(&context.roots());
        let outputs = context.outputs.iter().map(|o| &o.view.strides[..]);
        let inputs = operands.iter().map(|&o| &context.operands[o].view.strides[..]);
        let strides: Vec<&[i64]> = outputs.chain(inputs).collect();
        let axes = CollapsedAxes::collapse(dims, &strides);
        Self { axes, operands, outputs: context.outputs.len() }
    }

    /// The position of the index map of `operand`.
    pub fn map_of(&self, operand: usize) -> usize {
        let position = self.operands.iter().position(|&o| o == operand);
        self.outputs + position.unwrap_or_default()
    }

    /// The stride along the last axis: from one lane to the next.
    pub fn lane_stride(&self, map: usize) -> i64 {
        self.axes.strides[map][self.axes.rank() - 1]
    }

    /// Elements along the last axis.
    pub fn columns(&self) -> usize {
        self.axes.dims[self.axes.rank() - 1]
    }

    /// True if no quad of neighbours spans two rows.
    pub fn has_whole_quads(&self) -> bool {
        self.columns().is_multiple_of(4)
    }

    /// True if some map needs the coordinates.
    pub fn needs_coordinates(&self) -> bool {
        let mut maps = 0..self.axes.strides.len();
        maps.any(|map| !self.axes.is_linear(map) && !self.axes.is_uniform(map))
    }
}
