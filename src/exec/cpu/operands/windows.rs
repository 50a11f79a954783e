//! Windows of images, copied to panels: a matrix whose rows are the elements of a window, and whose columns are the
//! positions of windows. Elements outside of an image are its border, which is never stored.

use std::ops::Range;

use multiversion::multiversion;

use super::walk::{Axes, Axis, Position, Walk, collapse};
use crate::base::shape::View;

/// Most elements of a piece. Copies of as many have a fixed size.
const PIECE: usize = 16;
/// Most coordinates with a border.
pub(super) const BORDERS: usize = 2;

/// Windows of images in memory.
#[derive(Debug)]
pub(crate) struct Windows<'a> {
    pub(super) data: &'a [u32],
    /// The number around the images.
    pub(super) border: u32,
    /// The axes of the batch, of rows and of columns.
    batch: Axes<WindowPosition>,
    pub(super) rows: Axes<WindowPosition>,
    pub(super) columns: Axes<WindowPosition>,
    /// The position of the first element.
    pub(super) origin: WindowPosition,
    /// Coordinates inside of the border along each counted axis.
    pub(super) inside: [i64; BORDERS],
}

/// The position of an element in memory, and its coordinates along counted axes, from the first inside of the border on.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct WindowPosition {
    pub at: i64,
    pub coordinates: [i64; BORDERS],
}

impl Position for WindowPosition {
    #[inline]
    fn plus(self, stride: Self, times: i64) -> Self {
        let mut position = Self { at: self.at + stride.at * times, ..self };
        for (own, stride) in position.coordinates.iter_mut().zip(stride.coordinates) {
            *own += stride * times;
        }
        position
    }
}

/// Columns of a row that lie at equal distances and go to one panel.
#[derive(Clone, Copy, Debug)]
struct WindowPiece {
    position: WindowPosition,
    /// The first of their positions in the panels, for the first row.
    to: usize,
    len: usize,
}

impl<'a> Windows<'a> {
    /// The windows that `view` selects in `data`, whose first axes are those of the batch and whose last are those of
    /// `columns`. Each of `counters` is a coordinate over the same axes, and its range inside of the border. Returns
    /// `None` for borders that cannot be copied.
    pub fn new(
        (data, border): (&'a [u32], u32),
        view: &View,
        counters: &[(&View, Range<i64>)],
        [batch, columns]: [usize; 2],
    ) -> Option<Self> {
        let rank = view.dims.len();
        if counters.len() > BORDERS || view.dims.contains(&0) {
            return None;
        }
        let mut origin = WindowPosition { at: view.offset, coordinates: [0; BORDERS] };
        let mut inside = [i64::MAX; BORDERS];
        for (at, (counter, range)) in counters.iter().enumerate() {
            origin.coordinates[at] = counter.offset - range.start;
            inside[at] = range.end - range.start;
            let counts = |&axis: &usize| counter.dims[axis] > 1 && counter.strides[axis] != 0;
            if (0..batch).any(|axis| counts(&axis)) || counter.strides.iter().any(|&s| s < 0) {
                return None;
            }
        }
        let axes = |range: Range<usize>| {
            collapse(range.rev().map(|axis| {
                let mut stride = WindowPosition { at: view.strides[axis], ..Default::default() };
                for (own, (counter, _)) in stride.coordinates.iter_mut().zip(counters) {
                    *own = counter.strides[axis];
                }
                Axis { dim: view.dims[axis], stride }
            }))
        };
        let columns = rank - columns;
        let (batch, rows, columns) = (axes(0..batch), axes(batch..columns), axes(columns..rank));
        // With counters, every element outside of the value is border, so that all elements inside of it exist.
        let lies_there = !counters.is_empty() || view.is_inside(data.len());
        lies_there.then_some(Self { data, border, batch, rows, columns, origin, inside })
    }

    /// The position of the first element of matrix `index` of the batch.
    pub(super) fn origin(&self, index: usize) -> i64 {
        Walk::from(&self.batch, self.origin, index).position.at
    }

    /// Copies the elements at `rows` and `columns` of matrix `index` of the batch to panels of so many columns. The
    /// last panel may have any elements beyond the last column.
    pub fn pack(
        &self,
        index: usize,
        [rows, columns]: [&Range<usize>; 2],
        panel: usize,
        out: &mut [u32],
    ) {
        assert!(out.len() >= columns.len().next_multiple_of(panel) * rows.len());
        let mut starts = Vec::with_capacity(rows.len());
        let origin = Walk::from(&self.batch, self.origin, index).position;
        let mut walk = Walk::from(&self.rows, origin, rows.start);
        starts.extend(rows.clone().map(|_| walk.next(1).0));
        let mut pieces = Vec::new();
        let mut walk = Walk::from(&self.columns, WindowPosition::default(), columns.start);
        let mut done = 0;
        while done < columns.len() {
            let (first, column) = (done / panel, done % panel);
            let (position, len) = walk.next(PIECE.min(panel - column).min(columns.len() - done));
            pieces.push(WindowPiece { position, to: first * panel * rows.len() + column, len });
            done += len;
        }
        let one = WindowPosition { at: 1, ..WindowPosition::default() };
        let stride = self.columns.first().map_or(one, |axis| axis.stride);
        let copy = PieceCopy {
            data: self.data,
            border: self.border,
            stride,
            inside: self.inside,
            columns: panel,
        };
        match stride.at {
            1 => copy_pieces::<1>(&copy, &starts, &pieces, out),
            2 => copy_pieces::<2>(&copy, &starts, &pieces, out),
            _ => copy_pieces::<0>(&copy, &starts, &pieces, out),
        }
    }
}

/// The parts of a copy that all pieces share.
struct PieceCopy<'a> {
    data: &'a [u32],
    border: u32,
    /// The distance between neighbouring columns of a piece.
    stride: WindowPosition,
    inside: [i64; BORDERS],
    /// Columns of a panel.
    columns: usize,
}

impl PieceCopy<'_> {
    /// The columns of a piece of `len` from `position` on that lie inside of the border.
    #[inline(always)]
    fn lanes(&self, position: WindowPosition, len: usize) -> Range<usize> {
        let mut lanes = 0..len;
        for axis in 0..BORDERS {
            let (first, inside) = (position.coordinates[axis], self.inside[axis]);
            let step = self.stride.coordinates[axis];
            let last = first + (len as i64 - 1) * step;
            if first >= 0 && last < inside {
                continue;
            }
            if step == 0 || last < 0 || first >= inside {
                return 0..0;
            }
            // The first column with a coordinate of at least `bound`.
            let from = |bound: i64| {
                let steps = bound - first;
                let steps = if step == 1 { steps } else { (steps + step - 1).div_euclid(step) };
                steps.clamp(0, len as i64) as usize
            };
            lanes = lanes.start.max(from(0))..lanes.end.min(from(inside));
        }
        lanes
    }
}

/// Copies the pieces of all rows, whose columns lie `S` apart in memory, or any distance where `S` is 0.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
fn copy_pieces<const S: usize>(
    copy: &PieceCopy<'_>,
    rows: &[WindowPosition],
    pieces: &[WindowPiece],
    out: &mut [u32],
) {
    // A copy of a fixed size writes beyond its piece: to columns or to a row that come later. No row comes after the
    // last.
    let last = rows.len().saturating_sub(1);
    for (k, &row) in rows.iter().enumerate() {
        let out = &mut out[k * copy.columns..];
        for piece in pieces {
            let position = row.plus(piece.position, 1);
            let lanes = copy.lanes(position, piece.len);
            let fits = k < last || piece.len == PIECE;
            let at = position.at as usize;
            let chunk = if S > 0 { PIECE * S } else { 0 };
            if let Some(out) = out[piece.to..].first_chunk_mut::<PIECE>().filter(|_| fits)
                && S > 0
                && let Some(from) = copy.data.get(at..at.wrapping_add(chunk))
            {
                if lanes.len() == piece.len {
                    for i in 0..PIECE {
                        out[i] = from[i * S];
                    }
                } else {
                    let (start, len) = (lanes.start as u32, lanes.len() as u32);
                    for i in 0..PIECE {
                        let inside = (i as u32).wrapping_sub(start) < len;
                        out[i] = if inside { from[i * S] } else { copy.border };
                    }
                }
                continue;
            }
            for (i, out) in out[piece.to..piece.to + piece.len].iter_mut().enumerate() {
                let at = position.at + i as i64 * copy.stride.at;
                *out = if lanes.contains(&i) { copy.data[at as usize] } else { copy.border };
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::operands::images;

    /// Checks all panels of windows of `size` over images with a border of `pad`, against elements one by one.
    fn check(
        [count, channels, height, width]: [usize; 4],
        [size, step, dilation]: [usize; 3],
        pad: usize,
    ) {
        let data: Vec<u32> =
            (0..(count * channels * height * width) as u32).map(|i| i + 1).collect();
        let reach = (size - 1) * dilation + 1;
        let [rows, columns] = [height, width].map(|len| (len + 2 * pad - reach) / step + 1);
        let dims = [count, channels, size, size, rows, columns];
        let [h, w] = [height as i64, width as i64];
        let [s, d, border] = [step as i64, dilation as i64, pad as i64];
        let view = View {
            dims: dims[..].into(),
            strides: [channels as i64 * h * w, h * w, d * w, d, s * w, s][..].into(),
            offset: -border * w - border,
        };
        let counter = |strides: [i64; 6]| View {
            dims: dims[..].into(),
            strides: strides[..].into(),
            offset: 0,
        };
        let [down, along] = [counter([0, 0, d, 0, s, 0]), counter([0, 0, 0, d, 0, s])];
        let counters = [(&down, border..border + h), (&along, border..border + w)];
        let counters = if pad > 0 { &counters[..] } else { &[] };
        let windows = Windows::new((&data, 7_000_000), &view, counters, [1, 2]).expect("windows");
        let element = |index: usize, k: usize, n: usize| {
            let (channel, i, j) = (k / (size * size), k / size % size, k % size);
            let y = (n / columns * step + i * dilation).wrapping_sub(pad);
            let x = (n % columns * step + j * dilation).wrapping_sub(pad);
            let at = ((index * channels + channel) * height + y.min(height)) * width + x.min(width);
            if y < height && x < width { data[at] } else { 7_000_000 }
        };
        let (deep, wide) = (channels * size * size, rows * columns);
        images::check(&windows, [count, deep, rows, columns], element);
        for panel in [16, 48] {
            for (rows, columns) in
                [(0..deep, 0..wide), (deep / 2..deep, wide / 3..wide), (0..1, wide - 1..wide)]
            {
                for index in 0..count {
                    let mut out = vec![0; columns.len().next_multiple_of(panel) * rows.len()];
                    windows.pack(index, [&rows, &columns], panel, &mut out);
                    for (row, k) in rows.clone().enumerate() {
                        for (column, n) in columns.clone().enumerate() {
                            let from = column / panel * panel * rows.len();
                            let got = out[from + row * panel + column % panel];
                            assert_eq!(got, element(index, k, n), "{dims:?} {index} {k} {n}");
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn windows_of_any_size_step_dilation_and_border_are_packed() {
        let images = [[1, 1, 1, 1], [2, 3, 5, 7], [1, 2, 9, 20], [1, 1, 3, 40], [2, 1, 20, 3]];
        for image @ [_, _, height, width] in images {
            for (size, step, dilation) in [
                (1, 1, 1),
                (1, 2, 1),
                (2, 1, 1),
                (3, 1, 1),
                (3, 2, 1),
                (3, 1, 2),
                (2, 3, 1),
                (5, 2, 1),
            ] {
                for pad in [0, 1, 2, 3] {
                    let reach = (size - 1) * dilation + 1;
                    if height.min(width) + 2 * pad >= reach {
                        check(image, [size, step, dilation], pad);
                    }
                }
            }
        }
    }

    #[test]
    fn borders_that_cannot_be_copied_are_left_to_others() {
        let view = View { dims: [2, 3][..].into(), strides: [3, 1][..].into(), offset: 0 };
        let back = View { strides: [0, -1][..].into(), offset: 2, ..view.clone() };
        let data = [0; 6];
        let of = |counters: &[(&View, Range<i64>)], data| {
            Windows::new((data, 0), &view, counters, [0, 1]).is_some()
        };
        assert!(of(&[], &data) && of(&[(&view, 1..4)], &data));
        assert!(!of(&[], &data[..5]) && !of(&[(&back, 0..2)], &data));
        assert!(!of(&[(&view, 0..6), (&view, 0..6), (&view, 0..6)], &data));
    }
}
