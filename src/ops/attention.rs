//! Scaled dot product attention: softmax(q·kᵀ·scale + mask)·v.

use crate::base::dtype::Scalar;
use crate::base::shape::Shape;
use crate::error::MistakeKind;

/// The treatment of an attention's scores. Operands: queries, keys, values, and perhaps a mask in `f32` that is
/// added to the scores.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Scores {
    /// The factor of each score, in `f32`.
    pub scale: Scalar,
    /// Query i sees keys up to i + this, if it is given.
    pub causal: Option<i64>,
}

/// The sizes of an attention.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AttentionDims {
    /// The broadcast leading dimensions.
    pub batch: Shape,
    pub queries: usize,
    pub keys: usize,
    /// Elements of a query and of a key.
    pub width: usize,
    /// Elements of a value, and of a result.
    pub out: usize,
}

impl AttentionDims {
    /// The sizes for queries, keys and values, and the mask, if there is one.
    pub fn of(operands: &[&Shape]) -> Result<Self, MistakeKind> {
        let &[q, k, v, ..] = operands else {
            return Err(MistakeKind::Internal("attention takes three operands or four"));
        };
        let wrong = || MistakeKind::Attention(operands.iter().map(|&s| s.clone()).collect());
        let [(mut batch, [queries, width]), (batch_k, [keys, width_k]), (batch_v, [values, out])] =
            [matrices(q), matrices(k), matrices(v)].map(Option::unwrap_or_default);
        let small = [q, k, v].iter().any(|shape| shape.rank() < 2);
        if small || width != width_k || keys != values {
            return Err(wrong());
        }
        for other in [batch_k, batch_v] {
            batch = batch.broadcast(&other).ok_or_else(wrong)?;
        }
        let dims = Self { batch, queries, keys, width, out };
        if let Some(&mask) = operands.get(3)
            && mask.broadcast(&dims.scores()).as_ref() != Some(&dims.scores())
        {
            return Err(wrong());
        }
        Ok(dims)
    }

    /// The shape of the scores.
    pub fn scores(&self) -> Shape {
        self.space([self.queries, self.keys])
    }

    /// The shape of the result.
    pub fn shape(&self) -> Shape {
        self.space([self.queries, self.out])
    }

    /// Matrices of these sides for all of the batch.
    pub fn space(&self, sides: [usize; 2]) -> Shape {
        self.batch.dims().iter().copied().chain(sides).collect()
    }
}

/// The leading dimensions and the last two.
fn matrices(shape: &Shape) -> Option<(Shape, [usize; 2])> {
    match shape.dims() {
        [batch @ .., rows, columns] => Some((Shape::from(batch), [*rows, *columns])),
        _ => None,
    }
}
