//! Formulas of tensors, layers, and the places of nodes.

mod formulas;
mod layers;
mod places;
