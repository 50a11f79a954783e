//! The dispatches of rows that may be cut into parts.

/// What a dispatch does.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Phase {
    /// All, of rows in one part.
    Whole,
    /// What each part of a row comes to, to the scratch memory.
    Gather,
    /// From that to the outputs.
    Apply,
}

impl Phase {
    /// Those of rows in so many parts, in their order.
    pub fn of(parts: usize) -> &'static [Self] {
        if parts > 1 { &[Self::Gather, Self::Apply] } else { &[Self::Whole] }
    }
}
