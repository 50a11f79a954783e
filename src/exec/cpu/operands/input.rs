//! Operands bound to memory: read where they lie, or fetched by a strided index map.

use super::data::Data;
use super::prefetch;
use crate::base::shape::View;
use crate::exec::HostBuffer;
use crate::exec::cpu::failures::Failures;
use crate::exec::cpu::operands::strided::Gather;
use crate::plan::{Operand, Source};

/// What a lane costs that is looked up alone, or in a run of few, in flops.
const FETCHED: u64 = 24;

/// An operand as a tape sees it: a sequence of lanes, in row-major order of its space.
#[derive(Debug)]
pub(in crate::exec::cpu) enum Input<'a> {
    /// The lanes lie in memory one after the other.
    Memory(&'a [u32]),
    Gather(Gather<'a>),
    /// Elements that are fetched by their positions.
    Table(Data<'a>),
    /// Not read: where failures are told.
    Failures(&'a Failures),
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
        let gather = Gather::new(view, data, clamp);
        gather.words().map_or(Self::Gather(gather), Self::Memory)
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
}
