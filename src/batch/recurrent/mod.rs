//! Recurrent layers, made of products and elementwise operations: cells, and whole sequences as one graph.

mod cell;

use self::cell::{Cell, Gru, Lstm};
use super::{BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::Float;
use crate::base::shape::Shape;
use crate::error::MistakeKind;

/// The longest sequence: each of its steps is recorded.
const LONGEST: usize = 1 << 20;

/// The weights of one cell, as PyTorch stores them: G gates of width H one below the other, for inputs of width I. An
/// LSTM has the gates i, f, g, o, a GRU r, z, n.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellWeights<T: Float> {
    /// `[G·H, I]`, PyTorch's `weight_ih`.
    pub input: BufferId<T>,
    /// `[G·H, H]`, PyTorch's `weight_hh`.
    pub hidden: BufferId<T>,
    /// `[G·H]` each, PyTorch's `bias_ih` and `bias_hh`.
    pub bias: Option<[BufferId<T>; 2]>,
}

/// How a sequence is walked. The default is PyTorch's.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Recurrence {
    /// Whether sequences are `[B, T, …]`, not `[T, B, …]`.
    pub batch_first: bool,
    /// Whether each layer walks backwards too, with cells of its own, which come after those that walk forwards.
    pub bidirectional: bool,
}

/// What an LSTM keeps from step to step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LstmState<T: Float> {
    /// The hidden state.
    pub h: BufferId<T>,
    /// The state of the cell.
    pub c: BufferId<T>,
}

/// Recurrent layers. A sequence is unrolled: all inputs go through one product, then each step is a product and an
/// elementwise kernel. None may have more than 1 048 576 steps.
impl GpuCommandBatch {
    /// One step of an LSTM (Hochreiter and Schmidhuber, 1997), for inputs `[B, I]` and a state of `[B, H]` each:
    /// c′ = σ(f)·c + σ(i)·tanh(g) and h′ = σ(o)·tanh(c′), where i, f, g and o are parts of
    /// x·W_inputᵀ + h·W_hiddenᵀ + biases.
    #[track_caller]
    pub fn lstm_cell<T: Float>(
        &mut self,
        x: BufferId<T>,
        state: LstmState<T>,
        weights: CellWeights<T>,
    ) -> LstmState<T> {
        self.composed("lstm_cell", |b| {
            let h = match b.cell_sizes(x, weights, Lstm::GATES, Some([state.h, state.c])) {
                Ok(sizes) => sizes,
                Err(what) => {
                    let wrong = b.refused("lstm_cell", what);
                    return LstmState { h: wrong, c: wrong };
                }
            };
            let x = Lstm.project(b, x, weights);
            let [h, c] = Lstm.step(b, x, Some([state.h, state.c]), weights, h);
            LstmState { h, c }
        })
    }

    /// One step of a GRU (Cho et al., 2014), for inputs `[B, I]` and a state of `[B, H]`: h′ = (1 − z)·n + z·h with
    /// r and z the logistic functions of x·W_inputᵀ + h·W_hiddenᵀ + biases, and n = tanh(x·W + b + r·(h·W + b)).
    #[track_caller]
    pub fn gru_cell<T: Float>(
        &mut self,
        x: BufferId<T>,
        h: BufferId<T>,
        weights: CellWeights<T>,
    ) -> BufferId<T> {
        self.composed("gru_cell", |b| {
            let size = match b.cell_sizes(x, weights, Gru::GATES, Some([h, h])) {
                Ok(size) => size,
                Err(what) => return b.refused("gru_cell", what),
            };
            let x = Gru.project(b, x, weights);
            let [h, _] = Gru.step(b, x, Some([h, h]), weights, size);
            h
        })
    }

    /// LSTM cells over sequences `[T, B, I]`: one cell a layer, or two where it is
    /// [bidirectional](Recurrence::bidirectional). States start from `[cells, B, H]`, or from zeros. The results are the
    /// last layer's hidden states at each step, forwards before backwards, and each cell's state after its last step.
    #[track_caller]
    pub fn lstm<T: Float>(
        &mut self,
        x: BufferId<T>,
        cells: &[CellWeights<T>],
        start: Option<LstmState<T>>,
        how: Recurrence,
    ) -> (BufferId<T>, LstmState<T>) {
        self.composed("lstm", |b| {
            let start = start.map(|state| [state.h, state.c]);
            match b.recur(Lstm, x, cells, start, how) {
                Ok((y, [h, c])) => (y, LstmState { h, c }),
                Err(what) => {
                    let wrong = b.refused("lstm", what);
                    (wrong, LstmState { h: wrong, c: wrong })
                }
            }
        })
    }

    /// GRU cells over sequences, as [`lstm`](Self::lstm) for LSTM cells.
    #[track_caller]
    pub fn gru<T: Float>(
        &mut self,
        x: BufferId<T>,
        cells: &[CellWeights<T>],
        start: Option<BufferId<T>>,
        how: Recurrence,
    ) -> (BufferId<T>, BufferId<T>) {
        self.composed("gru", |b| match b.recur(Gru, x, cells, start.map(|h| [h, h]), how) {
            Ok((y, [h, _])) => (y, h),
            Err(what) => {
                let wrong = b.refused("gru", what);
                (wrong, wrong)
            }
        })
    }

    /// The width of a cell's state, where all shapes fit: inputs are `[…, B, I]`, states `[…, B, H]`.
    fn cell_sizes<T: Float>(
        &self,
        x: BufferId<T>,
        weights: CellWeights<T>,
        gates: usize,
        state: Option<[BufferId<T>; 2]>,
    ) -> Result<usize, Refusal> {
        let x = self.shape_of(x)?;
        let hidden = self.shape_of(weights.hidden)?;
        let fits = |what, given: &Shape, wanted: Shape| {
            if *given == wanted {
                return Ok(());
            }
            Err(Refusal::from(MistakeKind::LayerShape { what, given: given.clone(), wanted }))
        };
        let size = hidden.dims().last().copied().unwrap_or(0);
        fits("hidden weights", &hidden, [gates * size, size].into())?;
        let [.., batch, width] = *x.dims() else {
            return Err(MistakeKind::Transpose(x).into());
        };
        fits("input weights", &self.shape_of(weights.input)?, [gates * size, width].into())?;
        for bias in weights.bias.into_iter().flatten() {
            fits("bias", &self.shape_of(bias)?, [gates * size].into())?;
        }
        for state in state.into_iter().flatten() {
            fits("state", &self.shape_of(state)?, [batch, size].into())?;
        }
        Ok(size)
    }

    /// All layers over the whole sequence; the hidden states of the last, and the last states of every cell.
    fn recur<T: Float, C: Cell>(
        &mut self,
        cell: C,
        x: BufferId<T>,
        cells: &[CellWeights<T>],
        start: Option<[BufferId<T>; 2]>,
        how: Recurrence,
    ) -> Result<(BufferId<T>, [BufferId<T>; 2]), Refusal> {
        let directions = if how.bidirectional { 2 } else { 1 };
        if cells.is_empty() || !cells.len().is_multiple_of(directions) {
            let given = cells.len().to_string();
            let must = if how.bidirectional { "two for each layer" } else { "one for each layer" };
            return Err(MistakeKind::Parameter { what: "the number of cells", must, given }.into());
        }
        let shape = self.shape_of(x)?;
        if shape.rank() != 3 {
            return Err(MistakeKind::Sequence(shape).into());
        }
        let steps = shape[usize::from(how.batch_first)];
        if steps > LONGEST {
            let must = "at most 1048576; hand the states on from part to part";
            let given = steps.to_string();
            return Err(MistakeKind::Parameter { what: "the number of steps", must, given }.into());
        }
        let mut y = if how.batch_first { self.permute(x, [1, 0, 2]) } else { x };
        let mut last: [Vec<BufferId<T>>; 2] = [Vec::new(), Vec::new()];
        for layer in cells.chunks(directions) {
            let mut sides = Vec::with_capacity(directions);
            for (direction, &weights) in layer.iter().enumerate() {
                let at = last[0].len();
                let start = match start {
                    None => None,
                    Some([h, c]) => {
                        let first = self.state_of(h, at, cells.len())?;
                        let same = h == c;
                        Some([first, if same { first } else { self.state_of(c, at, cells.len())? }])
                    }
                };
                let (side, state) = self.walk(cell, y, weights, start, direction == 1)?;
                sides.push(side);
                let first = self.unsqueeze(state[0], 0);
                last[0].push(first);
                let same = state[0] == state[1];
                last[1].push(if same { first } else { self.unsqueeze(state[1], 0) });
            }
            y = self.concat(&sides, -1);
        }
        let y = if how.batch_first { self.permute(y, [1, 0, 2]) } else { y };
        let [h, c] = last;
        let all = self.concat(&h, 0);
        Ok((y, [all, if h == c { all } else { self.concat(&c, 0) }]))
    }

    /// State `at` of `count` that lie one behind the other.
    fn state_of<T: Float>(
        &mut self,
        states: BufferId<T>,
        at: usize,
        count: usize,
    ) -> Result<BufferId<T>, Refusal> {
        let shape = self.shape_of(states)?;
        let &[given, batch, size] = shape.dims() else {
            return Err(MistakeKind::Sequence(shape).into());
        };
        if given != count {
            let wanted = [count, batch, size].into();
            return Err(MistakeKind::LayerShape { what: "state", given: shape, wanted }.into());
        }
        let state = self.slice(states, [(at..at + 1, 1), (0..batch, 1), (0..size, 1)]);
        Ok(self.squeeze(state, 0))
    }

    /// One cell over a whole sequence `[T, B, I]`: its hidden states `[T, B, H]`, and its last state.
    fn walk<T: Float, C: Cell>(
        &mut self,
        cell: C,
        x: BufferId<T>,
        weights: CellWeights<T>,
        start: Option<[BufferId<T>; 2]>,
        backwards: bool,
    ) -> Result<(BufferId<T>, [BufferId<T>; 2]), Refusal> {
        let size = self.cell_sizes(x, weights, C::GATES, start)?;
        let shape = self.shape_of(x)?;
        let (steps, batch) = (shape[0], shape[1]);
        // The inputs of all steps in one product.
        let all = cell.project(self, x, weights);
        let mut state = start;
        let mut hidden = Vec::with_capacity(steps);
        for step in 0..steps {
            let at = if backwards { steps - 1 - step } else { step };
            let ranges = [(at..at + 1, 1), (0..batch, 1), (0..C::GATES * size, 1)];
            let now = self.slice(all, ranges);
            let now = self.squeeze(now, 0);
            let next = cell.step(self, now, state, weights, size);
            hidden.push(self.unsqueeze(next[0], 0));
            state = Some(next);
        }
        if backwards {
            hidden.reverse();
        }
        let zero = T::zeroed();
        let state = match state {
            Some(state) => state,
            None => [self.full([batch, size], zero); 2],
        };
        let y = if hidden.is_empty() {
            self.full([0, batch, size], zero)
        } else {
            self.concat(&hidden, 0)
        };
        Ok((y, state))
    }
}
