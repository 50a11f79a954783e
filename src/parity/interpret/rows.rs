//! The interpreter's operations along one axis: sorts, scans, softmax and norms.

use super::{ExactTensor, coordinates};
use crate::base::dtype::Scalar;
use crate::expr::reference::LaneValue;
use crate::ops::{Combine, Normalization, Scan, Sort, SortOrder, Sorted};
use crate::plan::reference::{normalized, running, sorted_positions};

/// The rows along `axis`, each mapped by `of`.
pub(super) fn rows(
    x: &ExactTensor,
    axis: usize,
    of: impl Fn(&[LaneValue]) -> Vec<LaneValue>,
) -> Vec<LaneValue> {
    let inner: usize = x.shape.dims()[axis + 1..].iter().product();
    let len = x.shape[axis];
    let mut out = x.values.clone();
    for start in (0..x.values.len()).filter(|index| (index / inner).is_multiple_of(len)) {
        let at = |c: usize| start + c * inner;
        let row: Vec<LaneValue> = (0..len).map(|c| x.values[at(c)]).collect();
        for (c, value) in of(&row).into_iter().enumerate() {
            out[at(c)] = value;
        }
    }
    out
}

/// A result of a sort along an axis.
pub(super) fn sorted(how: Sort, part: Sorted, x: &ExactTensor) -> Vec<LaneValue> {
    let all = rows(x, how.axis, |row| {
        let order = sorted_positions(&numbers(row), how.order == SortOrder::Descending);
        let result = |&at: &usize| match part {
            Sorted::Values => row[at],
            Sorted::Positions => LaneValue::U(at as u32),
        };
        order.iter().map(result).collect()
    });
    let ordered = ExactTensor { values: all, ..x.clone() };
    coordinates(&how.shape(&x.shape)).map(|at| ordered.at(&at)).collect()
}

/// Each element combined with all before it, from the first on.
pub(super) fn scanned(op: Scan, row: &[LaneValue]) -> Vec<LaneValue> {
    let combine = match op {
        Scan::Sum => Combine::Sum,
        Scan::Prod => Combine::Prod,
        Scan::Max => Combine::Max,
        Scan::Min => Combine::Min,
    };
    running(combine, row)
}

pub(super) fn row_of(op: Normalization, row: &[LaneValue]) -> Vec<LaneValue> {
    let epsilon = op.epsilon().map_or(0.0, Scalar::value);
    normalized(op.kind(), &numbers(row), epsilon).into_iter().map(LaneValue::F).collect()
}

fn numbers(row: &[LaneValue]) -> Vec<f64> {
    row.iter().map(|x| x.number()).collect()
}
