//! Outputs of a step, stored in their element types and shared out over threads in parts.

use std::marker::PhantomData;
use std::ops::Range;
use std::slice::from_raw_parts_mut;

use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;

use super::bools::to_bools;
use super::halves::to_halves;
use crate::base::dtype::DType;
use crate::exec::HostBuffer;
use crate::exec::threads;
pub(crate) use crate::exec::threads::{for_each, for_each_if, map_each};

/// Nanoseconds of work below which one thread is done before others can help (measured on the 16 cores beside an H200).
pub(crate) const ALONE: u64 = 10_000 / threads::SMALLER as u64;
/// Nanoseconds of work that are worth a part of their own, once threads are awake.
const PART: u64 = 1_000 / threads::SMALLER as u64;
/// Flops and words moved in a nanosecond by one thread: 35 from memory, 50 from the caches.
const RATE: u64 = 40;
/// Nanoseconds of work that are worth a part of their own, where another thread spins for it. To begin and end with it
/// takes some 400 ns.
const SHORT_PART: u64 = 500_u64.div_ceil(threads::SMALLER as u64);

/// Returns the number of parts into which work of `cost` flops and moved words is cut.
pub(crate) fn parts(cost: u64) -> usize {
    if cost < ALONE * RATE {
        return 1;
    }
    // Several parts a thread let a late thread leave its parts to the others.
    let most = match threads::count() {
        1 => 1,
        threads => 8 * threads,
    };
    usize::try_from(cost / (PART * RATE)).unwrap_or(most).clamp(1, most)
}

/// As [`parts`], for work whose results do not depend on how it is cut. Helpers that spin share short work too.
pub(crate) fn parts_with_spinning_helpers(cost: u64) -> usize {
    if cost < ALONE * RATE { threads::short_parts(cost / RATE, SHORT_PART) } else { parts(cost) }
}

/// The ranges of at most `most` that cover `0..len`, one after the other.
pub(crate) fn ranges(len: usize, most: usize) -> impl Iterator<Item = Range<usize>> + Clone {
    (0..len).step_by(most.max(1)).map(move |start| start..len.min(start + most))
}

/// Returns the rows of a block, at most `most`, with which the busiest of `threads` threads has the least to do. `count`
/// images of `all` rows are cut into such blocks, each of which takes as long as its rows and `border` more.
pub(crate) fn rows_of_blocks(
    [all, most]: [usize; 2],
    border: usize,
    count: usize,
    threads: usize,
) -> usize {
    let busiest = |&rows: &usize| {
        let blocks = count * all.div_ceil(rows);
        blocks.div_ceil(threads) * (rows + border)
    };
    // The highest of those that are as good.
    (1..=most).rev().min_by_key(busiest).unwrap_or(1)
}

/// A range of every output of a step.
pub(crate) struct OutputPart<'a> {
    pub start: usize,
    pub len: usize,
    /// The bytes of the range, by output.
    pub outputs: SmallVec<[(DType, &'a mut [u8]); 2]>,
}

/// Outputs that several threads write to at once, each in ranges of its own.
pub(crate) struct SharedOutputs<'a> {
    outputs: SmallVec<[(DType, *mut u8); 2]>,
    len: usize,
    borrow: PhantomData<&'a mut [u8]>,
}

// SAFETY: the value stands for borrowed bytes, and callers of `part` keep their ranges apart.
unsafe impl Sync for SharedOutputs<'_> {}

impl<'a> SharedOutputs<'a> {
    /// Shares `outputs`, which are equally long.
    pub fn new(outputs: &'a mut [HostBuffer]) -> Self {
        let len = outputs.iter().map(HostBuffer::len).min().unwrap_or(0);
        let starts = outputs.iter_mut().map(|out| (out.dtype(), out.bytes_mut().as_mut_ptr()));
        Self { outputs: starts.collect(), len, borrow: PhantomData }
    }

    pub fn len(&self) -> usize {
        self.len
    }

    /// Address of the first byte of output `index`.
    pub fn start(&self, index: usize) -> *mut u8 {
        self.outputs[index].1
    }

    /// Returns `len` elements of each output, from the one at `start` on.
    ///
    /// # Safety
    /// Nothing else reads or writes these elements while the part lives.
    pub unsafe fn part(&self, start: usize, len: usize) -> OutputPart<'_> {
        assert!(start.checked_add(len).is_some_and(|end| end <= self.len));
        let part = |&(dtype, all): &(DType, *mut u8)| {
            let size = dtype.size();
            // SAFETY: the output has at least `self.len` elements, and the caller keeps others away from this range.
            (dtype, unsafe { from_raw_parts_mut(all.add(start * size), len * size) })
        };
        OutputPart { start, len, outputs: self.outputs.iter().map(part).collect() }
    }
}

/// Cuts `outputs`, which are equally long, into at most `parts` parts of whole `unit`s.
pub(crate) fn split(outputs: &mut [HostBuffer], parts: usize, unit: usize) -> Vec<OutputPart<'_>> {
    let len = outputs.first().map_or(0, HostBuffer::len);
    let per = len.div_ceil(parts.max(1)).next_multiple_of(unit.max(1)).max(1);
    let all = outputs.iter_mut().map(|output| (output.dtype(), output.bytes_mut()));
    OutputPart { start: 0, len, outputs: all.collect() }.cut(per)
}

/// Calls `work`, of `cost` flops and moved words in all, for each part of `outputs`, as [`for_each`] does. Parts are whole
/// `unit`s.
pub(crate) fn for_each_part<S>(
    outputs: &mut [HostBuffer],
    cost: u64,
    unit: usize,
    init: impl Fn() -> S + Sync + Send,
    work: impl Fn(&mut S, OutputPart<'_>) + Sync + Send,
) {
    for_each(split(outputs, parts(cost), unit), init, work);
}

fn store(dtype: DType, lanes: &[u32], bytes: &mut [u8]) {
    match dtype {
        DType::F32 | DType::I32 | DType::U32 => bytes.copy_from_slice(cast_slice(lanes)),
        DType::F16 => to_halves(cast_slice(lanes), cast_slice_mut(bytes)),
        DType::Bool => to_bools(lanes, bytes),
    }
}

/// Returns `len` words, from the one at `at` on.
pub(crate) fn words(bytes: &mut [u8], at: usize, len: usize) -> &mut [u32] {
    cast_slice_mut(&mut bytes[4 * at..4 * (at + len)])
}

impl<'a> OutputPart<'a> {
    /// Cuts the part into pieces of `per` elements, of which the last may be shorter.
    pub fn cut(self, per: usize) -> Vec<Self> {
        if (1..=per).contains(&self.len) {
            return vec![self];
        }
        let Self { start, len, outputs } = self;
        let piece =
            |at| Self { start: start + at, len: per.min(len - at), outputs: SmallVec::new() };
        let mut pieces: Vec<Self> = (0..len).step_by(per).map(piece).collect();
        for (dtype, bytes) in outputs {
            for (piece, bytes) in pieces.iter_mut().zip(bytes.chunks_mut(per * dtype.size())) {
                piece.outputs.push((dtype, bytes));
            }
        }
        pieces
    }

    /// Returns `len` elements of output `index` from the one at `at` in the part on. The elements are words.
    pub fn words(&mut self, index: usize, at: usize, len: usize) -> &mut [u32] {
        words(self.outputs[index].1, at, len)
    }

    /// Stores `lanes` as the elements of output `index` from the one at `at` in the part on.
    pub fn store(&mut self, index: usize, at: usize, lanes: &[u32]) {
        let (dtype, bytes) = &mut self.outputs[index];
        let range = at * dtype.size()..(at + lanes.len()) * dtype.size();
        store(*dtype, lanes, &mut bytes[range]);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LEN: usize = 203;

    fn outputs() -> [HostBuffer; 2] {
        [DType::U32, DType::F16].map(|dtype| HostBuffer::try_zeroed(dtype, LEN).unwrap())
    }

    #[test]
    fn threads_write_to_ranges_of_their_own() {
        const RANGE: usize = 7;
        let mut outputs = outputs();
        let shared = SharedOutputs::new(&mut outputs);
        let write = |thread: usize| {
            for start in (thread * RANGE..LEN).step_by(3 * RANGE) {
                // SAFETY: each thread has every third range.
                let part = unsafe { shared.part(start, RANGE.min(LEN - start)) };
                for (_, bytes) in part.outputs {
                    bytes.iter_mut().for_each(|byte| *byte += 1 + thread as u8);
                }
            }
        };
        std::thread::scope(|scope| {
            for thread in 0..3 {
                scope.spawn(move || write(thread));
            }
        });
        for output in outputs {
            let mut bytes = output.bytes().iter().enumerate();
            let size = output.dtype().size();
            assert!(bytes.all(|(at, &byte)| usize::from(byte) == 1 + at / size / RANGE % 3));
        }
    }

    #[test]
    #[should_panic(expected = "end <= self.len")]
    fn no_range_reaches_beyond_the_outputs() {
        let mut outputs = outputs();
        let shared = SharedOutputs::new(&mut outputs);
        // SAFETY: nobody else uses these outputs.
        let _chunk = unsafe { shared.part(LEN - 3, 4) };
    }
}
