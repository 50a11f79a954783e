//! Sums, greatest elements and running sums along an axis.

use onetrip::Tensor;

use super::{Case, Given};

const MATRIX: &[usize] = &[4096, 1024];
const IMAGES: &[usize] = &[8, 64, 3136];

pub fn cases() -> Vec<Case> {
    let sum = |line: &[f64]| line.iter().sum();
    let mean = |line: &[f64]| line.iter().sum::<f64>() / line.len() as f64;
    let greatest = |line: &[f64]| line.iter().copied().fold(f64::NEG_INFINITY, f64::max);
    vec![
        reduced("sum_rows", MATRIX, 1, |x| x.sum(1), sum),
        reduced("sum_columns", MATRIX, 0, |x| x.sum(0), sum),
        reduced("sum_channels", IMAGES, 1, |x| x.sum(1), sum),
        reduced("mean_tokens", &[8, 128, 768], 1, |x| x.mean(1), mean),
        reduced("max_rows", MATRIX, 1, |x| x.amax(1), greatest),
        reduced("max_channels", IMAGES, 1, |x| x.amax(1), greatest),
        running_sums(),
    ]
}

/// A reduction of `x` along `axis`.
fn reduced(
    name: &'static str,
    shape: &'static [usize],
    axis: usize,
    record: impl for<'b> Fn(Tensor<'b, f32>) -> Tensor<'b, f32> + 'static,
    exact: impl Fn(&[f64]) -> f64 + 'static,
) -> Case {
    let x = vec![Given::new("x", shape)];
    Case::new(name, x, vec![], move |x, _| record(x[0]))
        .exactly(move |data, at| exact(&line(&data[0], shape, axis, at)))
}

/// Running sums of the rows of a matrix.
fn running_sums() -> Case {
    let x = vec![Given::new("x", MATRIX)];
    Case::new("cumsum_rows", x, vec![], |x, _| x[0].cumsum(-1)).exactly(|data, at| {
        let width = MATRIX[1];
        line(&data[0], MATRIX, 1, at / width)[..=at % width].iter().sum()
    })
}

/// The elements along `axis` of a point of the other axes.
fn line(x: &[f32], shape: &[usize], axis: usize, at: usize) -> Vec<f64> {
    let columns: usize = shape[axis + 1..].iter().product();
    let first = at / columns * shape[axis] * columns + at % columns;
    x[first..].iter().step_by(columns).take(shape[axis]).map(|&x| f64::from(x)).collect()
}
