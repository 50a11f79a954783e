//! What runs taught of a profile: steps by which predicted times are corrected.

use std::fmt;

use super::Backend;

/// Corrections of predicted times, from the times that runs took: a power of two, at most 16 either way, for each side,
/// kind of work and order of its size.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize), serde(transparent))]
pub(crate) struct Corrections([[[i8; SIZES]; KINDS]; 2]);

/// Orders of size that are told apart.
const SIZES: usize = 3;
const KINDS: usize = 5;
/// The largest correction, as a power of two.
const MOST: i8 = 4;

/// What is corrected on its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Aspect {
    pub side: Backend,
    pub kind: Kind,
    /// The order of the work's size, from 0.
    pub size: usize,
}

/// Kinds of work.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Kind {
    Map,
    /// Reductions, rows, scans and sorts.
    Rows,
    /// Products and attention.
    Product,
    /// Kernels of the user's own.
    Own,
    /// The round trip and its transfers.
    Trip,
}

impl Aspect {
    /// Of work that moves and computes so many bytes and flops in all.
    pub fn new(side: Backend, kind: Kind, amount: f64) -> Self {
        let size = [1e6, 1e8].iter().filter(|&&end| amount >= end).count();
        Self { side, kind, size }
    }

    /// Of the round trip.
    pub fn trip(side: Backend) -> Self {
        Self { side, kind: Kind::Trip, size: 0 }
    }
}

impl Corrections {
    fn step(&self, of: Aspect) -> i8 {
        self.0[of.side as usize][of.kind as usize][of.size]
    }

    /// What predicted times are multiplied by.
    pub fn factor(&self, of: Aspect) -> f64 {
        2_f64.powi(self.step(of).into())
    }

    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    pub(super) fn is_sound(&self) -> bool {
        self.0.iter().flatten().flatten().all(|step| (-MOST..=MOST).contains(step))
    }
}

/// What has one correction for all sizes.
const TRIPS: &str = "round trips with their transfers";

impl fmt::Display for Corrections {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (side, kinds) in [Backend::Cpu, Backend::Gpu].into_iter().zip(&self.0) {
            let names = ["maps", "rows", "products", "kernels of wgsl", TRIPS];
            for (kind, sizes) in names.into_iter().zip(kinds) {
                for (size, &step) in ["small ", "middling ", "large "].into_iter().zip(sizes) {
                    if step != 0 {
                        let factor = 2_f64.powi(step.into());
                        let size = if kind == TRIPS { "" } else { size };
                        writeln!(f, "learned: {size}{kind} on {side} take {factor} × as long")?;
                    }
                }
            }
        }
        Ok(())
    }
}

/// What the last runs said about each aspect, until that is enough to correct it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lessons {
    of: [[[Lesson; SIZES]; KINDS]; 2],
}

#[derive(Clone, Copy, Debug, Default)]
struct Lesson {
    /// Runs on end that were far off in the same direction.
    runs: u16,
    /// By how many steps the nearest of them was off.
    least: f64,
    /// The sign of the last correction.
    last: f64,
    /// How often corrections went back on the one before.
    reversals: i32,
}

/// By how many steps a run must be off to say anything.
const FAR: f64 = 1.0;
/// By how many seconds: less is noise, or not worth another plan.
const LEAST_SECONDS: f64 = 50e-6;
/// Steps, summed over the runs, that are enough to correct something.
const ENOUGH: f64 = 3.0;
const FEWEST_RUNS: u16 = 2;
/// Each time that a correction goes back on another, it takes twice as much, up to so many times.
const MOST_REVERSALS: i32 = 6;
/// The share of a run's time from which on it says something.
const SHARE: f64 = 0.25;

/// By how many steps a run was off that was predicted to take so many seconds: 0 where it was not far off.
pub(crate) fn steps_off(predicted: f64, seconds: f64) -> f64 {
    let off = (seconds / predicted).log2();
    let is_far = off.is_finite() && off.abs() >= FAR;
    if is_far && (seconds - predicted).abs() >= LEAST_SECONDS { off } else { 0.0 }
}

impl Lessons {
    /// Takes note of a run that was [off by so many steps](steps_off), predicted with `learned` as the sum of `parts`.
    /// The corrections to reckon with from now on, if those are others.
    pub fn learn(
        &mut self,
        learned: &Corrections,
        parts: &[(Aspect, f64)],
        off: f64,
    ) -> Option<Corrections> {
        let predicted: f64 = parts.iter().map(|(_, part)| part).sum();
        let mut next = *learned;
        for &(of, _) in parts.iter().filter(|(_, part)| *part >= SHARE * predicted) {
            let lesson = &mut self.of[of.side as usize][of.kind as usize][of.size];
            let step = learned.step(of).saturating_add(lesson.note(off));
            next.0[of.side as usize][of.kind as usize][of.size] = step.clamp(-MOST, MOST);
        }
        (next != *learned).then_some(next)
    }

    /// Whether the next run may matter though it is not far off.
    pub fn is_unsure(&self) -> bool {
        self.of.iter().flatten().flatten().any(|lesson| lesson.runs > 0)
    }
}

impl Lesson {
    /// Takes note of a run. By how many steps to correct what is predicted, now.
    fn note(&mut self, off: f64) -> i8 {
        if off == 0.0 || off * self.least < 0.0 {
            (self.runs, self.least) = (0, 0.0);
        }
        if off == 0.0 {
            return 0;
        }
        let is_nearest = self.runs == 0 || off.abs() < self.least.abs();
        self.least = if is_nearest { off } else { self.least };
        self.runs = self.runs.saturating_add(1);
        let evidence = f64::from(self.runs) * self.least.abs();
        if self.runs < FEWEST_RUNS || evidence < ENOUGH * 2_f64.powi(self.reversals) {
            return 0;
        }
        if self.last * self.least < 0.0 {
            self.reversals = (self.reversals + 1).min(MOST_REVERSALS);
        }
        // Towards zero: the run that was least off was that much off for certain.
        let steps = self.least.trunc() as i8;
        *self = Self { last: self.least.signum(), reversals: self.reversals, ..Self::default() };
        steps
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PRODUCT: Aspect = Aspect { side: Backend::Cpu, kind: Kind::Product, size: 1 };

    #[test]
    fn what_was_learned_is_told_by_kind_and_size_and_of_trips_for_all_sizes() {
        let mut learned = Corrections::default();
        for (of, step) in [(PRODUCT, 1), (Aspect::trip(Backend::Gpu), -1)] {
            learned.0[of.side as usize][of.kind as usize][of.size] = step;
        }
        let want = "learned: middling products on cpu take 2 × as long\n\
                    learned: round trips with their transfers on gpu take 0.5 × as long\n";
        assert_eq!(learned.to_string(), want);
    }

    /// Runs of which each takes so many times the millisecond that the profile alone says.
    fn taught(truths: impl IntoIterator<Item = f64>) -> (Corrections, usize) {
        let (mut learned, mut lessons) = (Corrections::default(), Lessons::default());
        let mut changes = 0;
        for truth in truths {
            let predicted = 1e-3 * learned.factor(PRODUCT);
            let off = steps_off(predicted, 1e-3 * truth);
            if let Some(next) = lessons.learn(&learned, &[(PRODUCT, predicted)], off) {
                (learned, changes) = (next, changes + 1);
            }
        }
        (learned, changes)
    }

    /// `truth`, give or take a fifth.
    fn noisy(truth: f64, runs: usize) -> impl Iterator<Item = f64> {
        (0..runs).map(move |run| truth * (1.0 + 0.2 * (run as f64 * 2.4).sin()))
    }

    #[test]
    fn two_runs_correct_what_is_wrong_by_ten_and_one_does_not() {
        for (truth, step) in [(10.0, 3), (0.1, -3)] {
            assert_eq!(taught([truth]), (Corrections::default(), 0), "{truth}");
            let (learned, changes) = taught([truth, truth]);
            assert_eq!((learned.step(PRODUCT), changes), (step, 1), "{truth}");
            let (learned, changes) = taught(noisy(truth, 200));
            assert!((learned.step(PRODUCT) - step).abs() <= 1 && changes <= 2, "{learned}");
        }
    }

    #[test]
    fn noise_teaches_nothing_and_corrections_are_bounded() {
        for truth in [1.0, 1.4, 0.7] {
            assert_eq!(taught(noisy(truth, 500)), (Corrections::default(), 0), "{truth}");
        }
        // Now and then a run is disturbed.
        let disturbed = (0..500).map(|run| if run % 3 == 0 { 50.0 } else { 1.1 });
        assert_eq!(taught(disturbed), (Corrections::default(), 0));
        assert_eq!(taught(noisy(1e6, 50)).0.step(PRODUCT), MOST);
        assert_eq!(taught(noisy(1e-6, 50)).0.step(PRODUCT), -MOST);
        for odd in [0.0, f64::NAN, f64::INFINITY] {
            assert_eq!((steps_off(1.0, odd), steps_off(odd, 1.0)), (0.0, 0.0), "{odd}");
        }
        assert_eq!(steps_off(1e-6, 3e-5), 0.0, "too short to tell");
    }

    #[test]
    fn what_changes_to_and_fro_is_corrected_ever_more_rarely() {
        let phases = (0..2000).map(|run| if run / 20 % 2 == 0 { 16.0 } else { 1.0 });
        assert!(taught(phases).1 < 20);
    }

    #[test]
    fn what_took_little_of_a_run_learns_nothing_from_it() {
        let (mut lessons, learned) = (Lessons::default(), Corrections::default());
        let trip = Aspect::trip(Backend::Cpu);
        let parts = [(PRODUCT, 0.97), (trip, 0.03)];
        assert_eq!(lessons.learn(&learned, &parts, 3.3), None);
        assert!(lessons.is_unsure());
        let next = lessons.learn(&learned, &parts, 3.3).unwrap();
        assert_eq!((next.step(PRODUCT), next.step(trip)), (3, 0));
        assert!(!lessons.is_unsure());
    }

    #[cfg(feature = "serde")]
    #[test]
    fn corrections_from_elsewhere_are_bounded_too() {
        let read = |step: i8| {
            let text = format!(
                "[[[0,0,{step}],[0,0,0],[0,0,0],[0,0,0],[0,0,0]],\
                 [[0,0,0],[0,0,0],[0,0,0],[0,0,0],[0,0,0]]]"
            );
            serde_json::from_str::<Corrections>(&text).expect("as it is written")
        };
        assert!(read(MOST).is_sound() && read(-MOST).is_sound());
        assert!(!read(MOST + 1).is_sound() && !read(i8::MIN).is_sound());
    }
}
