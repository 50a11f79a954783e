//! The lines of a block of images, copied with their borders.

use std::ops::Range;

use multiversion::multiversion;

use crate::exec::cpu::vectors::prefetch;

/// Elements of a copy of a fixed size.
const CHUNK: usize = 16;

/// The part of a line that goes to a stride phase.
pub(super) struct LinePart {
    pub to: usize,
    /// The elements inside of the border, and the position of the first in memory.
    pub inside: Range<usize>,
    pub from: i64,
}

/// The lines of a block of a channel.
pub(super) struct Lines<'l> {
    pub parts: &'l [LinePart],
    pub pitch: usize,
    pub data: &'l [f32],
    /// The distance between neighbouring elements in memory.
    pub stride: i64,
    pub border: f32,
}

/// Lays out the lines of a channel, whose elements lie `S` apart, or any distance where `S` is 0. `block` has a chunk of
/// room behind the channel. `channel` and `next` are the offsets of this channel and of the one after it. Whole chunks of
/// `next` are prefetched, since the processor does not foresee so long a distance: eight images of 32 channels of 128² are
/// laid out in half of the time.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
pub(super) fn lay_lines<const S: usize>(
    lines: &Lines<'_>,
    [channel, next]: [i64; 2],
    block: &mut [f32],
) {
    let &Lines { parts, pitch, data, stride, border } = lines;
    for LinePart { to, inside, from } in parts {
        let out = &mut block[*to..];
        // Elements written beyond a part are overwritten by the next part, or lie behind the channel.
        for at in (0..inside.start).step_by(CHUNK) {
            put(out, at, [border; CHUNK]);
        }
        let first = from + channel;
        for at in (0..inside.len()).step_by(CHUNK) {
            let start = (first + at as i64 * stride) as usize;
            let picked = match S {
                1 => chunk::<CHUNK>(data, start).copied(),
                2 => chunk::<{ 2 * CHUNK }>(data, start).map(halved),
                _ => None,
            };
            if let Some(picked) = picked {
                let ahead = data.as_ptr().wrapping_offset((next - channel) as isize);
                for part in 0..S {
                    prefetch::line(ahead.wrapping_add(start + part * CHUNK).cast());
                }
                put(out, inside.start + at, picked);
                continue;
            }
            for i in at..inside.len().min(at + CHUNK) {
                out[inside.start + i] = data[(first + i as i64 * stride) as usize];
            }
        }
        for at in (inside.end..pitch).step_by(CHUNK) {
            put(out, at, [border; CHUNK]);
        }
    }
}

/// The `N` elements from `at` on, if there are as many.
#[inline(always)]
fn chunk<const N: usize>(data: &[f32], at: usize) -> Option<&[f32; N]> {
    data.get(at..)?.first_chunk()
}

/// Sets the elements from `at` on, all of which exist.
#[inline(always)]
fn put(out: &mut [f32], at: usize, elements: [f32; CHUNK]) {
    *out[at..].first_chunk_mut().expect("a block has room behind its last channel") = elements;
}

/// Every second element.
#[inline(always)]
fn halved(elements: &[f32; 2 * CHUNK]) -> [f32; CHUNK] {
    std::array::from_fn(|i| elements[2 * i])
}

/// Copies the first `width` elements of rows that lie `pitch` apart, one row after the other.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2", "x86_64+avx2"))]
pub(crate) fn copy_rows(rows: &[f32], pitch: usize, width: usize, out: &mut [f32]) {
    let count = out.len() / width.max(1);
    for row in 0..count {
        let (from, to) = (row * pitch, row * width);
        for at in (0..width).step_by(CHUNK) {
            // Elements written beyond a row are overwritten by the next.
            let target = out[to + at..].first_chunk_mut::<CHUNK>();
            if let (Some(rows), Some(out)) = (chunk(rows, from + at), target) {
                *out = *rows;
                continue;
            }
            let rest = at..width.min(at + CHUNK);
            for (out, row) in out[to..][rest.clone()].iter_mut().zip(&rows[from..][rest]) {
                *out = *row;
            }
        }
    }
}
