//! Maps with transposed operands, which go through tiles in workgroup memory.

use super::space::MapSpace;
use crate::cost::Limits;
use crate::plan::forms::axes::CollapsedAxes;
use crate::plan::step_parts::{OperandSource, StepContext};

/// Axes shorter than this leave most of a tile empty.
const SHORT: usize = 16;

/// The operands that go through tiles.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct TransposeTiles {
    /// The axis along which their neighbours in memory lie.
    pub axis: usize,
    pub operands: Vec<usize>,
}

impl TransposeTiles {
    /// The side of a tile.
    pub const SIDE: usize = 32;

    /// The operands whose neighbours lie along one axis that is not the last, if tiles pay for them.
    pub fn find(space: &MapSpace, context: &StepContext<'_>, limits: &Limits) -> Option<Self> {
        let CollapsedAxes { dims, strides } = &space.axes;
        let last = dims.len() - 1;
        if dims[last] < SHORT {
            return None;
        }
        let axis_of = |&operand: &usize| {
            let strides = &strides[space.map_of(operand)];
            let far = strides[last].unsigned_abs() >= SHORT as u64;
            let is_value = matches!(context.operands[operand].source, OperandSource::Value(_));
            let near = (0..last).find(|&axis| strides[axis].abs() == 1 && dims[axis] >= SHORT);
            near.filter(|_| far && is_value)
        };
        let axis = space.operands.iter().find_map(axis_of)?;
        let room = limits.workgroup_bytes as usize / (Self::SIDE * (Self::SIDE + 1) * 4);
        let crossed = space.operands.iter().copied().filter(|o| axis_of(o) == Some(axis));
        let operands: Vec<usize> = crossed.take(room).collect();
        (!operands.is_empty()).then_some(Self { axis, operands })
    }
}
