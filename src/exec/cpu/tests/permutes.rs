//! Values whose axes stand in another order, which are copied by squares.

use half::f16;

use super::SPECIAL;
use super::case::{Case, floats, view};
use crate::base::dtype::Element;
use crate::expr::Builder;
use crate::plan::{Form, Space};

/// Checks a value read with `strides` from `offset` on.
fn check<T: Element>(data: &[T], (dims, strides, offset): (&[usize], &[i64], i64)) {
    let (mut case, b) = (Case::default(), Builder::default());
    let x = case.load(&b, data, Space::Main, view(dims, strides, offset));
    case.check(&b, Form::map(dims), &[(T::DTYPE, x.r())], 0.0);
}

#[test]
fn axes_of_any_type_stand_in_any_order() {
    const LEN: usize = 3 * 70 * 45;
    let mut data = floats(LEN + 2, 3);
    data[2..6].copy_from_slice(&SPECIAL);
    let halves: Vec<f16> = data.iter().map(|&x| f16::from_f32(x)).collect();
    let integers: Vec<i32> = data.iter().map(|&x| (x * 1e6) as i32).collect();
    let truths: Vec<bool> = data.iter().map(|&x| x > 0.5).collect();
    let layouts: [(&[usize], &[i64], i64); 10] = [
        (&[70, 135], &[1, 70], 2),
        (&[3, 45, 70], &[3150, 1, 45], 0),
        (&[45, 3, 70], &[1, 3150, 45], 2),
        (&[70, 45, 3], &[45, 1, 3150], 0),
        (&[45, 70, 3], &[1, 45, 3150], 1),
        // Backwards, and with gaps.
        (&[45, 70], &[1, -45], 69 * 45),
        (&[2, 16, 32], &[3150, 1, 45], 7),
        // Axes of one element, and of none.
        (&[1, 70, 45], &[5, 1, 70], 0),
        (&[70, 1, 45], &[1, 9, 70], 1),
        (&[0, 45, 70], &[3150, 1, 45], 0),
    ];
    for layout in layouts {
        check(&data, layout);
        check(&halves, layout);
        check(&integers, layout);
        check(&truths, layout);
    }
}

#[test]
fn several_threads_copy_parts_of_the_rows() {
    let data = floats(301 * 611, 4);
    let halves: Vec<f16> = data.iter().map(|&x| f16::from_f32(x)).collect();
    let truths: Vec<bool> = data.iter().map(|&x| x > 0.5).collect();
    check(&halves, (&[611, 301], &[1, 611], 0));
    check(&truths, (&[611, 301], &[1, 611], 0));
    check(&data, (&[611, 301], &[1, 611], 0));
    check(&data, (&[13, 301, 47], &[47, 611, 1], 0));
    check(&data, (&[301, 47, 13], &[611, 1, 47], 0));
}
