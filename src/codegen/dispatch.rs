//! The dispatch of a kernel as a plain value.

use crate::base::place::Place;
use crate::plan::ValueId;

/// One dispatch of one generated kernel.
///
/// The text depends only on properties that change the code; sizes, strides and scalars are `params`, so that another
/// batch size compiles nothing.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Dispatch {
    /// Shows in errors, in `explain` and in GPU debuggers.
    pub label: String,
    /// The whole module; its entry point is `main`, unless it is the user's.
    pub wgsl: String,
    /// Given for a module of the user's own: it is compiled with all checks and has no `params`, and its `buffers`,
    /// perhaps the same twice, are bound from 0 on, with the bytes of their values alone.
    pub custom: Option<CustomModule>,
    /// `@group(0) @binding(1 + i)`, each buffer bound whole and once. Outputs first.
    pub buffers: Vec<Binding>,
    /// The uniform `array<vec4<u32>, N>` at `@group(0) @binding(0)`, bound with a dynamic offset; a
    /// multiple of four words, never empty but for the user's own.
    pub params: Vec<u32>,
    /// Workgroups along x, y, z; none is 0 or past the limit.
    pub groups: [u32; 3],
}

/// The entry point and origin of a kernel of the user's own.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CustomModule {
    pub entry: String,
    /// The place at which it was recorded.
    pub place: Place,
}

/// A storage buffer of a dispatch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Binding {
    pub buffer: BufferRef,
    /// `read_write` if it is written, else `read`.
    pub writes: bool,
}

/// The buffer that is bound.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum BufferRef {
    Value(ValueId),
    /// Partial results: a slot of the plan.
    Slot(usize),
    /// A word for each of the plan's sites: 0, or 2³² − 1 less the least position that failed.
    Failures,
}
