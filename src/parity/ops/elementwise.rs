//! Every elementwise operation of the registry, by element type and shape.

use crate::base::dtype::{DType, Scalar};
use crate::batch::{GpuCommandBatch, Tensor};
use crate::methods::LossReduction;
use crate::ops::{Def, ELEMENTWISE, Elementwise, Op, Tolerance};
use crate::parity::compare::{EXACT, check};
use crate::parity::sample::{FromNumber, Rng, edges, for_dtype, values};
use crate::record::UntypedId;

/// Shapes of two arguments: the same, broadcast, odd, one element, none.
const SHAPES: [(&[usize], &[usize]); 8] = [
    (&[1000], &[1000]),
    (&[], &[]),
    (&[7, 13], &[13]),
    (&[3, 1, 5], &[4, 1]),
    (&[0], &[1]),
    (&[1], &[1027]),
    (&[2, 3, 4], &[2, 1, 4]),
    (&[64, 64], &[64]),
];

/// Parameters that make sense for an operation, in the order of its method.
fn params(def: &Def, dtype: DType) -> Vec<Scalar> {
    let number = |x: f64| Scalar::new(dtype, x);
    let float = |x: f64| Scalar::new(DType::F32, x);
    match def.op {
        Elementwise::LeakyRelu => vec![float(0.01)],
        Elementwise::Elu => vec![float(1.3)],
        Elementwise::Clip => vec![number(-2.0), number(3.0)],
        Elementwise::Scale => vec![number(2.5)],
        Elementwise::AddScalar => vec![number(3.0)],
        Elementwise::PowScalar => vec![number(3.0)],
        _ => Vec::new(),
    }
}

/// Records the operation over data of `shapes`.
fn record<T: FromNumber>(batch: &GpuCommandBatch, def: &Def, data: &[(Vec<T>, &[usize])]) {
    let operands = data.iter().map(|(data, shape)| batch.upload_shaped(data, *shape).value());
    let operands: Vec<UntypedId> = operands.collect();
    let op = Op::Elementwise(def.op, params(def, T::DTYPE).into());
    if def.truth {
        let _ = batch.record::<bool>(op, &operands);
    } else {
        let _ = batch.record::<T>(op, &operands);
    }
}

#[test]
fn every_operation_by_type_and_shape() {
    let mut rng = Rng::new(1);
    for def in ELEMENTWISE {
        for dtype in DType::ALL.into_iter().filter(|&dtype| def.accepts.dtype(dtype)) {
            for (x, y) in SHAPES {
                let shapes = &[x, y][..def.arity];
                for_dtype!(dtype, T => {
                    let domain = if dtype == DType::F16 { halved(def.domain) } else { def.domain };
                    let data: Vec<(Vec<T>, &[usize])> = shapes
                        .iter()
                        .map(|&shape| {
                            let data: Vec<T> = values(&mut rng, shape.iter().product(), domain);
                            (data.into_iter().map(|x| divisor(def, x)).collect(), shape)
                        })
                        .collect();
                    let what = format!("{} {dtype} {shapes:?}", def.name);
                    check(&what, def.tolerance, |batch| record(batch, def, &data));
                });
            }
        }
    }
}

/// `x`, or 1 for an integer that must not be divided by.
fn divisor<T: FromNumber>(def: &Def, x: T) -> T {
    let divides = matches!(def.op, Elementwise::Div | Elementwise::Rem);
    let nought = !T::DTYPE.is_float() && x == T::from_number(0.0);
    if divides && nought { T::from_number(1.0) } else { x }
}

/// An interval in which results keep to the range of `f16`.
fn halved((low, high): (f64, f64)) -> (f64, f64) {
    (low.max(-10.0), high.min(10.0))
}

#[test]
fn every_operation_where_formulas_break() {
    for def in ELEMENTWISE {
        for dtype in DType::ALL.into_iter().filter(|&dtype| def.accepts.dtype(dtype)) {
            let edges = edges(dtype);
            let pairs: Vec<(f64, f64)> =
                edges.iter().flat_map(|&x| edges.iter().map(move |&y| (x, y))).collect();
            let tolerance = edge_tolerance(def);
            for_dtype!(dtype, T => {
                let pairs = pairs.iter().filter(|&&(x, y)| !is_unspecified(def, x, y));
                let (x, y): (Vec<T>, Vec<T>) =
                    pairs.map(|&(x, y)| (T::from_number(x), divisor(def, T::from_number(y)))).unzip();
                let n = x.len();
                let shape = [n];
                let data = [(x, &shape[..]), (y, &shape[..])];
                let what = format!("{} {dtype} at the edges", def.name);
                check(&what, tolerance, |batch| record(batch, def, &data[..def.arity]));
            });
        }
    }
}

/// Returns true where the documentation promises no accurate number.
fn is_unspecified(def: &Def, x: f64, y: f64) -> bool {
    match def.op {
        // The argument reduction loses accuracy.
        Elementwise::Sin | Elementwise::Cos => x.is_finite() && x.abs() > 1e5,
        // The quotient has more digits than an `f32`.
        Elementwise::Rem => x.is_finite() && y.is_finite() && (x / y).abs() > 4e6,
        _ => false,
    }
}

/// Edge values are compared each by its own magnitude: the largest would excuse all others.
fn edge_tolerance(def: &Def) -> Tolerance {
    Tolerance { ulp: def.tolerance.ulp + 4.0, abs: def.tolerance.abs / 1e30 + 1e-37 }
}

#[test]
fn casts_between_all_types() {
    for from in DType::ALL {
        let edges = edges(from);
        for to in DType::ALL {
            for_dtype!(from, T => {
                let data: Vec<T> = edges.iter().map(|&x| T::from_number(x)).collect();
                let what = format!("cast {from} to {to}");
                check(&what, EXACT, |batch| {
                    let x = batch.upload(&data);
                    for_dtype!(to, U => { x.cast::<U>(); });
                });
            });
        }
    }
}

#[test]
fn select_takes_each_side() {
    let mut rng = Rng::new(2);
    for dtype in DType::ALL {
        for_dtype!(dtype, T => {
            let condition: Vec<bool> = values(&mut rng, 30, (0.0, 2.0));
            let x: Vec<T> = values(&mut rng, 6, (-5.0, 5.0));
            let y: Vec<T> = values(&mut rng, 5, (-5.0, 5.0));
            check(&format!("select {dtype}"), EXACT, |batch| {
                let condition = batch.upload_shaped(&condition, [6, 5]);
                let x = batch.upload_shaped(&x, [6, 1]);
                let y = batch.upload(&y);
                batch.select(condition, x, y);
            });
        });
    }
}

#[test]
fn a_choice_between_what_was_compared_is_no_minimum_where_one_is_nan() {
    const NUMBERS: [f32; 8] =
        [f32::NAN, f32::NEG_INFINITY, -1.5, -0.0, 0.0, 2.0, 1e-40, f32::INFINITY];
    type Order =
        for<'b> fn(&'b GpuCommandBatch, Tensor<'b, f32>, Tensor<'b, f32>) -> Tensor<'b, bool>;
    let orders: [(&str, Order); 4] = [
        ("lt", |batch, x, y| batch.lt(x, y)),
        ("le", |batch, x, y| batch.le(x, y)),
        ("gt", |batch, x, y| batch.gt(x, y)),
        ("ge", |batch, x, y| batch.ge(x, y)),
    ];
    for (name, order) in orders {
        check(&format!("select by {name}"), EXACT, |batch| {
            let x = batch.upload_shaped(&NUMBERS, [8, 1]);
            let (y, zero) = (batch.upload(&NUMBERS), batch.full([], 0.0));
            for (x, y) in [(x, y), (x, zero), (zero, y)] {
                let less = order(batch, x, y);
                let not = batch.not(less);
                for (condition, a, b) in [(less, x, y), (less, y, x), (not, x, y), (not, y, x)] {
                    batch.select(condition, a, b);
                }
            }
        });
    }
}

#[test]
fn what_cancels_is_nan_where_it_is_no_number() {
    const NUMBERS: [f32; 6] = [f32::NAN, f32::NEG_INFINITY, -1.5, 0.0, 2.0, f32::INFINITY];
    check("sums that cancel", EXACT, |batch| {
        let (x, y) = (batch.upload_shaped(&NUMBERS, [6, 1]), batch.upload(&NUMBERS));
        let (less, sum, difference) = (batch.neg(x), batch.add(x, y), batch.sub(x, y));
        let (twice, double) = (batch.add(x, x), batch.square(difference));
        let (least, most) = (batch.min(x, x), batch.max(x, x));
        for (plus, minus) in
            [(x, x), (sum, x), (x, sum), (difference, x), (sum, difference), (least, x), (x, most)]
        {
            batch.sub(plus, minus);
        }
        for (one, other) in [(x, less), (sum, less), (less, sum), (difference, y)] {
            batch.add(one, other);
        }
        let (product, commuted) = (batch.mul(x, y), batch.mul(y, x));
        batch.sub(product, commuted);
        batch.sub(sum, batch.add(y, x));
        batch.sub(twice, x);
        batch.sub(double, double);
        batch.mse_loss(x, x, LossReduction::Mean);
    });
}
