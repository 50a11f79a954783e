//! Products over tiles, views, types and batches.

use super::case::{Case, Maker, row_major, view};
use super::{check, targets};
use crate::cost::Limits;
use crate::dtype::DType;
use crate::plan::{Form, Space, Tile};
use crate::shape::View;

const SMALL: Tile = Tile { bm: 16, bn: 16, bk: 8, tm: 2, tn: 4 };
const MEDIUM: Tile = Tile { bm: 64, bn: 64, bk: 16, tm: 4, tn: 4 };
const LARGE: Tile = Tile { bm: 128, bn: 128, bk: 16, tm: 8, tn: 8 };

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
fn case(dtype: DType, sides: Sides, tile: Tile) -> Case {
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
    let mut case = make.finish(Form::MatMul { batch: batch.into(), m, n, k, x, w, acc, tile });
    case.tolerance = 1e-4;
    case
}

#[test]
fn odd_sizes_on_every_tile() {
    let sizes = [(1, 1, 1), (5, 7, 3), (64, 64, 64), (65, 130, 33), (129, 3, 17), (1, 200, 40)];
    for tile in [SMALL, MEDIUM, LARGE, Tile { tm: 1, ..SMALL }, Tile { bk: 12, ..SMALL }] {
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
    for bytes in [16_384, 8_192, 2_000] {
        let limits = Limits { workgroup_bytes: bytes, ..Limits::webgpu() };
        for tile in [MEDIUM, LARGE] {
            let case = case(DType::F32, Sides::new(70, 80, 20), tile);
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
