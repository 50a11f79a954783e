//! Exponentials of vectors.

use std::f32::consts::LOG2_E;

use super::SimdVector;

/// A constant whose addition and subtraction round |x| < 2²² to an integer, half to even.
const ROUND: f32 = 12_582_912.0;
/// ln 2 in two parts, of which the first has few bits.
const LN2: [f32; 2] = [0.693_359_4, -0.000_212_194_44];
/// Coefficients of (eʳ − 1 − r) / r² for |r| ≤ ½ ln 2, the highest first.
const REST: [f32; 6] =
    [0.000_197_644_55, 0.001_393_238_9, 0.008_333_543, 0.041_666_493, 0.166_666_66, 0.5];

/// Returns eˣ for x ≤ 0 within 1.5 ulp, and NaN for NaN. Other x have an unspecified result.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn exp_nonpositive<V: SimdVector>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let round = V::splat(ROUND);
        // The power is 0 from here on. NaN stays.
        let x = x.greater(V::splat(-104.0));
        let n = round.add_product(x, V::splat(LOG2_E)).sub(round);
        let r = x.add_product(n, V::splat(-LN2[0])).add_product(n, V::splat(-LN2[1]));
        let mut rest = V::splat(REST[0]);
        for c in &REST[1..] {
            rest = V::splat(*c).add_product(rest, r);
        }
        let power = V::splat(1.0).add(r.add_product(r.mul(r), rest));
        power.times_power(n)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::vectors::Plain;

    /// Calls `exp` for all vectors of `x`.
    unsafe fn exps<V: SimdVector>(x: &[f32]) -> Vec<f32> {
        let mut out = x.to_vec();
        for out in out.chunks_exact_mut(V::LEN) {
            // SAFETY: the chunk is a vector, and the processor is as the caller promises.
            unsafe { exp_nonpositive(V::load(out.as_ptr())).store(out.as_mut_ptr()) };
        }
        out
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx512f,avx2,fma")]
    unsafe fn exps_avx512(x: &[f32]) -> Vec<f32> {
        // SAFETY: as the caller promises.
        unsafe { exps::<std::arch::x86_64::__m512>(x) }
    }

    #[cfg(all(target_arch = "x86_64", not(miri)))]
    #[target_feature(enable = "avx2,fma")]
    unsafe fn exps_avx2(x: &[f32]) -> Vec<f32> {
        // SAFETY: as the caller promises.
        unsafe { exps::<std::arch::x86_64::__m256>(x) }
    }

    #[test]
    fn exponentials_of_every_processor_keep_their_error() {
        let mut x = vec![0.0, -0.0, -1e-40, -87.4, -103.9, -104.0, -1e38, f32::MIN];
        x.extend([f32::NEG_INFINITY, f32::NAN]);
        let step = if cfg!(miri) { 1 << 24 } else { 10_007 };
        x.extend((0x8000_0000..0xff80_0000).step_by(step).map(f32::from_bits));
        x.resize(x.len().next_multiple_of(16), -1.0);
        // SAFETY: every processor can do this.
        let mut all = vec![unsafe { exps::<Plain>(&x) }];
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: features are asked for.
        unsafe {
            use crate::exec::cpu::vectors::{has_avx2, has_avx512};
            all.extend(has_avx512().then(|| exps_avx512(&x)));
            all.extend(has_avx2().then(|| exps_avx2(&x)));
        }
        for got in all {
            for (&x, got) in x.iter().zip(got) {
                let want = f64::from(x).exp();
                let ulp = want.max(f64::from(f32::MIN_POSITIVE)).log2().floor() - 23.0;
                let near = (f64::from(got) - want).abs() <= 1.5 * ulp.exp2();
                assert!(near || (x.is_nan() && got.is_nan()), "{x}: {got} for {want}");
            }
        }
    }
}
