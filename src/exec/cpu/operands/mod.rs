//! The memory behind the operands and outputs of a step: read where it lies, fetched by strides, written in parts.

mod bools;
mod data;
pub(crate) mod halves;
mod image_lines;
mod images;
mod input;
mod output;
mod panels;
mod stride_phases;
mod strided;
mod transposed;
mod walk;
mod windows;

pub(crate) use image_lines::copy_rows;
pub(crate) use images::{BlockLayout, Images};
pub(crate) use input::BoundInput;
pub(crate) use output::{
    ALONE, OutputPart, SharedOutputs, for_each, for_each_if, for_each_part, map_each, parts,
    parts_with_spinning_helpers, ranges, rows_of_blocks, split, words,
};
pub(crate) use panels::{PanelPieces, fill_by_squares};
pub(crate) use stride_phases::StridePhases;
pub(crate) use strided::{Lines, MOST_LINES};
pub(crate) use transposed::Transposed;
pub(crate) use windows::Windows;
