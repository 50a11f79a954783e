//! Exponentials of vectors.

use std::f32::consts::LOG2_E;

use super::SimdVector;

/// A constant whose addition and subtraction round |x| < 2²² to an integer, half to even.
pub(crate) const ROUND: f32 = 12_582_912.0;
/// The first part of ln 2, which has few bits.
pub(crate) const LN2_HIGH: f32 = 0.693_359_4;
/// The other part of ln 2.
pub(crate) const LN2_LOW: f32 = -0.000_212_194_44;
/// Coefficients of (eʳ − 1 − r) / r² for |r| ≤ ½ ln 2, the lowest first: a minimax fit, within 2⁻²⁸ of eʳ.
pub(crate) const EXP_REST: [f32; 5] =
    [0.499_999_94, 0.166_665_21, 0.041_668_27, 0.008_368_677, 0.001_382_041_1];

/// Returns eˣ for x ≤ 0 within 1.5 ulp, and NaN for NaN. Other x have an unspecified result.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
pub(crate) unsafe fn exp_nonpositive<V: SimdVector>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        // The power is 0 from here on. NaN stays.
        exp_in_range(x.greater(V::splat(-104.0)))
    }
}

/// Returns eˣ for all x whose power of two [`SimdVector::times_power`] takes.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn exp_in_range<V: SimdVector>(x: V) -> V {
    // SAFETY: as the caller promises.
    unsafe {
        let round = V::splat(ROUND);
        let n = round.add_product(x, V::splat(LOG2_E)).sub(round);
        let r = x.add_product(n, V::splat(-LN2_HIGH)).add_product(n, V::splat(-LN2_LOW));
        let [a, b, c, d, e] = EXP_REST;
        let mut power = V::splat(e);
        for c in [d, c, b, a, 1.0, 1.0] {
            power = V::splat(c).add_product(power, r);
        }
        power.times_power(n)
    }
}

/// Loops over slices for AVX-512. They give the bits of scalar functions with fused multiply-add in two thirds of their
/// time, since one instruction multiplies with any power of two.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::__m512;

    use super::{SimdVector, exp_in_range, exp_nonpositive};

    const LEN: usize = __m512::LEN;

    /// Computes `$out` = `$f(x, $of)` for the elements x of `$x`. Slices have the length of the shorter one.
    macro_rules! each {
        ($x:ident, $out:ident, $f:ident, $of:expr) => {{
            let len = $x.len().min($out.len());
            let (vectors, rest) = $x[..len].as_chunks::<LEN>();
            let (out, out_rest) = $out[..len].as_chunks_mut::<LEN>();
            // SAFETY: the processor has the instructions, chunks are vectors, and both rests are shorter than one.
            unsafe {
                for (x, out) in vectors.iter().zip(out) {
                    $f(__m512::load(x.as_ptr()), $of).store(out.as_mut_ptr());
                }
                let x = __m512::load_first(rest.as_ptr(), rest.len());
                $f(x, $of).store_first(out_rest.as_mut_ptr(), rest.len());
            }
        }};
    }

    #[inline(always)]
    unsafe fn of_any(x: __m512, [least, most]: [__m512; 2]) -> __m512 {
        // SAFETY: as the caller promises. NaN stays.
        unsafe { exp_in_range(x.greater(least).lesser(most)) }
    }

    #[inline(always)]
    unsafe fn below(x: __m512, shift: __m512) -> __m512 {
        // SAFETY: as the caller promises.
        unsafe { exp_nonpositive(x.sub(shift)) }
    }

    /// Computes `out` = eˣ.
    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(crate) fn exp(x: &[f32], out: &mut [f32]) {
        // SAFETY: the processor has the instructions. The power is 0 or ∞ beyond these numbers.
        let range = unsafe { [__m512::splat(-104.0), __m512::splat(89.0)] };
        each!(x, out, of_any, range);
    }

    /// Computes `out` = e^(x − `shift`) for x of at most `shift`, and NaN for NaN.
    #[target_feature(enable = "avx512f,avx2,fma")]
    pub(crate) fn exp_below(x: &[f32], shift: f32, out: &mut [f32]) {
        // SAFETY: the processor has the instructions.
        let shift = unsafe { __m512::splat(shift) };
        each!(x, out, below, shift);
    }
}
#[cfg(target_arch = "x86_64")]
pub(crate) use avx512::{exp as exp_avx512, exp_below as exp_below_avx512};

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

    #[cfg(target_arch = "x86_64")]
    #[target_feature(enable = "avx512f,avx2,fma")]
    unsafe fn exps_avx512(x: &[f32]) -> Vec<f32> {
        // SAFETY: as the caller promises.
        unsafe { exps::<std::arch::x86_64::__m512>(x) }
    }

    #[cfg(target_arch = "x86_64")]
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
        #[cfg(target_arch = "x86_64")]
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
