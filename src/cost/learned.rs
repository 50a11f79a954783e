//! The trials of single graphs, as part of a profile.

use std::fmt;

use super::{Trial, Way};

/// The decided trials of single graphs: which way was faster where two were predicted to take about as long. Plain data,
/// part of a [`DeviceProfile`](super::DeviceProfile): the same profile always gives a graph the same plan. A profile holds
/// the trials of at most 512 graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Learned {
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

/// The most graphs whose trials a profile holds.
pub(crate) const MOST_TRIALS: usize = 512;

impl Learned {
    /// Whether no trial was decided.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }

    pub(super) fn is_sound(&self) -> bool {
        self.trials.len() <= MOST_TRIALS
    }
}

impl fmt::Display for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
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
