//! Arguments of operations: axes and ranges, and checks of parameters and of weights.

pub(super) mod axes;
pub(super) mod checks;
pub(super) mod ranges;
