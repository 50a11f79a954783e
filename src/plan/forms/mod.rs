//! The kernel forms: what a step computes, with holes for expressions.

pub(super) mod attention;
pub(super) mod product;
pub(super) mod schedule_types;
pub(super) mod tune;

use std::sync::Arc;

use smallvec::{SmallVec, smallvec};

use self::schedule_types::{AttentionSchedule, ProductSchedule, ReduceSchedule, SortSchedule};
use crate::base::dtype::{DType, Ty};
use crate::base::shape::points;
use crate::expr::Ref;
use crate::ops::{Combine, OwnKernel, Precision, RowKind};

/// The kernel forms. The *main space* of a form is what its prologue (or, for a map, its outputs)
/// iterates over; the *out space* is what its outputs iterate over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// One result an element. Main space = out space = `dims`.
    Map {
        dims: Dims,
    },
    Reduce(ReduceForm),
    Row(RowForm),
    Scan(ScanForm),
    Sort(SortForm),
    MatMul(MatMulForm),
    Attention(AttentionForm),
    Own(OwnForm),
}

/// `prologue` over main space `outer ++ inner`, combined over `inner`; outputs over `outer`, with
/// the combination as [`Node::Acc`](crate::expr::Node).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReduceForm {
    pub combine: Combine,
    pub outer: Dims,
    pub inner: Dims,
    pub prologue: Ref,
    pub schedule: ReduceSchedule,
}

/// `prologue` over `outer ++ [len]`, normalised along `len`; outputs over the same space, with the
/// normalised value as `Acc`. `epsilon` is the position of ε in the step's scalars; `parts` is what a
/// GPU cuts each row into: with more than one, a first dispatch leaves statistics of the parts in
/// the scratch memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct RowForm {
    pub kind: RowKind,
    pub outer: Dims,
    pub len: usize,
    pub prologue: Ref,
    pub epsilon: Option<u16>,
    pub parts: usize,
}

/// `prologue` over `outer ++ [len]`; outputs over the same space, with the combination of all up to an
/// element along `len` as `Acc`. `parts` is what a GPU cuts each row into: with more than one, a first
/// dispatch leaves the combination of each part in the scratch memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ScanForm {
    pub combine: Combine,
    pub outer: Dims,
    pub len: usize,
    pub prologue: Ref,
    pub parts: usize,
}

/// `prologue`, of type `dtype`, over `outer ++ [len]`, in order along `len`; outputs over `outer ++ [count]`: what
/// their roots, which are over the main space, are at the elements of the first `count` ranks. A root is the
/// prologue, or else the position along `len`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SortForm {
    pub outer: Dims,
    pub len: usize,
    pub count: usize,
    pub dtype: DType,
    pub prologue: Ref,
    pub descending: bool,
    pub schedule: SortSchedule,
}

/// Σₖ x·w with `x` over space X = `batch ++ [m, k]`, `w` over space W = `batch ++ [k, n]`, in which k and n may be
/// `spread` over several axes; outputs over `batch ++ [m, n]`, with the sum as `Acc`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MatMulForm {
    pub batch: Dims,
    pub m: usize,
    pub n: usize,
    pub k: usize,
    pub spread: Option<Spread>,
    pub x: Ref,
    pub w: Ref,
    pub acc: Ty,
    pub precision: Precision,
    pub schedule: ProductSchedule,
}

/// Σⱼ e^(sᵢⱼ − greatest) vⱼ / Σⱼ e^(sᵢⱼ − greatest) with sᵢⱼ = scale·Σₑ q·k + mask, for `q` over space Query =
/// `batch ++ [queries, width]`, `k` over space Key = `batch ++ [keys, width]`, `v` over space Value =
/// `batch ++ [keys, out]` and `mask` over space Scores = `batch ++ [queries, keys]`; outputs over
/// `batch ++ [queries, out]`, with the quotient as `Acc`, 0 where no score is above −∞. `scale` is a position in
/// the step's scalars.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct AttentionForm {
    pub batch: Dims,
    pub queries: usize,
    pub keys: usize,
    pub width: usize,
    pub out: usize,
    pub q: Ref,
    pub k: Ref,
    pub v: Ref,
    pub mask: Option<Ref>,
    pub scale: u16,
    /// Where it is given, keys after i + this are left out for query i.
    pub causal: Option<i64>,
    /// Whether queries, keys and values are `f16`, or would be rounded to it.
    pub halves: bool,
    pub schedule: AttentionSchedule,
}

/// A kernel of the user's own, over tables; its one output, over `dims`, is what it writes, and 0 elsewhere.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct OwnForm {
    pub kernel: Arc<OwnKernel>,
    pub dims: Dims,
    /// By position, operands of the step.
    pub inputs: SmallVec<[u16; 4]>,
    /// Whether the kernel has workgroups, and each input elements.
    pub runs: bool,
}

pub(crate) type Dims = SmallVec<[usize; 4]>;

/// The axes that k and n of a product's right operand are made of: those of windows, which no view makes one axis.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Spread {
    pub k: Dims,
    pub n: Dims,
}

impl Spread {
    /// k and n as they are, one axis each.
    pub fn none(k: usize, n: usize) -> Self {
        Self { k: smallvec![k], n: smallvec![n] }
    }

    /// The axes of `fine` that make up the last two axes of `coarse`, the same elements in the same order.
    pub fn of(fine: &[usize], coarse: &[usize]) -> Option<Self> {
        let &[.., k, n] = coarse else { return None };
        let (rest, n) = split(fine, n)?;
        let (_, k) = split(rest, k)?;
        Some(Self { k, n })
    }

    /// The axes of k, then those of n.
    pub fn dims(&self) -> impl Iterator<Item = usize> + '_ {
        self.k.iter().chain(&self.n).copied()
    }
}

/// The last of `dims` with `count` points, and what comes before them.
fn split(dims: &[usize], count: usize) -> Option<(&[usize], Dims)> {
    let at = (0..dims.len()).rev().find(|&at| points(&dims[at..]) >= count)?;
    (points(&dims[at..]) == count).then(|| (&dims[..at], dims[at..].into()))
}
