//! The text of representative kernels, reviewed by eye.

use super::case::{Case, Maker, row_major, view};
use crate::base::dtype::{DType, Ty};
use crate::cost::Limits;
use crate::ops::{Combine, Precision, RowKind};
use crate::plan::{
    Form, ProductForm, ProductLayout, ProductSchedule, ReduceForm, ReduceLayout, ReduceSchedule,
    RowForm, Space, Tile,
};

/// All dispatches of a step as one text.
fn print(case: &Case) -> String {
    print_for(case, &Limits { f16: true, ..Limits::webgpu() })
}

fn print_for(case: &Case, limits: &Limits) -> String {
    let dispatches = super::text::validate(case, limits);
    let texts = dispatches
        .iter()
        .map(|d| format!("{} {:?} params {:?}\n{}", d.label, d.groups, d.params, d.wgsl));
    texts.collect::<Vec<_>>().join("\n")
}

#[test]
fn map_with_a_bias_row() {
    let dims = [64, 128];
    let mut make = Maker::default();
    let (x, bias) = (make.value(DType::F16, &dims), make.value(DType::F16, &[128]));
    let x = make.load(x, Space::Main, row_major(&dims));
    let bias = make.load(bias, Space::Main, view(&dims, &[0, 1], 0));
    let scale = make.scalar(DType::F32, 0.5);
    let (x, bias) = (make.expr.handle(x), make.expr.handle(bias));
    let root = ((x + bias).max(0.0) * make.expr.handle(scale)).r();
    make.output(DType::F16, &dims, root);
    insta::assert_snapshot!(print(&make.finish(Form::map(&dims))));
}

#[test]
fn map_of_a_strided_view() {
    let dims = [5, 3];
    let mut make = Maker::default();
    let x = make.value(DType::I32, &[3, 5]);
    let x = make.operand(x, Space::Main, view(&dims, &[1, 5], -1), true);
    let truth = make.expr.handle(x).ge(3.0).r();
    make.output(DType::I32, &dims, x);
    make.output(DType::Bool, &dims, truth);
    insta::assert_snapshot!(print(&make.finish(Form::map(&dims))));
}

/// The reduction of a value of so many elements, through a view of `outer` and `inner`.
fn reduction(
    combine: Combine,
    shape: &[usize],
    [outer, inner]: [&[usize]; 2],
    strides: &[i64],
    schedule: ReduceSchedule,
) -> Case {
    let mut make = Maker::default();
    let windows = view(&[outer, inner].concat(), strides, 0);
    let prologue = make.input(DType::F32, shape, Space::Main, windows);
    let ty = combine.result(Ty::F32);
    let root = make.expr.acc(ty).r();
    make.output(if ty == Ty::U32 { DType::U32 } else { DType::F32 }, outer, root);
    let (outer, inner) = (outer.into(), inner.into());
    let (schedule, sliding) = (Some(schedule), None);
    make.finish(Form::Reduce(ReduceForm { combine, outer, inner, prologue, schedule, sliding }))
}

#[test]
fn reduction_in_parts() {
    let schedule = ReduceSchedule::new(ReduceLayout::Group, 2);
    let case = reduction(Combine::ArgMax, &[4, 1_000], [&[4], &[1_000]], &[1_000, 1], schedule);
    insta::assert_snapshot!(print(&case));
}

#[test]
fn reduction_over_windows() {
    let schedule = ReduceSchedule::new(ReduceLayout::Thread, 1);
    let dims: [&[usize]; 2] = [&[128, 128], &[2, 3]];
    let case = reduction(Combine::Sum, &[129, 130], dims, &[130, 1, 130, 1], schedule);
    insta::assert_snapshot!(print(&case));
}

/// The normalised `rows` of `len`, which lie in order, or else across memory.
fn row(kind: RowKind, [rows, len]: [usize; 2], across: bool, parts: usize) -> Case {
    let dims = [rows, len];
    let place = || if across { view(&dims, &[1, rows as i64], 0) } else { row_major(&dims) };
    let mut make = Maker::default();
    let prologue = make.input(DType::F32, &dims, Space::Main, place());
    let epsilon = kind.def().has_epsilon.then(|| make.scalar(DType::F32, 1e-5)).map(|_| 0);
    let root = make.expr.acc(Ty::F32).r();
    let shape = if across { [len, rows] } else { dims };
    make.output_through(DType::F32, &shape, root, place());
    let outer = [rows][..].into();
    make.finish(Form::Row(RowForm { kind, outer, len, prologue, epsilon, parts }))
}

#[test]
fn layer_norm() {
    insta::assert_snapshot!(print(&row(RowKind::LayerNorm, [8, 300], false, 1)));
}

#[test]
fn softmax_by_subgroups() {
    let case = row(RowKind::Softmax, [8, 4_096], false, 1);
    insta::assert_snapshot!(print_for(&case, &super::with_subgroups()));
}

/// Fours of a row begin where those of the one before do not; elements before and after them go one by one.
#[test]
fn softmax_of_long_odd_rows() {
    let text = print(&row(RowKind::Softmax, [8, 4_097], false, 1));
    assert!(text.contains("fn element_edge"), "rows without edges");
    insta::assert_snapshot!(text);
}

#[test]
fn layer_norm_of_columns_in_parts() {
    insta::assert_snapshot!(print(&row(RowKind::LayerNorm, [40, 1_000], true, 4)));
}

#[test]
fn map_of_a_transposed_view() {
    let dims = [3, 40, 50];
    let mut make = Maker::default();
    let x = make.input(DType::F32, &[3, 50, 40], Space::Main, view(&dims, &[2_000, 1, 40], 0));
    let root = (make.expr.handle(x) + 1.0).r();
    make.output(DType::F32, &dims, root);
    insta::assert_snapshot!(print(&make.finish(Form::map(&dims))));
}

#[test]
fn matmul_with_bias_and_relu() {
    let (m, n, k) = (64, 128, 784);
    let mut make = Maker::default();
    let (x, w) = (make.value(DType::F32, &[m, k]), make.value(DType::F32, &[k, n]));
    let x = make.load(x, Space::X, row_major(&[m, k]));
    let w = make.load(w, Space::W, row_major(&[k, n]));
    let bias = make.input(DType::F32, &[n], Space::Out, view(&[m, n], &[0, 1], 0));
    let root = (make.expr.acc(Ty::F32) + make.expr.handle(bias)).max(0.0).r();
    make.output(DType::F32, &[m, n], root);
    let tile = Tile::fitting([16, 16, 4, 4, 4], Tile::LEAST_BYTES);
    let schedule = ProductSchedule { layout: ProductLayout::Tiles(tile), parts: 1 };
    let (batch, precision) = ([][..].into(), Precision::Exact);
    let spread = None;
    let form = Form::Product(ProductForm {
        batch,
        m,
        n,
        k,
        spread,
        x,
        w,
        acc: Ty::F32,
        precision,
        schedule,
    });
    insta::assert_snapshot!(print(&make.finish(form)));
}

#[test]
fn the_text_does_not_depend_on_sizes() {
    let text = |rows: usize| {
        let dims = [rows, 8];
        let mut make = Maker::default();
        let x = make.input(DType::F32, &dims, Space::Main, row_major(&dims));
        let bias = make.input(DType::F32, &[8], Space::Main, view(&dims, &[0, 1], 0));
        let factor = make.scalar(DType::F32, rows as f64);
        let handle = |r| make.expr.handle(r);
        let root = ((handle(x) + handle(bias)) * handle(factor)).r();
        make.output(DType::F32, &dims, root);
        let case = make.finish(Form::map(&dims));
        case.lower(&Limits::webgpu()).remove(0)
    };
    let (a, b) = (text(3), text(999));
    assert_eq!(a.wgsl, b.wgsl);
    assert_ne!(a.params, b.params);
}
