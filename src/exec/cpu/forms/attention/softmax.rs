//! The running softmax of a block of queries, whose scores lie side by side.

use crate::exec::cpu::vectors::by_processor::loops;
use crate::exec::cpu::vectors::{SimdVector, exponential};

/// Queries of a block: a multiple of the columns of every kernel's panels and of every vector.
pub(super) const QUERIES: usize = 48;

/// One value for each query of a block.
pub(super) type ByQuery = [f32; QUERIES];

/// The running softmax of each query: its greatest score so far and the sum of the weights relative to that.
#[derive(Debug)]
pub(super) struct SoftmaxState {
    greatest: ByQuery,
    total: ByQuery,
}

impl SoftmaxState {
    pub fn new() -> Self {
        Self { greatest: [f32::MIN; QUERIES], total: [0.0; QUERIES] }
    }

    /// Turns the scores of some keys, a row each, into weights relative to the greatest score so far. Returns the factors
    /// for sums of earlier keys.
    pub fn weigh(&mut self, scores: &mut [f32]) -> ByQuery {
        self.weigh_by(Loops::native(), scores)
    }

    fn weigh_by(&mut self, by: &Loops, scores: &mut [f32]) -> ByQuery {
        let mut factors = [1.0; QUERIES];
        let (rows, _) = scores.as_chunks_mut();
        // SAFETY: the processor has the instructions of `by` (`Loops::all`).
        unsafe { (by.weigh)(self, rows, &mut factors) };
        factors
    }

    /// The factor that makes the sum of the weights of query `at` 1. It is 0 for a query that sees no key.
    pub fn last_factor(&self, at: usize) -> f32 {
        if self.total[at] == 0.0 { 0.0 } else { 1.0 / self.total[at] }
    }
}

loops! {
    /// The function for the instructions of one kind of processor.
    struct Loops {}

    unsafe fn weigh(state: &mut SoftmaxState, rows: &mut [ByQuery], factors: &mut ByQuery) =
        any_weigh::<V>(state, rows, factors);
}

/// Keys whose scores are taken together, so that an operation seldom waits for the one before.
const TOGETHER: usize = 4;

/// As [`SoftmaxState::weigh`]. A weight goes through a quarter as many additions as there are rows.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn any_weigh<V: SimdVector>(
    state: &mut SoftmaxState,
    rows: &mut [ByQuery],
    factors: &mut ByQuery,
) {
    for at in (0..QUERIES).step_by(V::LEN) {
        let (all, rest) = rows.as_chunks_mut::<TOGETHER>();
        // SAFETY: the vectors lie inside rows of `QUERIES`, a multiple of their length, and the processor has the
        // instructions, as the caller promises.
        unsafe {
            let before = V::load(state.greatest.as_ptr().add(at));
            let mut greatest = [before; TOGETHER];
            for rows in &*all {
                for i in 0..TOGETHER {
                    greatest[i] = greatest[i].greater(V::load(rows[i].as_ptr().add(at)));
                }
            }
            for row in &*rest {
                greatest[0] = greatest[0].greater(V::load(row.as_ptr().add(at)));
            }
            let [a, b, c, d] = greatest;
            let now = a.greater(b).greater(c.greater(d));
            let factor = exponential::exp_nonpositive(before.sub(now));
            let mut sums = [V::splat(0.0); TOGETHER];
            for rows in all {
                for i in 0..TOGETHER {
                    sums[i] = sums[i].add(weigh_vector::<V>(rows[i].as_mut_ptr().add(at), now));
                }
            }
            for row in rest {
                sums[0] = sums[0].add(weigh_vector::<V>(row.as_mut_ptr().add(at), now));
            }
            let [a, b, c, d] = sums;
            let total = V::load(state.total.as_ptr().add(at));
            let total = a.add(b).add(c.add(d)).add_product(total, factor);
            total.store(state.total.as_mut_ptr().add(at));
            now.store(state.greatest.as_mut_ptr().add(at));
            factor.store(factors.as_mut_ptr().add(at));
        }
    }
}

/// Replaces a vector of scores by weights, and returns these.
///
/// # Safety
/// The vector exists, and the processor has the instructions of `V`.
#[inline(always)]
unsafe fn weigh_vector<V: SimdVector>(scores: *mut f32, greatest: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let weights = exponential::exp_nonpositive(V::load(scores).sub(greatest));
        weights.store(scores);
        weights
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Numbers without a pattern, in −3..3.
    fn floats(len: usize) -> Vec<f32> {
        let mut state = 5_u32;
        let mut next = || {
            state = state.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            (state >> 8) as f32 / (1 << 24) as f32 * 6.0 - 3.0
        };
        (0..len).map(|_| next()).collect()
    }

    /// Weights of blocks of rows, with the factors of later blocks, are the softmax over all rows.
    #[test]
    fn blocks_of_scores_become_the_weights_of_a_softmax() {
        let all = [&[1][..], &[3, 2], &[4, 5], &[17, 2, 130]];
        let all = if cfg!(miri) { &all[1..2] } else { &all[..] };
        for by in Loops::all() {
            for &lens in all {
                let count: usize = lens.iter().sum();
                let mut scores = floats(count * QUERIES);
                for row in scores.chunks_mut(QUERIES) {
                    row[3] = f32::NEG_INFINITY;
                    row[5] *= 30.0;
                }
                scores[4] = f32::NAN;
                scores[6] = f32::NEG_INFINITY;
                let mut weights = scores.clone();
                let (mut state, mut done) = (SoftmaxState::new(), 0);
                for len in lens {
                    let end = done + len * QUERIES;
                    let factors = state.weigh_by(by, &mut weights[done..end]);
                    for row in weights[..done].chunks_mut(QUERIES) {
                        row.iter_mut().zip(factors).for_each(|(weight, factor)| *weight *= factor);
                    }
                    done = end;
                }
                for query in 0..QUERIES {
                    let own = || scores[query..].iter().step_by(QUERIES).map(|&x| f64::from(x));
                    let greatest = own().fold(f64::MIN, f64::max);
                    let total: f64 = own().map(|x| (x - greatest).exp()).sum();
                    for (key, x) in own().enumerate() {
                        let got = weights[key * QUERIES + query] * state.last_factor(query);
                        let want = if total == 0.0 { 0.0 } else { (x - greatest).exp() / total };
                        let error = (f64::from(got) - want).abs();
                        let same = if query == 4 { got.is_nan() } else { error <= 1e-6 };
                        assert!(same, "{lens:?} [{key}, {query}]: {got} for {want}");
                    }
                }
            }
        }
    }
}
