//! The operands of an operation, as many as it takes.

use super::Type;
use crate::error::MistakeKind;

/// The graph gives an operation fewer or more operands than it takes.
pub(super) const MISSING: MistakeKind = MistakeKind::Internal("an operand is missing");

/// The types of exactly `N` operands.
pub(super) fn operands<'a, const N: usize>(
    inputs: &[&'a Type],
) -> Result<[&'a Type; N], MistakeKind> {
    inputs.try_into().map_err(|_| MISSING)
}
