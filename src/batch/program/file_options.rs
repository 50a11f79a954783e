//! Options of programs as files.

use crate::batch::Weights;

/// Options of [`Program::save_with`](crate::Program::save_with).
#[derive(Clone, Copy, Debug, Default)]
pub struct SaveOptions {
    /// Leaves out the data of residents that the program binds under a [name](crate::GpuCommandBatch::name) and does
    /// not fill: [`LoadOptions::weights`] brings them, in the layout in which they were bound.
    pub leave_out_weights: bool,
}

/// Options of [`Program::load_with`](crate::Program::load_with).
#[derive(Clone, Debug, Default)]
pub struct LoadOptions {
    /// Allows kernels of the file's own in WGSL. They cannot leave their arrays, but they may run for ever.
    pub wgsl: bool,
    /// Tensors that are taken in place of those of the program's file, by name. They have the shape and the layout of
    /// the residents that were bound. A program that is to load PyTorch's own file binds
    /// [`Weights::resident`] and transposes in the graph, which costs a run nothing: what
    /// [`Weights::resident_transposed`] gave is another tensor of the same name. Another shape is an error, but nothing
    /// tells a square weight from its transpose.
    pub weights: Option<Weights>,
}
