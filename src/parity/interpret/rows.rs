//! The interpreter's operations along one axis: sorts, scans, softmax and norms.

use super::{ExactTensor, coordinates};
use crate::expr::Binary;
use crate::expr::reference::{Value, binary};
use crate::ops::{Normalization, Scan, Sort, SortOrder, Sorted};

/// The rows along `axis`, each mapped by `of`.
pub(super) fn rows(
    x: &ExactTensor,
    axis: usize,
    of: impl Fn(&[Value]) -> Vec<Value>,
) -> Vec<Value> {
    let inner: usize = x.shape.dims()[axis + 1..].iter().product();
    let len = x.shape[axis];
    let mut out = x.values.clone();
    for start in (0..x.values.len()).filter(|index| (index / inner).is_multiple_of(len)) {
        let at = |c: usize| start + c * inner;
        let row: Vec<Value> = (0..len).map(|c| x.values[at(c)]).collect();
        for (c, value) in of(&row).into_iter().enumerate() {
            out[at(c)] = value;
        }
    }
    out
}

/// A result of a sort along an axis.
pub(super) fn sorted(how: Sort, part: Sorted, x: &ExactTensor) -> Vec<Value> {
    let all = rows(x, how.axis, |row| {
        let mut order: Vec<usize> = (0..row.len()).collect();
        let key = |at: usize| {
            let number = row[at].number();
            (number.is_nan(), if number.is_nan() { 0.0 } else { number })
        };
        order.sort_by(|&a, &b| {
            let by_number = key(a).partial_cmp(&key(b)).expect("no NaN is left");
            if how.order == SortOrder::Descending { by_number.reverse() } else { by_number }
        });
        let result = |&at: &usize| match part {
            Sorted::Values => row[at],
            Sorted::Positions => Value::U(at as u32),
        };
        order.iter().map(result).collect()
    });
    let ordered = ExactTensor { values: all, ..x.clone() };
    coordinates(&how.shape(&x.shape)).map(|at| ordered.at(&at)).collect()
}

/// Each element combined with all before it, from the first on.
pub(super) fn running(op: Scan, row: &[Value]) -> Vec<Value> {
    let op = match op {
        Scan::Sum => Binary::Add,
        Scan::Prod => Binary::Mul,
        Scan::Max => Binary::Max,
        Scan::Min => Binary::Min,
    };
    let mut so_far = None;
    let next = |&x: &Value| {
        so_far = Some(so_far.map_or(x, |before| binary(op, before, x)));
        so_far.unwrap_or(x)
    };
    row.iter().map(next).collect()
}

pub(super) fn row_of(op: Normalization, row: &[Value]) -> Vec<Value> {
    let row: Vec<f64> = row.iter().map(|x| x.number()).collect();
    let n = row.len() as f64;
    // Unlike `f64::max`, NaN if any is.
    let max = row.iter().fold(f64::NEG_INFINITY, |m, &x| if x.is_nan() || x > m { x } else { m });
    let sum: f64 = row.iter().map(|x| (x - max).exp()).sum();
    let mean = row.iter().sum::<f64>() / n;
    let variance = row.iter().map(|x| (x - mean).powi(2)).sum::<f64>() / n;
    let square = row.iter().map(|x| x * x).sum::<f64>() / n;
    let each = |x: f64| match op {
        Normalization::Softmax => (x - max).exp() / sum,
        Normalization::LogSoftmax => x - max - sum.ln(),
        Normalization::LayerNorm(epsilon) => (x - mean) / (variance + epsilon.value()).sqrt(),
        Normalization::RmsNorm(epsilon) => x / (square + epsilon.value()).sqrt(),
        Normalization::L2Normalize(epsilon) => {
            let norm = (square * n).sqrt();
            x / if norm < epsilon.value() { epsilon.value() } else { norm }
        }
    };
    row.iter().map(|&x| Value::F(each(x))).collect()
}
