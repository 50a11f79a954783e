//! The layout of a block of an image: every window has its elements at the same distances from its place.
//!
//! If windows move by s elements along an axis, the elements at 0, s, 2s … are neighbours, then those at 1, 1 + s …: one
//! *phase* follows the other, and a window moves by one element within each. The results of a block lie where the first
//! elements of their windows lay.

use std::ops::Range;

use smallvec::SmallVec;

use super::stencil::WIDTH;
use crate::base::shape::Window;
use crate::plan::SlidingAxis;

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
    pub window: Window,
    /// Windows of a block.
    pub count: usize,
    /// Elements of a phase, and the distance from one to the next.
    len: usize,
    pitch: usize,
    /// The phases that windows reach, in ascending order, and the distance from one to the next.
    phases: SmallVec<[usize; 4]>,
    phase_pitch: usize,
}

impl LayoutAxis {
    fn new(axis: &SlidingAxis, count: usize) -> Self {
        let Window { size, step, dilation } = axis.window;
        let mut phases: SmallVec<[usize; 4]> = (0..size).map(|k| k * dilation % step).collect();
        phases.sort_unstable();
        phases.dedup();
        let len = count + (size - 1) * dilation / step;
        Self { window: axis.window, count, len, pitch: 1, phases, phase_pitch: 1 }
    }

    /// The distance from the first element of a window to another.
    fn tap(&self, element: usize) -> usize {
        let at = element * self.window.dilation;
        let phase = self.phases.partition_point(|&phase| phase < at % self.window.step);
        phase * self.phase_pitch + at / self.window.step * self.pitch
    }

    fn taps(&self) -> impl Iterator<Item = usize> {
        (0..self.window.size).map(|element| self.tap(element))
    }

    /// The place of the element with a coordinate, if windows reach it.
    pub fn place(&self, coordinate: usize) -> Option<usize> {
        let phase = self.phases.binary_search(&(coordinate % self.window.step)).ok()?;
        Some(phase * self.phase_pitch + coordinate / self.window.step * self.pitch)
    }

    /// The phases: the coordinate and the place of the first element of each, and their number of elements.
    pub fn phases(&self) -> impl Iterator<Item = (usize, usize, usize)> {
        let places = (0..).step_by(self.phase_pitch);
        self.phases.iter().zip(places).map(|(&phase, place)| (phase, place, self.len))
    }

    /// The elements of a phase with coordinates in a range, where the phase has `len` elements from coordinate `first` on.
    pub fn within(&self, first: usize, range: &Range<usize>, len: usize) -> Range<usize> {
        let at = |bound: usize| bound.saturating_sub(first).div_ceil(self.window.step).min(len);
        at(range.start)..at(range.end)
    }
}

impl Layout {
    /// The layout of blocks of `rows` windows along axis `cut`.
    pub fn new(axes: &[SlidingAxis], cut: usize, rows: usize) -> Self {
        let count = |at: usize| if at == cut { rows } else { axes[at].count };
        let mut own: SmallVec<[LayoutAxis; 2]> =
            axes.iter().enumerate().map(|(at, axis)| LayoutAxis::new(axis, count(at))).collect();
        let mut len = 1;
        for axis in own.iter_mut().rev() {
            axis.pitch = len;
            len *= axis.len;
        }
        // The phases of the last axis lie farthest apart, so that a fold along it leaves a smaller block.
        for axis in &mut own {
            axis.phase_pitch = len;
            len *= axis.phases.len();
        }
        Self { axes: own, cut, len }
    }

    /// The lanes of a buffer of a block. Loops over whole vectors pass the end of the block.
    pub fn buffer(&self) -> usize {
        self.len + 2 * WIDTH
    }

    /// The lanes of all places, where blocks have `rows` rows, after the elements along all axes are combined.
    pub fn places(&self, rows: usize) -> usize {
        let last = self.axes.iter().map(|axis| (axis.count - 1) * axis.pitch);
        last.sum::<usize>() + 1 - self.missing(rows)
    }

    /// As [`places`](Self::places), after those along axis `at` and all later ones are combined.
    pub fn places_after(&self, at: usize, rows: usize) -> usize {
        let axis = &self.axes[at];
        axis.phase_pitch - (axis.len - axis.count) * axis.pitch - self.missing(rows)
    }

    fn missing(&self, rows: usize) -> usize {
        (self.axes[self.cut].count - rows) * self.axes[self.cut].pitch
    }

    /// The distances of the elements of a window along some axes, in row-major order.
    pub fn taps(&self, axes: Range<usize>) -> Vec<usize> {
        self.axes[axes].iter().fold(vec![0], |taps, axis| {
            taps.iter().flat_map(|&tap| axis.taps().map(move |at| tap + at)).collect()
        })
    }

    /// Copies results, from the one at `from` on in row-major order, from a finished block.
    pub fn gather(&self, block: &[u32], from: usize, out: &mut [u32]) {
        let mut coordinates: SmallVec<[usize; 4]> = SmallVec::new();
        let (mut rest, mut place) = (from, 0);
        for axis in self.axes.iter().rev() {
            coordinates.push(rest % axis.count);
            place += rest % axis.count * axis.pitch;
            rest /= axis.count;
        }
        let mut out = out;
        while !out.is_empty() {
            let len = (self.axes[self.axes.len() - 1].count - coordinates[0]).min(out.len());
            let (row, others) = out.split_at_mut(len);
            row.copy_from_slice(&block[place..place + len]);
            out = others;
            (coordinates[0], place) = (coordinates[0] + len, place + len);
            for (at, axis) in self.axes.iter().rev().enumerate() {
                if coordinates[at] < axis.count || at + 1 == coordinates.len() {
                    break;
                }
                coordinates[at] = 0;
                coordinates[at + 1] += 1;
                place = place + self.axes[self.axes.len() - 2 - at].pitch - axis.count * axis.pitch;
            }
        }
    }
}
