//! A plan as plain data to draw, and its drawings: a page of HTML, and the recorded graph as SVG. It names no plan.
//!
//! - [`data`]: the picture itself.
//! - [`fold`]: repeated blocks as one, so that a drawing has a bounded size; [`repeats`]: those of a text.
//! - [`layered`]: the place of each node of a graph on paper.
//! - [`drawn`]: the operations and kernels that are drawn, with their links.
//! - [`graph`], [`cards`], [`memory`], [`tables`]: the parts of a page, and [`page`] the whole.
//! - [`words`]: numbers, places and lists in words.
//! - [`markup`]: elements that nest by construction, with escaped text.

mod cards;
mod data;
mod drawn;
pub(crate) mod fold;
mod graph;
mod layered;
mod markup;
mod memory;
mod page;
pub(crate) mod repeats;
mod tables;
#[cfg(test)]
pub(crate) mod tests;
mod words;

pub(crate) use self::data::{
    Fate, Kernel, Memory, Operation, Part, Picture, Stage, Stored, Transfer,
};
