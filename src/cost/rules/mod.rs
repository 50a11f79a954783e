//! Rules that choose the side of a graph: the names that a placement is given by, and the published formulas.

mod placement;
pub mod selector;

pub use placement::Placement;
