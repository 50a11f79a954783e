//! Scaled dot product attention.

use crate::base::dtype::{DType, Element, Float, Scalar};
use crate::base::shape::{MAX_RANK, Shape};
use crate::batch::{BufferId, GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::ops::{Op, Scores};

/// The options of an attention: its mask, its causal order and its scale. The default sees everything, with a scale of
/// 1/√E.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub struct Attention {
    /// The mask of the scores.
    pub mask: Option<AttentionMask>,
    /// The keys that a query sees by its position.
    pub causal: Causal,
    /// The factor of the scores; `None` for 1/√E (1 where E is 0).
    pub scale: Option<f32>,
}

/// A mask of the scores, which are `[…, L, S]`: `[batch, heads, queries, keys]` with heads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AttentionMask {
    /// Broadcasts to the scores, and is added to them after scaling; −∞ hides a key. [`AttentionMask::add`] makes it.
    Add(BufferId<f32>),
    /// Broadcasts to the scores. Keys count where it holds. A mask that differs from query to query is of this kind.
    /// [`AttentionMask::keep`] makes it.
    Keep(BufferId<bool>),
    /// The keys that each sequence has, `[batch, keys]`, for all heads and queries: the padding mask of sequences of
    /// several lengths. More leading dimensions stand before the keys, as in `q`. [`AttentionMask::keys`] makes it.
    Keys(BufferId<bool>),
}

impl AttentionMask {
    /// [`Add`](Self::Add) of an operand of the batch: a tensor, an id or a borrowed resident.
    #[track_caller]
    pub fn add(batch: &GpuCommandBatch, mask: impl Operand<f32>) -> Self {
        Self::Add(batch.option("AttentionMask::add", mask))
    }

    /// [`Keep`](Self::Keep) of an operand of the batch.
    ///
    /// ```
    /// # use onetrip::{Attention, AttentionMask, Device, GpuCommandBatch};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let q = batch.full([1, 2, 4], 1.0_f32); // 1 sequence, 2 tokens
    /// let seen = batch.upload_shaped([true, false, true, true], [2, 2]); // The first token sees itself alone.
    /// let mask = Some(AttentionMask::keep(&batch, seen));
    /// let y = q.scaled_dot_product_attention(q, q, Attention { mask, ..Attention::default() });
    /// assert_eq!(y.shape().unwrap().dims(), [1, 2, 4]);
    /// ```
    #[track_caller]
    pub fn keep(batch: &GpuCommandBatch, mask: impl Operand<bool>) -> Self {
        Self::Keep(batch.option("AttentionMask::keep", mask))
    }

    /// [`Keys`](Self::Keys) of an operand of the batch.
    ///
    /// ```
    /// # use onetrip::{Attention, AttentionMask, Device, GpuCommandBatch};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let q = batch.full([2, 8, 5, 64], 1.0_f32); // 2 sequences, 8 heads, 5 tokens
    /// let known = batch.upload_shaped([true, true, true, true, true, true, true, true, false, false], [2, 5]);
    /// let mask = Some(AttentionMask::keys(&batch, known));
    /// let y = q.scaled_dot_product_attention(q, q, Attention { mask, ..Attention::default() });
    /// assert_eq!(y.shape().unwrap().dims(), [2, 8, 5, 64]);
    /// ```
    #[track_caller]
    pub fn keys(batch: &GpuCommandBatch, mask: impl Operand<bool>) -> Self {
        Self::Keys(batch.option("AttentionMask::keys", mask))
    }
}

/// The keys that a query sees by its position. L queries, S keys.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub enum Causal {
    /// All of them.
    #[default]
    None,
    /// Query i sees keys 0 to i: PyTorch's and ONNX's `is_causal`.
    TopLeft,
    /// Query i sees keys 0 to i + S − L, so that the last query sees all. Decoding with earlier keys needs this.
    BottomRight,
}

operations! {
    /// Attention.
    "attention";

    /// softmax(q·kᵀ·scale + mask)·v for queries `[…, L, E]`, keys `[…, S, E]` and values `[…, S, Ev]`: `[…, L, Ev]`.
    /// Leading dimensions broadcast; the last of them, the heads of `q`, may also be a multiple of those of `k` and `v`
    /// (grouped heads): each of theirs then serves as many neighbours in `q`. In `f16`, sums are `f32`; where a GPU has
    /// matrix units, weights are rounded to `f16`.
    ///
    /// One kernel (two where few queries share many keys): scores are never written. A mask that is computed, of
    /// coordinates say, is computed there. A query that sees no key gives 0, as in PyTorch since 2.5. NaN in a query,
    /// or in a key or a value that it sees, gives NaN. The effect of NaN or an infinity in unseen keys and values is
    /// unspecified.
    ///
    /// ```
    /// # use onetrip::{Attention, Causal, Device, GpuCommandBatch};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let q = batch.full([2, 8, 5, 64], 1.0_f32); // 8 heads of queries
    /// let k = batch.full([2, 2, 9, 64], 1.0_f32); // 2 of keys and values
    /// let how = Attention { causal: Causal::BottomRight, ..Attention::default() };
    /// let y = batch.scaled_dot_product_attention(q, k, k, how);
    /// assert_eq!(batch.shape(y).unwrap().dims(), [2, 8, 5, 64]);
    /// ```
    fn scaled_dot_product_attention<T: Float>(q: T, k: T, v: T; how: Attention) -> Tensor<'b, T> = scaled_dot_product_attention(q, k, v, how),
        FLOAT, "elementwise after, masks before", NORMED, "softmax(q·kᵀ·scale + mask)·v with masks, causal order and grouped heads; scores are never written.";
}

fn scaled_dot_product_attention<'b, T: Float>(
    q: Tensor<'b, T>,
    k: Tensor<'b, T>,
    v: Tensor<'b, T>,
    how: Attention,
) -> TensorResult<'b, T> {
    let b = q.batch();
    let shapes = [q.known_shape()?, k.known_shape()?, v.known_shape()?];
    let mask = how.mask.map(|mask| broadcasting(b, mask, scores_of(&shapes).as_ref()));
    let mask = mask.transpose()?;
    let shape = mask.map(Tensor::known_shape).transpose()?;
    let (scores, grouped) = heads(&shapes, shape.as_ref(), &how)?;
    let (q, k, v, mask) = match &grouped {
        None => (q, k, v, mask),
        Some(groups) => (
            q.reshape(&groups.queries),
            k.reshape(&groups.keys),
            v.reshape(&groups.values),
            mask.map(|mask| match &groups.mask {
                Some(shape) => mask.reshape(shape),
                None => mask,
            }),
        ),
    };
    let mut operands = vec![q.value(), k.value(), v.value()];
    operands.extend(mask.map(Tensor::value));
    let y: Tensor<'b, T> = b.record(Op::Attention(scores), &operands);
    Ok(match grouped {
        None => y,
        Some(groups) => y.reshape(groups.result),
    })
}

/// The mask as it is added to scores of the shape `scores`, where that is known.
fn broadcasting<'b>(
    b: &'b GpuCommandBatch,
    mask: AttentionMask,
    scores: Option<&Shape>,
) -> TensorResult<'b, f32> {
    let given = match mask {
        AttentionMask::Add(mask) => b.shape_of(mask.value())?,
        AttentionMask::Keep(mask) | AttentionMask::Keys(mask) => b.shape_of(mask.value())?,
    };
    let is_of_keys = matches!(mask, AttentionMask::Keys(_));
    // An attention whose scores have no shape is refused as a whole.
    let Some(scores) = scores else { return Ok(b.full(given, 0.0)) };
    let shape = if is_of_keys { spread(&given, scores.rank()) } else { Some(given.clone()) };
    let Some(shape) = shape.filter(|shape| shape.broadcast(scores).as_ref() == Some(scores)) else {
        let (mask, scores) = (given, scores.clone());
        return Err(MistakeKind::AttentionMask { mask, scores, is_of_keys }.into());
    };
    let added = |keep: Tensor<'b, bool>| keep.select(0.0, f32::NEG_INFINITY);
    Ok(match mask {
        AttentionMask::Add(mask) => b.operand(mask),
        AttentionMask::Keep(mask) => added(b.operand(mask)),
        AttentionMask::Keys(mask) => added(b.operand(mask).reshape(shape)),
    })
}

/// The shape of scores, if queries, keys and values fit. Heads of keys and values that serve several of queries count
/// as one.
fn scores_of(shapes: &[Shape; 3]) -> Option<Shape> {
    let [q, k, v] = shapes;
    let leading = |shape: &Shape| Some(shape.dims()[..shape.rank().checked_sub(2)?].to_vec());
    let mut batch = Shape::from(leading(q)?);
    let heads = batch.dims().last().copied().unwrap_or(1);
    for other in [k, v] {
        let mut other = leading(other)?;
        if let Some(served) = other.last_mut()
            && heads > 1
            && heads.is_multiple_of(*served)
        {
            *served = 1;
        }
        batch = batch.broadcast(&Shape::from(other))?;
    }
    let sides = [q[q.rank() - 2], k[k.rank() - 2]];
    Some(batch.dims().iter().copied().chain(sides).collect())
}

/// The shape in which a mask of keys broadcasts over scores of `rank` dimensions: sizes of 1 between the leading
/// dimensions and the keys.
fn spread(keys: &Shape, rank: usize) -> Option<Shape> {
    let (&last, leading) = keys.dims().split_last()?;
    // Scores of four axes or more have heads: the leading dimensions of such a mask are none of them.
    let least = if rank > 3 { 2 } else { 1 };
    let ones = rank.checked_sub(1 + leading.len()).filter(|&ones| ones >= least)?;
    let ones = std::iter::repeat_n(1, ones);
    Some(leading.iter().copied().chain(ones).chain([last]).collect())
}

/// The computation of the scores for queries, keys and values of these shapes. Grouped heads come with shapes that have
/// an axis of groups.
fn heads(
    shapes: &[Shape; 3],
    mask: Option<&Shape>,
    how: &Attention,
) -> Result<(Scores, Option<Groups>), MistakeKind> {
    let [q, k, v] = shapes;
    let wrong = || MistakeKind::Attention(shapes.iter().chain(mask).cloned().collect());
    if q.rank() < 2 || k.rank() < 2 || v.rank() < 2 {
        return Err(wrong());
    }
    let side = |shape: &Shape, back: usize| shape[shape.rank() - back];
    let (queries, keys) = (side(q, 2) as i64, side(k, 2) as i64);
    // Queries of no elements have scores of 0.
    let scale = how.scale.unwrap_or_else(|| 1.0 / (side(q, 1).max(1) as f32).sqrt());
    // The one query that comes last sees everything.
    let causal = match how.causal {
        Causal::None => None,
        Causal::TopLeft => Some(0),
        Causal::BottomRight => (queries > 1).then_some(keys - queries),
    };
    let scores = Scores { scale: Scalar::new(DType::F32, f64::from(scale)), causal };
    let heads = |shape: &Shape| if shape.rank() > 2 { side(shape, 3) } else { 1 };
    let served = heads(k).max(heads(v));
    let grouped = if heads(q) != served && heads(q) > 1 && served > 1 {
        if !heads(q).is_multiple_of(served) {
            let must = "a multiple of that of keys and values";
            let given = format!("{} for {served}", heads(q));
            return Err(MistakeKind::Parameter {
                what: "the number of heads of queries",
                must,
                given,
            });
        }
        let groups = heads(q) / served;
        let free = causal.is_none() && mask.is_none_or(serves_all);
        let rank = shapes.iter().map(Shape::rank).max().unwrap_or(0);
        if !free && rank == MAX_RANK {
            return Err(MistakeKind::Rank(rank + 1));
        }
        Some(Groups::new(shapes, mask, [served, groups], free).ok_or_else(wrong)?)
    } else {
        None
    };
    Ok((scores, grouped))
}

/// The shapes of operands and of the result with an axis of groups of heads.
struct Groups {
    queries: Shape,
    keys: Shape,
    values: Shape,
    mask: Option<Shape>,
    result: Shape,
}

impl Groups {
    /// The shapes where `served` heads of keys serve `groups` heads of queries each. Where nothing depends on the
    /// position of a query (`free`), the queries of a group are queries of one head, else groups are a batch.
    fn new(
        [q, k, v]: &[Shape; 3],
        mask: Option<&Shape>,
        [served, groups]: [usize; 2],
        free: bool,
    ) -> Option<Self> {
        let rank = q.rank();
        let (queries, out) = (q[rank - 2], v[v.rank() - 1]);
        let result = q.dims()[..rank - 1].iter().copied().chain([out]).collect();
        let batch = &q.dims()[..rank - 3];
        if free {
            let rows = [served, groups * queries, q[rank - 1]];
            let queries = batch.iter().copied().chain(rows).collect();
            let mask = mask.cloned();
            return Some(Self { queries, keys: k.clone(), values: v.clone(), mask, result });
        }
        let split = batch.iter().copied().chain([served, groups, queries, q[rank - 1]]).collect();
        let alone = |shape: &Shape| inserted(shape, 1);
        let mask = match mask {
            Some(mask) if mask.rank() > 2 => {
                let heads = mask[mask.rank() - 3];
                if heads == 1 {
                    Some(inserted(mask, 1))
                } else if heads == served * groups {
                    let dims = mask.dims();
                    let at = dims.len() - 3;
                    let split = dims[..at].iter().copied().chain([served, groups]);
                    Some(split.chain(dims[at + 1..].iter().copied()).collect())
                } else {
                    return None;
                }
            }
            _ => None,
        };
        Some(Self { queries: split, keys: alone(k), values: alone(v), mask, result })
    }
}

/// The shape with a new axis before the last two.
fn inserted(shape: &Shape, size: usize) -> Shape {
    let (batch, sides) = shape.dims().split_at(shape.rank() - 2);
    batch.iter().chain([&size]).chain(sides).copied().collect()
}

/// Returns true if a mask is the same for all heads and queries.
fn serves_all(mask: &Shape) -> bool {
    let sizes = mask.dims().iter().rev().skip(1).take(2);
    sizes.copied().all(|size| size == 1)
}
