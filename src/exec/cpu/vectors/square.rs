//! Squares of vectors, whose rows and columns change places.

use super::SimdVector;
use super::by_processor::loops;

/// Most elements of a vector.
pub(crate) const MOST: usize = 16;

/// Distance in words from a row to those of the square that is copied soon. Hints for them save a tenth of the time on one
/// thread.
const AHEAD: usize = 64;

loops! {
    /// The functions for one set of instructions.
    pub(crate) struct Squares {}

    /// Copies a square of [`MOST`] by [`MOST`] words: row `k` at `from + k·stride` becomes column `k` at `to`, where rows are
    /// `pitch` words apart.
    unsafe fn copy(from: *const u32, stride: isize, to: *mut u32, pitch: usize) =
        copied::<V>(from.cast(), stride, to.cast(), pitch);
}

impl Squares {
    /// Copies a square of [`MOST`] by [`MOST`] words: its row `k` begins at `data[first + k·stride]` and becomes column `k` of
    /// `out`, where rows are `pitch` words apart.
    pub fn transpose(&self, data: &[u32], first: i64, stride: i64, out: &mut [u32], pitch: usize) {
        let last = first + (MOST as i64 - 1) * stride;
        let fits = first.min(last) >= 0 && first.max(last) as usize + MOST <= data.len();
        assert!(fits && (MOST - 1) * pitch + MOST <= out.len());
        let from = data.as_ptr().wrapping_offset(first as isize);
        // SAFETY: the processor has the instructions (`all`), and all words exist, as asserted.
        unsafe { (self.copy)(from, stride as isize, out.as_mut_ptr(), pitch) }
    }
}

/// As [`Squares::copy`].
///
/// # Safety
/// The words exist, and the processor has the instructions of `V`.
#[inline(always)]
unsafe fn copied<V: SimdVector>(from: *const f32, stride: isize, to: *mut f32, pitch: usize) {
    for row in (0..MOST).step_by(V::LEN) {
        for column in (0..MOST).step_by(V::LEN) {
            let from = from.wrapping_offset(column as isize * stride).wrapping_add(row);
            let to = to.wrapping_add(row * pitch + column);
            // SAFETY: as the caller promises.
            unsafe {
                let mut square = [V::splat(0.0); MOST];
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

/// Exchanges the rows and the columns of a square of as many vectors as one has elements. The others have any value.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn transposed<V: SimdVector>(mut square: [V; MOST]) -> [V; MOST] {
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
    use super::*;

    #[test]
    fn rows_become_columns_on_every_processor() {
        // Signalling NaN is among the words.
        let data: Vec<u32> = (0..2000).map(|at| at ^ 0x7f80_0000).collect();
        for squares in Squares::all() {
            for (first, stride, pitch) in [(0, 16, 16), (7, 33, 20), (900, -51, 17), (3, 0, 16)] {
                let mut out = vec![1; 15 * pitch + 18];
                squares.transpose(&data, first, stride, &mut out, pitch);
                for (at, &got) in out.iter().enumerate() {
                    let [row, column] = [at / pitch, at % pitch];
                    let is_in = row < MOST && column < MOST;
                    let from = first + column as i64 * stride + row as i64;
                    assert_eq!(got, if is_in { data[from as usize] } else { 1 }, "{row} {column}");
                }
            }
        }
    }
}
