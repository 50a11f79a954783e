//! Scans over lengths, views, types and parts.

use super::case::{Case, Maker, row_major, straight, view};
use super::{check, targets};
use crate::base::dtype::DType;
use crate::base::shape::View;
use crate::cost::Limits;
use crate::ops::Combine;
use crate::plan::{Form, ScanForm, Space};

/// A scan of x + 1 over `outer ++ [len]`, and twice of it.
fn case(combine: Combine, dtype: DType, dims: &[usize], views: [View; 2], parts: usize) -> Case {
    let elements = dims.iter().product();
    let mut make = Maker::default();
    let x = make.value(dtype, &[elements]);
    let [x_view, out_view] = views;
    let x = make.load(x, Space::Main, x_view);
    let prologue = (make.expr.handle(x) + 1.0).r();
    let acc = make.expr.acc(dtype.lane()).r();
    let twice = (make.expr.handle(acc) * 2.0).r();
    make.output_through(dtype, &[elements], acc, out_view.clone());
    make.output_through(dtype, &[elements], twice, out_view);
    let (outer, len) = (dims[..dims.len() - 1].into(), dims[dims.len() - 1]);
    make.finish(Form::Scan(ScanForm { combine, outer, len, prologue, parts }))
}

const COMBINES: [Combine; 3] = [Combine::Sum, Combine::Max, Combine::Min];

#[test]
fn rows_of_every_length() {
    for limits in targets() {
        for combine in COMBINES {
            for len in [1, 2, 3, 4, 8, 31, 33, 64, 127, 257, 1_000, 1_025, 4_096, 4_099] {
                let dims = [3, len];
                check(&case(combine, DType::F32, &dims, straight(&dims), 1), &limits);
            }
        }
    }
}

#[test]
fn rows_in_parts() {
    for limits in targets() {
        for (len, parts) in [(40, 3), (9_000, 2), (10_003, 5), (12, 11)] {
            let dims = [5, len];
            let across = view(&dims, &[1, 5], 0);
            for views in [straight(&dims), [across.clone(), across]] {
                check(&case(Combine::Sum, DType::I32, &dims, views, parts), &limits);
            }
        }
    }
}

#[test]
fn several_rows_share_a_workgroup() {
    for limits in targets() {
        for dims in [[70, 8], [33, 100], [9, 1_024], [1_000, 3]] {
            check(&case(Combine::Sum, DType::I32, &dims, straight(&dims), 1), &limits);
        }
    }
}

#[test]
fn every_type_and_axis() {
    for dtype in [DType::F32, DType::F16, DType::I32, DType::U32] {
        for limits in targets() {
            for len in [7, 40, 2_100] {
                // The scanned axis is the first of [len, 2, 3].
                let dims = [2, 3, len];
                let across = view(&dims, &[3, 1, 6], 0);
                let across = [across.clone(), across];
                check(&case(Combine::Max, dtype, &dims, across, 1), &limits);
                let back = view(&dims, &[-3 * len as i64, len as i64, -1], 4 * len as i64 - 1);
                let views = [back, row_major(&dims)];
                check(&case(Combine::Min, dtype, &dims, views, 1), &limits);
            }
        }
    }
}

#[test]
fn products_wrap() {
    let dims = [2, 9];
    let mut case = case(Combine::Prod, DType::I32, &dims, straight(&dims), 1);
    case.data[0] = (0..18).map(f64::from).collect();
    check(&case, &Limits::webgpu());
}

#[test]
fn groups_past_the_limit_spill() {
    let limits = Limits { groups: 3, ..Limits::webgpu() };
    for dims in [[11, 2_000], [500, 5]] {
        check(&case(Combine::Sum, DType::I32, &dims, straight(&dims), 2), &limits);
    }
}
