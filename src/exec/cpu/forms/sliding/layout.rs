//! The layout of a block of an image by [stride phases](StridePhases): every window has its elements at the same distances
//! from its position. The results of a block lie where the first elements of their windows lay.

use std::ops::Range;

use smallvec::SmallVec;

use super::stencil::WIDTH;
use crate::base::shape::Window;
use crate::exec::cpu::operands::StridePhases;
use crate::plan::Sliding;

/// Lanes of a block, so few that block and results stay in the cache next to a core.
const BLOCK: usize = 12 << 10;

/// A block of an image: `rows` windows along one axis, and all along the others.
#[derive(Debug)]
pub(super) struct Layout {
    pub axes: SmallVec<[LayoutAxis; 2]>,
    /// The axis along which images are cut into blocks.
    pub cut: usize,
    /// Lanes of a block.
    pub len: usize,
}

#[derive(Debug)]
pub(super) struct LayoutAxis {
    pub phases: StridePhases,
    /// Windows of a block.
    pub count: usize,
    /// Elements of a stride phase, and the distance from one to the next.
    len: usize,
    pub pitch: usize,
    /// The distance from one stride phase to the next.
    phase_pitch: usize,
}

impl LayoutAxis {
    fn new((window, count): (Window, usize)) -> Self {
        let phases = StridePhases::of(window);
        let len = phases.covered(count);
        Self { phases, count, len, pitch: 1, phase_pitch: 1 }
    }

    fn position_in(&self, [phase, at]: [usize; 2]) -> usize {
        phase * self.phase_pitch + at * self.pitch
    }

    /// The distances from the first element of a window to all.
    fn taps(&self) -> impl Iterator<Item = usize> {
        (0..self.phases.window.size).map(|at| self.position_in(self.phases.of_element(at)))
    }

    /// The position of the element with a coordinate, if windows reach it.
    pub fn position(&self, coordinate: usize) -> Option<usize> {
        self.phases.position(coordinate).map(|position| self.position_in(position))
    }

    /// The parts of a line, one for each stride phase, for elements with coordinates in a range.
    pub fn picks(&self, range: &Range<usize>) -> SmallVec<[Pick; 4]> {
        let (step, len) = (self.phases.window.step, self.len);
        let pick = |(&first, position)| {
            let at = |bound: usize| bound.saturating_sub(first).div_ceil(step).min(len);
            let inside = at(range.start)..at(range.end);
            let skip = (first + inside.start * step).saturating_sub(range.start);
            Pick { position, len, inside, skip }
        };
        self.phases.firsts.iter().zip((0..).step_by(self.phase_pitch)).map(pick).collect()
    }
}

/// The part of a line that goes to a stride phase.
pub(super) struct Pick {
    pub position: usize,
    /// Elements of the stride phase.
    pub len: usize,
    /// The elements of the stride phase that the line has.
    pub inside: Range<usize>,
    /// Elements of the line before the first of them.
    pub skip: usize,
}

impl Layout {
    /// The layout of blocks of so many windows along each axis.
    pub fn new(windows: impl Iterator<Item = (Window, usize)>, cut: usize) -> Self {
        let mut own: SmallVec<[LayoutAxis; 2]> = windows.map(LayoutAxis::new).collect();
        let mut len = 1;
        for axis in own.iter_mut().rev() {
            axis.pitch = len;
            len *= axis.len;
        }
        // The stride phases of later axes lie farther apart, so that their elements can be combined first.
        for axis in &mut own {
            axis.phase_pitch = len;
            len *= axis.phases.count();
        }
        Self { axes: own, cut, len }
    }

    /// The lanes of a buffer of a block. Loops over whole vectors pass the end of the block.
    pub fn buffer(&self) -> usize {
        self.len + 2 * WIDTH
    }

    /// The lanes of the positions of all windows, where blocks have `rows` rows.
    pub fn positions(&self, rows: usize) -> usize {
        let last = self.axes.iter().map(|axis| (axis.count - 1) * axis.pitch);
        last.sum::<usize>() + 1 - self.missing(Some(rows))
    }

    /// The lanes that are needed after elements along axis `at` and all but the last axis after it are combined.
    pub fn positions_along(&self, at: usize, rows: Option<usize>) -> usize {
        let axis = &self.axes[at];
        axis.phase_pitch - (axis.len - axis.count) * axis.pitch - self.missing(rows)
    }

    fn missing(&self, rows: Option<usize>) -> usize {
        let cut = &self.axes[self.cut];
        rows.map_or(0, |rows| (cut.count - rows) * cut.pitch)
    }

    /// The distances of the elements of a window along some axes, in row-major order.
    pub fn taps(&self, axes: Range<usize>) -> Vec<usize> {
        self.axes[axes].iter().fold(vec![0], |taps, axis| {
            taps.iter().flat_map(|&tap| axis.taps().map(move |at| tap + at)).collect()
        })
    }

    /// Copies results, from the one at `from` on in row-major order, from a finished block.
    pub fn gather(&self, block: &[u32], from: usize, out: &mut [u32]) {
        let last = self.axes.len() - 1;
        let row = self.axes[last].count;
        let (mut line, mut column, mut out) = (from / row, from % row, out);
        while !out.is_empty() {
            let position = if self.cut == last { column } else { self.line(line) + column };
            let (own, rest) = out.split_at_mut((row - column).min(out.len()));
            own.copy_from_slice(&block[position..position + own.len()]);
            (line, column, out) = (line + 1, 0, rest);
        }
    }

    /// The position of the first result of a line along the last axis.
    pub fn line(&self, line: usize) -> usize {
        let between = self.axes.get(self.cut + 1..self.axes.len() - 1).unwrap_or_default();
        let (mut rest, mut position) = (line, 0);
        for axis in between.iter().rev() {
            position += rest % axis.count * axis.pitch;
            rest /= axis.count;
        }
        position + rest * self.axes[self.cut].pitch
    }
}

/// A line of a block.
pub(super) struct Line {
    /// Its coordinate along the axis of blocks.
    pub coordinate: usize,
    pub position: usize,
    /// Its first element in an image, if the line lies inside of the border along the other axes.
    pub source: Option<usize>,
}

/// The layouts of blocks of at most `most` rows.
pub(super) fn layouts(sliding: &Sliding, cut: usize, most: usize) -> (Layout, Option<Layout>) {
    let axes = &sliding.axes;
    let last = axes.len() - 1;
    let has_last_pass = sliding.weight.is_none() && axes[last].window.step > 1;
    let one = Window { size: 1, step: 1, dilation: 1 };
    let at = |rows: usize| {
        let windows = axes.iter().enumerate().map(|(at, axis)| {
            let count = if at == cut { rows } else { axis.count };
            let line = (one, axis.window.extent(count));
            if at == last && has_last_pass { line } else { (axis.window, count) }
        });
        Layout::new(windows, cut)
    };
    let (len, next) = (at(1).len, at(2).len);
    let fit = BLOCK.saturating_sub(len) / (next - len).max(1) + 1;
    // At least as many rows as a window has, so that few elements are laid out twice.
    let rows = fit.max(axes[cut].window.reach()).min(most).max(1);
    let last_pass = || {
        let windows = axes.iter().enumerate().map(|(at, axis)| {
            let count = if at == cut { rows } else { axis.count };
            (if at == last { axis.window } else { one }, count)
        });
        Layout::new(windows, cut)
    };
    (at(rows), has_last_pass.then(last_pass))
}

/// The lines of a block.
pub(super) fn lines(sliding: &Sliding, layout: &Layout) -> Vec<Line> {
    let Some((last, outer)) = sliding.axes.split_last() else { return Vec::new() };
    let mut lines = vec![Line { coordinate: 0, position: 0, source: Some(0) }];
    for (at, axis) in outer.iter().enumerate() {
        let inner = outer[at + 1..].iter().chain([last]).map(|axis| axis.inside.len());
        let pitch: usize = inner.product();
        let own = &layout.axes[at];
        let positions = |extent: usize| {
            (0..extent).filter_map(|coordinate| Some((coordinate, own.position(coordinate)?)))
        };
        let with = |line: &Line| -> Vec<Line> {
            let next = |(coordinate, position): (usize, usize)| {
                let position = line.position + position;
                if at == layout.cut {
                    return Line { coordinate, position, source: line.source };
                }
                let inside = line.source.filter(|_| axis.inside.contains(&coordinate));
                let source = inside.map(|source| source + (coordinate - axis.inside.start) * pitch);
                Line { coordinate: line.coordinate, position, source }
            };
            positions(axis.window.extent(own.count)).map(next).collect()
        };
        lines = lines.iter().flat_map(with).collect();
    }
    lines
}
