//! Elementwise functions and a chain of them.

use onetrip::Tensor;

use super::{Case, Given};
use crate::chain;

const LEN: usize = 1_000_000;

pub fn cases() -> Vec<Case> {
    type Record = for<'b> fn(Tensor<'b, f32>) -> Tensor<'b, f32>;
    type Exact = fn(f64) -> f64;
    let functions: [(&str, Record, Exact); 5] = [
        ("gelu_1e6", |x| x.gelu(), |x| 0.5 * x * (1.0 + libm::erf(x * 0.5f64.sqrt()))),
        ("exp_1e6", |x| x.exp(), f64::exp),
        ("tanh_1e6", |x| x.tanh(), f64::tanh),
        ("sigmoid_1e6", |x| x.sigmoid(), |x| 1.0 / (1.0 + (-x).exp())),
        ("erf_1e6", |x| x.erf(), libm::erf),
    ];
    let case = |(name, record, exact): (&str, Record, Exact)| {
        let x = vec![Given::new("x", &[LEN]).scaled(4.0)];
        Case::new(name, x, vec![], move |x, _| record(x[0]))
            .exactly(move |data, at| exact(f64::from(data[0][at])))
    };
    let operands = ["a", "b", "c", "d"].map(|name| Given::new(name, &[10 * LEN]));
    let chain = Case::new("chain8_1e7", operands.to_vec(), vec![], |x, _| {
        chain::record([x[0], x[1], x[2], x[3]])
    });
    let chain = chain.exactly(|data, at| {
        let [a, b, c, d] = [0, 1, 2, 3].map(|k| f64::from(data[k][at]));
        (((a * b + c).max(0.0) * 0.5 - d).powi(2) - 0.125).max(a)
    });
    functions.into_iter().map(case).chain([chain]).collect()
}
