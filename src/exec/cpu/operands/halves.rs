//! Conversions of many halves. Those of the `half` crate are a call for each eight elements.

use half::f16;
use half::slice::HalfFloatSliceExt;

/// Sets `floats` to the values of `halves`, which are as many.
pub(crate) fn to_floats(halves: &[f16], floats: &mut [f32]) {
    assert_eq!(halves.len(), floats.len());
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if vectors::exist() {
        // SAFETY: the processor has the instructions.
        return unsafe { vectors::to_floats(halves, floats) };
    }
    halves.convert_to_f32_slice(floats);
}

/// Sets `halves` to the nearest of `floats`, which are as many.
pub(crate) fn to_halves(floats: &[f32], halves: &mut [f16]) {
    assert_eq!(halves.len(), floats.len());
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    if vectors::exist() {
        // SAFETY: the processor has the instructions.
        return unsafe { vectors::to_halves(floats, halves) };
    }
    halves.convert_from_f32_slice(floats);
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
mod vectors {
    use std::arch::x86_64::{
        _MM_FROUND_TO_NEAREST_INT, _mm_loadu_si128, _mm_storeu_si128, _mm256_cvtph_ps,
        _mm256_cvtps_ph, _mm256_loadu_ps, _mm256_storeu_ps,
    };

    use half::f16;
    use half::slice::HalfFloatSliceExt;

    /// Elements of a vector.
    const LEN: usize = 8;

    pub fn exist() -> bool {
        is_x86_feature_detected!("avx") && is_x86_feature_detected!("f16c")
    }

    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn to_floats(halves: &[f16], floats: &mut [f32]) {
        let (halves, last_halves) = halves.as_chunks::<LEN>();
        let (floats, last_floats) = floats.as_chunks_mut::<LEN>();
        for (from, to) in halves.iter().zip(floats) {
            // SAFETY: both are arrays of a vector's elements.
            unsafe {
                let vector = _mm256_cvtph_ps(_mm_loadu_si128(from.as_ptr().cast()));
                _mm256_storeu_ps(to.as_mut_ptr(), vector);
            }
        }
        last_halves.convert_to_f32_slice(last_floats);
    }

    #[target_feature(enable = "avx,f16c")]
    pub unsafe fn to_halves(floats: &[f32], halves: &mut [f16]) {
        let (floats, last_floats) = floats.as_chunks::<LEN>();
        let (halves, last_halves) = halves.as_chunks_mut::<LEN>();
        for (from, to) in floats.iter().zip(halves) {
            // SAFETY: as above.
            unsafe {
                let vector = _mm256_loadu_ps(from.as_ptr());
                let vector = _mm256_cvtps_ph::<_MM_FROUND_TO_NEAREST_INT>(vector);
                _mm_storeu_si128(to.as_mut_ptr().cast(), vector);
            }
        }
        last_halves.convert_from_f32_slice(last_floats);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_half_becomes_its_float_and_is_itself_again() {
        let all: Vec<f16> = (0..=u16::MAX).map(f16::from_bits).collect();
        // Several lengths: whole vectors, and elements after the last.
        for halves in [&all[..], &all[..65_531], &all[3..10], &all[..0]] {
            let mut floats = vec![0.0; halves.len()];
            to_floats(halves, &mut floats);
            let mut back = vec![f16::ZERO; halves.len()];
            to_halves(&floats, &mut back);
            for ((&half, float), back) in halves.iter().zip(floats).zip(back) {
                assert_eq!(half.is_nan(), float.is_nan());
                assert!(half.is_nan() || f64::from(float) == half.to_f64());
                assert!(half.is_nan() || back.to_bits() == half.to_bits());
            }
        }
    }

    #[test]
    fn floats_become_the_nearest_halves_and_ties_the_even_ones() {
        let step = 2f32.powi(-10);
        let floats = [1.0 + step / 2.0, 1.0 + 1.5 * step, 65_519.0, 65_520.0, 2e-8, -0.0, 1e-3];
        let want =
            [1.0, 1.0 + 2.0 * step, 65_504.0, f32::INFINITY, 0.0, -0.0, 1049.0 * 2f32.powi(-20)];
        let floats: Vec<f32> = floats.iter().cycle().copied().take(63).collect();
        let mut halves = vec![f16::ONE; floats.len()];
        to_halves(&floats, &mut halves);
        for (half, want) in halves.into_iter().zip(want.iter().cycle()) {
            assert_eq!(half.to_f32().to_bits(), want.to_bits(), "{want}");
        }
    }
}
