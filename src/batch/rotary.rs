//! Rotary positions.

use super::{BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::Float;
use crate::base::shape::Shape;
use crate::error::MistakeKind;

/// How a rotary embedding pairs elements and turns them. The default is that of GPT-NeoX and Llama in PyTorch, with
/// positions from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// Whether neighbours are a pair (2i and 2i + 1: GPT-J, and the paper), not elements i and i + E/2.
    pub interleaved: bool,
    /// Pair i turns by position·base^(−2i/E).
    pub base: f32,
    /// The first position, where none are given.
    pub start: u32,
    /// The positions, whose shape broadcasts to that of the argument without its last axis.
    pub positions: Option<BufferId<f32>>,
}

impl Default for Rotary {
    fn default() -> Self {
        Self { interleaved: false, base: 10_000.0, start: 0, positions: None }
    }
}

impl GpuCommandBatch {
    /// Pairs of elements along the last axis of `x`, `[…, L, E]`, turned by angles that grow with the position along L
    /// (Su et al., 2021). E must be even. Angles are computed in `f32`, in the kernel.
    #[track_caller]
    pub fn rotary<T: Float>(&mut self, x: BufferId<T>, how: Rotary) -> BufferId<T> {
        self.composed("rotary", |batch| match batch.rotary_shapes(x, &how) {
            Ok((shape, positions)) => batch.rotated(x, &shape, positions, &how),
            Err(what) => batch.refused("rotary", what),
        })
    }

    fn rotated<T: Float>(
        &mut self,
        x: BufferId<T>,
        shape: &Shape,
        positions: usize,
        how: &Rotary,
    ) -> BufferId<T> {
        let half = shape[shape.rank() - 1] / 2;
        let positions = match how.positions {
            Some(positions) => self.unsqueeze(positions, -1),
            None => {
                let first = how.start as f32;
                let all = self.arange(0.0_f32, positions as f32, 1.0);
                let all = self.add_scalar(all, first);
                self.unsqueeze(all, -1)
            }
        };
        let pair = self.arange(0.0_f32, half as f32, 1.0);
        let power = self.scale(pair, -how.base.ln() / half.max(1) as f32);
        let speed = self.exp(power);
        let angle = self.mul(positions, speed);
        let (cos, sin) = (self.cos(angle), self.sin(angle));
        let x = self.cast::<T, f32>(x);
        let [a, b] = self.pairs(x, shape, how.interleaved);
        let [a_cos, a_sin, b_cos, b_sin] =
            [(a, cos), (a, sin), (b, cos), (b, sin)].map(|(x, turn)| self.mul(x, turn));
        let (first, second) = (self.sub(a_cos, b_sin), self.add(a_sin, b_cos));
        let y = if how.interleaved {
            let sides = [self.unsqueeze(first, -1), self.unsqueeze(second, -1)];
            let y = self.concat(&sides, -1);
            self.reshape(y, shape)
        } else {
            self.concat(&[first, second], -1)
        };
        self.cast(y)
    }

    /// The shape of `x`, and how many positions it has.
    fn rotary_shapes<T: Float>(
        &self,
        x: BufferId<T>,
        how: &Rotary,
    ) -> Result<(Shape, usize), Refusal> {
        let shape = self.shape_of(x)?;
        let &[.., positions, width] = shape.dims() else {
            return Err(MistakeKind::Transpose(shape).into());
        };
        if width % 2 == 1 {
            let given = width.to_string();
            let what = "the size of the last axis";
            return Err(MistakeKind::Parameter { what, must: "even", given }.into());
        }
        if !(how.base.is_finite() && how.base > 0.0) {
            let given = how.base.to_string();
            let must = "finite and greater than 0";
            return Err(MistakeKind::Parameter { what: "base", must, given }.into());
        }
        if let Some(given) = how.positions {
            let given = self.shape_of(given)?;
            let places = Shape::new(&shape.dims()[..shape.rank() - 1]);
            if given.broadcast(&places).as_ref() != Some(&places) {
                return Err(MistakeKind::BroadcastTo { from: given, to: places }.into());
            }
        }
        Ok((shape, positions))
    }

    /// The first and the second elements of all pairs.
    fn pairs(&mut self, x: BufferId<f32>, shape: &Shape, interleaved: bool) -> [BufferId<f32>; 2] {
        let rank = shape.rank();
        let half = shape[rank - 1] / 2;
        [0, 1].map(|side| {
            let last = if interleaved {
                (side.min(2 * half)..2 * half, 2)
            } else {
                (side * half..(side + 1) * half, 1)
            };
            let others = shape.dims()[..rank - 1].iter().map(|&dim| (0..dim, 1));
            let ranges: Vec<_> = others.chain([last]).collect();
            self.slice(x, ranges)
        })
    }
}
