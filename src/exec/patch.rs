//! Replacement of a region of a tensor in place.

use std::sync::Arc;

use crate::base::shape::Shape;

/// The region of elements `at..at + size` along one axis of a tensor. In row-major order it is `runs` runs of `len`
/// elements. The first run begins at `start`, and each other one `stride` elements after the one before.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Patch {
    pub runs: usize,
    len: usize,
    start: usize,
    stride: usize,
}

/// A slice that replaces the region `patch` of a value in another buffer.
#[cfg_attr(not(feature = "gpu"), expect(dead_code, reason = "no GPU reads it"))]
pub(crate) struct SliceWrite<B> {
    pub new: Arc<B>,
    pub patch: Patch,
    pub to: Arc<B>,
    /// A value that is copied to `to` first, as a whole.
    pub copied: Option<Arc<B>>,
}

impl Patch {
    /// Describes elements `at..at + size` along `axis` of a tensor of `shape`.
    pub fn new(shape: &Shape, axis: usize, at: usize, size: usize) -> Self {
        let (before, after) = shape.dims().split_at(axis);
        let inner: usize = after[1..].iter().product();
        let runs = before.iter().product();
        Self { runs, len: size * inner, start: at * inner, stride: after[0] * inner }
    }

    /// Returns the axis and the first element along it of a patch of `size_of(axis)` elements of a tensor of `shape`.
    #[cfg(feature = "safetensors")]
    pub fn axis_and_start(
        self,
        shape: &Shape,
        size_of: impl Fn(usize) -> usize,
    ) -> Option<(usize, usize)> {
        (0..shape.rank()).find_map(|axis| {
            let inner: usize = shape.dims()[axis + 1..].iter().product();
            let at = self.start.checked_div(inner)?;
            (Self::new(shape, axis, at, size_of(axis)) == self).then_some((axis, at))
        })
    }

    /// Returns three numbers for each run: its start among the new elements, its start in the tensor, and its length.
    /// All three are numbers of elements times `size`.
    pub fn copies(self, size: usize) -> impl Iterator<Item = (usize, usize, usize)> {
        let Self { runs, len, start, stride } = self;
        (0..runs).map(move |at| (at * len * size, (start + at * stride) * size, len * size))
    }

    /// Bytes from the start of a run to the start of the next, for elements of `size` bytes.
    pub fn spacing(self, size: usize) -> usize {
        self.stride * size
    }

    /// Returns whether runs of elements of `size` bytes begin and end at whole words.
    pub fn is_in_words(self, size: usize) -> bool {
        [self.len, self.start, self.stride].iter().all(|&number| (number * size).is_multiple_of(4))
    }

    /// Copies the bytes of the new elements, `size` each, over those of the tensor.
    pub fn apply(self, size: usize, new: &[u8], tensor: &mut [u8]) {
        for (from, to, len) in self.copies(size) {
            tensor[to..to + len].copy_from_slice(&new[from..from + len]);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_run_goes_to_its_place() {
        let patch = Patch::new(&[2, 4, 3].into(), 1, 2, 1);
        let mut tensor = [0_u8; 24];
        patch.apply(1, &[1, 2, 3, 4, 5, 6], &mut tensor);
        let mut wanted = [0; 24];
        wanted[6..9].copy_from_slice(&[1, 2, 3]);
        wanted[18..21].copy_from_slice(&[4, 5, 6]);
        assert_eq!(tensor, wanted);
        assert_eq!(patch.spacing(2), 24);
        assert!(patch.is_in_words(4) && !patch.is_in_words(2));
        assert_eq!(Patch::new(&[5].into(), 0, 3, 2).copies(4).collect::<Vec<_>>(), [(0, 12, 8)]);
    }
}
