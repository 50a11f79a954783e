//! Copies of rows to panels: small matrices, side by side, that a product reads in order.

use smallvec::SmallVec;

/// Most elements of a piece. Copies of as many have a fixed size.
const PIECE: usize = 16;

/// Elements of a row that lie in memory at equal distances, and go to one panel.
#[derive(Clone, Copy, Debug)]
struct PanelPiece {
    /// Position of the first element, counted from that of the row.
    from: i64,
    /// Its position in the panels, for the first row.
    to: usize,
    len: usize,
}

/// The pieces of rows.
#[derive(Debug)]
pub(crate) struct PanelPieces {
    pieces: SmallVec<[PanelPiece; 32]>,
    columns: usize,
    /// Elements from the panel of some columns to the next.
    pitch: usize,
    width: usize,
}

impl PanelPieces {
    /// No pieces yet, for panels of so many `columns` and rows.
    pub fn new(columns: usize, rows: usize) -> Self {
        Self { pieces: SmallVec::new(), columns, pitch: columns * rows, width: 0 }
    }

    /// Appends `len` elements with distance `stride` in each row, of which the first lies at `from`.
    pub fn push(&mut self, from: i64, stride: i64, len: usize) {
        let mut done = 0;
        while done < len {
            let (panel, column) = (self.width / self.columns, self.width % self.columns);
            let count = PIECE.min(self.columns - column).min(len - done);
            let (from, to) = (from + done as i64 * stride, panel * self.pitch + column);
            self.pieces.push(PanelPiece { from, to, len: count });
            (done, self.width) = (done + count, self.width + count);
        }
    }

    /// Copies rows that begin at the positions `rows` in `data` to `out`, elements `stride` apart.
    pub fn copy(&self, data: &[u32], rows: &[i64], stride: i64, out: &mut [u32]) {
        match stride {
            1 => self.copy_strided::<1>(data, rows, stride, out),
            2 => self.copy_strided::<2>(data, rows, stride, out),
            _ => self.copy_strided::<0>(data, rows, stride, out),
        }
    }

    /// As [`copy`](Self::copy), for a stride of `S`, or any where `S` is 0.
    fn copy_strided<const S: usize>(
        &self,
        data: &[u32],
        rows: &[i64],
        stride: i64,
        out: &mut [u32],
    ) {
        // A copy of a fixed size writes beyond its piece: to columns or to a row that come later. No row comes after the
        // last.
        let last = rows.len().saturating_sub(1);
        for (k, &row) in rows.iter().enumerate() {
            let out = &mut out[k * self.columns..];
            for &PanelPiece { from, to, len } in &self.pieces {
                let from = row + from;
                let whole = data.get(from as usize..).and_then(|data| data.get(..PIECE * S));
                if S > 0
                    && (k < last || len == PIECE)
                    && let Some(whole) = whole
                    && let Some(out) = out[to..].first_chunk_mut::<PIECE>()
                {
                    for i in 0..PIECE {
                        out[i] = whole[i * S];
                    }
                    continue;
                }
                for (i, out) in out[to..to + len].iter_mut().enumerate() {
                    *out = data[(from + i as i64 * stride) as usize];
                }
            }
        }
    }
}

/// Fills `out`, of rows of `width`, in squares. Memory may run along either index: the neighbours fetched with an
/// element are used before they leave the cache.
#[inline(always)]
pub(crate) fn fill_by_squares(
    out: &mut [f32],
    width: usize,
    element: impl Fn(usize, usize) -> f32,
) {
    const SIDE: usize = 16;
    for (band, out) in out.chunks_mut(SIDE * width).enumerate() {
        for left in (0..width).step_by(SIDE) {
            for (r, out) in out.chunks_mut(width).enumerate() {
                let right = width.min(left + SIDE);
                for (c, out) in (left..right).zip(&mut out[left..right]) {
                    *out = element(band * SIDE + r, c);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pieces_of_any_length_and_stride_go_to_their_columns() {
        let data: Vec<u32> = (0..600).collect();
        for columns in [16, 48] {
            for stride in [1, 2, 3, -1] {
                for lens in [&[1][..], &[16], &[17, 3], &[5, 7, 9, 30], &[48, 1], &[60]] {
                    let rows = [100, 120, 99, 260];
                    let mut pieces = PanelPieces::new(columns, rows.len());
                    for (at, &len) in lens.iter().enumerate() {
                        pieces.push(7 * at as i64, stride, len);
                    }
                    let width: usize = lens.iter().sum();
                    let mut out = vec![0; width.next_multiple_of(columns) * rows.len()];
                    pieces.copy(&data, &rows, stride, &mut out);
                    for (k, row) in rows.iter().enumerate() {
                        let mut column = 0;
                        for (at, &len) in lens.iter().enumerate() {
                            for i in 0..len {
                                let panel = column / columns * columns * rows.len();
                                let got = out[panel + k * columns + column % columns];
                                let want = row + 7 * at as i64 + i as i64 * stride;
                                assert_eq!(i64::from(got), want, "{columns} {stride} {lens:?}");
                                column += 1;
                            }
                        }
                    }
                }
            }
        }
    }
}
