//! Operations and reductions of rows.

use onetrip::{Axes, Tensor};

use super::measure::{Bench, Work};
use super::reference::check;
use super::{Done, direct};
use crate::random::Random;

/// Row operations on 4096², beside the same by hand.
pub async fn rows(bench: &Bench) -> Done {
    const SIDE: usize = 4096;
    type Record = fn(Tensor<'_, f32>) -> Tensor<'_, f32>;
    type Exact = fn(f64, &[f32]) -> f64;
    type Beside = (&'static str, fn(&[f32], usize, &mut [f32]));
    fn exps(row: &[f32]) -> f64 {
        row.iter().map(|&x| f64::from(x).exp()).sum()
    }
    fn normal(x: f64, row: &[f32]) -> f64 {
        let mean = |f: &dyn Fn(f64) -> f64| {
            row.iter().map(|&x| f(f64::from(x))).sum::<f64>() / row.len() as f64
        };
        let average = mean(&|x| x);
        (x - average) / (mean(&|x| (x - average).powi(2)) + 1e-5).sqrt()
    }
    let softmax: Beside = ("softmax by hand", direct::softmax);
    let log_softmax: Beside = ("log-softmax by hand", direct::log_softmax);
    let norm: Beside = ("layer norm by hand", direct::layer_norm);
    let cases: [(&str, Record, Exact, Beside); 3] = [
        ("softmax_4096", |x| x.softmax(-1), |x, row| x.exp() / exps(row), softmax),
        ("log_softmax_4096", |x| x.log_softmax(-1), |x, row| x - exps(row).ln(), log_softmax),
        ("layer_norm_4096", |x| x.layer_norm(-1, 1e-5), normal, norm),
    ];
    if !cases.iter().any(|(name, ..)| bench.wants(name)) {
        return Ok(());
    }
    let x = Random::new(5).floats(SIDE * SIDE);
    let on_x = bench.device.resident(&x, [SIDE, SIDE])?;
    let mut out = vec![0.0; SIDE * SIDE];
    for (name, op, exact, (other, by_hand)) in cases {
        if bench.wants(name) {
            let beside = || by_hand(&x, SIDE, &mut out);
            let work = Work::Bytes(8.0 * (SIDE * SIDE) as f64);
            let y = bench.pair(name, &work, other, beside, |b| op(b.bind(&on_x))).await?;
            check(name, Some(y), 1e-5, |i| exact(x[i].into(), &x[i / SIDE * SIDE..][..SIDE]))?;
        }
    }
    Ok(())
}

/// The position of the greatest element, in units of 1024.
fn position_of(x: Tensor<'_, f32>, axes: impl Into<Axes>) -> Tensor<'_, f32> {
    x.argmax(axes).cast::<f32>().scale(2f32.powi(-10))
}

/// Reductions of 64e6 elements to one, and along each axis of 8000²; beside them, a sum by hand.
pub async fn reductions(bench: &Bench) -> Done {
    const SIDE: usize = 8000;
    const LEN: usize = SIDE * SIDE;
    type Record = fn(Tensor<'_, f32>) -> Tensor<'_, f32>;
    type Exact = fn(&mut dyn Iterator<Item = f64>) -> f64;
    let sum: Exact = |x| x.sum();
    let greatest: Exact = |x| x.fold(f64::NEG_INFINITY, f64::max);
    let position: Exact = |x| {
        let mut best = (0, f64::NEG_INFINITY);
        for (at, x) in x.enumerate() {
            if x > best.1 {
                best = (at, x);
            }
        }
        best.0 as f64 / 1024.0
    };
    let log_sum: Exact = |x| x.map(f64::exp).sum::<f64>().ln();
    let cases: [(&str, Record, usize, Exact); 8] = [
        ("sum_64e6", |x| x.sum(..), 0, sum),
        ("max_64e6", |x| x.amax(..), 0, greatest),
        ("argmax_64e6", |x| position_of(x, ..), 0, position),
        ("logsumexp_64e6", |x| x.logsumexp(..), 0, log_sum),
        ("sum_rows_8000", |x| x.sum(1), 1, sum),
        ("sum_columns_8000", |x| x.sum(0), SIDE, sum),
        ("argmax_columns_8000", |x| position_of(x, 0), SIDE, position),
        ("logsumexp_columns_8000", |x| x.logsumexp(0), SIDE, log_sum),
    ];
    if !cases.iter().any(|(name, ..)| bench.wants(name)) {
        return Ok(());
    }
    let x = Random::new(6).floats(LEN);
    let on_x = bench.device.resident(&x, [SIDE, SIDE])?;
    for (name, op, stride, exact) in cases {
        if bench.wants(name) {
            let beside = || {
                std::hint::black_box(direct::sum(&x));
            };
            let work = Work::Bytes(4.0 * LEN as f64);
            let y = bench.pair(name, &work, "a sum by hand", beside, |b| op(b.bind(&on_x))).await?;
            let whole =
                if stride == 0 { exact(&mut x.iter().copied().map(f64::from)) } else { 0.0 };
            check(name, Some(y), 8e-3, |i| match stride {
                0 => whole,
                1 => exact(&mut x[i * SIDE..][..SIDE].iter().map(|&x| f64::from(x))),
                _ => exact(&mut x[i..].iter().step_by(SIDE).map(|&x| f64::from(x))),
            })?;
        }
    }
    Ok(())
}
