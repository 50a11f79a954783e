//! The first failure of a run on its data.

/// The element at which a run failed. The first failure is the one of the least site and, within it, of the least
/// position.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct FailedElement {
    /// The operation, by position in [`Plan::sites`](crate::plan::Plan::sites).
    pub site: u32,
    /// The position in row-major order.
    pub at: u32,
}
