//! Sorts over lengths, views and types, in each of their ways.

use super::case::{Case, Maker, row_major, view};
use super::{check, targets};
use crate::base::dtype::DType;
use crate::base::shape::View;
use crate::cost::Limits;
use crate::plan::{Form, SortForm, SortSchedule, Space};

const SELECT: SortSchedule = SortSchedule::Select { parts: 1 };
const COUNTERS: SortSchedule = SortSchedule::Digits { bits: 2, votes: false };
/// For subgroups of at least four threads.
const VOTES: SortSchedule = SortSchedule::Digits { bits: 5, votes: true };

/// A sort of `count` of each row of `outer ++ [len]`, with the elements and their positions as outputs.
fn case(
    schedule: SortSchedule,
    dtype: DType,
    dims: &[usize],
    count: usize,
    across: bool,
    descending: bool,
) -> Case {
    let (outer, len) = (&dims[..dims.len() - 1], dims[dims.len() - 1]);
    let rows: usize = outer.iter().product();
    let kept: Vec<usize> = outer.iter().copied().chain([count]).collect();
    let place = |dims: &[usize]| -> View {
        if across { view(dims, &[1, rows as i64], 0) } else { row_major(dims) }
    };
    let mut make = Maker::default();
    let prologue = make.input(dtype, &[rows * len], Space::Main, place(dims));
    let strides: Vec<i64> = outer.iter().map(|_| 0).chain([1]).collect();
    let position = make.iota(Space::Main, view(dims, &strides, 0));
    let position = make.expr.handle(position).cast(DType::U32).r();
    make.output_through(dtype, &[rows * count], prologue, place(&kept));
    make.output_through(DType::U32, &[rows * count], position, place(&kept));
    let outer = outer.into();
    make.finish(Form::Sort(SortForm { outer, len, count, dtype, prologue, descending, schedule }))
}

/// The ways of sorting that a device can take.
fn ways(limits: &Limits) -> Vec<SortSchedule> {
    let digits = if limits.subgroups.is_some() { VOTES } else { COUNTERS };
    vec![SELECT, SortSchedule::Select { parts: 3 }, digits]
}

#[test]
fn short_rows_share_workgroups() {
    for limits in targets() {
        for dims in [[1_usize, 1], [70, 8], [33, 100], [9, 257], [3, 1_024], [2, 2_048], [300, 3]] {
            for descending in [false, true] {
                let count = dims[1].div_ceil(2);
                let group = SortSchedule::Group;
                check(&case(group, DType::F32, &dims, count, false, descending), &limits);
                check(&case(group, DType::I32, &dims, dims[1], true, descending), &limits);
            }
        }
    }
}

#[test]
fn every_way_sorts_every_type() {
    for limits in targets() {
        for (round, schedule) in ways(&limits).into_iter().enumerate() {
            for (turn, dtype) in DType::ALL.into_iter().enumerate() {
                let across = (round + turn) % 2 == 0;
                check(&case(schedule, dtype, &[3, 4_999], 77, across, !across), &limits);
            }
        }
    }
}

#[test]
fn every_way_sorts_rows_of_every_length() {
    for limits in targets() {
        for schedule in ways(&limits) {
            for len in [77, 2_048, 2_049, 3_072, 3_073, 20_011] {
                check(&case(schedule, DType::F32, &[2, len], 77, false, false), &limits);
            }
        }
        let digits = ways(&limits).pop().expect("several");
        for len in [3_072, 20_011] {
            check(&case(digits, DType::U32, &[2, len], len, false, false), &limits);
        }
    }
}

/// NaN, infinities and zeros of both signs, in every way.
#[test]
fn special_values_have_their_place() {
    const INF: f64 = f64::INFINITY;
    let row = [0.0, -0.0, 1.0, f64::NAN, -INF, INF, -1.0, 0.0, -0.0, 1e-40, -f64::NAN, -1e38];
    for limits in targets() {
        for schedule in ways(&limits).into_iter().chain([SortSchedule::Group]) {
            for (descending, repeat) in [(false, 1), (true, 1), (true, 100)] {
                let len = row.len() * repeat;
                let mut sort =
                    case(schedule, DType::F32, &[2, len], len.min(100), false, descending);
                sort.data[0] = row.repeat(2 * repeat);
                check(&sort, &limits);
            }
        }
    }
}

/// All equal, in order, and backwards: the hardest rows for a selection.
#[test]
fn ordered_rows() {
    let len = 5_000;
    for limits in targets() {
        for schedule in ways(&limits) {
            for step in [-1.0, 0.0, 1.0] {
                let mut sort = case(schedule, DType::I32, &[1, len], 200, false, false);
                sort.data[0] = (0..len).map(|i| step * i as f64).collect();
                check(&sort, &limits);
            }
        }
    }
}

#[test]
fn groups_past_the_limit_spill() {
    for limits in targets() {
        let limits = Limits { groups: 3, ..limits };
        for schedule in ways(&limits) {
            check(&case(schedule, DType::U32, &[5, 4_000], 50, false, true), &limits);
        }
        check(&case(SortSchedule::Group, DType::U32, &[50, 400], 400, false, true), &limits);
    }
}

/// Without subgroups, workgroup memory stays within the limit that WebGPU guarantees.
#[test]
fn memory_of_workgroups() {
    let limits = Limits::webgpu();
    for schedule in [SortSchedule::Group, SELECT, COUNTERS] {
        let sort = case(schedule, DType::F32, &[2, 2_048], 77, false, false);
        for dispatch in super::text::validate(&sort, &limits) {
            assert!(super::text::workgroup_bytes(&dispatch.wgsl) <= limits.workgroup_bytes);
        }
    }
}
