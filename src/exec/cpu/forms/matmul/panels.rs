//! Operands copied to panels, which a kernel reads in order.

use std::ops::Range;
use std::sync::Arc;

use smallvec::SmallVec;

use super::kernel::{Kernel, LineRun};
use super::operand::Matrices;
use crate::base::dtype::DType;
use crate::error::DeviceError;
use crate::exec::HostBuffer;
use crate::exec::cpu::CpuPool;
use crate::exec::cpu::operands::{for_each, parts};

/// The axes that rows, columns or k of a matrix are made of, innermost first: sizes and strides.
pub(super) type MatrixAxes = SmallVec<[(usize, isize); 4]>;

/// A matrix in memory.
pub(super) struct MatrixSource<'a> {
    pub data: &'a [f32],
    /// Position of the first element.
    pub start: isize,
    pub rows: MatrixAxes,
    pub columns: MatrixAxes,
}

/// The side of a product on which an operand stands.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Side {
    Left,
    Right,
}

/// Memory of one thread for what it copies.
#[derive(Default)]
pub(super) struct PanelScratch {
    /// Positions along k.
    offsets: Vec<isize>,
    /// Elements that were converted or computed.
    stored: Vec<f32>,
}

/// All panels of an operand, matrix by matrix and part of k by part of k.
pub(super) struct Panels {
    data: Arc<HostBuffer>,
    /// Lines of a matrix: its rows, or its columns with those that fill the last panel.
    lines: usize,
    k: usize,
}

impl Panels {
    /// Elements of the panels of `count` matrices.
    pub fn len(kernel: &Kernel, side: Side, [lines, k]: [usize; 2], count: usize) -> usize {
        side.padded(kernel, lines).saturating_mul(k).saturating_mul(count)
    }

    /// Copies the different matrices of `operand`, on all threads, to memory of `pool`.
    pub fn of(
        kernel: &Kernel,
        operand: &Matrices<'_>,
        side: Side,
        pool: &CpuPool,
    ) -> Result<Self, DeviceError> {
        let [rows, columns] = operand.size();
        let [lines, k] = if side == Side::Left { [rows, columns] } else { [columns, rows] };
        let count = operand.different();
        let len = Self::len(kernel, side, [lines, k], count);
        let (mut buffer, _) = pool.buffer(DType::F32, len)?;
        let lines = side.padded(kernel, lines);
        let unit = side.unit(kernel);
        let per = (lines * k * count).div_ceil(parts(4 * len as u64)).max(1);
        let mut tasks = Vec::new();
        let mut rest = buffer.as_slice_mut().unwrap_or_default();
        for index in 0..count {
            for from in (0..k).step_by(kernel.depth) {
                let depth = from..k.min(from + kernel.depth);
                let per = (per / depth.len()).next_multiple_of(unit).max(unit);
                for line in (0..lines).step_by(per) {
                    let lines = line..lines.min(line + per);
                    let (panels, after) = rest.split_at_mut(lines.len() * depth.len());
                    rest = after;
                    tasks.push((index, depth.clone(), lines, panels));
                }
            }
        }
        for_each(tasks, PanelScratch::default, |scratch, (index, depth, lines, panels)| {
            let index = operand.first_of(index);
            side.pack(kernel, operand, index, [depth, lines], panels, scratch);
        });
        let data = Arc::new(buffer);
        // The pool counts the memory, and reuses it once the panels are gone.
        pool.give(Arc::clone(&data));
        Ok(Self { data, lines, k })
    }

    /// The panels from `line` on, the first of its panel, for the part of k that is `depth`, of matrix `different`.
    pub fn part(&self, different: usize, depth: &Range<usize>, line: usize) -> &[f32] {
        let matrix = different * self.lines * self.k;
        let end = matrix + depth.end * self.lines;
        let data = self.data.as_slice::<f32>().unwrap_or_default();
        &data[matrix + depth.start * self.lines + line * depth.len()..end]
    }
}

impl Side {
    /// Lines of a panel.
    pub fn unit(self, kernel: &Kernel) -> usize {
        if self == Self::Left { kernel.rows } else { kernel.columns }
    }

    /// `lines` with those that fill the last panel: a panel of columns is always whole.
    pub fn padded(self, kernel: &Kernel, lines: usize) -> usize {
        if self == Self::Left { lines } else { lines.next_multiple_of(kernel.columns) }
    }

    /// Copies the elements at `depth` along k and at `lines` of matrix `index` to `panels`. Lines beyond the last column
    /// get any number.
    pub fn pack(
        self,
        kernel: &Kernel,
        operand: &Matrices<'_>,
        index: usize,
        [depth, lines]: [Range<usize>; 2],
        panels: &mut [f32],
        scratch: &mut PanelScratch,
    ) {
        let [rows, columns] = operand.size();
        let PanelScratch { offsets, stored } = scratch;
        let lines = lines.start..lines.end.min(if self == Self::Left { rows } else { columns });
        if let Some(source) = operand.source(index) {
            return self.pack_from(kernel, &source, [depth, lines], panels, offsets);
        }
        let part = if self == Self::Left { [&lines, &depth] } else { [&depth, &lines] };
        operand.copy(index, part.map(Range::clone), stored);
        let [rows, columns] = part.map(Range::len);
        let source = MatrixSource {
            data: stored,
            start: 0,
            rows: SmallVec::from_slice(&[(rows, columns as isize)]),
            columns: SmallVec::from_slice(&[(columns, 1)]),
        };
        self.pack_from(kernel, &source, [0..depth.len(), 0..lines.len()], panels, offsets);
    }

    /// As [`pack`](Self::pack), from memory.
    fn pack_from(
        self,
        kernel: &Kernel,
        source: &MatrixSource<'_>,
        [depth, lines]: [Range<usize>; 2],
        panels: &mut [f32],
        offsets: &mut Vec<isize>,
    ) {
        let MatrixSource { data, start, ref rows, ref columns } = *source;
        let (along, across) = if self == Self::Left { (columns, rows) } else { (rows, columns) };
        offsets.clear();
        offsets.extend(positions(along, depth.clone()).map(|at| start + at));
        let unit = self.unit(kernel);
        let in_order = offsets.len() < 2 || along[0] == (along[0].0, 1) && along.len() == 1;
        let by_runs = self == Self::Right && (across[0].1 == 1 || !in_order && across[0].1 > 0);
        for (panel, first) in panels.chunks_mut(unit * depth.len()).zip(lines.clone().step_by(unit))
        {
            let lines = first..lines.end.min(first + unit);
            if by_runs {
                kernel.gather(panel, data, offsets, &runs(across, lines), across[0].1 as usize);
                continue;
            }
            let width = if self == Self::Left { lines.len() } else { unit };
            for (line, at) in positions(across, lines).enumerate() {
                let panel = panel.iter_mut().skip(line).step_by(width);
                if in_order {
                    let from = (offsets[0] + at) as usize;
                    let elements = &data[from..][..depth.len()];
                    panel.zip(elements).for_each(|(to, &element)| *to = element);
                } else {
                    panel.zip(&*offsets).for_each(|(to, &k)| *to = data[(k + at) as usize]);
                }
            }
        }
    }
}

/// The positions of the indices in `range` along `axes`.
fn positions(axes: &MatrixAxes, range: Range<usize>) -> impl Iterator<Item = isize> {
    let mut coords: SmallVec<[usize; 4]> = SmallVec::new();
    let (mut rest, mut at) = (range.start, 0);
    for &(size, stride) in axes {
        coords.push(rest % size.max(1));
        at += (rest % size.max(1)) as isize * stride;
        rest /= size.max(1);
    }
    range.map(move |_| {
        let here = at;
        for (coord, &(size, stride)) in coords.iter_mut().zip(axes) {
            *coord += 1;
            at += stride;
            if *coord < size {
                break;
            }
            *coord = 0;
            at -= size as isize * stride;
        }
        here
    })
}

/// The runs along the innermost of `axes` that `lines` are made of.
fn runs(axes: &MatrixAxes, lines: Range<usize>) -> SmallVec<[LineRun; 8]> {
    let (size, _) = axes[0];
    let mut runs = SmallVec::new();
    let mut line = lines.start;
    while line < lines.end {
        let len = (size - line % size).min(lines.end - line);
        let from = positions(axes, line..line + 1).next().unwrap_or(0);
        runs.push(LineRun { to: line - lines.start, from, len });
        line += len;
    }
    runs
}
