//! The cells of recurrent layers: one step of each.

use crate::base::dtype::Float;
use crate::batch::{BufferId, GpuCommandBatch, Operand, Tensor};
use crate::record::Refusal;

/// The weights of one cell, as PyTorch stores them: G gates of width H one below the other, for inputs of width I. An
/// LSTM has the gates i, f, g, o, a GRU r, z, n. `transpose` of a tensor turns weights of the other order, as `linear`
/// takes them. Where H = I, no error can tell that `input` and `hidden` are swapped.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CellWeights<T: Float> {
    /// `[G·H, I]`, PyTorch's `weight_ih`.
    pub input: BufferId<T>,
    /// `[G·H, H]`, PyTorch's `weight_hh`.
    pub hidden: BufferId<T>,
    /// `[G·H]` each, PyTorch's `bias_ih` and `bias_hh`.
    pub bias: Option<[BufferId<T>; 2]>,
}

impl<T: Float> CellWeights<T> {
    /// Weights without biases: tensors, ids or borrowed residents. [`with_bias`](Self::with_bias) takes biases too.
    #[track_caller]
    pub fn new(batch: &GpuCommandBatch, input: impl Operand<T>, hidden: impl Operand<T>) -> Self {
        let name = "CellWeights::new";
        Self { input: batch.option(name, input), hidden: batch.option(name, hidden), bias: None }
    }

    /// Weights with the biases of inputs and of the hidden state.
    ///
    /// ```
    /// use onetrip::{CellWeights, Device, GpuCommandBatch};
    ///
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let (input, hidden) = (batch.full([3, 2], 0.5_f32), batch.full([3, 1], 0.5_f32)); // a GRU: 2 inputs, width 1
    /// let bias = batch.full(3, 0.1_f32);
    /// let weights = CellWeights::with_bias(&batch, input, hidden, [bias, bias]);
    /// let h = batch.full([1, 2], 1.0_f32).gru_cell(batch.full([1, 1], 0.0_f32), weights);
    /// assert_eq!(h.shape().unwrap().dims(), [1, 1]);
    /// ```
    #[track_caller]
    pub fn with_bias(
        batch: &GpuCommandBatch,
        input: impl Operand<T>,
        hidden: impl Operand<T>,
        [of_input, of_hidden]: [impl Operand<T>; 2],
    ) -> Self {
        let name = "CellWeights::with_bias";
        let (input, hidden) = (batch.option(name, input), batch.option(name, hidden));
        let bias = [batch.option(name, of_input), batch.option(name, of_hidden)];
        Self { input, hidden, bias: Some(bias) }
    }
}

/// The state of a cell from step to step; that of a GRU is twice the same.
pub(super) type CellState<'b, T> = [Tensor<'b, T>; 2];

/// The weights of a cell as tensors.
#[derive(Clone, Copy)]
pub(super) struct CellTensors<'b, T> {
    pub input: Tensor<'b, T>,
    pub hidden: Tensor<'b, T>,
    pub bias: Option<[Tensor<'b, T>; 2]>,
}

impl<'b, T: Float> CellTensors<'b, T> {
    pub fn new(b: &'b GpuCommandBatch, weights: &CellWeights<T>) -> Self {
        let of = |id: BufferId<T>| b.operand(id);
        let bias = weights.bias.map(|bias| bias.map(of));
        Self { input: of(weights.input), hidden: of(weights.hidden), bias }
    }
}

/// A kind of cell. States are pairs, of which a GRU has twice the same: operations on them are recorded once, since a
/// value that nobody reads would be downloaded.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum CellKind {
    Lstm,
    Gru,
}

impl CellKind {
    pub fn gates(self) -> usize {
        match self {
            Self::Lstm => 4,
            Self::Gru => 3,
        }
    }

    /// The names of the last states of a layer.
    pub fn last_states(self) -> [&'static str; 2] {
        match self {
            Self::Lstm => ["lstm.h", "lstm.c"],
            Self::Gru => ["gru.h"; 2],
        }
    }

    /// The other kind, whose weights may be given by mistake.
    pub fn other(self) -> Self {
        match self {
            Self::Lstm => Self::Gru,
            Self::Gru => Self::Lstm,
        }
    }

    /// The addend of the gates from the inputs of one step or of all.
    pub fn project<'b, T: Float>(
        self,
        x: Tensor<'b, T>,
        weights: CellTensors<'b, T>,
    ) -> Tensor<'b, T> {
        let biases = match self {
            Self::Lstm => 2,
            // The reset gate acts on the second one too.
            Self::Gru => 1,
        };
        let biases = weights.bias.into_iter().flatten().take(biases);
        biases.fold(times(x, weights.input), |gates, bias| gates + bias)
    }

    /// The next state, from what the inputs add. `None` is a state of zeros.
    pub fn step<'b, T: Float>(
        self,
        x: Tensor<'b, T>,
        state: Option<CellState<'b, T>>,
        weights: CellTensors<'b, T>,
        size: usize,
    ) -> Result<CellState<'b, T>, Refusal> {
        let rows = x.known_shape()?[0];
        let part = |all: Tensor<'b, T>, at: usize| all.slice([0..rows, at * size..(at + 1) * size]);
        match self {
            Self::Lstm => {
                let all = state.map_or(x, |[h, _]| times(h, weights.hidden) + x);
                let [i, g, o] = [0, 2, 3].map(|at| part(all, at));
                let (i, g, o) = (i.sigmoid(), g.tanh(), o.sigmoid());
                let fresh = i * g;
                let c = state.map_or(fresh, |[_, c]| part(all, 1).sigmoid() * c + fresh);
                Ok([o * c.tanh(), c])
            }
            Self::Gru => {
                let h = state.map(|[h, _]| h);
                let product = h.map(|h| times(h, weights.hidden));
                // A state of zeros adds the bias alone, the same to each row.
                let hidden = match (product, weights.bias.map(|[_, bias]| bias)) {
                    (Some(product), Some(bias)) => Some(product + bias),
                    (product, bias) => product.or(bias.map(|bias| bias.unsqueeze(0))),
                };
                let hidden_part = |at: usize| {
                    let rows = if h.is_some() { rows } else { 1 };
                    hidden.map(|all| all.slice([0..rows, at * size..(at + 1) * size]))
                };
                let gate = |at: usize| {
                    let x = part(x, at);
                    hidden_part(at).map_or(x, |hidden| x + hidden).sigmoid()
                };
                // The gate r is recorded only where it has a factor: a value that nothing reads would be downloaded.
                let x = part(x, 2);
                let n = hidden_part(2).map_or(x, |hidden| x + gate(0) * hidden).tanh();
                let z = gate(1);
                // (1 − z)·n + z·h
                let h = h.map_or_else(|| n - z * n, |h| n + z * (h - n));
                Ok([h, h])
            }
        }
    }
}

/// x·wᵀ.
fn times<'b, T: Float>(x: Tensor<'b, T>, w: Tensor<'b, T>) -> Tensor<'b, T> {
    x.matmul(w.transpose())
}
