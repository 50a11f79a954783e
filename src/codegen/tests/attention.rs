//! Attention by schedule, sizes, masks and views.

use super::case::{Case, Maker, row_major, view};
use super::{check, targets};
use crate::base::dtype::DType;
use crate::cost::{Limits, MatrixUnits};
use crate::plan::{AttentionForm, AttentionLayout, AttentionSchedule, Form, Space};

struct Sizes {
    batch: usize,
    queries: usize,
    keys: usize,
    width: usize,
    out: usize,
}

const fn schedule([rows, each, keys, columns, parts]: [usize; 5]) -> AttentionSchedule {
    AttentionSchedule { layout: AttentionLayout::Tiles, rows, each, keys, columns, parts }
}

/// attention − 1, with or without a mask.
fn case(
    dtype: DType,
    sizes: &Sizes,
    masked: bool,
    causal: Option<i64>,
    schedule: AttentionSchedule,
) -> Case {
    let &Sizes { batch, queries, keys, width, out } = sizes;
    let mut make = Maker::default();
    let mut load = |space, dims: [usize; 3], dtype| {
        let value = make.value(dtype, &dims);
        make.load(value, space, row_major(&dims))
    };
    let q = load(Space::Query, [batch, queries, width], dtype);
    let k = load(Space::Key, [batch, keys, width], dtype);
    let v = load(Space::Value, [batch, keys, out], dtype);
    let mask = masked.then(|| {
        let mask = make.value(DType::F32, &[queries, keys]);
        let dims = [batch, queries, keys];
        make.load(mask, Space::Scores, view(&dims, &[0, keys as i64, 1], 0))
    });
    let one = make.scalar(DType::F32, 1.0);
    let acc = make.expr.acc(crate::base::dtype::Ty::F32);
    let root = (acc - make.expr.handle(one)).r();
    make.output(dtype, &[batch, queries, out], root);
    make.scalar(DType::F32, 0.4);
    let batch = [batch][..].into();
    make.finish(Form::Attention(AttentionForm {
        batch,
        queries,
        keys,
        width,
        out,
        q,
        k,
        v,
        mask,
        scale: 1,
        causal,
        halves: dtype == DType::F16,
        schedule,
    }))
}

const SCHEDULES: [AttentionSchedule; 8] = [
    schedule([16, 4, 32, 32, 1]),
    schedule([16, 4, 32, 64, 3]),
    schedule([32, 4, 64, 64, 1]),
    schedule([64, 8, 64, 64, 1]),
    schedule([64, 4, 64, 128, 2]),
    schedule([128, 8, 64, 64, 1]),
    schedule([128, 8, 32, 96, 1]),
    schedule([32, 4, 32, 32, 1]),
];

#[test]
fn every_schedule_at_odd_sizes() {
    let sizes = [
        Sizes { batch: 2, queries: 5, keys: 70, width: 8, out: 12 },
        Sizes { batch: 1, queries: 70, keys: 97, width: 33, out: 31 },
        Sizes { batch: 1, queries: 130, keys: 64, width: 64, out: 64 },
        Sizes { batch: 3, queries: 17, keys: 100, width: 4, out: 100 },
    ];
    let limits = Limits { workgroup_bytes: 32_768, ..Limits::webgpu() };
    for (at, schedule) in SCHEDULES.into_iter().enumerate() {
        let case = case(DType::F32, &sizes[at % sizes.len()], false, None, schedule);
        check(&case, &limits);
    }
}

#[test]
fn masks_types_and_positions() {
    let cases = [
        (DType::F32, true, None, SCHEDULES[0]),
        (DType::F16, true, Some(0), SCHEDULES[1]),
        (DType::F32, false, Some(-3), SCHEDULES[2]),
        (DType::F16, false, Some(30), SCHEDULES[1]),
    ];
    for limits in targets() {
        for (dtype, masked, causal, schedule) in cases {
            let sizes = Sizes { batch: 2, queries: 33, keys: 65, width: 16, out: 9 };
            check(&case(dtype, &sizes, masked, causal, schedule), &limits);
        }
    }
}

/// Few queries: as many threads to a key as there may be, parts, and rows that do not fill the last workgroup.
#[test]
fn strips() {
    let limits = Limits { f16: true, ..super::with_subgroups() };
    let strip = |lanes, rows, columns, parts| AttentionSchedule {
        layout: AttentionLayout::Strips { lanes },
        rows,
        each: 1,
        keys: 4 * AttentionSchedule::STRIP_THREADS / (lanes * rows),
        columns,
        parts,
    };
    let sizes = |queries, keys, width, out| Sizes { batch: 2, queries, keys, width, out };
    let cases = [
        (DType::F32, sizes(1, 1, 1, 1), false, None, strip(1, 1, 4, 1)),
        (DType::F32, sizes(1, 600, 16, 16), false, None, strip(4, 1, 16, 2)),
        (DType::F16, sizes(3, 515, 20, 9), true, None, strip(2, 4, 16, 1)),
        (DType::F32, sizes(5, 1300, 7, 36), true, Some(700), strip(4, 2, 48, 3)),
        (DType::F16, sizes(8, 70, 33, 4), false, Some(-3), strip(4, 8, 16, 1)),
        (DType::F16, sizes(4, 2, 8, 8), false, Some(0), strip(2, 4, 8, 1)),
    ];
    for (dtype, sizes, masked, causal, schedule) in cases {
        let case = case(dtype, &sizes, masked, causal, schedule);
        let text = &super::text::validate(&case, &limits)[0].wgsl;
        let bytes = super::text::workgroup_bytes(text) as usize;
        assert!(bytes <= schedule.workgroup_bytes(sizes.width), "{bytes} {schedule:?}");
        check(&case, &limits);
    }
}

/// One query over 600 keys, in two parts, with a mask, as a decoder runs for a token.
#[test]
fn a_kernel_for_few_queries() {
    let limits = super::with_subgroups();
    let layout = AttentionLayout::Strips { lanes: 4 };
    let keys = AttentionSchedule::STRIP_THREADS;
    let schedule = AttentionSchedule { layout, rows: 1, each: 1, keys, columns: 16, parts: 2 };
    let sizes = Sizes { batch: 2, queries: 1, keys: 600, width: 16, out: 16 };
    let case = case(DType::F32, &sizes, true, None, schedule);
    insta::assert_snapshot!(super::text::validate(&case, &limits)[0].wgsl);
}

/// The speed of this kernel changes by a fifth with small changes of its text.
#[test]
fn a_kernel_for_matrix_units() {
    let units = MatrixUnits { side: 16, subgroup: 32 };
    let limits =
        Limits { units: Some(units), f16: true, workgroup_bytes: 49_152, ..Limits::webgpu() };
    let layout = AttentionLayout::Units(units);
    let schedule =
        AttentionSchedule { layout, rows: 64, each: 32, keys: 32, columns: 32, parts: 1 };
    let sizes = Sizes { batch: 2, queries: 70, keys: 96, width: 32, out: 32 };
    let case = case(DType::F16, &sizes, false, Some(0), schedule);
    insta::assert_snapshot!(super::text::validate(&case, &limits)[0].wgsl);
}

/// Software adapters have no matrix units: here the texts, on a GPU that has them the numbers (`crate::parity`).
#[test]
fn kernels_for_matrix_units_are_valid() {
    for side in [8, 16] {
        let units = MatrixUnits { side, subgroup: 32 };
        let limits =
            Limits { units: Some(units), f16: true, workgroup_bytes: 49_152, ..Limits::webgpu() };
        let side = side as usize;
        for (subgroups, squares, columns, parts) in
            [(4, 2, 64, 1), (8, 1, 128, 3), (8, 1, 96, 1), (2, 1, 32, 1)]
        {
            let each = squares * side;
            let rows = subgroups * each;
            let layout = AttentionLayout::Units(units);
            let schedule = AttentionSchedule { layout, rows, each, keys: 32, columns, parts };
            let ways =
                [(97, false, None), (97, true, None), (97, false, Some(3)), (96, false, None)];
            for (keys, masked, causal) in ways {
                // Whole tiles, which are read as they lie, and others.
                let out = if keys == 96 { columns } else { columns - 3 };
                let sizes = Sizes { batch: 2, queries: 70, keys, width: columns, out };
                let case = case(DType::F16, &sizes, masked, causal, schedule);
                let text = &super::text::validate(&case, &limits)[0].wgsl;
                let bytes = super::text::workgroup_bytes(text) as usize;
                assert!(bytes <= schedule.workgroup_bytes(columns), "{bytes} {schedule:?}");
            }
        }
    }
}
