//! The logarithm of a sum of exponentials, as a combination of elements.

use bytemuck::cast_slice;
use multiversion::multiversion;
use multiversion::target::target_cfg_f;

use super::fold::LaneFold;
use crate::exec::cpu::tape::math;
use crate::exec::cpu::tape::wide;
use crate::exec::cpu::vectors::extremes::ExtremeKernels;

/// log Σ eˣ.
pub(crate) struct LogSumExp;

impl LaneFold for LogSumExp {
    /// The greatest element and Σ e^(x − greatest).
    type State = [f64; 2];

    fn empty(&self) -> Self::State {
        [f64::NEG_INFINITY, 0.0]
    }

    fn row(&self, state: &mut Self::State, lanes: &[u32], _first: usize) {
        self.merge(state, log_sum_exp(cast_slice(lanes)));
    }

    fn column(&self, states: &mut [Self::State], lanes: &[u32], _index: usize) {
        log_sum_exp_columns(states, cast_slice(lanes));
    }

    fn merge(&self, state: &mut Self::State, later: Self::State) {
        let greatest = f64::from(math::max(state[0] as f32, later[0] as f32));
        let weight = |[own, sum]: Self::State| sum * (own - finite_or_zero(greatest)).exp();
        // An infinite or NaN maximum is the result with any sum.
        *state = if state[0] == f64::NEG_INFINITY {
            [greatest, later[1]]
        } else if later[0] == f64::NEG_INFINITY {
            [greatest, state[1]]
        } else {
            [greatest, weight(*state) + weight(later)]
        };
    }

    fn finish(&self, [greatest, sum]: Self::State) -> u32 {
        let log = if greatest.is_finite() { greatest + sum.ln() } else { greatest };
        (log as f32).to_bits()
    }
}

/// Returns the number to subtract before the exponential.
#[inline(always)]
fn finite_or_zero(greatest: f64) -> f64 {
    if greatest.abs() == f64::INFINITY { 0.0 } else { greatest }
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn log_sum_exp(x: &[f32]) -> [f64; 2] {
    const FMA: bool = target_cfg_f!(any(target_feature = "fma", target_arch = "aarch64"));
    let greatest = ExtremeKernels::native().greatest(x);
    let shift = finite_or_zero(f64::from(greatest)) as f32;
    [f64::from(greatest), wide::sum_of_exps::<FMA>(x, shift)]
}

#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
fn log_sum_exp_columns(states: &mut [[f64; 2]], x: &[f32]) {
    const FMA: bool = target_cfg_f!(any(target_feature = "fma", target_arch = "aarch64"));
    const BLOCK: usize = 512;
    let (mut apart, mut weights) = ([0.0f32; BLOCK], [0.0f32; BLOCK]);
    for (states, x) in states.chunks_mut(BLOCK).zip(x.chunks(BLOCK)) {
        for (i, (&[most, _], &x)) in states.iter().zip(x).enumerate() {
            let before = most as f32;
            // Equal infinities are 0 apart; the sum does not count while the greatest is infinite or NaN.
            apart[i] = if x == before { 0.0 } else { x - before };
        }
        // A loop of its own runs over wider vectors than those of doubles.
        for (weight, &apart) in weights[..x.len()].iter_mut().zip(&apart) {
            *weight = math::exp_nonpositive::<FMA>(-apart.abs());
        }
        for (i, ([most, sum], &x)) in states.iter_mut().zip(x).enumerate() {
            let weight = f64::from(weights[i]);
            *sum = if apart[i] > 0.0 { *sum * weight + 1.0 } else { *sum + weight };
            *most = f64::from(math::max(*most as f32, x));
        }
    }
}
