//! The cells of recurrent layers: one step of each.

use super::{CellWeights, State};
use crate::base::dtype::Float;
use crate::batch::{BufferId, GpuCommandBatch, Tensor};
use crate::record::Refusal;

/// The weights of a cell as tensors.
#[derive(Clone, Copy)]
pub(super) struct Weights<'b, T> {
    pub input: Tensor<'b, T>,
    pub hidden: Tensor<'b, T>,
    pub bias: Option<[Tensor<'b, T>; 2]>,
}

impl<'b, T: Float> Weights<'b, T> {
    pub fn new(b: &'b GpuCommandBatch, weights: &CellWeights<T>) -> Self {
        let of = |id: BufferId<T>| b.operand(id);
        let bias = weights.bias.map(|bias| bias.map(of));
        Self { input: of(weights.input), hidden: of(weights.hidden), bias }
    }
}

/// A kind of cell. States are pairs, of which a GRU has twice the same: what is made of them is recorded once, since a
/// value that nobody reads would be downloaded.
pub(super) trait Cell: Copy {
    const GATES: usize;

    /// What the inputs of a step, or of all, add to the gates.
    fn project<'b, T: Float>(self, x: Tensor<'b, T>, weights: Weights<'b, T>) -> Tensor<'b, T>;

    /// The next state, from what the inputs add. `None` is a state of zeros.
    fn step<'b, T: Float>(
        self,
        x: Tensor<'b, T>,
        state: Option<State<'b, T>>,
        weights: Weights<'b, T>,
        size: usize,
    ) -> Result<State<'b, T>, Refusal>;
}

#[derive(Clone, Copy)]
pub(super) struct Lstm;

impl Cell for Lstm {
    const GATES: usize = 4;

    fn project<'b, T: Float>(self, x: Tensor<'b, T>, weights: Weights<'b, T>) -> Tensor<'b, T> {
        let gates = times(x, weights.input);
        weights.bias.into_iter().flatten().fold(gates, |gates, bias| gates + bias)
    }

    fn step<'b, T: Float>(
        self,
        x: Tensor<'b, T>,
        state: Option<State<'b, T>>,
        weights: Weights<'b, T>,
        size: usize,
    ) -> Result<State<'b, T>, Refusal> {
        let all = state.map_or(x, |[h, _]| times(h, weights.hidden) + x);
        let rows = all.known_shape()?[0];
        let [i, f, g, o] = [0, 1, 2, 3].map(|at| gate(all, rows, at, size));
        let (i, g, o) = (i.sigmoid(), g.tanh(), o.sigmoid());
        let fresh = i * g;
        let c = state.map_or(fresh, |[_, c]| f.sigmoid() * c + fresh);
        Ok([o * c.tanh(), c])
    }
}

#[derive(Clone, Copy)]
pub(super) struct Gru;

impl Cell for Gru {
    const GATES: usize = 3;

    fn project<'b, T: Float>(self, x: Tensor<'b, T>, weights: Weights<'b, T>) -> Tensor<'b, T> {
        let gates = times(x, weights.input);
        weights.bias.map_or(gates, |[bias, _]| gates + bias)
    }

    fn step<'b, T: Float>(
        self,
        x: Tensor<'b, T>,
        state: Option<State<'b, T>>,
        weights: Weights<'b, T>,
        size: usize,
    ) -> Result<State<'b, T>, Refusal> {
        let rows = x.known_shape()?[0];
        let zeros = || x.batch().full([rows, size], T::zeroed());
        let h = state.map_or_else(zeros, |[h, _]| h);
        let hidden = times(h, weights.hidden);
        let hidden = weights.bias.map_or(hidden, |[_, bias]| hidden + bias);
        let part = |all: Tensor<'b, T>, at: usize| gate(all, rows, at, size);
        let [r, z] = [0, 1].map(|at| (part(x, at) + part(hidden, at)).sigmoid());
        let (x, reset) = (part(x, 2), part(hidden, 2));
        let n = (x + r * reset).tanh();
        // (1 − z)·n + z·h
        let h = n + z * (h - n);
        Ok([h, h])
    }
}

/// Part `at` of the last axis, `size` wide.
fn gate<T: Float>(all: Tensor<'_, T>, rows: usize, at: usize, size: usize) -> Tensor<'_, T> {
    all.slice([0..rows, at * size..(at + 1) * size])
}

/// x·wᵀ.
fn times<'b, T: Float>(x: Tensor<'b, T>, w: Tensor<'b, T>) -> Tensor<'b, T> {
    x.matmul(w.transpose())
}
