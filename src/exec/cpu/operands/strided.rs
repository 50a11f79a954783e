//! Elements that are read through a strided index map, in stretches along its innermost axis.

use smallvec::SmallVec;

use super::data::LaneData;
use super::panels::PanelPieces;
use super::walk::{Axes, Axis, Walk, collapse};
use crate::base::shape::View;

/// Length of a stretch from which the search for its start costs little.
const LONG_STRETCH: usize = 64;

type StridedAxis = Axis<i64>;

/// Lanes that lie in memory one after the other, several times.
pub(crate) type Lines<'a> = SmallVec<[&'a [u32]; MOST_LINES]>;
/// Most lines that are looked up at once.
pub(crate) const MOST_LINES: usize = 64;

/// Lanes that are read through a strided index map.
#[derive(Debug)]
pub(crate) struct StridedInput<'a> {
    /// The axes, innermost first; never empty.
    axes: Axes<i64>,
    offset: i64,
    data: LaneData<'a>,
    /// True if an index outside the data is moved to its nearest end.
    clamp: bool,
}

impl<'a> StridedInput<'a> {
    pub fn new(view: &View, data: LaneData<'a>, clamp: bool) -> Self {
        let axes = view.dims.iter().zip(&view.strides).rev();
        let mut axes = collapse(axes.map(|(&dim, &stride)| Axis { dim, stride }));
        if axes.is_empty() {
            // Any stride walks a single element.
            axes.push(Axis { dim: 1, stride: 1 });
        }
        Self { axes, offset: view.offset, data, clamp }
    }

    /// Number of neighbouring lanes that hold the same element.
    pub fn repeats(&self) -> usize {
        let Axis { dim, stride } = self.axes[0];
        if stride == 0 { dim } else { 1 }
    }

    /// Number of lanes of a row, if all rows are the same and there is more than one.
    pub fn period(&self) -> Option<usize> {
        let (outer, inner) = self.axes.split_last()?;
        let repeats = !inner.is_empty() && outer.stride == 0;
        repeats.then(|| inner.iter().map(|axis| axis.dim).product())
    }

    /// The distance between neighbours within stretches of `len` lanes. `None` unless all stretches have one distance, and
    /// the elements count positions.
    pub fn stride_in_stretches(&self, len: usize) -> Option<i64> {
        let Axis { dim, stride } = self.axes[0];
        let counts = matches!(self.data, LaneData::Iota) && !self.clamp;
        (counts && dim.is_multiple_of(len)).then_some(stride)
    }

    /// Returns whether lanes cost more than a copy. Cheap lanes come in long stretches with a stride of 0 or 1, and are
    /// never clamped.
    pub fn is_costly(&self) -> bool {
        let Axis { dim, stride } = self.axes[0];
        let is_one_stretch = self.axes.len() == 1 || dim >= LONG_STRETCH;
        self.clamp || !is_one_stretch || !matches!(stride, 0 | 1)
    }

    /// The elements at `start`, at `start + pitch` and so on, `count` in all. Each comes with those behind it that lie in memory
    /// one after the other; all of the lines are as long. `None` unless the elements are words, and the innermost axes together
    /// have `pitch` elements.
    pub fn lines(&self, start: usize, pitch: usize, count: usize) -> Option<Lines<'a>> {
        let (LaneData::Words(data), false, 1) = (self.data, self.clamp, self.axes[0].stride) else {
            return None;
        };
        let (inner, outer) = self.rows(start, pitch, 1)?;
        let (first, len) = Walk::from(inner, 0, start % pitch).next(usize::MAX);
        let mut starts = Walk::from(outer, self.offset + first, start / pitch);
        let stride = outer.first().map_or(0, |axis| axis.stride);
        let mut lines = Lines::with_capacity(count);
        while lines.len() < count {
            let (first, run) = starts.next(count - lines.len());
            lines.extend((0..run as i64).map(|k| &data[(first + k * stride) as usize..][..len]));
        }
        Some(lines)
    }

    /// Copies the elements from `start` on to `out`.
    pub fn fetch(&self, start: usize, out: &mut [u32]) {
        self.fetch_along(&self.axes, start, out);
    }

    /// Copies the first element of each of `out.len()` stretches of `len` elements, from stretch `first` on.
    pub fn fetch_stretches(&self, first: usize, len: usize, out: &mut [u32]) {
        match &self.axes[..] {
            // The stretches are the innermost axis.
            [inner, outer @ ..] if inner.dim == len && !outer.is_empty() => {
                self.fetch_along(outer, first, out);
            }
            _ => self.fetch_rows(first * len, len, 1, out),
        }
    }

    fn fetch_along(&self, axes: &[StridedAxis], start: usize, out: &mut [u32]) {
        if self.fetch_pairs(axes, start, out) {
            return;
        }
        let mut walk = Walk::from(axes, self.offset, start);
        let stride = axes[0].stride;
        let mut done = 0;
        while done < out.len() {
            let (first, len) = walk.next(out.len() - done);
            self.copy(first, stride, &mut out[done..done + len]);
            done += len;
        }
    }

    /// As [`fetch_along`](Self::fetch_along), for elements that come from two contiguous stretches in turns, as in an image of
    /// twice the width. Returns `false`, and copies nothing, for others.
    fn fetch_pairs(&self, axes: &[StridedAxis], start: usize, out: &mut [u32]) -> bool {
        let (LaneData::Words(data), false) = (self.data, self.clamp) else { return false };
        let &[Axis { dim: 2, stride: apart }, Axis { stride: 1, .. }, ..] = axes else {
            return false;
        };
        if !start.is_multiple_of(2) {
            return false;
        }
        let mut walk = Walk::from(&axes[1..], self.offset, start / 2);
        let (mut pairs, last) = out.as_chunks_mut::<2>();
        while !pairs.is_empty() {
            let (first, len) = walk.next(pairs.len());
            let (now, later) = pairs.split_at_mut(len);
            let [even, odd] = [first, first + apart].map(|from| &data[from as usize..][..len]);
            for ((pair, even), odd) in now.iter_mut().zip(even).zip(odd) {
                *pair = [*even, *odd];
            }
            pairs = later;
        }
        if let [last] = last {
            *last = data[walk.next(1).0 as usize];
        }
        true
    }

    /// Copies rows of `width` elements to `out`. The first row begins at `start`, each other one `pitch` elements after
    /// the one before. If the innermost axes together have `pitch` elements, the positions in a row are found once for
    /// all rows.
    pub fn fetch_rows(&self, start: usize, pitch: usize, width: usize, out: &mut [u32]) {
        let Some((inner, outer)) = self.rows(start, pitch, width) else {
            for (row, out) in out.chunks_mut(width).enumerate() {
                self.fetch(start + row * pitch, out);
            }
            return;
        };
        let mut positions: SmallVec<[(i64, usize); 16]> = SmallVec::new();
        let (mut walk, mut left) = (Walk::from(inner, 0, start % pitch), width);
        while left > 0 {
            let (first, len) = walk.next(left);
            positions.push((first, len));
            left -= len;
        }
        let mut rows = Walk::from(outer, self.offset, start / pitch);
        for out in out.chunks_mut(width) {
            let (row, _) = rows.next(1);
            let mut done = 0;
            for &(first, len) in &positions {
                self.copy(row + first, inner[0].stride, &mut out[done..done + len]);
                done += len;
            }
        }
    }

    /// As [`fetch_rows`](Self::fetch_rows), for `rows` rows that go to panels of `columns`. Returns `false`, and copies
    /// nothing, unless the elements are words and the innermost axes together have `pitch` elements.
    pub fn fetch_panels(
        &self,
        [start, pitch]: [usize; 2],
        [rows, width]: [usize; 2],
        columns: usize,
        out: &mut [u32],
    ) -> bool {
        let (LaneData::Words(data), false) = (self.data, self.clamp) else { return false };
        let Some((inner, outer)) = self.rows(start, pitch, width) else { return false };
        let mut pieces = PanelPieces::new(columns, rows);
        let (mut walk, mut left) = (Walk::from(inner, 0, start % pitch), width);
        while left > 0 {
            let (first, len) = walk.next(left);
            pieces.push(first, inner[0].stride, len);
            left -= len;
        }
        let mut starts = Walk::from(outer, self.offset, start / pitch);
        let starts: Vec<i64> = (0..rows).map(|_| starts.next(1).0).collect();
        pieces.copy(data, &starts, inner[0].stride, out);
        true
    }

    /// The axes along rows of `pitch` elements, and those of the rows, if the innermost axes together have as many. All
    /// of `width` elements from `start` on lie in one row.
    fn rows(
        &self,
        start: usize,
        pitch: usize,
        width: usize,
    ) -> Option<(&[StridedAxis], &[StridedAxis])> {
        let pitches = self.axes.iter().scan(1, |product, axis| {
            *product *= axis.dim;
            Some(*product)
        });
        let column = start % pitch.max(1);
        let split = pitches.take_while(|&product| product <= pitch).position(|it| it == pitch);
        let inner = split.map(|last| last + 1).filter(|_| column + width <= pitch)?;
        let (inner, outer) = self.axes.split_at(inner);
        const ONCE: &[StridedAxis] = &[Axis { dim: usize::MAX, stride: 0 }];
        Some((inner, if outer.is_empty() { ONCE } else { outer }))
    }

    fn copy(&self, first: i64, stride: i64, out: &mut [u32]) {
        match self.clamp {
            true => self.data.fetch_strided(first, stride, out),
            false => self.data.strided(first, stride, out),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::HostBuffer;

    #[test]
    fn rows_of_any_width_and_pitch_are_fetched() {
        let data: Vec<u32> = (0..120).map(|i| i * 7 + 1).collect();
        let data = HostBuffer::from_slice(&data);
        let views = [
            View { dims: [2, 3, 4, 5][..].into(), strides: [30, 6, 5, 1][..].into(), offset: 3 },
            View { dims: [3, 2, 4, 5][..].into(), strides: [1, 6, 10, 2][..].into(), offset: 0 },
            View { dims: [4, 5, 6][..].into(), strides: [30, 6, -1][..].into(), offset: 5 },
            View { dims: [4, 15][..].into(), strides: [0, 3][..].into(), offset: 2 },
        ];
        for view in &views {
            let input = StridedInput::new(view, LaneData::of(&data), false);
            let len: usize = view.dims.iter().product();
            let mut all = vec![0; len];
            input.fetch(0, &mut all);
            // Some pitches are the size of the innermost axes, and some are not.
            for pitch in [1, 5, 6, 7, 15, 20, len] {
                for start in 0..len.min(40) {
                    for width in [1, 2, 5, pitch] {
                        let rows = len.saturating_sub(start + width) / pitch + 1;
                        if start + width > len {
                            continue;
                        }
                        let mut got = vec![u32::MAX; rows * width];
                        input.fetch_rows(start, pitch, width, &mut got);
                        let row = |row: usize| &all[start + row * pitch..][..width];
                        let want: Vec<u32> = (0..rows).flat_map(row).copied().collect();
                        assert_eq!(got, want, "{view:?}: {pitch} {start} {width}");
                    }
                }
            }
        }
    }
}
