//! Products over tiles, views, types and batches.

use super::case::{Case, Maker, row_major, view};
use super::{check, targets};
use crate::base::dtype::DType;
use crate::base::shape::View;
use crate::cost::{Limits, MatrixUnits};
use crate::ops::Precision;
use crate::plan::{
    Form, ProductForm, ProductLayout, ProductSchedule, Space, Strip, Tile, UnitTile,
};

const fn tile(sides: [usize; 5], parts: usize) -> ProductSchedule {
    let tile = Tile::fitting(sides, Tile::LEAST_BYTES);
    ProductSchedule { layout: ProductLayout::Tiles(tile), parts }
}

const SMALL: ProductSchedule = tile([16, 16, 8, 4, 4], 1);
const MEDIUM: ProductSchedule = tile([64, 64, 16, 4, 4], 1);
const LARGE: ProductSchedule = tile([128, 128, 16, 8, 8], 1);

fn strip(rows: usize, quads: usize, slices: usize, parts: usize) -> ProductSchedule {
    ProductSchedule { layout: ProductLayout::Strips(Strip { rows, quads, slices }), parts }
}

#[derive(Clone)]
struct Sides {
    batch: Vec<usize>,
    m: usize,
    n: usize,
    k: usize,
    x: View,
    w: View,
}

impl Sides {
    fn new(m: usize, n: usize, k: usize) -> Self {
        Self { batch: vec![], m, n, k, x: row_major(&[m, k]), w: row_major(&[k, n]) }
    }
}

/// Elements that a view reaches from 0 on.
fn reach(view: &View) -> usize {
    let last = view.dims.iter().zip(&view.strides).filter(|&(&d, &s)| d > 0 && s > 0);
    let last = last.map(|(&d, &s)| (d as i64 - 1) * s).sum::<i64>() + view.offset;
    last as usize + 1
}

/// −(x·w) + bias.
fn case(dtype: DType, sides: Sides, schedule: ProductSchedule) -> Case {
    let Sides { batch, m, n, k, x: x_view, w: w_view } = sides;
    let mut make = Maker::default();
    let x = make.value(dtype, &[reach(&x_view)]);
    let w = make.value(dtype, &[reach(&w_view)]);
    let x = make.load(x, Space::X, x_view);
    let w = make.load(w, Space::W, w_view);
    let x = (-make.expr.handle(x)).r();
    let bias = make.value(dtype, &[n]);
    let dims: Vec<usize> = batch.iter().copied().chain([m, n]).collect();
    let strides: Vec<i64> = batch.iter().map(|_| 0).chain([0, 1]).collect();
    let bias = make.load(bias, Space::Out, view(&dims, &strides, 0));
    let acc = dtype.lane();
    let root = (make.expr.acc(acc) + make.expr.handle(bias)).r();
    make.output(dtype, &dims, root);
    let (batch, precision) = (batch.into(), Precision::Exact);
    let mut case = make.finish(Form::Product(ProductForm {
        batch,
        m,
        n,
        k,
        spread: None,
        x,
        w,
        acc,
        precision,
        schedule,
    }));
    case.tolerance = 1e-4;
    case
}

#[test]
fn odd_sizes_on_every_tile() {
    let sizes = [(1, 1, 1), (5, 7, 3), (64, 64, 64), (65, 130, 33), (129, 3, 17), (1, 200, 40)];
    for tile in [SMALL, MEDIUM, LARGE, tile([16, 32, 8, 4, 8], 1), tile([16, 16, 12, 4, 4], 1)] {
        for (m, n, k) in sizes {
            check(&case(DType::F32, Sides::new(m, n, k), tile), &Limits::webgpu());
        }
    }
}

#[test]
fn every_type() {
    for dtype in DType::ALL.into_iter().filter(|d| d.is_numeric()) {
        for limits in targets() {
            check(&case(dtype, Sides::new(33, 18, 21), MEDIUM), &limits);
        }
    }
}

#[test]
fn transposed_and_strided_operands() {
    let (m, n, k) = (37, 22, 19);
    let xs = [
        view(&[m, k], &[1, m as i64], 0),
        view(&[m, k], &[-(k as i64), 1], (m * k - k) as i64),
        view(&[m, k], &[2 * k as i64, 2], 1),
        view(&[m, k], &[0, 1], 0),
    ];
    let ws = [
        view(&[k, n], &[1, k as i64], 0),
        view(&[k, n], &[3 * n as i64, 3], 2),
        view(&[k, n], &[1, 0], 0),
    ];
    for x in &xs {
        for w in &ws {
            for tile in [SMALL, MEDIUM, LARGE] {
                let sides = Sides { x: x.clone(), w: w.clone(), ..Sides::new(m, n, k) };
                check(&case(DType::F32, sides, tile), &Limits::webgpu());
            }
        }
    }
}

#[test]
fn batches_broadcast() {
    let (m, n, k) = (9, 10, 5);
    for limits in [Limits::webgpu(), Limits { groups: 2, ..Limits::webgpu() }] {
        let sides = Sides {
            batch: vec![2, 3],
            x: view(&[2, 3, m, k], &[(m * k) as i64, 0, k as i64, 1], 0),
            w: view(&[2, 3, k, n], &[0, (k * n) as i64, n as i64, 1], 0),
            ..Sides::new(m, n, k)
        };
        check(&case(DType::F32, sides, SMALL), &limits);
    }
}

#[test]
fn an_empty_sum_is_zero() {
    let mut sides = Sides::new(3, 4, 0);
    sides.x.strides = [0, 1][..].into();
    check(&case(DType::F32, sides, SMALL), &Limits::webgpu());
}

#[test]
fn workgroup_memory_stays_within_the_limit() {
    for bytes in [49_152, 16_384, 8_192, 2_000] {
        let limits = Limits { workgroup_bytes: bytes, ..Limits::webgpu() };
        for sides in [[64, 64, 16, 4, 4], [128, 128, 16, 8, 8]] {
            let layout = ProductLayout::Tiles(Tile::fitting(sides, bytes as usize));
            let schedule = ProductSchedule { layout, parts: 1 };
            let case = case(DType::F32, Sides::new(70, 80, 20), schedule);
            let text = &super::text::validate(&case, &limits)[0].wgsl;
            assert!(super::text::workgroup_bytes(text) <= bytes, "{text}");
            check(&case, &limits);
        }
    }
}

#[test]
fn tiles_past_the_limit_spill() {
    let limits = Limits { groups: 3, ..Limits::webgpu() };
    check(&case(DType::I32, Sides::new(150, 70, 9), SMALL), &limits);
}

#[test]
fn parts_of_k() {
    for (m, n, k) in [(5, 7, 33), (64, 64, 64), (17, 130, 100)] {
        for (batch, parts) in [(vec![], 2), (vec![3], 3)] {
            let stride = |size: usize| batch.iter().map(move |_| size as i64);
            let strides = |rows: usize, columns: usize| -> Vec<i64> {
                stride(rows * columns).chain([columns as i64, 1]).collect()
            };
            let dims = |rows, columns| -> Vec<usize> {
                batch.iter().copied().chain([rows, columns]).collect()
            };
            let sides = Sides {
                batch: batch.clone(),
                x: view(&dims(m, k), &strides(m, k), 0),
                w: view(&dims(k, n), &strides(k, n), 0),
                ..Sides::new(m, n, k)
            };
            for dtype in [DType::F32, DType::I32] {
                let schedule = tile([16, 16, 8, 4, 4], parts);
                check(&case(dtype, sides.clone(), schedule), &Limits::webgpu());
            }
        }
    }
}

#[test]
fn strips_of_few_rows() {
    for (m, n, k) in [(1, 1, 1), (1, 64, 256), (2, 65, 100), (5, 128, 33), (8, 200, 4), (3, 4, 0)] {
        for (quads, slices) in [(4, 8), (8, 32), (16, 4)] {
            for transposed in [false, true] {
                let mut sides = Sides::new(m, n, k);
                if transposed {
                    sides.w = view(&[k, n], &[1, k as i64], 0);
                }
                if k == 0 {
                    sides.x.strides = [0, 1][..].into();
                }
                for dtype in [DType::F32, DType::U32] {
                    let case = case(dtype, sides.clone(), strip(m, quads, slices, 1));
                    check(&case, &Limits::webgpu());
                }
            }
        }
    }
    for limits in targets() {
        check(&case(DType::F16, Sides::new(4, 96, 64), strip(4, 4, 8, 1)), &limits);
        check(&case(DType::F32, Sides::new(2, 96, 200), strip(2, 4, 8, 3)), &limits);
    }
}

/// Software adapters have no matrix units: here the texts, on a GPU that has them the numbers
/// (`crate::parity`).
#[test]
fn kernels_for_matrix_units_are_valid() {
    for side in [8, 16] {
        let units = MatrixUnits { side, subgroup: 32 };
        let limits =
            Limits { units: Some(units), f16: true, workgroup_bytes: 32_768, ..Limits::webgpu() };
        let bk = side as usize;
        for (dtype, split) in [(DType::F16, false), (DType::F32, false), (DType::F32, true)] {
            for (tile, parts) in [([128, 128, bk, 64, 64], 1), ([64, 64, 2 * bk, 32, 32], 3)] {
                let [bm, bn, bk, wm, wn] = tile;
                let layout = ProductLayout::Units(UnitTile { bm, bn, bk, wm, wn, split, units });
                let schedule = ProductSchedule { layout, parts };
                for (m, n, k) in [(128, 256, 512), (130, 140, 1000), (127, 129, 333)] {
                    for transposed in [false, true] {
                        let mut sides = Sides::new(m, n, k);
                        if transposed {
                            sides.x = view(&[m, k], &[1, m as i64], 0);
                            sides.w = view(&[k, n], &[1, k as i64], 0);
                        }
                        let case = case(dtype, sides, schedule);
                        let text = &super::text::validate(&case, &limits)[0].wgsl;
                        assert!(super::text::workgroup_bytes(text) <= limits.workgroup_bytes);
                    }
                }
            }
        }
    }
}
