//! The operands of a product, and the axes along which they are read.

use crate::base::shape::View;

/// One of the two operands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Factor {
    X,
    W,
}

impl Factor {
    pub fn name(self) -> &'static str {
        match self {
            Self::X => "x",
            Self::W => "w",
        }
    }

    /// The function that computes it.
    pub fn prologue(self) -> String {
        format!("prologue_{}", self.name())
    }
}

/// The reads of one side: fours of neighbours along one of its two axes.
#[derive(Clone, Copy, Debug)]
pub(super) struct Reading {
    pub side: Factor,
    /// True if the neighbours are neighbours along k.
    pub along_k: bool,
    /// True if tiles reach outside across k, where loaded elements do not matter.
    pub ragged: bool,
    /// True if tiles reach past the end of k, where zeros must be read.
    pub ragged_k: bool,
    /// True if eight halves are read as they are stored, in four words, instead of four numbers.
    pub halves: bool,
}

impl Reading {
    /// The axis of `view` along which four neighbours are read, and the other axis of the side.
    pub fn axes(&self, view: &View) -> [usize; 2] {
        let [outer, k] = axes(self.side, view);
        if self.along_k { [k, outer] } else { [outer, k] }
    }
}

/// The positions of a side's axis across k and of k among the axes of its view.
pub(super) fn axes(side: Factor, view: &View) -> [usize; 2] {
    let rank = view.dims.len();
    match side {
        Factor::X => [rank - 2, rank - 1],
        Factor::W => [rank - 1, rank - 2],
    }
}
