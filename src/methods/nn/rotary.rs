//! Rotary positions.

use crate::base::dtype::{Element, Float};
use crate::base::shape::Shape;
use crate::batch::{BufferId, GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::check_parameter;

/// The options of a rotary embedding: how it pairs elements and turns them. The default is that of GPT-NeoX and Llama
/// in PyTorch, with positions from 0.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Rotary {
    /// True if neighbours are a pair (2i and 2i + 1: GPT-J, and the paper), not elements i and i + E/2.
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

impl Rotary {
    /// The default at the given positions: a tensor, an id or a borrowed resident.
    #[track_caller]
    pub fn at(batch: &GpuCommandBatch, positions: impl Operand<f32>) -> Self {
        Self { positions: Some(batch.option("Rotary::at", positions)), ..Self::default() }
    }
}

operations! {
    /// Rotary positions.
    "attention";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch, Rotary};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload_shaped(&[1.0_f32, 0.0, 1.0, 0.0], [2, 2]);
        /// let places = batch.upload(&[1.0_f32, 0.0]);
        /// let results = [
        ///     (x.rotary(Rotary::default()), [1.0, 0.0, 0.5403, 0.8415]),
        ///     (x.rotary(Rotary::at(&batch, places)), [0.5403, 0.8415, 1.0, 0.0]),
        /// ];
        /// batch.execute().await?;
        /// for (result, expected) in results {
        ///     let values = batch.read(result).await?;
        ///     assert!(values.iter().zip(expected).all(|(v, e): (&f32, f32)| (v - e).abs() < 1e-3), "{values:?}");
        /// }
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// Pairs of elements along the last axis of `x`, `[…, L, E]`, turned by angles that grow with the position along L
    /// (Su et al., 2021). E must be even. Angles are computed in `f32`, in the kernel.
    #[doc(alias = "rope")]
    fn rotary<T: Float>(x: T; how: Rotary) -> Tensor<'b, T> = rotary(x, how),
        FLOAT, ANYTHING, COMPOSED, "Pairs of elements turned by angles that grow with the position (Su et al., 2021).";
}

fn rotary<T: Float>(x: Tensor<'_, T>, how: Rotary) -> TensorResult<'_, T> {
    let b = x.batch();
    let shape = x.known_shape()?;
    let &[.., count, width] = shape.dims() else {
        return Err(MistakeKind::Transpose(shape).into());
    };
    check_parameter("the size of the last axis", width % 2 == 0, "even", &width)?;
    let is_sound = how.base.is_finite() && how.base > 0.0;
    check_parameter("base", is_sound, "finite and greater than 0", &how.base)?;
    let half = width / 2;
    let positions = match how.positions {
        Some(positions) => {
            let positions = b.operand(positions);
            let (from, to) =
                (positions.known_shape()?, Shape::new(&shape.dims()[..shape.rank() - 1]));
            if from.broadcast(&to).as_ref() != Some(&to) {
                return Err(MistakeKind::BroadcastTo { from, to }.into());
            }
            positions
        }
        None => b.arange(0.0_f32, count as f32, 1.0).add_scalar(how.start as f32),
    };
    let positions = positions.unsqueeze(-1);
    let pair = b.arange(0.0_f32, half as f32, 1.0);
    let speed = pair.scale(-how.base.ln() / half.max(1) as f32).exp();
    let angle = positions * speed;
    let (cos, sin) = (angle.cos(), angle.sin());
    let [first, second] = pairs(x.cast::<f32>(), &shape, how.interleaved);
    let turns = [(first, cos), (first, sin), (second, cos), (second, sin)];
    let [first_cos, first_sin, second_cos, second_sin] = turns.map(|(x, turn)| x * turn);
    let (first, second) = (first_cos - second_sin, first_sin + second_cos);
    let y = if how.interleaved {
        b.concat([first.unsqueeze(-1), second.unsqueeze(-1)], -1).reshape(shape)
    } else {
        b.concat([first, second], -1)
    };
    Ok(y.cast())
}

/// The first and the second elements of all pairs.
fn pairs<'b>(x: Tensor<'b, f32>, shape: &Shape, interleaved: bool) -> [Tensor<'b, f32>; 2] {
    let rank = shape.rank();
    let half = shape[rank - 1] / 2;
    [0, 1].map(|side| {
        let last = if interleaved {
            (side.min(2 * half)..2 * half, 2)
        } else {
            (side * half..(side + 1) * half, 1)
        };
        let others = shape.dims()[..rank - 1].iter().map(|&dim| (0..dim, 1));
        x.slice(others.chain([last]))
    })
}
