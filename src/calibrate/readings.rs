//! The rates of one group of probes, as far as hardware can have them, and the curve through them.

use super::pairs::Difference;
use crate::base::trace::event;
use crate::cost::{Backend, Curve};

/// A reading whose standard error is more than this share of its time is taken again.
const UNSURE: f64 = 0.25;

/// The time of a piece of known size.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct Reading {
    /// In the unit of the curve.
    pub size: f64,
    pub seconds: f64,
    /// The standard error of `seconds`.
    pub error: f64,
    /// True if the error is so large that the reading should be taken again.
    pub unsure: bool,
}

impl Reading {
    /// The reading of one of `times` pieces of `size` by which two runs differ.
    pub fn new(size: f64, times: usize, difference: &Difference) -> Self {
        let one = |seconds: f64| seconds / times as f64;
        Self {
            size,
            seconds: one(difference.seconds()),
            error: one(difference.error),
            unsure: !difference.is_within(UNSURE),
        }
    }

    fn rate(&self) -> f64 {
        self.size / self.seconds
    }

    /// Returns whether hardware can have the rate, at most `ceiling`.
    pub fn is_possible(&self, ceiling: f64) -> bool {
        self.rate() > 0.0 && self.rate() <= ceiling
    }

    /// Tells `tracing` that the reading is not used, with the name of its figures.
    pub fn report_refusal(&self, side: Backend, what: &str, ceiling: f64) {
        event!(
            WARN,
            "no hardware has a rate that was measured; it is not used",
            side = side.to_string(),
            figures = what,
            size = self.size,
            rate = self.rate(),
            ceiling = ceiling,
        );
    }

    /// Returns whether it should be taken again.
    fn is_doubtful(&self, ceiling: f64) -> bool {
        !self.is_possible(ceiling) || self.unsure
    }

    /// The better of two readings of the same piece.
    fn or(self, other: Self, ceiling: f64) -> Self {
        let better = match (self.is_possible(ceiling), other.is_possible(ceiling)) {
            (true, false) => true,
            (false, true) => false,
            _ => self.error <= other.error,
        };
        if better { self } else { other }
    }
}

/// The readings of one piece: one, or two if hardware cannot have the first rate or if it is unsure.
pub(super) struct Attempts {
    ceiling: f64,
    count: usize,
    /// The better of the readings.
    pub best: Option<Reading>,
}

impl Attempts {
    /// None yet. Their rates are at most `ceiling`.
    pub fn new(ceiling: f64) -> Self {
        Self { ceiling, count: 0, best: None }
    }

    pub fn are_too_few(&self) -> bool {
        self.count < 2 && self.best.is_none_or(|best| best.is_doubtful(self.ceiling))
    }

    pub fn add(&mut self, reading: Reading) {
        self.count += 1;
        self.best = Some(self.best.map_or(reading, |best| best.or(reading, self.ceiling)));
    }
}

/// The readings of a group, ascending in size.
pub(super) struct Readings {
    ceiling: f64,
    readings: Vec<Reading>,
}

impl Readings {
    /// None yet. Their rates are at most `ceiling`.
    pub fn new(ceiling: f64) -> Self {
        Self { ceiling, readings: Vec::new() }
    }

    pub fn push(&mut self, reading: Reading) {
        if self.readings.last().is_none_or(|last| last.size < reading.size) {
            self.readings.push(reading);
        }
    }

    /// The curve through all rates that are possible, rounded to few digits; `None` if there are none. A refused size
    /// takes the rate of the next larger one; without one it is reported with the name of the figures.
    pub fn curve(self, side: Backend, what: &str) -> Option<Curve> {
        let mut points: Vec<(f64, f64)> = Vec::new();
        for reading in self.readings.iter().rev() {
            let larger = points.last().map(|&(_, rate)| rate);
            let rate = match (reading.is_possible(self.ceiling), larger) {
                (true, _) => Some(rounded(reading.rate())),
                // Small pieces may be lost in the time of an empty run.
                (false, Some(larger)) => Some(larger),
                (false, None) => {
                    reading.report_refusal(side, what, self.ceiling);
                    None
                }
            };
            points.extend(rate.map(|rate| (reading.size, rate)));
        }
        points.reverse();
        (!points.is_empty()).then(|| Curve::new(points))
    }
}

/// A figure with four digits, so that a profile that is read back gives the same plans.
pub(super) fn rounded(x: f64) -> f64 {
    if x == 0.0 || !x.is_finite() {
        return x;
    }
    let text = format!("{x:.3e}");
    text.parse().unwrap_or(x)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_rounded_to_four_digits() {
        assert_eq!(rounded(123_456.0), 123_500.0);
        assert_eq!(rounded(1.234_56e-6), 1.235e-6);
        assert_eq!(rounded(0.0), 0.0);
        assert!(rounded(f64::NAN).is_nan());
    }

    fn reading(size: f64, seconds: f64) -> Reading {
        Reading { size, seconds, error: 0.0, unsure: false }
    }

    fn points(readings: &[(f64, f64)]) -> Option<Vec<(f64, f64)>> {
        let mut group = Readings::new(100.0);
        readings.iter().for_each(|&(size, seconds)| group.push(reading(size, seconds)));
        group.curve(Backend::Gpu, "memory").map(|curve| curve.points().to_vec())
    }

    #[test]
    fn points_ascend_and_are_rates() {
        let found = points(&[(10.0, 2.0), (10.0, 1.0), (20.0, 4.0), (30.0, 3.0)]);
        assert_eq!(found, Some(vec![(10.0, 5.0), (20.0, 5.0), (30.0, 10.0)]));
        assert_eq!(points(&[]), None);
    }

    #[test]
    fn impossible_rates_are_refused() {
        let good = (1000.0, 20.0);
        for seconds in [1.0, 0.0, -1.0, f64::NAN] {
            let bad = (500.0, seconds);
            assert_eq!(points(&[bad, good]), Some(vec![(500.0, 50.0), (1000.0, 50.0)]));
            assert_eq!(points(&[(100.0, 4.0), bad]), Some(vec![(100.0, 25.0)]));
            assert_eq!(points(&[bad]), None);
        }
    }

    #[test]
    fn of_two_readings_the_possible_and_then_the_surer_one_is_taken() {
        let best = |first: Reading, second: Reading| {
            let mut attempts = Attempts::new(100.0);
            attempts.add(first);
            assert!(attempts.are_too_few());
            attempts.add(second);
            assert!(!attempts.are_too_few());
            attempts.best
        };
        let fast = reading(500.0, 1.0);
        let slow = Reading { error: 9.0, unsure: true, ..reading(500.0, 10.0) };
        assert_eq!((best(fast, slow), best(slow, fast)), (Some(slow), Some(slow)));
        let sure = Reading { error: 1.0, ..reading(500.0, 20.0) };
        assert_eq!((best(slow, sure), best(fast, sure)), (Some(sure), Some(sure)));
        let mut attempts = Attempts::new(100.0);
        assert!(attempts.are_too_few());
        attempts.add(sure);
        assert!(!attempts.are_too_few(), "one is enough");
    }
}
