//! Reductions over combinations, layouts, views and parts.

use super::case::{Case, Maker, row_major, view};
use super::{check, targets};
use crate::base::dtype::{DType, Ty};
use crate::base::shape::View;
use crate::cost::Limits;
use crate::ops::Combine;
use crate::plan::{Form, ReduceForm, ReduceLayout, ReduceSchedule, Space};

const LAYOUTS: [ReduceLayout; 2] = [ReduceLayout::Group, ReduceLayout::Thread];

struct Shape<'a> {
    outer: &'a [usize],
    inner: &'a [usize],
    view: View,
}

/// A reduction of `data`, with a row of the results' length added to float results.
fn case(
    combine: Combine,
    dtype: DType,
    data: Option<Vec<f64>>,
    shape: &Shape<'_>,
    schedule: ReduceSchedule,
) -> Case {
    let Shape { outer, inner, view } = shape;
    let elements = (outer.iter().product::<usize>() * inner.iter().product::<usize>()).max(1);
    let mut make = Maker::default();
    let x = match data {
        Some(data) => make.value_of(dtype, &[elements], data),
        None => make.value(dtype, &[elements]),
    };
    let prologue = make.load(x, Space::Main, view.clone());
    let acc = make.expr.acc(combine.result(dtype.lane()));
    let out = if acc.ty() == Ty::U32 { DType::U32 } else { dtype };
    let acc = acc.r();
    let addend = make.input(out, outer, Space::Out, row_major(outer));
    let root = (make.expr.handle(acc) + make.expr.handle(addend)).r();
    make.output(out, outer, root);
    make.output(out, outer, acc);
    let (outer, inner) = ((*outer).into(), (*inner).into());
    let mut case = make.finish(Form::Reduce(ReduceForm {
        combine,
        outer,
        inner,
        prologue,
        schedule: Some(schedule),
        sliding: None,
    }));
    case.tolerance = 1e-4;
    case
}

fn full(outer: &'static [usize], inner: &'static [usize]) -> Shape<'static> {
    Shape { outer, inner, view: row_major(&[outer, inner].concat()) }
}

fn takes(combine: Combine, dtype: DType) -> bool {
    dtype.is_numeric() && (combine != Combine::LogSumExp || dtype.is_float())
}

fn schedules() -> impl Iterator<Item = ReduceSchedule> {
    let all = LAYOUTS.into_iter().flat_map(|layout| [1, 3, 11].map(|parts| (layout, parts)));
    all.map(|(layout, parts)| ReduceSchedule::new(layout, parts))
}

#[test]
fn every_combination_of_every_type() {
    for combine in Combine::ALL {
        for dtype in DType::ALL.into_iter().filter(|&d| takes(combine, d)) {
            for schedule in schedules() {
                for limits in targets() {
                    check(&case(combine, dtype, None, &full(&[3], &[37]), schedule), &limits);
                }
            }
        }
    }
}

#[test]
fn long_rows_and_many_results() {
    let shapes = [
        full(&[2], &[2_500]),
        full(&[130], &[9]),
        full(&[], &[4_096]),
        full(&[5], &[1]),
        full(&[33], &[100]),
    ];
    for shape in &shapes {
        for schedule in schedules() {
            for combine in [Combine::Sum, Combine::ArgMax, Combine::LogSumExp] {
                for limits in targets() {
                    check(&case(combine, DType::F32, None, shape, schedule), &limits);
                }
            }
        }
    }
    let many = full(&[4_500], &[3]);
    let schedule = ReduceSchedule::new(ReduceLayout::Thread, 2);
    check(&case(Combine::Sum, DType::I32, None, &many, schedule), &Limits::webgpu());
}

#[test]
fn views_of_every_kind() {
    let shapes = [
        Shape { outer: &[6], inner: &[10], view: view(&[6, 10], &[1, 6], 0) },
        Shape { outer: &[2, 3], inner: &[4, 5], view: view(&[2, 3, 4, 5], &[1, 40, 10, 2], 0) },
        Shape { outer: &[3], inner: &[4, 5], view: view(&[3, 4, 5], &[20, -5, -1], 19) },
        Shape { outer: &[3, 2], inner: &[7], view: view(&[3, 2, 7], &[0, 7, 1], 0) },
    ];
    for shape in &shapes {
        for schedule in schedules() {
            for combine in [Combine::Sum, Combine::ArgMin] {
                check(&case(combine, DType::I32, None, shape, schedule), &Limits::webgpu());
            }
        }
    }
}

#[test]
fn nan_and_infinities() {
    const INF: f64 = f64::INFINITY;
    let rows: [[f64; 5]; 8] = [
        [1.0, f64::NAN, 3.0, f64::NAN, 9.0],
        [1.0, 3.0, 3.0, 2.0, 3.0],
        [-INF, -INF, -INF, -INF, -INF],
        [-INF, INF, INF, 0.0, 1.0],
        [-INF, 2.0, 1.0, -INF, 2.0],
        [INF, INF, -INF, -INF, f64::NAN],
        [-0.0, 0.0, -0.0, 0.0, 0.0],
        [88.0, 89.0, 200.0, -200.0, 199.0],
    ];
    let combines =
        [Combine::Max, Combine::Min, Combine::ArgMax, Combine::ArgMin, Combine::LogSumExp];
    for combine in combines {
        for schedule in schedules() {
            let shape = full(&[8], &[5]);
            let case = case(combine, DType::F32, Some(rows.concat()), &shape, schedule);
            check(&case, &Limits::webgpu());
        }
    }
}

#[test]
fn no_elements_give_the_identity() {
    for layout in LAYOUTS {
        for (combine, dtype) in [
            (Combine::Sum, DType::F32),
            (Combine::Prod, DType::I32),
            (Combine::LogSumExp, DType::F32),
            (Combine::Max, DType::U32),
            (Combine::Min, DType::U32),
        ] {
            let schedule = ReduceSchedule::new(layout, 1);
            check(&case(combine, dtype, None, &full(&[3], &[2, 0]), schedule), &Limits::webgpu());
        }
    }
}

#[test]
fn groups_past_the_limit_spill() {
    let limits = Limits { groups: 3, ..Limits::webgpu() };
    for schedule in schedules() {
        check(&case(Combine::Sum, DType::F32, None, &full(&[7], &[40]), schedule), &limits);
    }
}

/// Windows of which a thread takes eight, or two: with steps between their elements, touching and walked backwards, and
/// along one axis.
fn windows() -> [Shape<'static>; 4] {
    let shape = |outer: &'static [usize], inner: &'static [usize], strides: &[i64], offset| {
        let view = view(&[outer, inner].concat(), strides, offset);
        Shape { outer, inner, view }
    };
    [
        shape(&[2, 182, 183], &[3, 2], &[184 * 184, 184, 1, 184, 1], 0),
        shape(&[3, 75, 79], &[3, 2], &[151 * 160, 320, 2, 160, 3], 0),
        shape(&[160, 110], &[2, 2], &[-440, -2, -220, -1], 70_399),
        shape(&[4, 4_101], &[3], &[4_103, 1, 1], 0),
    ]
}

#[test]
fn windows_of_several_results_a_thread() {
    let schedule = ReduceSchedule::new(ReduceLayout::Thread, 1);
    for shape in &windows() {
        for (combine, dtype) in [
            (Combine::Sum, DType::F16),
            (Combine::ArgMax, DType::F32),
            (Combine::LogSumExp, DType::F32),
            (Combine::Max, DType::I32),
        ] {
            for limits in targets() {
                let case = case(combine, dtype, None, shape, schedule);
                let text = &super::text::validate(&case, &limits)[0].wgsl;
                assert!(text.contains("state1 = accept"), "{text}");
                check(&case, &limits);
            }
        }
    }
}
