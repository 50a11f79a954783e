//! A rate that depends on the size of the work.

/// The rate of work by its size: measured points, ascending in size.
///
/// Between points the rate is interpolated, both axes in logarithms. Beyond the last point it stays as it is. Work
/// smaller than the first point takes as long as that point, since a fixed cost dominates there. Without points nothing
/// takes any time.
///
/// ```
/// use onetrip::Curve;
///
/// let bytes = Curve::new([(1e3, 1e9), (1e6, 4e9)]); // 1 KB at 1 GB/s, 1 MB at 4 GB/s
/// assert_eq!((bytes.points().len(), bytes.last()), (2, 4e9));
/// assert!((bytes.rate(31_622.8) - 2e9).abs() < 1e5); // half way, in logarithms
/// assert!((bytes.seconds(8e6) - 2e-3).abs() < 1e-9);
/// assert_eq!(Curve::flat(1e9).rate(5.0), 1e9);
/// ```
#[derive(Clone, Debug, Default, PartialEq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub struct Curve(Vec<(f64, f64)>);

impl Curve {
    /// The curve through `points` of size and rate a second, in ascending order of size.
    #[must_use]
    pub fn new(points: impl Into<Vec<(f64, f64)>>) -> Self {
        Self(points.into())
    }

    /// The same rate at every size from 1.
    #[must_use]
    pub fn flat(rate: f64) -> Self {
        Self(vec![(1.0, rate)])
    }

    /// Sizes with their rates.
    #[must_use]
    pub fn points(&self) -> &[(f64, f64)] {
        &self.0
    }

    /// The rate at `size`.
    #[must_use]
    pub fn rate(&self, size: f64) -> f64 {
        let after = self.0.partition_point(|&(at, _)| at <= size);
        match (after.checked_sub(1).map(|before| self.0[before]), self.0.get(after)) {
            (None, None) => f64::INFINITY,
            (None, Some((first, rate))) => rate * size / first,
            (Some((_, rate)), None) => rate,
            (Some((x0, y0)), Some((x1, y1))) => {
                let part = (size / x0).ln() / (x1 / x0).ln();
                y0 * (y1 / y0).powf(part)
            }
        }
    }

    /// The seconds that `size` takes; nothing takes none.
    #[must_use]
    pub fn seconds(&self, size: f64) -> f64 {
        if size > 0.0 { size / self.rate(size) } else { 0.0 }
    }

    /// The rate at the largest size.
    #[must_use]
    pub fn last(&self) -> f64 {
        self.0.last().map_or(f64::INFINITY, |&(_, rate)| rate)
    }

    /// This curve, and from its largest size on the points of `other`.
    pub(crate) fn extended_by(mut self, other: &Self) -> Self {
        let last = self.0.last().map_or(0.0, |&(size, _)| size);
        self.0.extend(other.0.iter().filter(|&&(size, _)| size > last));
        self
    }

    /// True if the sizes ascend, and all numbers are positive and finite.
    pub(super) fn is_sound(&self) -> bool {
        let positive = |x: f64| x.is_finite() && x > 0.0;
        self.0.iter().all(|&(size, rate)| positive(size) && positive(rate))
            && self.0.windows(2).all(|pair| pair[0].0 < pair[1].0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_curve_that_ends_early_goes_on_as_the_other() {
        let other = Curve::new([(1.0, 1.0), (10.0, 5.0), (100.0, 9.0)]);
        let all = |points: &[(f64, f64)]| Curve::new(points).extended_by(&other);
        assert_eq!(all(&[(2.0, 3.0)]), Curve::new([(2.0, 3.0), (10.0, 5.0), (100.0, 9.0)]));
        assert_eq!(all(&[(100.0, 3.0)]), Curve::new([(100.0, 3.0)]));
        assert_eq!(all(&[]), other);
    }

    #[test]
    fn rates_lie_between_their_neighbours() {
        let curve = Curve::new([(100.0, 10.0), (10_000.0, 1000.0)]);
        assert_eq!(curve.rate(100.0), 10.0);
        assert!((curve.rate(1000.0) - 100.0).abs() < 1e-9, "halfway in logarithms");
        assert_eq!(curve.rate(1e9), 1000.0);
        assert_eq!(curve.seconds(1e9), 1e6);
        assert_eq!((curve.seconds(1.0), curve.seconds(100.0)), (10.0, 10.0), "fixed costs");
        assert_eq!(curve.seconds(0.0), 0.0);
    }

    #[test]
    fn a_curve_without_points_takes_no_time() {
        assert_eq!(Curve::default().seconds(1e9), 0.0);
        assert_eq!(Curve::flat(5.0).seconds(10.0), 2.0);
    }

    #[test]
    fn numbers_that_are_no_rates_are_noticed() {
        assert!(Curve::default().is_sound() && Curve::flat(1.0).is_sound());
        let bad = [f64::NAN, f64::INFINITY, 0.0, -1.0];
        assert!(bad.iter().all(|&x| !Curve::flat(x).is_sound()));
        assert!(bad.iter().all(|&x| !Curve::new([(x, 1.0)]).is_sound()));
        assert!(!Curve::new([(2.0, 1.0), (1.0, 1.0)]).is_sound());
        assert!(!Curve::new([(1.0, 1.0), (1.0, 1.0)]).is_sound());
    }
}
