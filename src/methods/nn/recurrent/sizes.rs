//! The sizes of a cell, and the mistakes of weights that do not fit.

use super::cell::{CellKind, CellState, CellTensors};
use crate::base::dtype::Float;
use crate::base::shape::Shape;
use crate::batch::Tensor;
use crate::error::MistakeKind;
use crate::methods::arguments::checks::{CHANGE_ONE, check_shape};
use crate::record::Refusal;

/// The width of a cell's state, where all shapes fit: inputs are `[…, B, I]`, states `[B, H]`, or `[cells, B, H]` where
/// they are those of several `cells`.
pub(super) fn width_of_state<'b, T: Float>(
    x: Tensor<'b, T>,
    weights: CellTensors<'b, T>,
    cell: CellKind,
    state: Option<CellState<'b, T>>,
    cells: Option<usize>,
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
    let size = given.checked(cell, width, of_state)?;
    check_shape("bias", weights.bias.into_iter().flatten(), cell.gates() * size)?;
    let wanted: Shape = cells.into_iter().chain([batch, size]).collect();
    for state in state.into_iter().flatten() {
        check_state(state.known_shape()?, &wanted)?;
    }
    Ok(size)
}

/// Fails unless a state has the shape `wanted`.
fn check_state(given: Shape, wanted: &Shape) -> Result<(), MistakeKind> {
    let fix = match given.dims() {
        _ if given == *wanted => return Ok(()),
        dims if large(dims).eq(large(wanted.dims())) => "`reshape` it",
        &[ref others @ .., a, b] if [others, &[b, a]].concat() == wanted.dims() => "`transpose` it",
        &[a, b, c] if [b, a, c] == wanted.dims() => "`permute([1, 0, 2])` it",
        _ if given.broadcast(wanted).as_ref() == Some(wanted) => "`broadcast_to` repeats it",
        _ => CHANGE_ONE,
    };
    Err(MistakeKind::LayerShape { what: "state", given, wanted: wanted.clone(), fix })
}

/// The sizes other than 1, which alone order the elements.
fn large(dims: &[usize]) -> impl Iterator<Item = &usize> {
    dims.iter().filter(|&&size| size != 1)
}

/// The shapes of a cell's weights.
struct WeightShapes {
    input: Shape,
    hidden: Shape,
}

/// A possible meaning of one weight.
#[derive(Clone, Copy)]
struct Reading {
    cell: CellKind,
    is_foreign: bool,
    is_transposed: bool,
}

/// A possible meaning of both weights: readings of the one given for inputs and of the hidden one.
struct Meaning {
    size: usize,
    are_swapped: bool,
    input: Reading,
    hidden: Reading,
}

impl WeightShapes {
    /// The shapes for inputs of `width` and a state of width `size`.
    fn of(cell: CellKind, width: usize, size: usize) -> Self {
        let rows = cell.gates().saturating_mul(size);
        Self { input: Shape::new(&[rows, width]), hidden: Shape::new(&[rows, size]) }
    }

    /// The width of the state, if both weights fit.
    fn checked(
        &self,
        cell: CellKind,
        width: usize,
        of_state: Option<usize>,
    ) -> Result<usize, MistakeKind> {
        let meaning = self.meaning(cell, width);
        let size = match &meaning {
            Some(meaning) => meaning.size,
            None => self.likely_size(cell, width, of_state),
        };
        let wanted = Self::of(cell, width, size);
        let of_hidden = match cell {
            CellKind::Gru => "hidden weights (3 gates r, z and n, one below the other)",
            CellKind::Lstm => "hidden weights (4 gates i, f, g and o, one below the other)",
        };
        let input =
            ("input weights", &self.input, wanted.input, meaning.as_ref().map(|of| of.input));
        let hidden = (of_hidden, &self.hidden, wanted.hidden, meaning.as_ref().map(|of| of.hidden));
        let misfits = [hidden, input].into_iter().filter(|(_, given, wanted, _)| *given != wanted);
        let is_foreign = |reading: Option<Reading>| reading.is_some_and(|of| of.is_foreign);
        // The first of them, but a weight of another cell before one that is turned.
        let Some((what, given, wanted, reading)) =
            misfits.min_by_key(|misfit| !is_foreign(misfit.3))
        else {
            return Ok(size);
        };
        let fix = match (meaning, reading) {
            (Some(meaning), Some(reading)) => meaning.cure(reading),
            _ => CHANGE_ONE,
        };
        Err(MistakeKind::LayerShape { what, given: given.clone(), wanted, fix })
    }

    /// The meaning of both weights with the fewest mistakes, if there is one.
    fn meaning(&self, cell: CellKind, width: usize) -> Option<Meaning> {
        let reading = |is_foreign: bool, is_transposed: bool| {
            let cell = if is_foreign { cell.other() } else { cell };
            Reading { cell, is_foreign, is_transposed }
        };
        let either = [false, true];
        let readings = either.into_iter().flat_map(|of| either.map(|turned| reading(of, turned)));
        let pairs =
            readings.clone().flat_map(|input| readings.clone().map(move |hidden| [input, hidden]));
        let all = pairs.flat_map(|pair| either.map(|are_swapped| (pair, are_swapped)));
        let possible = all.filter_map(|([input, hidden], are_swapped)| {
            let size = self.size_as(input, hidden, are_swapped, width)?;
            Some(Meaning { size, are_swapped, input, hidden })
        });
        possible.min_by_key(Meaning::mistakes)
    }

    /// The width of the state, if the weights are meant so.
    fn size_as(
        &self,
        input: Reading,
        hidden: Reading,
        are_swapped: bool,
        width: usize,
    ) -> Option<usize> {
        let mut given =
            [input.rows_and_columns(&self.input)?, hidden.rows_and_columns(&self.hidden)?];
        let mut gates = [input, hidden].map(|reading| reading.cell.gates());
        if are_swapped {
            given.reverse();
            gates.reverse();
        }
        let [[rows, columns], [rows_of_hidden, size]] = given;
        let fits = columns == width
            && gates[0].checked_mul(size) == Some(rows)
            && gates[1].checked_mul(size) == Some(rows_of_hidden);
        fits.then_some(size)
    }

    /// The width of the state where no meaning explains both weights: of hidden weights that fit by themselves, as they
    /// are or transposed, else of the state or of the input weights. The message then names the shape that is wrong.
    fn likely_size(&self, cell: CellKind, width: usize, of_state: Option<usize>) -> usize {
        let last = |shape: &Shape| shape.dims().last().copied().unwrap_or(0);
        let by_hidden = last(&self.hidden);
        if self.hidden == Self::of(cell, width, by_hidden).hidden {
            return by_hidden;
        }
        if let &[size, columns] = self.hidden.dims()
            && Some(columns) == cell.gates().checked_mul(size)
        {
            return size;
        }
        let rows = self.input.dims().first().copied().unwrap_or(0);
        let by_rows = rows / cell.gates();
        let is_input = self.input == Self::of(cell, width, by_rows).input;
        of_state.unwrap_or(if is_input { by_rows } else { by_hidden })
    }
}

impl Reading {
    /// The rows and columns of a weight of this shape, as it is meant.
    fn rows_and_columns(self, shape: &Shape) -> Option<[usize; 2]> {
        let &[rows, columns] = shape.dims() else { return None };
        Some(if self.is_transposed { [columns, rows] } else { [rows, columns] })
    }
}

impl Meaning {
    /// The number of mistakes. To take a weight of another cell is less likely than to turn one.
    fn mistakes(&self) -> usize {
        let of = |reading: Reading| {
            2 * usize::from(reading.is_foreign) + usize::from(reading.is_transposed)
        };
        of(self.input) + of(self.hidden) + usize::from(self.are_swapped)
    }

    /// The cure for the weight that is meant as `reading`.
    fn cure(&self, reading: Reading) -> &'static str {
        let both = self.input.is_transposed && self.hidden.is_transposed;
        let one = self.input.is_transposed || self.hidden.is_transposed;
        match (reading.cell, self.are_swapped) {
            (CellKind::Lstm, _) if reading.is_foreign => {
                "this is a weight of an LSTM, which has 4 gates"
            }
            (CellKind::Gru, _) if reading.is_foreign => {
                "this is a weight of a GRU, which has 3 gates"
            }
            (_, true) if both => "swap both weights, and `transpose` both",
            (_, true) if reading.is_transposed => "swap both weights, and `transpose` this one",
            (_, true) if one => "swap both weights, and `transpose` the other",
            (_, true) => "the input weights are of that shape: swap both",
            (_, false) if both => "`transpose` both weights",
            (_, false) => "`transpose` it",
        }
    }
}
