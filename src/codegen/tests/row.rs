//! Row forms over lengths, views and types.

use super::case::{Case, Maker, row_major, view};
use super::{check, targets};
use crate::cost::Limits;
use crate::dtype::DType;
use crate::ops::RowKind;
use crate::plan::{Form, Space};
use crate::shape::View;

/// A row form of 2x over `outer ++ [len]`, with its result scaled by a vector of `len`.
fn case(kind: RowKind, dtype: DType, dims: &[usize], x_view: View, out_view: View) -> Case {
    let elements = dims.iter().product();
    let mut make = Maker::default();
    let x = make.value(dtype, &[elements]);
    let x = make.load(x, Space::Main, x_view);
    let prologue = (make.expr.handle(x) * 2.0).r();
    let epsilon = kind.has_epsilon().then(|| make.scalar(DType::F32, 1e-3)).map(|_| 0);
    let (outer, len) = (&dims[..dims.len() - 1], dims[dims.len() - 1]);
    let gamma = make.value(dtype, &[len]);
    let strides: Vec<i64> = outer.iter().map(|_| 0).chain([1]).collect();
    let gamma = make.load(gamma, Space::Main, view(dims, &strides, 0));
    let acc = make.expr.acc(dtype.lane()).r();
    let root = (make.expr.handle(acc) * make.expr.handle(gamma)).r();
    make.output_through(dtype, &[elements], root, out_view.clone());
    make.output_through(DType::F32, &[elements], acc, out_view);
    make.finish(Form::Row { kind, outer: outer.into(), len, prologue, epsilon })
}

#[test]
fn every_kind_at_every_length() {
    for kind in RowKind::ALL {
        for len in [1, 2, 31, 32, 33, 64, 100, 256, 257, 1_000, 1_025, 4_096, 4_097, 5_000] {
            let dims = [3, len];
            let case = case(kind, DType::F32, &dims, row_major(&dims), row_major(&dims));
            check(&case, &Limits::webgpu());
        }
    }
}

#[test]
fn every_type_and_axis() {
    for kind in RowKind::ALL {
        for dtype in [DType::F32, DType::F16] {
            for limits in targets() {
                for len in [7, 40, 4_100] {
                    // The normalised axis is the first of [len, 2, 3].
                    let dims = [2, 3, len];
                    let across = view(&dims, &[3, 1, 6], 0);
                    check(&case(kind, dtype, &dims, across.clone(), across), &limits);
                    let back = view(&dims, &[-3 * len as i64, len as i64, -1], 4 * len as i64 - 1);
                    check(&case(kind, dtype, &dims, back, row_major(&dims)), &limits);
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
        let case = case(kind, DType::F32, &dims, across.clone(), across);
        check(&case, &Limits::webgpu());
    }
}

#[test]
fn groups_past_the_limit_spill() {
    let limits = Limits { groups: 3, ..Limits::webgpu() };
    for (rows, len) in [(11, 40), (500, 5)] {
        let dims = [rows, len];
        check(
            &case(RowKind::Softmax, DType::F32, &dims, row_major(&dims), row_major(&dims)),
            &limits,
        );
    }
}
