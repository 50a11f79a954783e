//! Runs of two plans in turn, and the difference of their times.
//!
//! The fixed time of a run changes with the clocks of a card and with the load of its host: on a host of an H100 it was
//! 100 µs during the first probes and 36 later. Neighbouring runs share it, and so their difference is free of it.

/// Pairs whose median is taken.
pub(super) const FEWEST: usize = 5;
const MOST: usize = 16;
/// Number of pairs after which pairs count even if others ran beside them.
const PATIENCE: usize = 10;
/// Pairs that have run for this many seconds, without stalls, are not repeated.
const ENOUGH: f64 = 0.003;
/// Pairs are repeated until the standard error of their difference is at most this share of it.
const PRECISE: f64 = 0.1;
/// A difference of less than this share of a run decides no placement, and is not told from noise.
const LEAST: f64 = 0.02;

/// The times of a shorter and a longer run.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Difference {
    /// Seconds of the shorter run, the median.
    pub shorter: f64,
    /// Seconds by which the longer run exceeds the shorter one before it, the median.
    pub more: f64,
    /// The standard error of `more`, in seconds; 0 for a single pair, which was long.
    pub error: f64,
}

impl Difference {
    /// The seconds by which the longer run exceeds the shorter one, at least the smallest share that can be told.
    pub fn seconds(&self) -> f64 {
        self.more.max(self.least())
    }

    /// Returns whether the error is at most `share` of the difference, or too small to matter.
    pub fn is_within(&self, share: f64) -> bool {
        self.error <= (share * self.more).max(self.least())
    }

    /// The difference of one run, where each time is of so many.
    pub fn of_one(self, times: usize) -> Self {
        let one = |seconds: f64| seconds / times as f64;
        Self { shorter: one(self.shorter), more: one(self.more), error: one(self.error) }
    }

    fn least(&self) -> f64 {
        LEAST * (self.shorter + self.more.max(0.0))
    }
}

pub(super) struct RunPairs {
    count: usize,
    /// Seconds of the first pair, which does not count: it allocates.
    first: f64,
    /// Seconds of the last and of the quickest pair.
    last: f64,
    quickest: f64,
    /// Seconds of the shorter run of each pair that counts.
    shorter: Vec<f64>,
    /// The difference of each pair that counts.
    more: Vec<f64>,
}

impl RunPairs {
    /// None yet that count, after a first pair.
    pub fn after(shorter: f64, longer: f64) -> Self {
        let first = shorter + longer;
        let (shorter, more) = (Vec::new(), Vec::new());
        Self { count: 0, first, last: first, quickest: first, shorter, more }
    }

    /// Returns whether there should be more pairs, on a side that takes `settling` seconds to settle. With `time`,
    /// they are repeated until their difference is precise, for at most twice as long.
    pub fn are_too_few(&self, settling: f64, time: bool) -> bool {
        // A stall of the host is no reason to end.
        let spent = self.count as f64 * self.quickest;
        let few = match self.more.len() {
            0 => true,
            // A pair that took longer than the first was disturbed.
            1 if time && self.last > (1.0 + PRECISE) * self.first => true,
            // A median of two is as disturbed as the worse one.
            2 if time => true,
            1..FEWEST => spent < ENOUGH,
            MOST.. => false,
            _ if spent < settling => true,
            _ => time && spent < 2.0 * settling && !self.is_precise(),
        };
        few && self.count < 2 * MOST
    }

    fn is_precise(&self) -> bool {
        self.difference().is_some_and(|difference| difference.is_within(PRECISE))
    }

    /// Adds a pair of runs. Nobody else ran beside them if they were `alone`.
    pub fn add(&mut self, shorter: f64, longer: f64, alone: bool) {
        self.count += 1;
        self.last = shorter + longer;
        self.quickest = self.quickest.min(self.last);
        if alone || self.count > PATIENCE {
            self.shorter.push(shorter);
            self.more.push(longer - shorter);
        }
    }

    /// `None` before the first pair that counts.
    pub fn difference(&self) -> Option<Difference> {
        let (shorter, more) = (median(&self.shorter)?, median(&self.more)?);
        let deviations: Vec<f64> = self.more.iter().map(|x| (x - more).abs()).collect();
        // The standard deviation of normal noise is 1.4826 median deviations, and the standard error of a median is
        // √(π/2) of a mean's (Huber, Robust Statistics, 1981).
        let deviation = 1.4826 * median(&deviations)?;
        let error = deviation * (std::f64::consts::FRAC_PI_2 / self.more.len() as f64).sqrt();
        Some(Difference { shorter, more, error })
    }
}

pub(super) fn median(values: &[f64]) -> Option<f64> {
    let sorted = sorted(values);
    let middle = sorted.len() / 2;
    let upper = *sorted.get(middle)?;
    Some(if sorted.len() % 2 == 1 { upper } else { sorted[middle - 1].midpoint(upper) })
}

/// The lower quartile. Disturbances only make a run longer, so that it lies nearer to a run's time at rest than a median.
pub(super) fn lower_quartile(values: &[f64]) -> Option<f64> {
    sorted(values).get(values.len().saturating_sub(1) / 4).copied()
}

fn sorted(values: &[f64]) -> Vec<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    sorted
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pairs(of: impl IntoIterator<Item = (f64, f64)>) -> RunPairs {
        let mut of = of.into_iter().peekable();
        let (shorter, longer) = *of.peek().expect("a first pair");
        let mut pairs = RunPairs::after(shorter, longer);
        of.for_each(|(shorter, longer)| pairs.add(shorter, longer, true));
        pairs
    }

    #[test]
    fn medians_and_quartiles() {
        assert_eq!((median(&[]), lower_quartile(&[])), (None, None));
        assert_eq!((median(&[3.0]), lower_quartile(&[3.0])), (Some(3.0), Some(3.0)));
        assert_eq!(median(&[4.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 8.0]), Some(3.0));
        assert_eq!(lower_quartile(&[5.0, 4.0, 3.0, 2.0, 1.0]), Some(2.0));
        assert_eq!(lower_quartile(&[3.0, 1.0, 2.0]), Some(1.0));
    }

    #[test]
    fn a_fixed_time_that_falls_between_two_pairs_is_no_part_of_the_difference() {
        for at in 0..=8 {
            let fixed = |pair| if pair < at { 100e-6 } else { 36e-6 };
            let pairs = pairs((0..8).map(|pair| (fixed(pair), fixed(pair) + 40e-6)));
            let difference = pairs.difference().unwrap();
            assert!((difference.seconds() - 40e-6).abs() < 1e-12, "{difference:?}");
            assert!(difference.error < 1e-12, "{difference:?}");
        }
    }

    #[test]
    fn one_pair_that_was_disturbed_changes_little() {
        for (shorter, longer) in [(0.02, 76e-6), (36e-6, 0.02)] {
            let quiet = [(36e-6, 76e-6), (36e-6, 77e-6), (37e-6, 77e-6), (36e-6, 76e-6)];
            let difference = pairs(quiet.into_iter().chain([(shorter, longer)])).difference();
            let difference = difference.unwrap();
            assert!((difference.seconds() - 40e-6).abs() < 2e-6, "{difference:?}");
        }
    }

    #[test]
    fn the_error_is_that_of_a_median() {
        // Deviations of 1 and 3 around a difference of 10, of equal number: the median deviation is 2.
        let more = [7.0, 9.0, 11.0, 13.0];
        let difference = pairs(more.map(|more| (0.0, more))).difference().unwrap();
        assert_eq!(difference.more, 10.0);
        assert!((difference.error - 1.4826 * 2.0 * 1.2533 / 2.0).abs() < 1e-3, "{difference:?}");
    }

    #[test]
    fn pairs_are_repeated_until_they_are_precise_or_time_is_up() {
        let steady = |count| pairs((0..count).map(|_| (30e-6, 60e-6)));
        assert!(steady(4).are_too_few(0.0, true));
        assert!(!steady(5).are_too_few(0.0, true));
        assert!(steady(5).are_too_few(0.001, false), "the card is not settled");
        let noisy = |count| pairs((0..count).map(|at| (30e-6, (40 + 20 * (at % 3)) as f64 * 1e-6)));
        assert!(noisy(5).are_too_few(300e-6, true));
        assert!(!noisy(5).are_too_few(300e-6, false), "no time is left");
        assert!(!noisy(9).are_too_few(300e-6, true), "twice the time to settle");
        assert!(!noisy(16).are_too_few(1.0, true));
    }

    #[test]
    fn a_long_run_is_not_repeated_unless_it_was_disturbed() {
        let after_one = |first, second| {
            let mut pairs = RunPairs::after(30e-6, first);
            pairs.add(30e-6, second, true);
            pairs.are_too_few(0.001, true)
        };
        assert!(!after_one(0.12, 0.1));
        assert!(!after_one(0.1, 0.1));
        assert!(after_one(0.1, 0.2));
        assert!(after_one(0.001, 0.01), "a stall");
        let three = [(30e-6, 0.1), (30e-6, 0.2), (30e-6, 0.1)];
        assert!(pairs(three.into_iter().take(2)).are_too_few(0.001, true));
        assert!(!pairs(three).are_too_few(0.001, true));
    }

    #[test]
    fn runs_beside_others_count_when_nothing_else_does() {
        let mut pairs = RunPairs::after(1e-6, 2e-6);
        while pairs.difference().is_none() {
            assert!(pairs.are_too_few(0.001, true));
            pairs.add(1e-6, 2e-6, false);
        }
        assert_eq!(pairs.count, PATIENCE + 1);
    }

    #[test]
    fn a_difference_that_noise_hides_is_a_share_of_the_run() {
        for more in [-1e-6, 0.0, 1e-7] {
            let seconds = Difference { shorter: 50e-6, more, error: 0.0 }.seconds();
            assert!((seconds - 1e-6).abs() < 1e-8, "{seconds}");
        }
    }
}
