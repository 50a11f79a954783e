//! Updates of one slice of a resident, which are written in place.

use crate::exec::Patch;
use crate::graph::NodeId;
use crate::ops::Type;

/// Slice updates in more runs of elements than this are not written in place by a GPU: each run is a copy of its own.
const MOST_RUNS: usize = 64;
/// Bytes between the runs from which the host writes any number of them in place: closer ones touch most pages anyway.
const PAGE: usize = 4096;
/// Bytes of a resident from which a GPU writes slices in place: a fast one copies as much in the time of one submission.
const LEAST_BYTES: usize = 4 << 20;

/// A value that equals another one but for a slice, as `replace_slice` recorded it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SliceUpdate {
    pub state: NodeId,
    pub new: NodeId,
    pub patch: Patch,
}

impl SliceUpdate {
    /// Returns whether writing the slice in place is faster than writing all of a resident of type `ty` anew.
    pub fn pays(&self, ty: &Type, has_gpu: bool) -> bool {
        let size = ty.dtype.size();
        if !has_gpu {
            return self.patch.runs <= MOST_RUNS || self.patch.spacing(size) >= PAGE;
        }
        // A truth value takes a word on a GPU.
        let fits = size == 1 || self.patch.is_in_words(size);
        fits && self.patch.runs <= MOST_RUNS && ty.shape.elements() * size >= LEAST_BYTES
    }
}
