//! Formulas of tensors, and whose line a node says it was recorded in.

mod formulas;
mod layers;
mod places;
