//! Blocks of images that are laid out with their borders, and combined by one loop without conditions.

use std::ops::Range;

use super::layout::{Layout, Pick};
use super::stencil::{self, Tap};
use super::{Slide, Worker};
use crate::exec::cpu::operands::OutputPart;
use crate::exec::cpu::tape::{Span, TILE};

impl Slide<'_> {
    /// The layout of the results.
    pub(super) fn finished(&self) -> &Layout {
        self.last_pass.as_ref().unwrap_or(&self.layout)
    }

    /// Lays out the elements of an image that `rows` rows of windows from `first` on cover.
    pub(super) fn lay_out(&self, worker: &mut Worker<'_>, image: usize, first: usize, rows: usize) {
        let (cut, last) = (self.layout.cut, self.layout.axes.len() - 1);
        let axes = &self.sliding.axes;
        let (start, extent) = (first * axes[cut].window.step, axes[cut].window.extent(rows));
        let (skipped, len) = match cut == last {
            true => (start, extent),
            false => (0, axes[last].window.extent(axes[last].count)),
        };
        let inside = &axes[last].inside;
        let columns = shifted(inside, skipped, len);
        let first = image * self.elements + skipped.saturating_sub(inside.start);
        let picks = self.layout.axes[last].picks(&columns);
        for line in self.lines.iter().filter(|line| cut == last || line.coordinate < extent) {
            let coordinate = line.coordinate + start;
            let source = match &axes[cut].inside {
                _ if cut == last => line.source,
                inside if !inside.contains(&coordinate) => None,
                inside => line.source.map(|at| at + (coordinate - inside.start) * self.pitch),
            };
            let source = source.filter(|_| !columns.is_empty());
            for pick in &picks {
                let line = &mut worker.block[line.position + pick.position..][..pick.len];
                if source.is_some() {
                    line[..pick.inside.start].fill(self.border);
                    line[pick.inside.end..].fill(self.border);
                } else {
                    line.fill(self.border);
                }
            }
            if let Some(source) = source {
                self.line(worker, line.position, first + source, &columns, &picks);
            }
        }
        self.stencil.enter(&mut worker.block[..self.layout.len]);
    }

    /// Lays out the elements of a line inside of the border, the first of which is `from` among all images.
    fn line(
        &self,
        worker: &mut Worker<'_>,
        position: usize,
        from: usize,
        columns: &Range<usize>,
        picks: &[Pick],
    ) {
        let Worker { element, block, tile, .. } = worker;
        let axis = &self.layout.axes[self.layout.axes.len() - 1];
        let mut lay = |lanes: &[u32], picks: &[Pick]| {
            for Pick { position: in_line, inside, skip, .. } in
                picks.iter().filter(|p| !p.inside.is_empty())
            {
                let out = &mut block[position + in_line..][inside.clone()];
                stencil::pick(&lanes[*skip..], axis.phases.window.step, out);
            }
        };
        let span = |tile: &Range<usize>| {
            let (start, len) = (tile.start, tile.len());
            Span { inputs: &self.images, start, len, acc: &[] }
        };
        if let Some(words) = self.memory {
            return lay(&words[from..from + columns.len()], picks);
        }
        let mut column = columns.start;
        while column < columns.end {
            let at = from + column - columns.start;
            if !tile.contains(&at) {
                *tile = at..self.total.min(at + TILE);
                element.run(&span(tile));
            }
            let end = columns.end.min(column + tile.end - at);
            let tile_span = span(tile);
            let lanes = &element.root(0, &tile_span)[at - tile.start..][..end - column];
            lay(lanes, &axis.picks(&(column..end)));
            column = end;
        }
    }

    /// Combines the elements of the windows of a block.
    pub(super) fn combine(&self, worker: &mut Worker<'_>, image: usize, rows: usize) {
        let Worker { weight, block, out, taps, .. } = worker;
        if self.sliding.weight.is_none() {
            let last = self.layout.axes.len() - 1;
            let mut last_pass = self.last_pass.as_ref();
            for (axis, taps) in &self.passes {
                let len = if *axis < last {
                    let rows = (self.layout.cut < last).then_some(rows);
                    self.layout.positions_along(*axis, rows)
                } else {
                    if let Some(last_pass) = last_pass.take() {
                        self.lay_out_last_pass(last_pass, block, out);
                        std::mem::swap(block, out);
                    }
                    self.finished().positions(rows)
                };
                self.stencil.run(block, len, taps, out);
                std::mem::swap(block, out);
            }
            if let Some(last_pass) = last_pass {
                self.lay_out_last_pass(last_pass, block, out);
                std::mem::swap(block, out);
            }
            return std::mem::swap(block, out);
        }
        taps.clear();
        for (piece, positions) in self.taps.chunks(TILE).enumerate() {
            let start = image * self.taps.len() + piece * TILE;
            let span = Span { inputs: &self.weights, start, len: positions.len(), acc: &[] };
            weight.run(&span);
            let weights = weight.root(0, &span).iter();
            taps.extend(positions.iter().zip(weights).map(|(&at, &weight)| Tap { at, weight }));
        }
        self.stencil.run(block, self.layout.positions(rows), taps, out);
    }

    /// Lays out the stride phases of the last axis, once the outer axes are reduced.
    fn lay_out_last_pass(&self, last_pass: &Layout, block: &[u32], out: &mut [u32]) {
        let Some((last, outer)) = last_pass.axes.split_last() else { return };
        let picks = last.picks(&(0..last.phases.window.extent(last.count)));
        for line in 0..outer.iter().map(|axis| axis.count).product() {
            // The only line along an axis of blocks that is the last begins both blocks.
            let (from, to) = match outer.len() == last_pass.cut {
                true => (0, 0),
                false => (self.layout.line(line), last_pass.line(line)),
            };
            for Pick { position, inside, skip, .. } in &picks {
                let out = &mut out[to + position..][inside.clone()];
                stencil::pick(&block[from + skip..], last.phases.window.step, out);
            }
        }
    }

    /// Writes `len` results of a block, from the part's element `done` on.
    pub(super) fn write(
        &self,
        worker: &mut Worker<'_>,
        part: &mut OutputPart<'_>,
        done: usize,
        len: usize,
    ) {
        if part.outputs.len() == 1 && part.outputs[0].0.is_word() {
            let out = part.words(0, done, len);
            self.finished().gather(&worker.out, 0, out);
            self.stencil.leave(out);
            return self.epilogue.finish_in_place(&mut worker.after, part, done, len);
        }
        let mut acc = [0; TILE];
        for from in (0..len).step_by(TILE) {
            let acc = &mut acc[..TILE.min(len - from)];
            self.finished().gather(&worker.out, from, acc);
            self.stencil.leave(acc);
            let at = done + from;
            let span =
                Span { inputs: &self.epilogue.inputs, start: part.start + at, len: acc.len(), acc };
            part.write_tile(&mut worker.after, &span, at);
        }
    }
}

/// The part of a range within `len` numbers from `start` on, counted from there.
fn shifted(range: &Range<usize>, start: usize, len: usize) -> Range<usize> {
    let at = |bound: usize| bound.saturating_sub(start).min(len);
    at(range.start)..at(range.end)
}
