//! The trials of single graphs, as part of a profile.

use std::fmt;

use super::trial::Trial;
use crate::cost::Route;

/// The trials of single graphs, begun or decided: which route was fastest where predictions were near a tie. Plain
/// data, part of a [`DeviceProfile`](crate::cost::DeviceProfile): the same profile always gives a graph the same plan.
/// A profile holds the trials of at most 512 graphs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub struct Learned {
    /// The trials, in ascending order of the graph.
    pub(crate) trials: Vec<Tried>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize, serde::Deserialize))]
pub(crate) struct Tried {
    /// The graph's fingerprint in four words, which all formats can hold.
    pub graph: [u32; 4],
    pub trial: Trial,
}

/// The most graphs whose trials a profile holds.
pub(crate) const MOST_TRIALS: usize = 512;

impl Learned {
    /// True if no trial has begun.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.trials.is_empty()
    }

    pub(crate) fn is_sound(&self) -> bool {
        self.trials.len() <= MOST_TRIALS
    }
}

impl fmt::Display for Learned {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let decided = |route| {
            self.trials.iter().filter(|tried| tried.trial.decided_route() == Some(route)).count()
        };
        let [cpu, gpu, both] = [Route::Cpu, Route::Gpu, Route::Both].map(decided);
        if cpu + gpu + both > 0 {
            writeln!(
                f,
                "learned: of graphs that were tried, {cpu} are faster on cpu, {gpu} on gpu, {both} on both"
            )?;
        }
        Ok(())
    }
}
