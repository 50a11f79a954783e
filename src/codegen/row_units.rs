//! Units of rows, and the phases of kernels over rows in parts.

/// The work of a dispatch over rows that may be cut into parts.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// Everything, for rows in one part.
    Whole,
    /// The partial results of each part of a row, to the scratch memory.
    Partial,
    /// The outputs, from the partial results.
    Combine,
}

impl Phase {
    /// The phases of rows in so many parts, in their order.
    pub fn of(parts: usize) -> &'static [Self] {
        if parts > 1 { &[Self::Partial, Self::Combine] } else { &[Self::Whole] }
    }
}

/// The part of a row that a thread takes at a time.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Units {
    /// An element.
    One,
    /// An element, where not its neighbours are close in memory, but those of neighbouring rows of the first output.
    Across,
    /// Four elements that are one vector in memory.
    Fours,
    /// The same of rows that begin anywhere in a vector: elements before and after whole ones are edges, which are read
    /// and written one by one.
    FoursWithEdges,
}

impl Units {
    /// Elements of a unit.
    pub fn lanes(self) -> usize {
        match self {
            Self::One | Self::Across => 1,
            Self::Fours | Self::FoursWithEdges => 4,
        }
    }
}
