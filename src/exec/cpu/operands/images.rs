//! Blocks of images, laid out by [stride phases](StridePhases) so that every window has its elements at the same distances
//! from its position. Rows of a block also have elements that no window begins with, those behind the last window of a row.

use std::ops::Range;

use bytemuck::cast_slice;
use smallvec::SmallVec;

use super::image_lines::{LinePart, Lines, lay_lines};
use super::stride_phases::StridePhases;
use super::walk::Axis;
use super::windows::{BORDERS, WindowPosition, Windows};
use crate::base::shape::Window;

/// Elements behind a block that vectors may read.
const BEHIND: usize = 64;

/// Images with their borders, seen through windows that slide down and along.
#[derive(Debug)]
pub(crate) struct Images<'w, 'a> {
    windows: &'w Windows<'a>,
    /// The distance of each channel from the first.
    channels: Vec<i64>,
    /// Down and along.
    axes: [ImageAxis; 2],
    /// The axes of window elements, outermost first. Each has the number of its elements, and the position in `axes` of the
    /// image axis that it lies along; `None` for an axis of channels.
    rows: SmallVec<[(usize, Option<usize>); 4]>,
}

#[derive(Clone, Debug)]
struct ImageAxis {
    phases: StridePhases,
    /// Places of windows.
    count: usize,
    /// Elements of memory between neighbours.
    unit: i64,
    /// The coordinates inside of the border.
    inside: Range<usize>,
}

/// The layout of a block of so many rows of windows.
#[derive(Clone, Debug)]
pub(crate) struct BlockLayout {
    /// Elements from one row of windows to the next.
    pub pitch: usize,
    /// Elements of a stride phase, and of a channel.
    phase: usize,
    pub channel: usize,
    /// Elements of a block.
    pub len: usize,
}

impl BlockLayout {
    /// Places from the first window of `rows` rows to the last of `columns` in the last row.
    pub fn positions(&self, rows: usize, columns: usize) -> usize {
        (rows - 1) * self.pitch + columns
    }
}

impl<'w, 'a> Images<'w, 'a> {
    /// The images that `windows` slide over, if their positions lie along at most two axes.
    pub fn of(windows: &'w Windows<'a>) -> Option<Self> {
        let mut taps: SmallVec<[Option<usize>; 4]> = SmallVec::from_elem(None, windows.rows.len());
        // A single position, if there is no more.
        let one = Axis { dim: 1, stride: WindowPosition::default() };
        let positions = match windows.columns[..] {
            [] => [one, one],
            [along] => [one, along],
            [along, down] => [down, along],
            _ => return None,
        };
        // Each border lies across one axis. One along which no window moves has them all inside of it.
        let is_clear = |border: usize| {
            let moving = |axis: &&Axis<WindowPosition>| axis.stride.coordinates[border] != 0;
            match positions.iter().filter(moving).count() {
                0 => (0..windows.inside[border]).contains(&windows.origin.coordinates[border]),
                count => count == 1,
            }
        };
        if !(0..BORDERS).all(is_clear) {
            return None;
        }
        let mut axes = SmallVec::<[ImageAxis; 2]>::new();
        for (at, axis) in positions.iter().enumerate() {
            axes.push(image_axis(windows, axis, &mut taps, at)?);
        }
        let axes = axes.into_inner().ok()?;
        let is_channel = |(axis, tap): (&Axis<WindowPosition>, &Option<usize>)| {
            tap.is_some() || axis.stride.coordinates == [0; BORDERS]
        };
        if !windows.rows.iter().zip(&taps).all(is_channel) {
            return None;
        }
        let mut channels = vec![0];
        // Outermost first.
        let rows = windows.rows.iter().zip(&taps).rev();
        for (axis, _) in rows.clone().filter(|(_, tap)| tap.is_none()) {
            let next = |&from: &i64| (0..axis.dim).map(move |i| from + i as i64 * axis.stride.at);
            channels = channels.iter().flat_map(next).collect();
        }
        let rows = rows.map(|(axis, &tap)| (axis.dim, tap)).collect();
        Some(Self { windows, channels, axes, rows })
    }

    /// Returns whether windows have 3×3 elements, all neighbours, and move by one element. Channels come first.
    pub fn are_dense_3x3(&self) -> bool {
        let dense = Window { size: 3, step: 1, dilation: 1 };
        let taps = [(3, Some(0)), (3, Some(1))];
        self.axes.iter().all(|axis| axis.phases.window == dense)
            && self.rows.ends_with(&taps)
            && self.rows.iter().filter(|(_, tap)| tap.is_some()).count() == 2
    }

    /// Rows of windows, and windows of a row.
    pub fn counts(&self) -> [usize; 2] {
        [self.axes[0].count, self.axes[1].count]
    }

    /// The layout of blocks of `rows` rows of windows.
    pub fn layout(&self, rows: usize) -> BlockLayout {
        let [down, along] = &self.axes;
        let pitch = along.phases.covered(along.count);
        let phase = down.phases.covered(rows) * pitch;
        let channel = phase * down.phases.count() * along.phases.count();
        let len = self.channels.len() * channel + BEHIND;
        BlockLayout { pitch, phase, channel, len }
    }

    /// The position of each element of a window in blocks of `layout`, counted from that of the window.
    pub fn offsets(&self, layout: &BlockLayout) -> Vec<usize> {
        let phases = self.axes[1].phases.count();
        // The distance of neighbours along an axis of channels.
        let mut channel = layout.channel * self.channels.len();
        let mut offsets = vec![0];
        for &(dim, tap) in &self.rows {
            channel /= if tap.is_none() { dim } else { 1 };
            let position =
                |i: usize| match tap.map(|axis| (axis, self.axes[axis].phases.of_element(i))) {
                    None => i * channel,
                    Some((0, [phase, y])) => phase * phases * layout.phase + y * layout.pitch,
                    Some((_, [phase, x])) => phase * layout.phase + x,
                };
            let positions: SmallVec<[usize; 16]> = (0..dim).map(position).collect();
            let mut next = Vec::with_capacity(offsets.len() * dim);
            offsets
                .iter()
                .for_each(|offset| next.extend(positions.iter().map(|position| offset + position)));
            offsets = next;
        }
        offsets
    }

    /// Lays out the elements of image `index` that `rows` rows of windows from `first` on see. `block` has the length of
    /// the layout.
    pub fn lay_out(
        &self,
        index: usize,
        layout: &BlockLayout,
        (first, rows): (usize, usize),
        block: &mut [f32],
    ) {
        assert_eq!(block.len(), layout.len);
        let [down, along] = &self.axes;
        let origin = self.windows.origin(index);
        let step = along.phases.window.step;
        let stride = along.unit * step as i64;
        // For each stride phase along rows the elements inside of the border, and the position of the first in memory.
        let inside = along.phases.firsts.iter().map(|&phase| {
            let at = |bound: usize| bound.saturating_sub(phase).div_ceil(step).min(layout.pitch);
            let range = at(along.inside.start)..at(along.inside.end);
            let from = (phase + range.start * step) as i64 * along.unit;
            (range, from)
        });
        let inside: SmallVec<[(Range<usize>, i64); 4]> = inside.collect();
        let lines = down.phases.firsts.iter().enumerate().flat_map(|(at, &phase)| {
            (0..down.phases.covered(rows))
                .map(move |row| (at, row, (first + row) * down.phases.window.step + phase))
        });
        let (data, border) = (cast_slice(self.windows.data), f32::from_bits(self.windows.border));
        let mut parts: SmallVec<[LinePart; 64]> = SmallVec::new();
        for (phase, row, y) in lines {
            for (at, (range, from)) in inside.iter().enumerate() {
                let to = (phase * along.phases.count() + at) * layout.phase + row * layout.pitch;
                let is_inside = down.inside.contains(&y) && !range.is_empty();
                let inside = if is_inside { range.clone() } else { 0..0 };
                let from = origin + y as i64 * down.unit + from;
                parts.push(LinePart { to, inside, from });
            }
        }
        // In ascending order: a copy of a fixed size writes beyond its part.
        parts.sort_unstable_by_key(|part| part.to);
        let lines = Lines { parts: &parts, pitch: layout.pitch, data, stride, border };
        for (at, &channel) in self.channels.iter().enumerate() {
            let out = &mut block[at * layout.channel..];
            let channels = [channel, self.channels.get(at + 1).copied().unwrap_or(channel)];
            match stride {
                1 => lay_lines::<1>(&lines, channels, out),
                2 => lay_lines::<2>(&lines, channels, out),
                _ => lay_lines::<0>(&lines, channels, out),
            }
        }
    }
}

/// The axis of an image along which the positions of `axis` lie. The axis of window elements that belongs to it, if there is
/// one, is marked in `taps` with `number`.
fn image_axis(
    windows: &Windows<'_>,
    axis: &Axis<WindowPosition>,
    taps: &mut [Option<usize>],
    number: usize,
) -> Option<ImageAxis> {
    let own = (0..windows.rows.len()).filter(|&row| taps[row].is_none());
    let pairs = own.filter_map(|row| Some((row, window(axis, &windows.rows[row])?)));
    let nearest = pairs.min_by_key(|(_, window)| window.step.max(window.dilation));
    let window = match nearest {
        Some((row, window)) => {
            taps[row] = Some(number);
            window
        }
        None => Window { size: 1, step: 1, dilation: 1 },
    };
    let step = window.step as i64;
    let unit = axis.stride.at / step;
    let mut inside = 0..window.extent(axis.dim);
    for border in 0..BORDERS {
        let by = axis.stride.coordinates[border] / step;
        if by > 0 {
            let first = windows.origin.coordinates[border];
            let from = |bound: i64| {
                let coordinate = bound.saturating_sub(first).saturating_add(by - 1).div_euclid(by);
                usize::try_from(coordinate.max(0)).unwrap_or(usize::MAX)
            };
            let end = from(windows.inside[border]);
            inside = inside.start.max(from(0))..inside.end.min(end);
        }
    }
    inside.end = inside.end.max(inside.start);
    Some(ImageAxis { phases: StridePhases::of(window), count: axis.dim, unit, inside })
}

/// The windows whose positions lie along `positions` and whose elements lie along `elements`, if both step through memory and
/// through coordinates in the same proportion.
fn window(positions: &Axis<WindowPosition>, elements: &Axis<WindowPosition>) -> Option<Window> {
    let (step, dilation) = (positions.stride.at, elements.stride.at);
    if step <= 0 || dilation <= 0 {
        return None;
    }
    let unit = gcd(step, dilation);
    let (step, dilation) = (step / unit, dilation / unit);
    let coordinates = positions.stride.coordinates.iter().zip(&elements.stride.coordinates);
    let in_proportion = coordinates
        .into_iter()
        .all(|(position, element)| position * dilation == element * step && position % step == 0);
    // The elements of windows that hardly overlap are rows of a matrix.
    let is_window =
        dilation < step * positions.dim as i64 && step <= 2 * (elements.dim as i64 * dilation);
    let [size, step, dilation] = [elements.dim, step as usize, dilation as usize];
    (in_proportion && is_window).then_some(Window { size, step, dilation })
}

fn gcd(a: i64, b: i64) -> i64 {
    if b == 0 { a } else { gcd(b, a % b) }
}

/// Checks the elements of all windows in blocks of some rows.
#[cfg(test)]
pub(super) fn check(
    windows: &Windows<'_>,
    [count, deep, height, width]: [usize; 4],
    element: impl Fn(usize, usize, usize) -> u32,
) {
    let Some(images) = Images::of(windows) else {
        assert!(height == 1 || width == 1, "a window moves along both axes");
        return;
    };
    let [rows, columns] = images.counts();
    assert_eq!(rows * columns, height * width);
    for per in [1, 2, rows] {
        let layout = images.layout(per);
        let offsets = images.offsets(&layout);
        assert_eq!(offsets.len(), deep);
        for (index, first) in
            (0..count).flat_map(|index| (0..rows).step_by(per).map(move |row| (index, row)))
        {
            let mut block = vec![f32::NAN; layout.len];
            let own = per.min(rows - first);
            images.lay_out(index, &layout, (first, own), &mut block);
            for (k, offset) in offsets.iter().enumerate() {
                for (row, column) in
                    (0..own).flat_map(|row| (0..columns).map(move |column| (row, column)))
                {
                    let got = block[offset + row * layout.pitch + column].to_bits();
                    let want = element(index, k, (first + row) * columns + column);
                    assert_eq!(got, want, "{per} {index} {k} {first} {row} {column}");
                }
            }
            let last = offsets.iter().max().copied().unwrap_or(0);
            assert!(last + layout.positions(per, columns) + BEHIND <= layout.len + 1);
        }
    }
}
