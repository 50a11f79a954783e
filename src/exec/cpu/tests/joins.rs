//! Values joined along an axis, which are copied.

use super::case::{Case, floats, view};
use crate::base::dtype::DType;
use crate::expr::Builder;
use crate::plan::{Form, OperandSource, Space, StepOperand};

/// Joins values of `sizes` along `axis` of `dims`; `skipped` elements of the whole come before the result.
fn check(dims: [usize; 3], axis: usize, sizes: &[usize], skipped: usize, dtype: DType) {
    let (mut case, b) = (Case::default(), Builder::default());
    let whole: usize = sizes.iter().sum();
    let mut result = dims;
    result[axis] = whole - skipped;
    let along = [0, 1, 2].map(|other| i64::from(other == axis));
    let counter = StepOperand {
        source: OperandSource::Iota,
        dtype: DType::I32,
        space: Space::Main,
        view: view(&result, &along, skipped as i64),
        clamp: false,
    };
    let at = case.operand(&b, counter);
    let mut start = 0;
    let mut parts = Vec::new();
    for (index, &size) in sizes.iter().enumerate() {
        let mut own = dims;
        own[axis] = size;
        let strides = [own[1] * own[2], own[2], 1].map(|stride| stride as i64);
        let offset = (skipped as i64 - start) * strides[axis];
        let data = floats(own.iter().product(), 1 + index as u32);
        parts.push(case.load(&b, &data, Space::Main, view(&result, &strides, offset)));
        case.clamp();
        start += size as i64;
    }
    let mut joined = parts.pop().expect("a value");
    let mut end = whole - sizes[parts.len()];
    for (part, size) in parts.into_iter().zip(sizes).rev() {
        let bound = case.scalar(&b, DType::I32, end as f64);
        joined = at.lt(bound).select(part, joined, part);
        end -= size;
    }
    case.check(&b, Form::map(&result), &[(dtype, joined.r())], 1e-3);
}

#[test]
fn values_are_joined_along_any_axis() {
    for dtype in [DType::F32, DType::F16] {
        for axis in 0..3 {
            for sizes in [&[1, 1][..], &[3, 1, 4], &[2, 700], &[5, 5, 5, 5, 5, 5, 5]] {
                for dims in [[2, 3, 5], [1, 1, 1], [3, 1, 40]] {
                    check(dims, axis, sizes, 0, dtype);
                    check(dims, axis, sizes, 1, dtype);
                }
            }
        }
    }
}
