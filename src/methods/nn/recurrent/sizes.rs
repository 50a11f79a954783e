//! The sizes of a cell, and the mistakes of weights that do not fit.

use super::cell::{CellKind, CellState, CellTensors};
use crate::base::dtype::Float;
use crate::base::shape::Shape;
use crate::batch::Tensor;
use crate::error::MistakeKind;
use crate::methods::arguments::checks::{CHANGE_ONE, check_shape};
use crate::record::Refusal;

/// The width of a cell's state, where all shapes fit: inputs are `[…, B, I]`, states `[…, B, H]`.
pub(super) fn width_of_state<'b, T: Float>(
    x: Tensor<'b, T>,
    weights: CellTensors<'b, T>,
    cell: CellKind,
    state: Option<CellState<'b, T>>,
) -> Result<usize, Refusal> {
    let x = x.known_shape()?;
    let [.., batch, width] = *x.dims() else {
        return Err(MistakeKind::Transpose(x).into());
    };
    let of_state = match state {
        Some([h, _]) => h.known_shape()?.dims().last().copied(),
        None => None,
    };
    let given =
        WeightShapes { input: weights.input.known_shape()?, hidden: weights.hidden.known_shape()? };
    let size = given.likely_size(cell, width, of_state);
    given.check(&WeightShapes::of(cell, width, size), cell)?;
    check_shape("bias", weights.bias.into_iter().flatten(), cell.gates() * size)?;
    check_shape("state", state.into_iter().flatten(), [batch, size])?;
    Ok(size)
}

/// The shapes of a cell's weights.
#[derive(Debug, PartialEq, Eq)]
struct WeightShapes {
    input: Shape,
    hidden: Shape,
}

impl WeightShapes {
    /// The shapes for inputs of `width` and a state of width `size`.
    fn of(cell: CellKind, width: usize, size: usize) -> Self {
        let rows = cell.gates().saturating_mul(size);
        Self { input: Shape::new(&[rows, width]), hidden: Shape::new(&[rows, size]) }
    }

    fn swapped(&self) -> Self {
        Self { input: self.hidden.clone(), hidden: self.input.clone() }
    }

    /// The width of the state: of hidden weights that fit by themselves, as they are or transposed, else of swapped
    /// weights, the state or the input weights. The message then names the shape that is wrong.
    fn likely_size(&self, cell: CellKind, width: usize, of_state: Option<usize>) -> usize {
        let last = |shape: &Shape| shape.dims().last().copied().unwrap_or(0);
        let (by_hidden, by_input) = (last(&self.hidden), last(&self.input));
        let rows = self.input.dims().first().copied().unwrap_or(0);
        let by_rows = rows / cell.gates();
        if self.hidden == Self::of(cell, width, by_hidden).hidden {
            return by_hidden;
        }
        if self.swapped() == Self::of(cell, width, by_input) {
            return by_input;
        }
        if let &[size, columns] = self.hidden.dims()
            && Some(columns) == cell.gates().checked_mul(size)
        {
            return size;
        }
        if let Some(of_state) = of_state {
            return of_state;
        }
        let has_other_gates = self.hidden == Self::of(cell.other(), width, by_hidden).hidden;
        let is_input = self.input == Self::of(cell, width, by_rows).input;
        if is_input && !has_other_gates { by_rows } else { by_hidden }
    }

    /// Fails unless the shapes are as `wanted`.
    fn check(&self, wanted: &Self, cell: CellKind) -> Result<(), MistakeKind> {
        let of_hidden = match cell {
            CellKind::Gru => "hidden weights (3 gates r, z and n, one below the other)",
            CellKind::Lstm => "hidden weights (4 gates i, f, g and o, one below the other)",
        };
        // The gates of hidden weights are as wide as these, those of input weights as wide as the state.
        let last = |shape: &Shape| shape.dims().last().copied().unwrap_or(0);
        let other = Self::of(cell.other(), last(&wanted.input), last(&self.hidden));
        let are_swapped = self.swapped() == *wanted;
        let hidden = (of_hidden, &self.hidden, &wanted.hidden);
        let input = ("input weights", &self.input, &wanted.input);
        let mut misfits = [hidden, input].into_iter().filter(|(_, given, wanted)| given != wanted);
        let Some((what, given, wanted)) = misfits.next() else { return Ok(()) };
        let is_transposed = given.dims().iter().eq(wanted.dims().iter().rev());
        let has_other_gates = *given == if what == of_hidden { other.hidden } else { other.input };
        let fix = match cell {
            _ if are_swapped => "the input weights are of that shape: swap both",
            _ if is_transposed => "`transpose` it",
            CellKind::Gru if has_other_gates => "this is a weight of an LSTM, which has 4 gates",
            CellKind::Lstm if has_other_gates => "this is a weight of a GRU, which has 3 gates",
            _ => CHANGE_ONE,
        };
        let (given, wanted) = (given.clone(), wanted.clone());
        Err(MistakeKind::LayerShape { what, given, wanted, fix })
    }
}
