//! Row forms over lengths, views and types.

use super::case::{Case, Maker, row_major, straight, view};
use super::{check, targets};
use crate::base::dtype::{DType, Ty};
use crate::base::shape::View;
use crate::cost::Limits;
use crate::ops::RowKind;
use crate::plan::{Form, RowForm, Space};

/// A row form of 2x over `outer ++ [len]`, with its result scaled by a vector of `len`.
fn case(kind: RowKind, dtype: DType, dims: &[usize], views: [View; 2], parts: usize) -> Case {
    let [x_view, out_view] = views;
    let elements = dims.iter().product();
    let mut make = Maker::default();
    let x = make.input(dtype, &[elements], Space::Main, x_view);
    let prologue = (make.expr.handle(x) * 2.0).r();
    let epsilon = kind.def().has_epsilon.then(|| make.scalar(DType::F32, 1e-3)).map(|_| 0);
    let (outer, len) = (&dims[..dims.len() - 1], dims[dims.len() - 1]);
    let gamma = make.value(dtype, &[len]);
    let strides: Vec<i64> = outer.iter().map(|_| 0).chain([1]).collect();
    let gamma = make.load(gamma, Space::Main, view(dims, &strides, 0));
    let acc = make.expr.acc(dtype.lane()).r();
    let root = (make.expr.handle(acc) * make.expr.handle(gamma)).r();
    make.output_through(dtype, &[elements], root, out_view.clone());
    make.output_through(DType::F32, &[elements], acc, out_view);
    make.finish(Form::Row(RowForm { kind, outer: outer.into(), len, prologue, epsilon, parts }))
}

const LENGTHS: [usize; 19] = [
    1, 2, 4, 8, 31, 32, 33, 64, 100, 127, 256, 257, 1_000, 1_025, 4_095, 4_096, 4_097, 16_384,
    17_001,
];

#[test]
fn every_kind_at_every_length() {
    for (kind, limits) in RowKind::ALL.into_iter().flat_map(|k| targets().map(|l| (k, l))) {
        for len in LENGTHS {
            let dims = [3, len];
            let case = case(kind, DType::F32, &dims, straight(&dims), 1);
            check(&case, &limits);
        }
    }
}

#[test]
fn rows_in_parts() {
    for kind in RowKind::ALL {
        for (len, parts) in [(40, 3), (9_000, 2), (10_003, 5), (12, 11)] {
            let dims = [5, len];
            let straight = row_major(&dims);
            let across = view(&dims, &[1, 5], 0);
            for view in [straight, across] {
                let case = case(kind, DType::F32, &dims, [view.clone(), view], parts);
                check(&case, &Limits::webgpu());
            }
        }
    }
}

#[test]
fn several_rows_share_a_workgroup() {
    for limits in targets() {
        for dims in [[70, 8], [33, 100], [9, 1_024], [1_000, 3]] {
            check(&case(RowKind::Softmax, DType::F32, &dims, straight(&dims), 1), &limits);
        }
    }
}

/// NaN and infinities, in rows that are held and in rows that are streamed.
#[test]
fn rows_with_nan_and_infinities() {
    const INF: f64 = f64::INFINITY;
    // Rows that are held and rows that are walked over, with and without elements beyond whole fours.
    let lengths = [40, 259, 16_400, 16_403];
    for (limits, len) in targets().into_iter().flat_map(|l| lengths.map(|len| (l.clone(), len))) {
        let mut rows = vec![0.5; 7 * len];
        rows[3] = f64::NAN;
        rows[5 * len] = f64::NAN;
        rows[7 * len - 1] = f64::NAN;
        rows[len + len - 1] = -INF;
        rows[2 * len + 7] = INF;
        rows[3 * len..4 * len].fill(-INF);
        rows[4 * len..4 * len + len / 2].fill(-INF);
        for kind in RowKind::ALL {
            let dims = [7, len];
            let mut make = Maker::default();
            let x = make.value_of(DType::F32, &dims, rows.clone());
            let prologue = make.load(x, Space::Main, row_major(&dims));
            let epsilon = kind.def().has_epsilon.then(|| make.scalar(DType::F32, 1e-3)).map(|_| 0);
            let acc = make.expr.acc(Ty::F32).r();
            make.output(DType::F32, &dims, acc);
            let outer = [7][..].into();
            check(
                &make.finish(Form::Row(RowForm { kind, outer, len, prologue, epsilon, parts: 1 })),
                &limits,
            );
        }
    }
}

#[test]
fn every_type_and_axis() {
    for kind in RowKind::ALL {
        for dtype in [DType::F32, DType::F16] {
            for limits in targets() {
                for len in [7, 40, 2_100] {
                    // The normalised axis is the first of [len, 2, 3].
                    let dims = [2, 3, len];
                    let across = view(&dims, &[3, 1, 6], 0);
                    check(&case(kind, dtype, &dims, [across.clone(), across], 1), &limits);
                    let back = view(&dims, &[-3 * len as i64, len as i64, -1], 4 * len as i64 - 1);
                    check(&case(kind, dtype, &dims, [back, row_major(&dims)], 1), &limits);
                }
            }
        }
    }
}

#[test]
fn many_rows_across_memory_are_a_thread_each() {
    for kind in RowKind::ALL {
        let dims = [4_100, 40];
        let across = view(&dims, &[1, 4_100], 0);
        let case = case(kind, DType::F32, &dims, [across.clone(), across], 1);
        check(&case, &Limits::webgpu());
    }
}

#[test]
fn groups_past_the_limit_spill() {
    let limits = Limits { groups: 3, ..Limits::webgpu() };
    for (rows, len) in [(11, 40), (500, 5)] {
        let dims = [rows, len];
        check(&case(RowKind::Softmax, DType::F32, &dims, straight(&dims), 1), &limits);
    }
}
