//! What runs taught of a device.

use std::fmt;

use super::corrections::Corrections;
use super::{Aspect, Trial, Way};

/// What the times of runs taught: corrections of those that are predicted, and for single graphs, which way was faster
/// where two were predicted to take about as long. Plain data, part of a [`DeviceProfile`](super::DeviceProfile): the
/// same profile always gives a graph the same plan.
///
/// A correction is a power of two, at most 16 either way, for each side, kind of work and order of its size. Of graphs,
/// the last 512 are known.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Learned {
    pub(crate) corrections: Corrections,
    /// By graph, in ascending order.
    pub(crate) trials: Vec<Tried>,
}

/// A graph with its trial.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Tried {
    /// Its fingerprint in four words, which all formats can hold.
    pub graph: [u32; 4],
    pub trial: Trial,
}

/// Graphs of which is known which way is faster.
pub(crate) const MOST_TRIALS: usize = 512;

impl Learned {
    /// What predicted times are multiplied by.
    pub(crate) fn factor(&self, of: Aspect) -> f64 {
        self.corrections.factor(of)
    }

    /// Whether nothing was learned.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.corrections.is_empty() && self.trials.is_empty()
    }

    pub(super) fn is_sound(&self) -> bool {
        self.corrections.is_sound() && self.trials.len() <= MOST_TRIALS
    }
}

impl fmt::Display for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.corrections.fmt(f)?;
        let kept = |way| self.trials.iter().filter(|tried| tried.trial.kept() == Some(way)).count();
        let [cpu, gpu, both] = [Way::Cpu, Way::Gpu, Way::Both].map(kept);
        if cpu + gpu + both > 0 {
            writeln!(
                f,
                "learned: of graphs that were tried, {cpu} are faster on cpu, {gpu} on gpu, {both} on both"
            )?;
        }
        Ok(())
    }
}
