//! The sizes of a cell, and the mistakes of weights that do not fit.

use super::cell::{CellKind, CellState, CellTensors};
use crate::base::dtype::Float;
use crate::base::shape::Shape;
use crate::batch::Tensor;
use crate::error::MistakeKind;
use crate::methods::arguments::checks::{CHANGE_ONE, check_shape};
use crate::record::Refusal;

/// The names of the biases of a cell, in their order.
const BIASES: [&str; 2] = [
    "bias of the inputs (the first of two, PyTorch's `bias_ih`)",
    "bias of the hidden state (the second of two, PyTorch's `bias_hh`)",
];

/// The inputs `[…, B, I]` of a layer.
#[derive(Clone, Copy)]
pub(super) struct LayerInput<'b, T> {
    pub x: Tensor<'b, T>,
    pub source: InputSource<'b, T>,
}

/// The source of a layer's inputs.
#[derive(Clone, Copy)]
pub(super) enum InputSource<'b, T> {
    /// The caller's tensor, whose axes may be in another order.
    Given(Tensor<'b, T>),
    LayerBefore {
        /// True if the caller's axes are `[B, T, I]`.
        batch_first: bool,
    },
}

/// The size of the batch and the width of a cell's state, where inputs and weights fit.
pub(super) fn batch_and_width<'b, T: Float>(
    input: LayerInput<'b, T>,
    weights: CellTensors<'b, T>,
    cell: CellKind,
    states: Option<CellState<'b, T>>,
) -> Result<[usize; 2], Refusal> {
    let x = input.x.known_shape()?;
    let [.., batch, width] = *x.dims() else {
        return Err(MistakeKind::Transpose(x).into());
    };
    let of_state = match states {
        Some([h, _]) => h.known_shape()?.dims().last().copied(),
        None => None,
    };
    let given =
        WeightShapes { input: weights.input.known_shape()?, hidden: weights.hidden.known_shape()? };
    let size = given.checked(cell, input, width, of_state)?;
    for (what, bias) in BIASES.into_iter().zip(weights.bias.into_iter().flatten()) {
        check_shape(what, [bias], cell.gates() * size)?;
    }
    Ok([batch, size])
}

/// The mistake of inputs of another width than the `taken` one, that of `weights` which fit otherwise.
fn input_width_mistake<T: Float>(
    input: LayerInput<'_, T>,
    taken: usize,
    weights: &Shape,
) -> Result<MistakeKind, Refusal> {
    let mut fix = format!(
        "input weights of shape {weights} take inputs of width {taken}: change the width of the inputs, or the weights"
    );
    let mut shape = input.x.known_shape()?.dims().to_vec();
    let what = match input.source {
        InputSource::Given(x) => {
            shape = x.known_shape()?.dims().to_vec();
            if x.recorded_by() == Some("embedding") {
                fix.push_str(" (the width of an `embedding` is the last axis of its table)");
            }
            "x"
        }
        InputSource::LayerBefore { batch_first } => {
            if batch_first {
                shape.swap(0, 1);
            }
            "result of the layer before"
        }
    };
    let given = Shape::from(&shape[..]);
    if let Some(width) = shape.last_mut() {
        *width = taken;
    }
    let wanted = Shape::from(&shape[..]);
    Ok(MistakeKind::LayerShape { what, given, wanted, fix: fix.into() })
}

/// Fails unless states have the shape `wanted`.
pub(super) fn check_states<T: Float>(
    states: CellState<'_, T>,
    wanted: impl Into<Shape>,
) -> Result<(), Refusal> {
    let wanted = wanted.into();
    for state in states {
        let given = state.known_shape()?;
        let fix = match given.dims() {
            dims if dims == wanted.dims() => continue,
            dims if other_than_one(dims).eq(other_than_one(wanted.dims())) => "`reshape` it",
            &[ref others @ .., a, b] if [others, &[b, a]].concat() == wanted.dims() => {
                "`transpose` it"
            }
            &[a, b, c] if [b, a, c] == wanted.dims() => "`permute([1, 0, 2])` it",
            _ if given.broadcast(&wanted).as_ref() == Some(&wanted) => "`broadcast_to` repeats it",
            _ => CHANGE_ONE,
        };
        let fix = fix.into();
        return Err(MistakeKind::LayerShape { what: "state", given, wanted, fix }.into());
    }
    Ok(())
}

/// The sizes other than 1, which alone order the elements.
fn other_than_one(dims: &[usize]) -> impl Iterator<Item = &usize> {
    dims.iter().filter(|&&size| size != 1)
}

/// The shapes of a cell's weights.
struct WeightShapes {
    input: Shape,
    hidden: Shape,
}

/// A guess at what one weight is: the weight of a cell, perhaps transposed.
#[derive(Clone, Copy)]
struct WeightGuess {
    cell: CellKind,
    is_transposed: bool,
}

/// A guess at what both weights are, as given for inputs and for the hidden state.
#[derive(Clone, Copy)]
struct WeightsGuess {
    asked: CellKind,
    are_swapped: bool,
    input: WeightGuess,
    hidden: WeightGuess,
}

/// A weight that was given, the shape that it must have, and a guess at what it is.
struct GivenWeight<'a> {
    what: &'static str,
    given: &'a Shape,
    wanted: Shape,
    guess: Option<WeightGuess>,
}

impl WeightShapes {
    /// The shapes for inputs of `width` and a state of width `size`.
    fn of(cell: CellKind, width: usize, size: usize) -> Self {
        let rows = cell.gates().saturating_mul(size);
        Self { input: Shape::new(&[rows, width]), hidden: Shape::new(&[rows, size]) }
    }

    /// The width of the state, if both weights fit inputs of `width`. Nothing is guessed if they do, or if they fit inputs of
    /// another width.
    fn checked<T: Float>(
        &self,
        cell: CellKind,
        input: LayerInput<'_, T>,
        width: usize,
        of_state: Option<usize>,
    ) -> Result<usize, Refusal> {
        if let Some(size) = WeightsGuess::as_given(cell).size(self, width) {
            return Ok(size);
        }
        if let Some(taken) = self.other_width(cell, width, of_state) {
            return Err(input_width_mistake(input, taken, &self.input)?.into());
        }
        let guess = self.likeliest(cell, width);
        let size = guess.and_then(|of| of.size(self, width));
        let size = size.unwrap_or_else(|| self.likely_size(cell, width, of_state));
        let wanted = Self::of(cell, width, size);
        let hidden = GivenWeight {
            what: match cell {
                CellKind::Gru => "hidden weights (3 gates r, z and n, one below the other)",
                CellKind::Lstm => "hidden weights (4 gates i, f, g and o, one below the other)",
            },
            given: &self.hidden,
            wanted: wanted.hidden,
            guess: guess.map(|of| of.hidden),
        };
        let input = GivenWeight {
            what: "input weights",
            given: &self.input,
            wanted: wanted.input,
            guess: guess.map(|of| of.input),
        };
        let misfits = [hidden, input].into_iter().filter(|weight| *weight.given != weight.wanted);
        // A weight of the other cell is named first, then hidden weights, then input weights.
        let is_of_asked_cell = |weight: &GivenWeight| weight.guess.is_none_or(|of| of.cell == cell);
        let Some(GivenWeight { what, given, wanted, guess: named }) =
            misfits.min_by_key(is_of_asked_cell)
        else {
            return Ok(size);
        };
        let fix = guess.zip(named).map_or(CHANGE_ONE, |(both, named)| both.cure(named));
        Err(MistakeKind::LayerShape { what, given: given.clone(), wanted, fix: fix.into() }.into())
    }

    /// The width of inputs that the weights take, if `width` alone is wrong. Where it is that of the state, the caller may
    /// have given the hidden weights twice.
    fn other_width(&self, cell: CellKind, width: usize, of_state: Option<usize>) -> Option<usize> {
        let size = self.likely_size(cell, width, of_state);
        let taken = *self.input.dims().last()?;
        let fitting = Self::of(cell, taken, size);
        let fits = fitting.input == self.input && fitting.hidden == self.hidden;
        (fits && taken != size).then_some(taken)
    }

    /// The guess with the fewest mistakes, if any fits.
    fn likeliest(&self, asked: CellKind, width: usize) -> Option<WeightsGuess> {
        let other = asked.other();
        let guesses = [(asked, false), (asked, true), (other, false), (other, true)]
            .map(|(cell, is_transposed)| WeightGuess { cell, is_transposed });
        let mut fitting = Vec::new();
        for input in guesses {
            for hidden in guesses {
                for are_swapped in [false, true] {
                    let guess = WeightsGuess { asked, are_swapped, input, hidden };
                    if guess.size(self, width).is_some() {
                        fitting.push(guess);
                    }
                }
            }
        }
        fitting.into_iter().min_by_key(WeightsGuess::mistakes)
    }

    /// The width of the state where no guess fits: of hidden weights that fit by themselves, as they are or transposed,
    /// else of the state or of the input weights. The message then names the shape that is wrong.
    fn likely_size(&self, cell: CellKind, width: usize, of_state: Option<usize>) -> usize {
        let as_given = WeightGuess { cell, is_transposed: false };
        let transposed = WeightGuess { cell, is_transposed: true };
        let hidden = [as_given, transposed].map(|guess| guess.sizes(&self.hidden));
        match (hidden, of_state, as_given.sizes(&self.input)) {
            ([Some([size, columns]), _], ..) if columns == size => size,
            ([_, Some([size, columns])], ..) if columns == size => size,
            (_, Some(size), _) => size,
            (.., Some([size, columns])) if columns == width => size,
            _ => self.hidden.dims().last().copied().unwrap_or(0),
        }
    }
}

impl WeightGuess {
    /// The width of the state by the rows of this weight, and its columns.
    fn sizes(self, given: &Shape) -> Option<[usize; 2]> {
        let &[a, b] = given.dims() else { return None };
        let [rows, columns] = if self.is_transposed { [b, a] } else { [a, b] };
        let gates = self.cell.gates();
        rows.is_multiple_of(gates).then_some([rows / gates, columns])
    }
}

impl WeightsGuess {
    /// The guess that both are what they were given as.
    fn as_given(asked: CellKind) -> Self {
        let weight = WeightGuess { cell: asked, is_transposed: false };
        Self { asked, are_swapped: false, input: weight, hidden: weight }
    }

    /// The width of the state, if the guess fits.
    fn size(&self, given: &WeightShapes, width: usize) -> Option<usize> {
        let mut weights = [self.input.sizes(&given.input)?, self.hidden.sizes(&given.hidden)?];
        if self.are_swapped {
            weights.reverse();
        }
        let [_, [size, _]] = weights;
        (weights == [[size, width], [size, size]]).then_some(size)
    }

    /// The number of mistakes. To take a weight of the other cell is less likely than to transpose one.
    fn mistakes(&self) -> usize {
        let of = |guess: WeightGuess| {
            2 * usize::from(guess.cell != self.asked) + usize::from(guess.is_transposed)
        };
        of(self.input) + of(self.hidden) + usize::from(self.are_swapped)
    }

    /// The cure for the weight of this guess.
    fn cure(&self, guess: WeightGuess) -> &'static str {
        match (self.are_swapped, self.input.is_transposed, self.hidden.is_transposed) {
            _ if guess.cell != self.asked => match guess.cell {
                CellKind::Lstm => "this is a weight of an LSTM, which has 4 gates",
                CellKind::Gru => "this is a weight of a GRU, which has 3 gates",
            },
            (true, true, true) => "swap both weights, and `transpose` both",
            (true, false, false) => "the input weights are of that shape: swap both",
            (true, ..) if guess.is_transposed => "swap both weights, and `transpose` this one",
            (true, ..) => "swap both weights, and `transpose` the other",
            (false, true, true) => "`transpose` both weights",
            (false, ..) => "`transpose` it",
        }
    }
}
