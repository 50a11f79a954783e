//! Operands bound to memory: read where they lie, or fetched by a strided index map.

use half::f16;
use half::slice::HalfFloatSliceExt;
use smallvec::SmallVec;

use super::failures::Failures;
use super::prefetch;
use crate::dtype::DType;
use crate::plan::{Operand, Source};
use crate::run::HostBuffer;
use crate::shape::View;

/// What a lane costs that is looked up alone, or in a run of few, in flops.
const FETCHED: u64 = 24;
/// Lanes of a run that are worth finding where it begins.
const LONG_RUN: usize = 64;

/// An operand as a tape sees it: a sequence of lanes, in row-major order of its space.
#[derive(Debug)]
pub(super) enum Input<'a> {
    /// The lanes lie in memory one after the other.
    Memory(&'a [u32]),
    Gather(Gather<'a>),
    /// Elements that are fetched by their positions.
    Table(Data<'a>),
    /// Not read: where failures are told.
    Failures(&'a Failures),
}

/// Lanes that are fetched element by element.
#[derive(Debug)]
pub(super) struct Gather<'a> {
    /// Innermost first; never empty.
    axes: SmallVec<[Axis; 4]>,
    offset: i64,
    data: Data<'a>,
    /// Whether an index outside the data is moved to its nearest end.
    clamp: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Axis {
    dim: usize,
    stride: i64,
}

#[derive(Clone, Copy, Debug)]
pub(super) enum Data<'a> {
    Words(&'a [u32]),
    Halves(&'a [f16]),
    Bytes(&'a [u8]),
    /// The index itself.
    Iota,
}

impl<'a> Data<'a> {
    fn of(value: &'a HostBuffer) -> Self {
        match value.dtype() {
            DType::F32 | DType::I32 | DType::U32 => Data::Words(value.words()),
            DType::F16 => Data::Halves(bytemuck::cast_slice(value.bytes())),
            DType::Bool => Data::Bytes(value.bytes()),
        }
    }

    fn len(self) -> usize {
        match self {
            Self::Words(data) => data.len(),
            Self::Halves(data) => data.len(),
            Self::Bytes(data) => data.len(),
            Self::Iota => usize::MAX,
        }
    }

    #[inline]
    fn lane(self, index: i64) -> u32 {
        match self {
            Self::Words(data) => data[index as usize],
            Self::Halves(data) => data[index as usize].to_f32().to_bits(),
            Self::Bytes(data) => u32::from(data[index as usize] != 0),
            Self::Iota => index as u32,
        }
    }

    /// `out[i]` = the element at `positions[i]`, or the last one if that is not so far.
    pub fn fetch(self, positions: &[u32], out: &mut [u32]) {
        let Some(last) = self.len().checked_sub(1) else { return out.fill(0) };
        match self {
            Self::Words(data) => {
                for (out, &at) in out.iter_mut().zip(positions) {
                    *out = data[(at as usize).min(last)];
                }
            }
            _ => {
                for (out, &at) in out.iter_mut().zip(positions) {
                    *out = self.lane((at as usize).min(last) as i64);
                }
            }
        }
    }

    /// `out[i]` = the element at `first + i·stride`, all inside the data.
    fn run(self, first: i64, stride: i64, out: &mut [u32]) {
        let range = first as usize..(first as usize).wrapping_add(out.len());
        match (self, stride) {
            (_, 0) => out.fill(self.lane(first)),
            (Self::Words(data), 1) => out.copy_from_slice(&data[range]),
            (Self::Halves(data), 1) => {
                data[range].convert_to_f32_slice(bytemuck::cast_slice_mut(out));
            }
            (Self::Bytes(data), 1) => {
                for (out, &byte) in out.iter_mut().zip(&data[range]) {
                    *out = u32::from(byte != 0);
                }
            }
            (Self::Iota, _) => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = (first + i as i64 * stride) as u32;
                }
            }
            _ => {
                for (i, out) in out.iter_mut().enumerate() {
                    *out = self.lane(first + i as i64 * stride);
                }
            }
        }
    }
}

impl<'a> Input<'a> {
    /// `operand` read through `view`, which is its own or a permutation of it. `value` is what its
    /// source holds, if that has storage.
    pub fn bind(operand: &Operand, view: &View, value: Option<&'a HostBuffer>) -> Self {
        let data = match (operand.source, value) {
            (Source::Value(_), Some(value)) => Data::of(value),
            _ => Data::Iota,
        };
        Self::through(view, data, operand.clamp)
    }

    /// The elements of `value` read through `view`, all of which lies inside it.
    pub fn elements(view: &View, value: &'a HostBuffer) -> Self {
        Self::through(view, Data::of(value), false)
    }

    /// All of `value`, to be fetched from.
    pub fn table(value: &'a HostBuffer) -> Self {
        Self::Table(Data::of(value))
    }

    /// The lanes from `start` on.
    pub fn fetch(&self, start: usize, out: &mut [u32]) {
        match self {
            Self::Table(_) | Self::Failures(_) => {}
            Self::Memory(words) => out.copy_from_slice(&words[start..start + out.len()]),
            Self::Gather(gather) => gather.fetch(start, out),
        }
    }

    /// What it costs to bring a lane, in flops or words moved.
    pub fn cost(&self) -> u64 {
        match self {
            Self::Memory(_) | Self::Failures(_) => 1,
            Self::Gather(gather) if !gather.is_dear() => 1,
            Self::Gather(_) | Self::Table(_) => FETCHED,
        }
    }

    /// Hints that `len` lanes from `start` on, as far as there are any, will be read.
    pub fn fetch_ahead(&self, start: usize, len: usize) {
        if let Self::Memory(words) = self {
            let range = start.min(words.len())..(start + len).min(words.len());
            prefetch::read(&words[range]);
        }
    }

    fn through(view: &View, data: Data<'a>, clamp: bool) -> Self {
        let axes = collapse(view);
        if let (Data::Words(words), false, &[Axis { dim, stride: 1 }]) = (data, clamp, &axes[..])
            && let Some(words) = words.get(view.offset as usize..view.offset as usize + dim)
        {
            return Self::Memory(words);
        }
        Self::Gather(Gather { axes, offset: view.offset, data, clamp })
    }
}

/// The axes of `view`, innermost first, without those of size 1 and with those merged that one
/// stride can walk.
fn collapse(view: &View) -> SmallVec<[Axis; 4]> {
    let mut axes: SmallVec<[Axis; 4]> = SmallVec::new();
    for (&dim, &stride) in view.dims.iter().zip(&view.strides).rev() {
        match axes.last_mut() {
            _ if dim == 1 => {}
            Some(inner) if stride == inner.stride * inner.dim as i64 => inner.dim *= dim,
            _ => axes.push(Axis { dim, stride }),
        }
    }
    if axes.is_empty() {
        // One element: any stride walks it.
        axes.push(Axis { dim: 1, stride: 1 });
    }
    axes
}

/// Runs of lanes along the innermost axis, one after the other.
struct Runs<'g> {
    axes: &'g [Axis],
    coords: SmallVec<[usize; 8]>,
    /// Of the next lane.
    index: i64,
}

impl<'g> Runs<'g> {
    /// From lane `start` of the space of `axes`, of which there is at least one.
    fn from(axes: &'g [Axis], start: usize, offset: i64) -> Self {
        let mut runs = Self { axes, coords: SmallVec::new(), index: offset };
        let mut rest = start;
        for axis in axes {
            let at = rest % axis.dim;
            rest /= axis.dim;
            runs.index += at as i64 * axis.stride;
            runs.coords.push(at);
        }
        runs
    }

    /// Where the next run begins, and its lanes, of which there are at most `most`.
    #[inline]
    fn next(&mut self, most: usize) -> (i64, usize) {
        let (axes, coords) = (self.axes, &mut self.coords[..]);
        let (first, len) = (self.index, most.min(axes[0].dim - coords[0]));
        self.index += len as i64 * axes[0].stride;
        coords[0] += len;
        for (at, pair) in axes.windows(2).enumerate() {
            if coords[at] < pair[0].dim {
                break;
            }
            coords[at] = 0;
            coords[at + 1] += 1;
            self.index += pair[1].stride - pair[0].dim as i64 * pair[0].stride;
        }
        (first, len)
    }
}

impl Gather<'_> {
    /// Whether lanes are mostly not copied or counted in long runs.
    fn is_dear(&self) -> bool {
        let Axis { dim, stride } = self.axes[0];
        let is_one_run = self.axes.len() == 1 || dim >= LONG_RUN;
        self.clamp || !is_one_run || !matches!(stride, 0 | 1)
    }

    /// The elements from `start` on.
    pub fn fetch(&self, start: usize, out: &mut [u32]) {
        let mut runs = Runs::from(&self.axes, start, self.offset);
        let stride = self.axes[0].stride;
        let mut done = 0;
        while done < out.len() {
            let (first, len) = runs.next(out.len() - done);
            self.run(first, stride, &mut out[done..done + len]);
            done += len;
        }
    }

    /// Rows of `width` elements, the first from `start` on, each `pitch` elements after the one before. Where they lie
    /// in a row is found once for all rows, if `pitch` is what some of the axes have.
    pub fn fetch_rows(&self, start: usize, pitch: usize, width: usize, out: &mut [u32]) {
        let pitches = self.axes.iter().scan(1, |product, axis| {
            *product *= axis.dim;
            Some(*product)
        });
        let column = start % pitch.max(1);
        let split = pitches.take_while(|&product| product <= pitch).position(|it| it == pitch);
        let Some(inner) = split.map(|last| last + 1).filter(|_| column + width <= pitch) else {
            for (row, out) in out.chunks_mut(width).enumerate() {
                self.fetch(start + row * pitch, out);
            }
            return;
        };
        let (inner, outer) = self.axes.split_at(inner);
        let mut places: SmallVec<[(i64, usize); 16]> = SmallVec::new();
        let (mut runs, mut left) = (Runs::from(inner, column, 0), width);
        while left > 0 {
            let (first, len) = runs.next(left);
            places.push((first, len));
            left -= len;
        }
        let once = [Axis { dim: usize::MAX, stride: 0 }];
        let outer = if outer.is_empty() { &once } else { outer };
        let mut rows = Runs::from(outer, start / pitch, self.offset);
        for out in out.chunks_mut(width) {
            let (row, _) = rows.next(1);
            let mut done = 0;
            for &(first, len) in &places {
                self.run(row + first, inner[0].stride, &mut out[done..done + len]);
                done += len;
            }
        }
    }

    fn run(&self, first: i64, stride: i64, out: &mut [u32]) {
        let last = first + (out.len() as i64 - 1) * stride;
        let end = self.data.len() as u64;
        let inside = |index: i64| index >= 0 && (index as u64) < end;
        if !self.clamp || (inside(first) && inside(last)) {
            return self.data.run(first, stride, out);
        }
        if end == 0 {
            return out.fill(0);
        }
        for (i, out) in out.iter_mut().enumerate() {
            let index = first + i as i64 * stride;
            *out = self.data.lane(index.clamp(0, (end - 1).min(i64::MAX as u64) as i64));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn view(dims: &[usize], strides: &[i64], offset: i64) -> View {
        View { dims: dims.into(), strides: strides.into(), offset }
    }

    #[test]
    fn what_is_looked_up_lane_by_lane_costs_more_than_what_is_copied() {
        let data = HostBuffer::from_slice(&vec![1_u32; 10_000]);
        let cost = |dims: &[usize], strides: &[i64]| {
            Input::elements(&view(dims, strides, 0), &data).cost()
        };
        assert_eq!([cost(&[10_000], &[1]), cost(&[9, 100], &[0, 1]), cost(&[7], &[0])], [1; 3]);
        assert_eq!([cost(&[100, 100], &[1, 100]), cost(&[9, 30], &[100, 1])], [FETCHED; 2]);
    }

    #[test]
    fn any_view_is_fetched_from_any_start() {
        let data: Vec<u32> = (0..120).map(|i| i * 7 + 1).collect();
        let data = HostBuffer::from_slice(&data);
        let views = [
            view(&[4, 5, 6], &[30, 6, 1], 0),
            view(&[3, 5, 2], &[-30, 6, 3], 90),
            view(&[6, 5, 4], &[1, 6, 30], 0),
            view(&[7, 1, 5], &[0, 9, 6], 3),
            view(&[5, 7], &[6, 0], 3),
            view(&[119], &[-1], 118),
            view(&[1], &[5], 17),
            view(&[], &[], 119),
        ];
        for view in &views {
            let mut want = vec![view.offset];
            for (&dim, &stride) in view.dims.iter().zip(&view.strides) {
                want = want
                    .iter()
                    .flat_map(|&o| (0..dim as i64).map(move |c| o + c * stride))
                    .collect();
            }
            for start in 0..want.len() {
                for len in [1, 3, want.len() - start] {
                    let len = len.min(want.len() - start);
                    let mut got = vec![u32::MAX; len];
                    Input::elements(view, &data).fetch(start, &mut got);
                    let want = want[start..start + len].iter().map(|&i| data.words()[i as usize]);
                    assert!(want.eq(got.iter().copied()), "{view:?} from {start}");
                }
            }
        }
    }

    #[test]
    fn rows_of_any_width_and_pitch_are_fetched() {
        let data: Vec<u32> = (0..120).map(|i| i * 7 + 1).collect();
        let data = HostBuffer::from_slice(&data);
        let views = [
            view(&[2, 3, 4, 5], &[30, 6, 5, 1], 3),
            view(&[3, 2, 4, 5], &[1, 6, 10, 2], 0),
            view(&[4, 5, 6], &[30, 6, -1], 5),
            view(&[4, 15], &[0, 3], 2),
        ];
        for view in &views {
            let gather = match Input::elements(view, &data) {
                Input::Gather(gather) => gather,
                other => panic!("{other:?}"),
            };
            let len: usize = view.dims.iter().product();
            let mut all = vec![0; len];
            gather.fetch(0, &mut all);
            // Some are the elements of the innermost axes, and some are not.
            for pitch in [1, 5, 6, 7, 15, 20, len] {
                for start in 0..len.min(40) {
                    for width in [1, 2, 5, pitch] {
                        let rows = len.saturating_sub(start + width) / pitch + 1;
                        if start + width > len {
                            continue;
                        }
                        let mut got = vec![u32::MAX; rows * width];
                        gather.fetch_rows(start, pitch, width, &mut got);
                        let row = |row: usize| &all[start + row * pitch..][..width];
                        let want: Vec<u32> = (0..rows).flat_map(row).copied().collect();
                        assert_eq!(got, want, "{view:?}: {pitch} {start} {width}");
                    }
                }
            }
        }
    }
}
