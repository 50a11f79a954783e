//! A step of a plan: one fused kernel, as a value that prints.

use std::panic::Location;

use smallvec::{SmallVec, smallvec};

use crate::cost::MatrixUnits;
use crate::dtype::{DType, Scalar, Ty};
use crate::expr::{Expr, Ref};
use crate::ops::{Combine, Precision, RowKind, key_bits};
use crate::shape::{View, points};

/// A value with storage, by position in [`Plan::values`](super::Plan).
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct ValueId(pub u32);

impl ValueId {
    pub fn index(self) -> usize {
        self.0 as usize
    }
}

/// One kernel: a form, with expressions in its holes.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Step {
    /// The operations that it computes, in the order recorded.
    pub ops: Vec<&'static str>,
    /// Where the last of them was recorded.
    pub place: &'static Location<'static>,
    pub form: Form,
    /// The arena of every expression in this step: prologues and outputs.
    pub expr: Expr,
    /// What [`Node::Load`](crate::expr::Node) refers to.
    pub operands: Vec<Operand>,
    /// What [`Node::Scalar`](crate::expr::Node) refers to.
    pub scalars: Vec<Scalar>,
    /// At least one; all are written for every element of the form's result.
    pub outputs: SmallVec<[StepOutput; 1]>,
    /// Memory of 32-bit words that only this step uses, for partial results.
    pub scratch: Option<Scratch>,
    pub cost: Cost,
}

impl Step {
    /// The step's name in errors, in `explain` and in GPU debuggers: `matmul+add+relu`.
    pub fn label(&self) -> String {
        self.ops.join("+")
    }

    /// The distinct values that the step reads, in order of first use.
    pub fn reads(&self) -> SmallVec<[ValueId; 8]> {
        let mut reads = SmallVec::new();
        for operand in &self.operands {
            if let Some(value) = operand.source.value()
                && !reads.contains(&value)
            {
                reads.push(value);
            }
        }
        reads
    }

    /// Whether the step can fail.
    pub fn can_fail(&self) -> bool {
        self.operands.iter().any(|operand| operand.source == Source::Failures)
    }

    /// How often a GPU is dispatched for the step.
    pub fn dispatches(&self) -> u64 {
        match &self.form {
            _ if self.is_empty() => 0,
            Form::Reduce { schedule: ReduceSchedule { parts, .. }, .. }
            | Form::Row { parts, .. }
            | Form::Scan { parts, .. }
            | Form::Attention(AttentionForm {
                schedule: AttentionSchedule { parts, .. }, ..
            })
            | Form::MatMul { schedule: ProductSchedule { parts, .. }, .. }
                if *parts > 1 =>
            {
                2
            }
            Form::Sort { schedule, dtype, .. } => schedule.dispatches(*dtype),
            _ => 1,
        }
    }

    /// The points of the largest space that the step iterates over, with its partial results.
    pub fn points(&self) -> u64 {
        let count = |dims: &[usize]| points(dims) as u64;
        let form = match &self.form {
            Form::Map { dims } => count(dims),
            Form::Reduce { outer, inner, .. } => count(outer).saturating_mul(count(inner)),
            Form::Row { outer, len, .. }
            | Form::Scan { outer, len, .. }
            | Form::Sort { outer, len, .. } => count(outer).saturating_mul(*len as u64),
            Form::MatMul { batch, m, n, k, .. } => {
                let sides = [[*m, *k], [*k, *n], [*m, *n]];
                let largest = sides.iter().map(|side| count(side)).max().unwrap_or(0);
                count(batch).saturating_mul(largest)
            }
            Form::Attention(AttentionForm { batch, queries, keys, width, out, .. }) => {
                let (width, most) = (width.max(out), queries.max(keys));
                count(batch).saturating_mul(count(&[*width, *most]))
            }
        };
        form.max(self.scratch.map_or(0, |scratch| scratch.words))
    }

    /// Whether the step has nothing to write.
    pub fn is_empty(&self) -> bool {
        self.outputs[0].view.dims.contains(&0)
    }
}

/// Partial results of a form in parts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Scratch {
    pub words: u64,
    /// The buffer, by position in [`Plan::slots`](super::Plan).
    pub slot: usize,
}

/// The kernel forms. The *main space* of a form is what its prologue (or, for a map, its outputs)
/// iterates over; the *out space* is what its outputs iterate over.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Form {
    /// One result an element. Main space = out space = `dims`.
    Map {
        dims: Dims,
    },
    /// `prologue` over main space `outer ++ inner`, combined over `inner`; outputs over `outer`, with
    /// the combination as [`Node::Acc`](crate::expr::Node).
    Reduce {
        combine: Combine,
        outer: Dims,
        inner: Dims,
        prologue: Ref,
        schedule: ReduceSchedule,
    },
    /// `prologue` over `outer ++ [len]`, normalised along `len`; outputs over the same space, with the
    /// normalised value as `Acc`. `epsilon` is the position of ε in the step's scalars; `parts` is what a
    /// GPU cuts each row into: with more than one, a first dispatch leaves statistics of the parts in
    /// the scratch memory.
    Row {
        kind: RowKind,
        outer: Dims,
        len: usize,
        prologue: Ref,
        epsilon: Option<u16>,
        parts: usize,
    },
    /// `prologue` over `outer ++ [len]`; outputs over the same space, with the combination of all up to an
    /// element along `len` as `Acc`. `parts` is what a GPU cuts each row into: with more than one, a first
    /// dispatch leaves the combination of each part in the scratch memory.
    Scan {
        combine: Combine,
        outer: Dims,
        len: usize,
        prologue: Ref,
        parts: usize,
    },
    /// `prologue`, of type `dtype`, over `outer ++ [len]`, in order along `len`; outputs over `outer ++ [count]`: what
    /// their roots, which are over the main space, are at the elements of the first `count` ranks. A root is the
    /// prologue, or else the position along `len`.
    Sort {
        outer: Dims,
        len: usize,
        count: usize,
        dtype: DType,
        prologue: Ref,
        descending: bool,
        schedule: SortSchedule,
    },
    /// Σₖ x·w with `x` over space X = `batch ++ [m, k]`, `w` over space W = `batch ++ [k, n]`, in which k and n may be
    /// `spread` over several axes; outputs over `batch ++ [m, n]`, with the sum as `Acc`.
    MatMul {
        batch: Dims,
        m: usize,
        n: usize,
        k: usize,
        spread: Option<Spread>,
        x: Ref,
        w: Ref,
        acc: Ty,
        precision: Precision,
        schedule: ProductSchedule,
    },
    Attention(AttentionForm),
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
    pub schedule: AttentionSchedule,
}

/// How a GPU kernel shares out an attention.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct AttentionSchedule {
    /// Queries of a workgroup, and those of a thread: 4 or 8.
    pub rows: usize,
    pub each: usize,
    /// Keys that are scored at a time, a multiple of [`CHUNK`](Self::CHUNK).
    pub keys: usize,
    /// Columns of the result that a workgroup computes, a multiple of 32.
    pub columns: usize,
    /// Parts that the keys are cut into; with more than one, partial results go to the scratch memory and a second
    /// dispatch combines them.
    pub parts: usize,
}

impl AttentionSchedule {
    /// Threads that share a query.
    pub const ACROSS: usize = 8;
    /// Keys, and elements of their width, that are in workgroup memory at a time.
    pub const CHUNK: usize = 4 * Self::ACROSS;

    /// The schedule until one is chosen.
    pub fn least() -> Self {
        Self { rows: 32, each: 4, keys: 32, columns: 32, parts: 1 }
    }

    /// Threads of a workgroup.
    pub fn threads(&self) -> usize {
        self.rows / self.each * Self::ACROSS
    }

    /// Workgroup memory that the kernel takes: a chunk of queries or weights, and one of keys or values.
    pub fn workgroup_bytes(&self) -> usize {
        Self::CHUNK * 4 * (self.rows + self.keys.max(self.columns))
    }

    /// Keys of each part but the last.
    pub fn part(&self, keys: usize) -> usize {
        keys.div_ceil(self.parts).next_multiple_of(self.keys)
    }
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

/// How a GPU kernel shares out a reduction.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReduceSchedule {
    /// A workgroup a result, or a thread a result.
    pub layout: ReduceLayout,
    /// Parts that each row of `inner` is cut into; with more than one, partial results go to the scratch
    /// memory and a second dispatch combines them.
    pub parts: usize,
}

/// Who walks along the reduced elements of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReduceLayout {
    /// The threads of a workgroup together: for rows that lie close in memory.
    Group,
    /// One thread alone, its neighbours taking the neighbouring results: for columns and short rows.
    Thread,
}

/// How a GPU sorts.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum SortSchedule {
    /// A workgroup sorts whole rows in its memory.
    Group,
    /// A workgroup finds the first few of a row or, with more than one, of each of this many parts, among which a
    /// second dispatch selects.
    Select { parts: usize },
    /// All by one digit of so many bits of their keys after the other; elements move through the scratch memory. Those
    /// of equal digits are found by votes of subgroups, or by counters that each thread keeps.
    Digits { bits: u32, votes: bool },
}

impl SortSchedule {
    /// Elements that a workgroup takes of a row.
    pub fn tile(self) -> usize {
        256 * if let Self::Digits { votes: true, .. } = self { 12 } else { 8 }
    }

    /// How often a GPU is dispatched to sort elements of `dtype`.
    pub fn dispatches(self, dtype: DType) -> u64 {
        match self {
            Self::Group | Self::Select { parts: 1 } => 1,
            Self::Select { .. } => 2,
            Self::Digits { bits, .. } => 3 * key_bits(dtype).len().div_ceil(bits as usize) as u64,
        }
    }
}

/// How a GPU kernel shares out a matrix product.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ProductSchedule {
    pub layout: ProductLayout,
    /// Parts that k is cut into; with more than one, partial sums go to the scratch memory and a second
    /// dispatch adds them.
    pub parts: usize,
}

impl Default for ProductSchedule {
    fn default() -> Self {
        let tile = Tile { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 };
        Self { layout: ProductLayout::Tiles(tile), parts: 1 }
    }
}

/// What multiplies, and which part of the result a workgroup computes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ProductLayout {
    /// Scalar units, a block of the result in each thread's registers.
    Tiles(Tile),
    /// Scalar units, for few rows: each element of the right operand is read once.
    Strips(Strip),
    /// Matrix units, a block of the result in each subgroup's.
    Units(UnitTile),
}

/// `bm × bn` of the result a workgroup, `bk` of k at a time, `tm × tn` of the result a thread. All but `tm` are
/// multiples of four.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Tile {
    pub bm: usize,
    pub bn: usize,
    pub bk: usize,
    pub tm: usize,
    pub tn: usize,
}

/// `rows` of the result (all there are), and `quads` fours of columns a workgroup, whose threads in `slices`
/// share k. Where the right operand lies along k, each thread takes four of k at a time, and `quads` single columns.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Strip {
    pub rows: usize,
    pub quads: usize,
    /// A power of two.
    pub slices: usize,
}

impl Strip {
    /// Fours of k that a thread reads at once.
    pub const UNROLLED: usize = 4;

    /// Elements of k that the workgroup reads in one round.
    pub fn unit(&self) -> usize {
        self.slices * 4 * Self::UNROLLED
    }
}

/// `bm × bn` of the result a workgroup, `bk` of k at a time, `wm × wn` of the result a subgroup; all are multiples of
/// the units' side.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct UnitTile {
    pub bm: usize,
    pub bn: usize,
    pub bk: usize,
    pub wm: usize,
    pub wn: usize,
    /// Whether `f32` operands are multiplied as sums of two `f16`.
    pub split: bool,
    /// What multiplies.
    pub units: MatrixUnits,
}

impl UnitTile {
    /// Halves between the end of one row of a tile in workgroup memory and the start of the next, which spread a
    /// column over the banks.
    pub const PAD: usize = 8;

    /// Workgroup memory that the kernel takes: both tiles, however they lie, and a square of the result a subgroup.
    pub fn workgroup_bytes(&self) -> u64 {
        let parts = if self.split { 2 } else { 1 };
        let halves = |outer: usize| {
            let (a, b) =
                (outer * (self.bk * parts + Self::PAD), self.bk * (outer * parts + Self::PAD));
            a.max(b)
        };
        let square = (self.units.side as usize).pow(2);
        let squares = (self.bm / self.wm) * (self.bn / self.wn) * square * 4;
        (2 * (halves(self.bm) + halves(self.bn)) + squares) as u64
    }
}

/// The space that an operand's view runs over.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Space {
    /// The main space of a map, reduction, row, scan or sort form.
    Main,
    /// The left operand of a product: `batch ++ [m, k]`.
    X,
    /// The right operand of a product: `batch ++ [k, n]`, or `batch` and the axes that k and n are spread over.
    W,
    /// The queries of an attention: `batch ++ [queries, width]`.
    Query,
    /// Its keys: `batch ++ [keys, width]`.
    Key,
    /// Its values: `batch ++ [keys, out]`.
    Value,
    /// Its mask: `batch ++ [queries, keys]`.
    Scores,
    /// The out space of a reduction (`outer`), product (`batch ++ [m, n]`) or attention (`batch ++ [queries, out]`).
    Out,
    /// None: the operand is there as a whole, for [`Node::Fetch`](crate::expr::Node) and
    /// [`Node::Check`](crate::expr::Node).
    Whole,
}

/// What one [`Node::Load`](crate::expr::Node) reads, or what is there as a whole.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Operand {
    pub source: Source,
    pub dtype: DType,
    pub space: Space,
    /// From a point of the space to an element.
    pub view: View,
    /// Whether the view may point outside the value (where the expression then ignores what was
    /// read), so that the index must be clamped to `0..elements`.
    pub clamp: bool,
}

/// Where a loaded number comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Source {
    Value(ValueId),
    /// The view's index itself, as an `i32`: coordinates as numbers.
    Iota,
    /// Any element of a whole value.
    Table(ValueId),
    /// Where the run's failures are told.
    Failures,
}

impl Source {
    /// The value that is read.
    pub fn value(self) -> Option<ValueId> {
        match self {
            Self::Value(value) | Self::Table(value) => Some(value),
            Self::Iota | Self::Failures => None,
        }
    }
}

/// A result of a step.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StepOutput {
    pub value: ValueId,
    pub dtype: DType,
    /// The expression of one element.
    pub root: Ref,
    /// From a point of the out space to an element of the value: a permutation of the
    /// row-major order (which it is for all but row, scan and sort forms over an inner axis).
    pub view: View,
}

/// What a step does and how long that should take.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Cost {
    pub flops: u64,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Predicted seconds on each side.
    pub cpu_seconds: f64,
    pub gpu_seconds: f64,
}
