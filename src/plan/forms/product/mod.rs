//! The form of matrix products.

mod choice;
mod schedule;
mod tile;

use smallvec::smallvec;

pub(crate) use self::choice::STRIP_ROWS;
use self::schedule::ProductSize;
pub(crate) use self::schedule::{ProductLayout, ProductSchedule, Strip, Tile, UnitTile};
pub(crate) use self::tile::{KnownTile, known_tiles};
use super::axes::Dims;
use super::host_work::{
    LAYOUT_SHARE, PRODUCT_COLUMNS, UNPADDED_ROWS, with_indexed_loads, with_loads, without,
};
use super::kernel_form::{KernelForm, join, partial};
use super::tally::{Tally, count};
use crate::base::dtype::{DType, Ty};
use crate::base::shape::points;
use crate::cost::Work;
use crate::cost::selector::OpComplexity;
use crate::expr::Ref;
use crate::ops::Precision;
use crate::plan::step_parts::{Border, Space, StepContext};
use crate::plan::target::Target;

/// Σₖ x·w with `x` over space X = `batch ++ [m, k]`, `w` over space W = `batch ++ [k, n]`, in which k and n may be
/// `spread` over several axes; outputs over `batch ++ [m, n]`, with the sum as `Acc`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ProductForm {
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
        let (rest, n) = last_axes(fine, n)?;
        let (_, k) = last_axes(rest, k)?;
        Some(Self { k, n })
    }

    /// The axes of k, then those of n.
    pub fn dims(&self) -> impl Iterator<Item = usize> + '_ {
        self.k.iter().chain(&self.n).copied()
    }
}

/// The last of `dims` with `count` points, and those before them.
fn last_axes(dims: &[usize], count: usize) -> Option<(&[usize], Dims)> {
    let at = (0..dims.len()).rev().find(|&at| points(&dims[at..]) >= count)?;
    (points(&dims[at..]) == count).then(|| (&dims[..at], dims[at..].into()))
}

impl ProductForm {
    /// True if the right operand is windows of images of `f32`, perhaps with a border.
    fn reads_images(&self, context: &StepContext<'_>) -> bool {
        let element = Border::of(context.borders, self.w).map_or(self.w, |border| border.element);
        let Some(at) = context.expr.loaded(element) else { return false };
        let operand = &context.operands[at];
        self.spread.is_some() && operand.source.value().is_some() && operand.dtype == DType::F32
    }

    fn size(&self) -> ProductSize {
        let Self { batch, m, n, k, spread, .. } = self;
        ProductSize { count: points(batch), m: *m, n: *n, k: *k, windows: spread.is_some() }
    }
}

impl KernelForm for ProductForm {
    fn name(&self) -> &'static str {
        match self.schedule.layout {
            ProductLayout::Units(UnitTile { split: true, .. }) => "matmul, split on matrix units",
            ProductLayout::Units(_) => "matmul, f16 on matrix units",
            ProductLayout::Tiles(_) | ProductLayout::Strips(_) => "matmul",
        }
    }

    fn complexity(&self) -> OpComplexity {
        OpComplexity::High
    }

    fn dims(&self, space: Space) -> Vec<usize> {
        let Self { batch, m, n, k, spread, .. } = self;
        match (space, spread) {
            (Space::X, _) => join(batch, &[*m, *k]),
            (Space::W, Some(spread)) => batch.iter().copied().chain(spread.dims()).collect(),
            (Space::W, None) => join(batch, &[*k, *n]),
            _ => join(batch, &[*m, *n]),
        }
    }

    fn points(&self) -> u64 {
        let Self { batch, m, n, k, .. } = self;
        let sides = [[*m, *k], [*k, *n], [*m, *n]];
        let largest = sides.iter().map(|side| points(side) as u64).max().unwrap_or(0);
        (points(batch) as u64).saturating_mul(largest)
    }

    fn work(&self, tally: &mut Tally<'_>) {
        let Self { batch, m, n, k, x, w, .. } = self;
        let of = |sides: [usize; 2]| count(batch) * count(&sides);
        tally.evaluate(&[*x], of([*m, *k]));
        tally.evaluate(&[*w], of([*k, *n]));
        tally.results(of([*m, *n]));
        tally.work.product = 2.0 * of([*m, *n]) * *k as f64;
        tally.work.thinness = thinness(*m);
    }

    fn tune(&mut self, _context: &StepContext<'_>, target: &Target) {
        self.schedule = choice::schedule(&self.size(), self.precision, target);
    }

    fn scratch_words(&self, _context: &StepContext<'_>) -> usize {
        partial(self.schedule.parts, &[points(&self.batch), self.m, self.n])
    }

    fn product_seconds(&self, _work: &Work, target: &Target) -> Option<f64> {
        choice::measured_seconds(&self.size(), &self.schedule, target)
    }

    /// The host computes some columns at a time; if there are fewer, others in vain. Elements of images are laid out once
    /// for all windows that they lie in, and the border of an image is found by its lines.
    fn on_host(&self, work: Work, context: &StepContext<'_>) -> Work {
        let is_padded = self.m > UNPADDED_ROWS && self.n > 1;
        let columns = if is_padded { self.n.max(PRODUCT_COLUMNS) } else { self.n };
        let product = work.product * (columns as f64 / self.n.max(1) as f64);
        let work = Work { product, ..work };
        let Some(spread) = &self.spread else { return with_indexed_loads(work, context.operands) };
        let windows = count(&self.batch) * self.n as f64;
        let elements = windows * self.k as f64;
        if !self.reads_images(context) {
            return with_loads(work, elements);
        }
        let laid_out = windows * spread.k.first().map_or(1.0, |&channels| channels as f64);
        let border = elements * context.expr.flops(&[self.w]) as f64;
        with_loads(without(work, border), LAYOUT_SHARE * laid_out)
    }
}

/// 1 for as few rows as one pass over the right operand serves. It is 0 from the estimated number of rows on at which a
/// product is as good as square. In between it falls with the logarithm.
fn thinness(rows: usize) -> f64 {
    const FEW: f64 = 8.0;
    const SQUARE: f64 = 256.0;
    let rows = (rows as f64).clamp(FEW, SQUARE);
    (SQUARE / rows).ln() / (SQUARE / FEW).ln()
}
