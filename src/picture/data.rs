//! A picture as plain data.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use crate::base::backend::Backend;
use crate::base::place::Place;
use crate::ops::Type;

/// A recorded graph and its plan, as they are drawn.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Picture {
    pub title: String,
    /// Lines that head the page.
    pub heading: Vec<String>,
    /// The recorded operations, operands before users.
    pub operations: Vec<Operation>,
    /// The kernels of all parts, in the order in which they run.
    pub kernels: Vec<Kernel>,
    pub parts: Vec<Part>,
    pub transfers: Vec<Transfer>,
    /// The measured stages of a run; none for a plan that has not run.
    pub stages: Vec<Stage>,
}

/// A recorded operation.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Operation {
    pub name: &'static str,
    /// The method that the user called.
    pub method: &'static str,
    /// The name that the user gave to its value.
    pub given: Option<Arc<str>>,
    pub ty: Type,
    pub place: Place,
    /// Its operands, by position in [`Picture::operations`].
    pub inputs: SmallVec<[usize; 3]>,
    pub fate: Fate,
    /// The kernels that compute it or, where none does, those that read its value: by position in [`Picture::kernels`].
    pub kernels: SmallVec<[usize; 2]>,
    /// True if its value is downloaded or kept.
    pub is_result: bool,
}

/// The fate of a recorded operation in a plan.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Fate {
    /// Kernels compute it.
    Computed,
    /// Data from outside.
    Source,
    /// A number in the kernels that read it.
    Number,
    /// A view: kernels that read it find the elements where they lie.
    View,
    /// Equal to something simpler, which is used in its place.
    Simplified,
    /// No result needs it.
    Unused,
}

/// A kernel of a plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Kernel {
    /// The operations fused in it, joined by `+`.
    pub label: String,
    pub form: &'static str,
    pub side: Backend,
    pub place: Place,
    /// The values that it reads and writes, by position in [`Part::values`] of its part.
    pub reads: SmallVec<[usize; 4]>,
    pub writes: SmallVec<[usize; 1]>,
    /// The number of dispatches of a GPU.
    pub dispatches: u64,
    /// Arithmetic operations, where they are counted.
    pub flops: Option<u64>,
    pub bytes_read: u64,
    pub bytes_written: u64,
    /// Predicted seconds on its side.
    pub predicted: f64,
    /// Predicted seconds on the other side, if the device has one.
    pub elsewhere: Option<f64>,
    /// Seconds that it took.
    pub measured: Option<f64>,
    /// The reason for its side.
    pub reason: String,
    /// Kernels that it was not fused with, by position in [`Picture::kernels`], and why.
    pub not_fused_with: Vec<(usize, String)>,
}

/// A part of a plan that runs as a whole on one side, with its memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Part {
    /// The time and the place of its run.
    pub title: String,
    /// Its kernels, by position in [`Picture::kernels`].
    pub kernels: Range<usize>,
    /// Bytes that it reserves: buffers of the run, kept results and residents.
    pub peak_bytes: u64,
    pub values: Vec<Stored>,
    /// Bytes of each buffer that lives for one run.
    pub buffers: Vec<u64>,
    /// Memory of single kernels for partial results: the kernel by position in the part, the buffer, and bytes.
    pub scratch: Vec<(usize, usize, u64)>,
}

/// A value with memory.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stored {
    /// The operation that made it, and where that was recorded.
    pub name: &'static str,
    pub place: Place,
    pub ty: Type,
    pub bytes: u64,
    pub memory: Memory,
    /// The first and the last kernel of the part that need it; one past the last kernel for a result.
    pub life: Option<(usize, usize)>,
}

/// The memory of a value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Memory {
    /// Data of the caller, read where it lies.
    Caller,
    Resident,
    /// The buffer of this number, which values share.
    Buffer(usize),
    /// A buffer of its own that outlives the run.
    Kept,
}

/// Values that go from one side to the other together.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Transfer {
    /// `upload`, `download`, or from which side to which.
    pub name: &'static str,
    /// The part that it belongs to, by position in [`Picture::parts`], and its values, by position in
    /// [`Part::values`].
    pub part: usize,
    pub values: Vec<usize>,
    pub bytes: u64,
    /// Predicted seconds.
    pub seconds: f64,
}

/// A measured stage of a run.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Stage {
    pub name: &'static str,
    pub on_gpu: bool,
    /// Seconds since the start of the run.
    pub start: f64,
    pub seconds: f64,
}
