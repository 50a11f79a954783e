//! The cells of recurrent layers: one step of each.

use super::CellWeights;
use crate::base::dtype::Float;
use crate::batch::{BufferId, GpuCommandBatch};

/// A kind of cell. States are pairs, of which a GRU has twice the same: what is made of them is recorded once, since a
/// value that nobody reads would be downloaded.
pub(super) trait Cell: Copy {
    const GATES: usize;

    /// What the inputs of a step, or of all, add to the gates.
    fn project<T: Float>(
        self,
        b: &mut GpuCommandBatch,
        x: BufferId<T>,
        weights: CellWeights<T>,
    ) -> BufferId<T>;

    /// The next state, from what the inputs add. `None` is a state of zeros.
    fn step<T: Float>(
        self,
        b: &mut GpuCommandBatch,
        x: BufferId<T>,
        state: Option<[BufferId<T>; 2]>,
        weights: CellWeights<T>,
        size: usize,
    ) -> [BufferId<T>; 2];
}

#[derive(Clone, Copy)]
pub(super) struct Lstm;

impl Cell for Lstm {
    const GATES: usize = 4;

    fn project<T: Float>(
        self,
        b: &mut GpuCommandBatch,
        x: BufferId<T>,
        weights: CellWeights<T>,
    ) -> BufferId<T> {
        let gates = b.times(x, weights.input);
        weights.bias.into_iter().flatten().fold(gates, |gates, bias| b.add(gates, bias))
    }

    fn step<T: Float>(
        self,
        b: &mut GpuCommandBatch,
        x: BufferId<T>,
        state: Option<[BufferId<T>; 2]>,
        weights: CellWeights<T>,
        size: usize,
    ) -> [BufferId<T>; 2] {
        let all = match state {
            None => x,
            Some([h, _]) => {
                let hidden = b.times(h, weights.hidden);
                b.add(hidden, x)
            }
        };
        let [i, f, g, o] = [0, 1, 2, 3].map(|gate| b.gate(all, gate, size));
        let (i, g, o) = (b.sigmoid(i), b.tanh(g), b.sigmoid(o));
        let fresh = b.mul(i, g);
        let c = match state {
            None => fresh,
            Some([_, c]) => {
                let f = b.sigmoid(f);
                let kept = b.mul(f, c);
                b.add(kept, fresh)
            }
        };
        let seen = b.tanh(c);
        [b.mul(o, seen), c]
    }
}

#[derive(Clone, Copy)]
pub(super) struct Gru;

impl Cell for Gru {
    const GATES: usize = 3;

    fn project<T: Float>(
        self,
        b: &mut GpuCommandBatch,
        x: BufferId<T>,
        weights: CellWeights<T>,
    ) -> BufferId<T> {
        let gates = b.times(x, weights.input);
        weights.bias.map_or(gates, |[bias, _]| b.add(gates, bias))
    }

    fn step<T: Float>(
        self,
        b: &mut GpuCommandBatch,
        x: BufferId<T>,
        state: Option<[BufferId<T>; 2]>,
        weights: CellWeights<T>,
        size: usize,
    ) -> [BufferId<T>; 2] {
        let batch = b.shape_of(x).map_or(0, |shape| shape[0]);
        let h = state.map(|[h, _]| h);
        let zero = T::zeroed();
        let h = h.unwrap_or_else(|| b.full([batch, size], zero));
        let hidden = b.times(h, weights.hidden);
        let hidden = weights.bias.map_or(hidden, |[_, bias]| b.add(hidden, bias));
        let [r, z] = [0, 1].map(|gate| {
            let (x, h) = (b.gate(x, gate, size), b.gate(hidden, gate, size));
            let sum = b.add(x, h);
            b.sigmoid(sum)
        });
        let (x, reset) = (b.gate(x, 2, size), b.gate(hidden, 2, size));
        let reset = b.mul(r, reset);
        let n = b.add(x, reset);
        let n = b.tanh(n);
        // (1 − z)·n + z·h
        let change = b.sub(h, n);
        let change = b.mul(z, change);
        let h = b.add(n, change);
        [h, h]
    }
}

impl GpuCommandBatch {
    /// Part `gate` of the last axis, `size` wide.
    fn gate<T: Float>(&mut self, all: BufferId<T>, gate: usize, size: usize) -> BufferId<T> {
        let rows = self.shape_of(all).map_or(0, |shape| shape[0]);
        self.slice(all, [(0..rows, 1), (gate * size..(gate + 1) * size, 1)])
    }

    /// x·wᵀ.
    fn times<T: Float>(&mut self, x: BufferId<T>, w: BufferId<T>) -> BufferId<T> {
        let w = self.transpose(w);
        self.matmul(x, w)
    }
}
