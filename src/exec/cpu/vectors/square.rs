//! Squares of vectors, whose rows and columns change places.

use super::SimdVector;
use super::by_processor::loops;

/// Elements along a side of a square, as many as the widest vector has.
pub(crate) const SIDE: usize = 16;

/// Distance in words from a row to the words of a later square. Hints for them save a tenth of the time on one thread.
const AHEAD: usize = 64;

loops! {
    /// The functions for one set of instructions.
    pub(crate) struct SquareKernels {}

    /// Copies a square of [`SIDE`] by [`SIDE`] words: row `k` at `from + k·stride` becomes column `k` at `to`, where rows are
    /// `pitch` words apart.
    unsafe fn copy(from: *const u32, stride: isize, to: *mut u32, pitch: usize) =
        copied::<V>(from.cast(), stride, to.cast(), pitch);
}

impl SquareKernels {
    /// Copies a square of [`SIDE`] by [`SIDE`] words: its row `k` begins at `data[first + k·stride]` and becomes column `k` of
    /// `out`, where rows are `pitch` words apart.
    pub fn transpose(&self, data: &[u32], first: i64, stride: i64, out: &mut [u32], pitch: usize) {
        let last = stride.checked_mul(SIDE as i64 - 1).and_then(|way| first.checked_add(way));
        let has_row = |at: i64| {
            let from = usize::try_from(at).ok();
            from.and_then(|from| data.get(from..)).is_some_and(|row| row.len() >= SIDE)
        };
        assert!(has_row(first) && last.is_some_and(has_row), "a row beyond the data");
        let last = pitch.checked_mul(SIDE - 1).and_then(|start| out.get(start..));
        assert!(last.is_some_and(|row| row.len() >= SIDE), "a row beyond the result");
        let from = data.as_ptr().wrapping_offset(first as isize);
        // SAFETY: the processor has the instructions (`all`). The first and the last row of both lie inside, as asserted, and
        // so do all between.
        unsafe { (self.copy)(from, stride as isize, out.as_mut_ptr(), pitch) }
    }
}

/// As [`SquareKernels::copy`].
///
/// # Safety
/// The words exist, and the processor has the instructions of `V`.
#[inline(always)]
unsafe fn copied<V: SimdVector>(from: *const f32, stride: isize, to: *mut f32, pitch: usize) {
    for row in (0..SIDE).step_by(V::LEN) {
        for column in (0..SIDE).step_by(V::LEN) {
            let from = from.wrapping_offset(column as isize * stride).wrapping_add(row);
            let to = to.wrapping_add(row * pitch + column);
            // SAFETY: as the caller promises.
            unsafe {
                let mut square = [V::splat(0.0); SIDE];
                for (at, vector) in square.iter_mut().enumerate().take(V::LEN) {
                    let from = from.wrapping_offset(at as isize * stride);
                    *vector = V::load(from);
                    V::fetch(from.wrapping_add(AHEAD));
                }
                for (at, vector) in transposed(square).into_iter().enumerate().take(V::LEN) {
                    vector.store(to.wrapping_add(at * pitch));
                }
            }
        }
    }
}

/// Exchanges the rows and the columns of a square of as many vectors as one has elements. Vectors beyond `V::LEN` are
/// unspecified.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn transposed<V: SimdVector>(mut square: [V; SIDE]) -> [V; SIDE] {
    // Each pass sorts the elements of all vectors, one after the other, by the lowest bit of their positions: in the
    // end, the bits of the lane and those of the vector have changed places.
    let mut bits = V::LEN;
    while bits > 1 {
        let before = square;
        for at in 0..V::LEN / 2 {
            // SAFETY: as the caller promises.
            let [even, odd] = unsafe { before[2 * at].unzip(before[2 * at + 1]) };
            (square[at], square[V::LEN / 2 + at]) = (even, odd);
        }
        bits /= 2;
    }
    square
}

#[cfg(test)]
mod tests {
    use std::panic::{AssertUnwindSafe, catch_unwind};

    use super::*;

    #[test]
    fn rows_become_columns_on_every_processor() {
        // Signalling NaN is among the words.
        let data: Vec<u32> = (0..2000).map(|at| at ^ 0x7f80_0000).collect();
        for squares in SquareKernels::all() {
            for (first, stride, pitch) in [(0, 16, 16), (7, 33, 20), (900, -51, 17), (3, 0, 16)] {
                let mut out = vec![1; 15 * pitch + 18];
                squares.transpose(&data, first, stride, &mut out, pitch);
                for (at, &got) in out.iter().enumerate() {
                    let [row, column] = [at / pitch, at % pitch];
                    let is_in = row < SIDE && column < SIDE;
                    let from = first + column as i64 * stride + row as i64;
                    assert_eq!(got, if is_in { data[from as usize] } else { 1 }, "{row} {column}");
                }
            }
        }
    }

    #[test]
    fn rows_beyond_the_memory_are_refused() {
        let data = vec![0; 256];
        let refused = |first: i64, stride: i64, words: usize, pitch: usize| {
            let mut out = vec![0; words];
            let copy = || SquareKernels::native().transpose(&data, first, stride, &mut out, pitch);
            catch_unwind(AssertUnwindSafe(copy)).is_err()
        };
        assert!(!refused(0, 16, 256, 16));
        assert!(refused(1, 16, 256, 16) && refused(-1, 16, 256, 16) && refused(0, -16, 256, 16));
        assert!(refused(0, i64::MAX / 2, 256, 16) && refused(i64::MAX, 1, 256, 16));
        assert!(refused(0, 16, 255, 16) && refused(0, 16, 256, usize::MAX / 4));
    }
}
