//! The form of attentions.

mod schedule;

use self::schedule::AttentionSizes;
pub(crate) use self::schedule::{AttentionLayout, AttentionSchedule};
use super::axes::Dims;
use super::kernel_form::{KernelForm, join, partial};
use super::tally::{Tally, count};
use crate::base::shape::points;
use crate::cost::Work;
use crate::cost::selector::OpComplexity;
use crate::expr::Ref;
use crate::ops::RowKind;
use crate::plan::step_parts::{Space, StepContext};
use crate::plan::target::Target;

/// Seconds in which a workgroup of an attention is done with a key, for each element of a key and a value: those of the
/// next wait for it. Between 0.5 and 1.1 µs for 64 and 64, measured on an H200.
const KEY_SECONDS: f64 = 0.8e-6 / 128.0;
/// Seconds in which a workgroup of strips is done with the keys that it takes at a time: once what memory takes to
/// answer, and a few shuffles. Estimated, not measured.
const STRIP_SECONDS: f64 = 1.5e-6;

/// Σⱼ e^(sᵢⱼ − greatest) vⱼ / Σⱼ e^(sᵢⱼ − greatest) with sᵢⱼ = scale·Σₑ q·k + mask. `q` is over space Query =
/// `batch ++ [queries, width]`, `k` over space Key = `batch ++ [keys, width]`. `v` is over space Value =
/// `batch ++ [keys, out]`, `mask` over space Scores = `batch ++ [queries, keys]`. Outputs are over
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
    /// If given, keys after i + this are left out for query i.
    pub causal: Option<i64>,
    /// True if queries, keys and values are `f16`, or would be rounded to it.
    pub halves: bool,
    pub schedule: AttentionSchedule,
}

impl KernelForm for AttentionForm {
    fn name(&self) -> &'static str {
        "attention"
    }

    fn complexity(&self) -> OpComplexity {
        OpComplexity::High
    }

    fn dims(&self, space: Space) -> Vec<usize> {
        let Self { batch, queries, keys, width, out, .. } = self;
        match space {
            Space::Query => join(batch, &[*queries, *width]),
            Space::Key => join(batch, &[*keys, *width]),
            Space::Value => join(batch, &[*keys, *out]),
            Space::Scores => join(batch, &[*queries, *keys]),
            _ => join(batch, &[*queries, *out]),
        }
    }

    fn points(&self) -> u64 {
        let sides = [self.width.max(self.out), self.queries.max(self.keys)];
        (points(&self.batch) as u64).saturating_mul(points(&sides) as u64)
    }

    fn work(&self, tally: &mut Tally<'_>) {
        let Self { batch, queries, keys, width, out, q, k, v, mask, causal, .. } = self;
        let of = |sides: [usize; 2]| count(batch) * count(&sides);
        tally.evaluate(&[*q], of([*queries, *width]));
        tally.evaluate(&[*k], of([*keys, *width]));
        tally.evaluate(&[*v], of([*keys, *out]));
        let mask: Vec<Ref> = mask.iter().copied().collect();
        tally.evaluate(&mask, of([*queries, *keys]));
        tally.results(of([*queries, *out]));
        // About half of a square is seen.
        let seen = of([*queries, *keys]) * if causal.is_some() { 0.5 } else { 1.0 };
        tally.work.row = seen * RowKind::Softmax.def().flops as f64;
        tally.work.product = 2.0 * seen * (width + out) as f64;
    }

    fn tune(&mut self, _context: &StepContext<'_>, target: &Target) {
        let &mut Self { ref batch, queries, keys, width, out, halves, .. } = self;
        let sizes = AttentionSizes { count: points(batch), queries, keys, width, out, halves };
        self.schedule = schedule::schedule(&sizes, &target.limits);
    }

    fn scratch_words(&self, _context: &StepContext<'_>) -> usize {
        partial(self.schedule.parts, &[points(&self.batch), self.queries, self.out + 2])
    }

    /// However few workgroups there are, each takes its keys one after the other.
    fn product_seconds(&self, work: &Work, target: &Target) -> Option<f64> {
        let Self { keys, width, out, schedule, .. } = self;
        let keys = keys.div_ceil(schedule.parts.max(1));
        let alone = match schedule.layout {
            AttentionLayout::Strips { .. } => keys.div_ceil(schedule.keys) as f64 * STRIP_SECONDS,
            AttentionLayout::Tiles | AttentionLayout::Units(_) => {
                (keys * (width + out)) as f64 * KEY_SECONDS
            }
        };
        Some(target.profile.gpu.product.seconds(work.product).max(alone))
    }
}
