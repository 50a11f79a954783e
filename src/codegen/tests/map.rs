//! Maps over element types and views.

use super::case::{Maker, row_major, view};
use super::{check, targets};
use crate::base::dtype::DType;
use crate::base::shape::View;
use crate::cost::Limits;
use crate::plan::{Form, Space};

/// x + x·y over dims, with y through a view.
#[track_caller]
fn check_map(dtype: DType, dims: &[usize], y_shape: &[usize], y_view: &View) {
    for limits in targets() {
        let mut make = Maker::default();
        let (x, y) = (make.value(dtype, dims), make.value(dtype, y_shape));
        let x = make.load(x, Space::Main, row_major(dims));
        let y = make.load(y, Space::Main, y_view.clone());
        let root = {
            let (x, y) = (make.expr.handle(x), make.expr.handle(y));
            if dtype == DType::Bool { x.and(!y).r() } else { (x + x * y).r() }
        };
        make.output(dtype, dims, root);
        check(&make.finish(Form::map(dims)), &limits);
    }
}

#[test]
fn maps_take_every_type_and_view() {
    for dtype in DType::ALL {
        check_map(dtype, &[8, 12], &[8, 12], &row_major(&[8, 12]));
        check_map(dtype, &[7, 3], &[7, 3], &row_major(&[7, 3]));
        check_map(dtype, &[7, 12], &[12], &view(&[7, 12], &[0, 1], 0));
        check_map(dtype, &[7, 12], &[7], &view(&[7, 12], &[1, 0], 0));
        check_map(dtype, &[7, 12], &[1], &view(&[7, 12], &[0, 0], 0));
        check_map(dtype, &[7, 12], &[12, 7], &view(&[7, 12], &[1, 7], 0));
        check_map(dtype, &[7, 12], &[7, 12], &view(&[7, 12], &[-12, -1], 83));
        check_map(dtype, &[3, 5, 6], &[90], &view(&[3, 5, 6], &[1, 18, 3], 0));
        check_map(dtype, &[8, 4], &[70], &view(&[8, 4], &[4, 1], 3));
        check_map(dtype, &[8, 4], &[8, 4], &view(&[8, 4], &[-4, 1], 28));
        check_map(dtype, &[1], &[1], &row_major(&[1]));
        check_map(dtype, &[], &[], &row_major(&[]));
    }
}

#[test]
fn a_rest_of_fewer_than_four_is_written_and_no_more() {
    for count in [1, 2, 3, 5, 1_021, 1_023, 4_095, 4_097] {
        for dtype in DType::ALL {
            check_map(dtype, &[count], &[count], &row_major(&[count]));
        }
    }
    for dtype in DType::ALL {
        check_map(dtype, &[37, 33], &[33], &view(&[37, 33], &[0, 1], 0));
        check_map(dtype, &[37, 33], &[37], &view(&[37, 33], &[1, 0], 0));
        check_map(dtype, &[37, 33], &[1], &view(&[37, 33], &[0, 0], 0));
        check_map(dtype, &[37, 33], &[37, 33], &view(&[37, 33], &[-33, -1], 37 * 33 - 1));
        check_map(dtype, &[1_021], &[1_023], &view(&[1_021], &[1], 1));
    }
}

#[test]
fn transposed_operands_go_through_tiles() {
    for dtype in DType::ALL {
        check_map(dtype, &[16, 16], &[256], &view(&[16, 16], &[1, 16], 0));
        check_map(dtype, &[65, 33], &[33, 65], &view(&[65, 33], &[1, 65], 0));
        check_map(dtype, &[40, 100], &[100, 40], &view(&[40, 100], &[1, 40], 0));
        check_map(dtype, &[3, 33, 40], &[3_960], &view(&[3, 33, 40], &[1_320, 1, 33], 0));
        check_map(dtype, &[33, 3, 40], &[3_960], &view(&[33, 3, 40], &[1, 33, 99], 0));
        check_map(dtype, &[33, 34], &[33, 34], &view(&[33, 34], &[-1, -33], 1_121));
        check_map(dtype, &[31, 32], &[32], &view(&[31, 32], &[1, 0], 0));
    }
}

#[test]
fn operands_cross_along_several_axes() {
    let (dims, count) = ([33, 34, 35], 33 * 34 * 35);
    let views = [
        view(&dims, &[1, 33 * 35, 33], 0),
        view(&dims, &[34, 1, 33 * 34], 0),
        view(&dims, &[1, 33, 33 * 34], 0),
        view(&dims, &[34 * 35, 1, 34], 0),
        view(&dims, &[1, 0, 33], -2),
        view(&dims, &[1, 33 * 35, 33], 0),
    ];
    for limits in targets().into_iter().chain([Limits { groups: 3, ..Limits::webgpu() }]) {
        let mut make = Maker::default();
        let loads: Vec<_> = views
            .iter()
            .map(|view| {
                let x = make.value(DType::I32, &[count]);
                make.operand(x, Space::Main, view.clone(), view.offset < 0)
            })
            .collect();
        let handles = loads.iter().map(|&r| make.expr.handle(r));
        let sum = handles.reduce(|a, b| a * 3.0 + b).unwrap().r();
        make.output(DType::I32, &dims, sum);
        make.output(DType::I32, &dims, loads[1]);
        check(&make.finish(Form::map(&dims)), &limits);
    }
}

#[test]
fn halves_alone_are_taken_two_vectors_at_a_time() {
    for count in [3, 8, 1_020, 1_024, 1_028, 2_047, 2_048, 5_000] {
        let limits = Limits { f16: true, ..Limits::webgpu() };
        let mut make = Maker::default();
        let x = make.input(DType::F16, &[count], Space::Main, row_major(&[count]));
        let root = (make.expr.handle(x) + 1.0).r();
        make.output(DType::F16, &[count], root);
        check(&make.finish(Form::map(&[count])), &limits);
    }
}

#[test]
fn a_buffer_read_in_fours_and_in_ones_is_bound_once() {
    for limits in targets() {
        let dims = [6, 8];
        let mut make = Maker::default();
        let x = make.value(DType::F16, &dims);
        let straight = make.load(x, Space::Main, row_major(&dims));
        let back = make.load(x, Space::Main, view(&dims, &[8, -1], 7));
        let (a, b) = (make.expr.handle(straight), make.expr.handle(back));
        let root = (a - b).r();
        make.output(DType::F16, &dims, root);
        check(&make.finish(Form::map(&dims)), &limits);
    }
}

/// A concatenation of `a` and `b` as the planner writes it: both are read everywhere, with clamped
/// indices, and the coordinate tells whose element counts.
#[track_caller]
fn check_concat(a_len: usize, b_len: usize) {
    for limits in targets() {
        let dims = [a_len + b_len];
        let mut make = Maker::default();
        let (a, b) = (make.value(DType::F32, &[a_len]), make.value(DType::F32, &[b_len]));
        let a = make.operand(a, Space::Main, row_major(&dims), true);
        let b = make.operand(b, Space::Main, view(&dims, &[1], -(a_len as i64)), true);
        let i = make.iota(Space::Main, row_major(&dims));
        let handle = |r| make.expr.handle(r);
        let root = handle(i).lt(a_len as f64).select(handle(a), handle(b), handle(a)).r();
        make.output(DType::F32, &dims, root);
        make.output(DType::F32, &dims, a);
        make.output(DType::F32, &dims, b);
        check(&make.finish(Form::map(&dims)), &limits);
    }
}

#[test]
fn clamped_views_may_point_outside() {
    check_concat(5, 6);
    check_concat(8, 4);
    check_concat(0, 4);
    check_concat(3, 0);
}

#[test]
fn a_map_has_several_outputs_of_several_types() {
    for (limits, dims) in targets().into_iter().flat_map(|l| [(l.clone(), [3, 5]), (l, [4, 4])]) {
        let mut make = Maker::default();
        let x = make.input(DType::F32, &dims, Space::Main, row_major(&dims));
        let i = make.iota(Space::Main, view(&dims, &[0, -3], 10));
        let factor = make.scalar(DType::F32, -1.5);
        let flag = make.scalar(DType::Bool, 1.0);
        let (x, i) = (make.expr.handle(x), make.expr.handle(i));
        let (factor, flag) = (make.expr.handle(factor), make.expr.handle(flag));
        let roots = [
            (DType::F32, (x * factor).r()),
            (DType::F16, (x * factor).cast(DType::F16).r()),
            (DType::I32, i.cast(DType::I32).r()),
            (DType::U32, x.cast(DType::I32).cast(DType::U32).r()),
            (DType::Bool, x.lt(0.0).and(flag).r()),
        ];
        for (dtype, root) in roots {
            make.output(dtype, &dims, root);
        }
        check(&make.finish(Form::map(&dims)), &limits);
    }
}

#[test]
fn groups_past_the_limit_spill_into_other_dimensions() {
    for (count, groups) in [(5_000, 2), (4_096, 3), (20_001, 2)] {
        let limits = Limits { groups, ..Limits::webgpu() };
        let mut make = Maker::default();
        let x = make.input(DType::F32, &[count], Space::Main, row_major(&[count]));
        let root = (make.expr.handle(x) + 1.0).r();
        make.output(DType::F32, &[count], root);
        check(&make.finish(Form::map(&[count])), &limits);
    }
}

#[test]
fn literals_are_exact() {
    let numbers = [0.0, -0.0, 1.0e-45, -3.402_823_5e38, 0.1, f64::INFINITY, f64::NAN];
    let mut make = Maker::default();
    let x = make.value_of(DType::F32, &[3], vec![1.0, 2.0, 3.0]);
    let x = make.load(x, Space::Main, row_major(&[3]));
    let i = make.iota(Space::Main, row_major(&[3]));
    for number in numbers {
        let (x, literal) = (make.expr.handle(x), make.expr.handle(x).literal(number));
        let root = x.lt(2.0).select(literal, literal, x).r();
        make.output(DType::F32, &[3], root);
    }
    let least = make.expr.handle(i).literal(-2_147_483_648.0).r();
    make.output(DType::I32, &[3], least);
    check(&make.finish(Form::map(&[3])), &Limits::webgpu());
}

#[test]
fn nothing_to_write_is_no_dispatch() {
    let mut make = Maker::default();
    let x = make.input(DType::F32, &[0, 4], Space::Main, row_major(&[0, 4]));
    make.output(DType::F32, &[0, 4], x);
    let case = make.finish(Form::map(&[0, 4]));
    assert!(case.lower(&Limits::webgpu()).is_empty());
}

/// The upper words of products, from 16-bit halves and from 64-bit integers.
#[test]
fn products_of_words() {
    let words =
        [0, 1, 2, 0xffff, 0x1_0000, 0x1_0001, 0x7fff_ffff, 0x8000_0000, 0xd251_1f53, u32::MAX];
    let pairs: Vec<(u32, u32)> =
        words.iter().flat_map(|&x| words.iter().map(move |&y| (x, y))).collect();
    let dims = [pairs.len()];
    for int64 in [false, true] {
        let mut make = Maker::default();
        let [x, y] = [
            pairs.iter().map(|pair| f64::from(pair.0)).collect::<Vec<_>>(),
            pairs.iter().map(|pair| f64::from(pair.1)).collect(),
        ]
        .map(|data| {
            let value = make.value_of(DType::U32, &dims, data);
            make.load(value, Space::Main, row_major(&dims))
        });
        let (x, y) = (make.expr.handle(x), make.expr.handle(y));
        let [high, bits, half] = [x.mul_high(y).r(), x.xor(y).r(), x.shr(7.0).r()];
        make.output(DType::U32, &dims, high);
        make.output(DType::U32, &dims, bits);
        make.output(DType::U32, &dims, half);
        let case = make.finish(Form::map(&dims));
        check(&case, &Limits { int64, ..Limits::webgpu() });
    }
}
