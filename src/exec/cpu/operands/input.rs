//! Operands bound to memory, read in place or through a strided index map.

use super::data::LaneData;
use crate::base::shape::View;
use crate::exec::HostBuffer;
use crate::exec::cpu::failures::Failures;
use crate::exec::cpu::operands::strided::{Lines, StridedInput};
use crate::exec::cpu::vectors::prefetch;
use crate::plan::{OperandSource, StepOperand};

/// Cost in flops of a lane that is looked up alone, or in a short stretch.
const FETCH_FLOPS: u64 = 24;

/// An operand as a tape sees it: a sequence of lanes, in row-major order of its space.
#[derive(Debug)]
pub(crate) enum BoundInput<'a> {
    /// Lanes that lie in memory one after the other.
    Memory(&'a [u32]),
    Strided(StridedInput<'a>),
    /// A table, whose elements are looked up by position.
    Table(LaneData<'a>),
    /// The record of failures, which is written instead of read.
    Failures(&'a Failures),
}

impl<'a> BoundInput<'a> {
    /// Binds `operand`, read through `view`, which is its own view or a permutation of it. `value` is the data of its
    /// source, if the source has storage.
    pub fn bind(operand: &StepOperand, view: &View, value: Option<&'a HostBuffer>) -> Self {
        let data = match (operand.source, value) {
            (OperandSource::Value(_), Some(value)) => LaneData::of(value),
            _ => LaneData::Iota,
        };
        let clamp = operand.clamp && !view.is_inside(data.len());
        Self::through(view, data, clamp)
    }

    /// Binds the elements of `value`, read through `view`, all of which lies inside `value`.
    pub fn elements(view: &View, value: &'a HostBuffer) -> Self {
        Self::through(view, LaneData::of(value), false)
    }

    pub fn table(value: &'a HostBuffer) -> Self {
        Self::Table(LaneData::of(value))
    }

    /// Copies the lanes from `start` on to `out`.
    pub fn fetch(&self, start: usize, out: &mut [u32]) {
        match self {
            Self::Table(_) | Self::Failures(_) => {}
            Self::Memory(words) => out.copy_from_slice(&words[start..start + out.len()]),
            Self::Strided(strided) => strided.fetch(start, out),
        }
    }

    /// The lanes at `start`, at `start + pitch` and so on, `count` in all, each with those behind it in memory. All lines have one
    /// length. `None` if the lanes have to be fetched.
    pub fn lines(&self, start: usize, pitch: usize, count: usize) -> Option<Lines<'a>> {
        match self {
            Self::Table(_) | Self::Failures(_) => None,
            Self::Memory(words) => {
                let line = |k: usize| &words[start + k * pitch..][..pitch - start % pitch];
                Some((0..count).map(line).collect())
            }
            Self::Strided(strided) => strided.lines(start, pitch, count),
        }
    }

    /// Copies the first lane of each of `out.len()` stretches of `len` lanes, from stretch `first` on.
    pub fn fetch_stretches(&self, first: usize, len: usize, out: &mut [u32]) {
        if let Self::Strided(strided) = self {
            strided.fetch_stretches(first, len, out);
        }
    }

    /// Number of neighbouring lanes that hold the same element, since the innermost stride is 0. It divides the number of
    /// all lanes.
    pub fn repeats(&self) -> usize {
        match self {
            Self::Strided(strided) => strided.repeats(),
            Self::Memory(_) | Self::Table(_) | Self::Failures(_) => 1,
        }
    }

    /// Number of lanes of a row, if all rows are the same and there is more than one.
    pub fn period(&self) -> Option<usize> {
        match self {
            Self::Strided(strided) => strided.period(),
            Self::Memory(_) | Self::Table(_) | Self::Failures(_) => None,
        }
    }

    /// The distance between neighbours within stretches of `len` lanes. `None` unless all stretches have one distance, and
    /// the operand counts positions.
    pub fn stride_in_stretches(&self, len: usize) -> Option<i64> {
        match self {
            Self::Strided(strided) => strided.stride_in_stretches(len),
            Self::Memory(_) | Self::Table(_) | Self::Failures(_) => None,
        }
    }

    /// Cost of one lane, in flops or words moved.
    pub fn cost(&self) -> u64 {
        match self {
            Self::Memory(_) | Self::Failures(_) => 1,
            Self::Strided(strided) if !strided.is_costly() => 1,
            Self::Strided(_) | Self::Table(_) => FETCH_FLOPS,
        }
    }

    /// Hints that up to `len` lanes from `start` on will be read.
    pub fn fetch_ahead(&self, start: usize, len: usize) {
        if let Self::Memory(words) = self {
            let range = start.min(words.len())..(start + len).min(words.len());
            prefetch::read(&words[range]);
        }
    }

    fn through(view: &View, data: LaneData<'a>, clamp: bool) -> Self {
        if let (LaneData::Words(words), false, Some(len)) = (data, clamp, view.one_run())
            && let Some(words) = words.get(view.offset as usize..view.offset as usize + len)
        {
            return Self::Memory(words);
        }
        Self::Strided(StridedInput::new(view, data, clamp))
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
            BoundInput::elements(&view(dims, strides, 0), &data).cost()
        };
        assert_eq!([cost(&[10_000], &[1]), cost(&[9, 100], &[0, 1]), cost(&[7], &[0])], [1; 3]);
        assert_eq!([cost(&[100, 100], &[1, 100]), cost(&[9, 30], &[100, 1])], [FETCH_FLOPS; 2]);
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
            view(&[3, 5, 2], &[20, 1, 61], 2),
            view(&[4, 9, 2], &[7, 1, -20], 40),
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
                    BoundInput::elements(view, &data).fetch(start, &mut got);
                    let want = want[start..start + len].iter().map(|&i| data.words()[i as usize]);
                    assert!(want.eq(got.iter().copied()), "{view:?} from {start}");
                }
            }
        }
    }
}
