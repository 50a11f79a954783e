//! Values with a border of one number, whose lines are copied.

use smallvec::smallvec;

use super::SPECIAL;
use super::case::{Case, floats, view};
use crate::base::dtype::{DType, Element};
use crate::expr::Builder;
use crate::plan::{Border, Form, OperandSource, Space, StepOperand};

/// Checks a value of `inner` elements along each axis, read with `strides` from `offset` on. Elements of a border lie
/// `before` and `after` them.
fn check<T: Element>(
    data: &[T],
    (inner, strides, offset): ([usize; 3], [i64; 3], i64),
    (before, after): ([usize; 3], [usize; 3]),
    border: f64,
) {
    let axes = [0, 1, 2];
    let dims = axes.map(|axis| before[axis] + inner[axis] + after[axis]);
    let start: i64 = axes.map(|axis| before[axis] as i64 * strides[axis]).iter().sum();
    let (mut case, b) = (Case::default(), Builder::default());
    let x = case.load(&b, data, Space::Main, view(&dims, &strides, offset - start));
    case.clamp();
    let border = case.scalar(&b, T::DTYPE, border);
    let (mut padded, mut inside) = (x, smallvec![]);
    for axis in axes {
        let along = axes.map(|other| i64::from(other == axis));
        let counter = StepOperand {
            source: OperandSource::Iota,
            dtype: DType::I32,
            space: Space::Main,
            view: view(&dims, &along, 0),
            clamp: false,
        };
        let at = case.operand(&b, counter);
        let range = before[axis] as i64..(before[axis] + inner[axis]) as i64;
        let [first, end] = [range.start, range.end].map(|x| case.scalar(&b, DType::I32, x as f64));
        padded = at.ge(first).and(at.lt(end)).select(padded, border, x);
        inside.push((1 + axis, range));
    }
    case.borders.push(Border { padded: padded.r(), element: x.r(), number: 0, inside });
    case.check(&b, Form::map(&dims), &[(T::DTYPE, padded.r())], 0.0);
}

#[test]
fn borders_of_any_width_around_any_view() {
    let mut data = floats(4 * 5 * 6, 1);
    data[..4].copy_from_slice(&SPECIAL);
    let layouts = [
        ([4, 5, 6], [30, 6, 1], 0),
        ([4, 6, 5], [30, 1, 6], 0),
        ([4, 5, 6], [-30, 6, -1], 95),
        ([3, 5, 3], [0, 6, 2], 1),
        ([1, 1, 1], [7, 7, 7], 5),
    ];
    let borders = [
        ([0, 1, 1], [0, 1, 1]),
        ([2, 0, 3], [0, 4, 0]),
        ([0, 0, 0], [1, 0, 0]),
        ([0, 0, 17], [0, 0, 1]),
    ];
    for layout in layouts {
        for sides in borders {
            check(&data, layout, sides, f64::NEG_INFINITY);
            let integers: Vec<i32> = data.iter().map(|&x| x as i32).collect();
            check(&integers, layout, sides, -7.0);
        }
    }
}

#[test]
fn borders_around_nothing_and_around_much() {
    for inner in [[0, 5, 6], [4, 0, 6], [4, 5, 0]] {
        check(&[1.0_f32], (inner, [30, 6, 1], 0), ([1; 3], [2; 3]), 3.5);
    }
    let data = floats(3 * 150 * 150, 2);
    check(&data, ([3, 150, 150], [150 * 150, 150, 1], 0), ([0, 1, 1], [0, 1, 1]), -0.0);
}
