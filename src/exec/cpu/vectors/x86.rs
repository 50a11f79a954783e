//! Vectors of AVX2 and AVX-512.

use std::arch::x86_64 as x86;
use std::ops::Range;

use super::{SUMS, SimdVector, UP};

/// A mask of the first `count` of eight lanes.
#[inline(always)]
unsafe fn first_of_8(count: usize) -> x86::__m256i {
    const LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    debug_assert!(count <= 8);
    // SAFETY: the processor has the instructions, as the caller promises, and eight lanes follow lane 8 − `count`.
    unsafe { x86::_mm256_loadu_si256(LANES.as_ptr().add(8 - count).cast()) }
}

impl SimdVector for x86::__m256 {
    const LEN: usize = 8;
    type Mask = x86::__m256i;

    #[inline(always)]
    unsafe fn splat(element: f32) -> Self {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe { x86::_mm256_set1_ps(element) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_maskload_ps(from, first_of_8(count)) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_maskstore_ps(to, first_of_8(count), self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_sub_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn lesser(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_min_ps(other, self) }
    }

    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_max_ps(other, self) }
    }

    #[inline(always)]
    unsafe fn or_nan_of(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let is_nan = x86::_mm256_cmp_ps::<{ x86::_CMP_UNORD_Q }>(other, other);
            x86::_mm256_blendv_ps(self, other, is_nan)
        }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_fmadd_ps(a, b, self) }
    }

    #[inline(always)]
    unsafe fn sums(vectors: [Self; SUMS]) -> [f32; SUMS] {
        let mut all = [0.0; SUMS];
        // No closures: they would not be compiled for the instructions of the function around them.
        // SAFETY: the processor has the instructions, as the caller promises, and there is room for all sums.
        unsafe {
            // The sums of both halves of each of four vectors, side by side.
            let mut fours = [x86::_mm256_setzero_ps(); SUMS / 4];
            for i in 0..SUMS / 4 {
                let [a, b] = [vectors[4 * i], vectors[4 * i + 1]];
                let [c, d] = [vectors[4 * i + 2], vectors[4 * i + 3]];
                let low = x86::_mm256_add_ps(
                    x86::_mm256_unpacklo_ps(a, b),
                    x86::_mm256_unpackhi_ps(a, b),
                );
                let high = x86::_mm256_add_ps(
                    x86::_mm256_unpacklo_ps(c, d),
                    x86::_mm256_unpackhi_ps(c, d),
                );
                let [low, high] = [x86::_mm256_castps_pd(low), x86::_mm256_castps_pd(high)];
                fours[i] = x86::_mm256_add_ps(
                    x86::_mm256_castpd_ps(x86::_mm256_unpacklo_pd(low, high)),
                    x86::_mm256_castpd_ps(x86::_mm256_unpackhi_pd(low, high)),
                );
            }
            for i in 0..SUMS / 8 {
                let [low, high] = [fours[2 * i], fours[2 * i + 1]];
                let first = x86::_mm256_permute2f128_ps::<0x20>(low, high);
                let second = x86::_mm256_permute2f128_ps::<0x31>(low, high);
                x86::_mm256_storeu_ps(
                    all.as_mut_ptr().add(8 * i),
                    x86::_mm256_add_ps(first, second),
                );
            }
        }
        all
    }

    #[inline(always)]
    unsafe fn mask(lanes: Range<usize>) -> Self::Mask {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe { x86::_mm256_andnot_si256(first_of_8(lanes.start), first_of_8(lanes.end)) }
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_maskload_ps(from, mask) }
    }

    #[inline(always)]
    unsafe fn or_masked(self, from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let elements = x86::_mm256_maskload_ps(from, mask);
            x86::_mm256_blendv_ps(self, elements, x86::_mm256_castsi256_ps(mask))
        }
    }

    #[inline(always)]
    unsafe fn unzip(self, other: Self) -> [Self; 2] {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe {
            let [even, odd] = [
                x86::_mm256_shuffle_ps::<0b10_00_10_00>(self, other),
                x86::_mm256_shuffle_ps::<0b11_01_11_01>(self, other),
            ];
            // The halves of both vectors take turns.
            [even, odd].map(|turns| {
                let turns = x86::_mm256_castps_pd(turns);
                x86::_mm256_castpd_ps(x86::_mm256_permute4x64_pd::<0b11_01_10_00>(turns))
            })
        }
    }

    #[inline(always)]
    unsafe fn zip(self, other: Self) -> [Self; 2] {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe {
            // Each has a quarter of the elements in either half.
            let [low, high] =
                [x86::_mm256_unpacklo_ps(self, other), x86::_mm256_unpackhi_ps(self, other)];
            [
                x86::_mm256_permute2f128_ps::<0x20>(low, high),
                x86::_mm256_permute2f128_ps::<0x31>(low, high),
            ]
        }
    }

    #[inline(always)]
    unsafe fn times_power(self, n: Self) -> Self {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe {
            let exponent =
                x86::_mm256_add_epi32(x86::_mm256_cvtps_epi32(n), x86::_mm256_set1_epi32(UP + 127));
            let power = x86::_mm256_castsi256_ps(x86::_mm256_slli_epi32::<23>(exponent));
            let last = x86::_mm256_castsi256_ps(x86::_mm256_set1_epi32((127 - UP) << 23));
            x86::_mm256_mul_ps(x86::_mm256_mul_ps(self, power), last)
        }
    }
}

/// A mask of the first `count` of sixteen lanes.
#[inline(always)]
fn first_of_16(count: usize) -> x86::__mmask16 {
    debug_assert!(count <= 16);
    ((1_u32 << count) - 1) as x86::__mmask16
}

/// The sums of neighbouring quarters of `low`, then those of `high`.
#[inline(always)]
unsafe fn sum_of_pairs(low: x86::__m512, high: x86::__m512) -> x86::__m512 {
    // SAFETY: the processor has the instructions, as the caller promises.
    unsafe {
        x86::_mm512_add_ps(
            x86::_mm512_shuffle_f32x4::<0b10_00_10_00>(low, high),
            x86::_mm512_shuffle_f32x4::<0b11_01_11_01>(low, high),
        )
    }
}

impl SimdVector for x86::__m512 {
    const LEN: usize = 16;
    type Mask = x86::__mmask16;

    #[inline(always)]
    unsafe fn splat(element: f32) -> Self {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe { x86::_mm512_set1_ps(element) }
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_loadu_ps(from) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_storeu_ps(to, self) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_maskz_loadu_ps(first_of_16(count), from) }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_mask_storeu_ps(to, first_of_16(count), self) }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn sub(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_sub_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_mul_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn lesser(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_min_ps(other, self) }
    }

    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_max_ps(other, self) }
    }

    #[inline(always)]
    unsafe fn or_nan_of(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let is_nan = x86::_mm512_cmp_ps_mask::<{ x86::_CMP_UNORD_Q }>(other, other);
            x86::_mm512_mask_mov_ps(self, is_nan, other)
        }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_fmadd_ps(a, b, self) }
    }

    #[inline(always)]
    unsafe fn sums(vectors: [Self; SUMS]) -> [f32; SUMS] {
        let mut all = [0.0; SUMS];
        // SAFETY: the processor has the instructions, as the caller promises, and there is room for all sums.
        unsafe {
            // The sums of the quarters of each of four vectors, side by side.
            let mut fours = [x86::_mm512_setzero_ps(); SUMS / 4];
            for i in 0..SUMS / 4 {
                let [a, b] = [vectors[4 * i], vectors[4 * i + 1]];
                let [c, d] = [vectors[4 * i + 2], vectors[4 * i + 3]];
                let low = x86::_mm512_add_ps(
                    x86::_mm512_unpacklo_ps(a, b),
                    x86::_mm512_unpackhi_ps(a, b),
                );
                let high = x86::_mm512_add_ps(
                    x86::_mm512_unpacklo_ps(c, d),
                    x86::_mm512_unpackhi_ps(c, d),
                );
                let [low, high] = [x86::_mm512_castps_pd(low), x86::_mm512_castps_pd(high)];
                fours[i] = x86::_mm512_add_ps(
                    x86::_mm512_castpd_ps(x86::_mm512_unpacklo_pd(low, high)),
                    x86::_mm512_castpd_ps(x86::_mm512_unpackhi_pd(low, high)),
                );
            }
            let mut halves = [x86::_mm512_setzero_ps(); 2];
            for i in 0..2 {
                halves[i] = sum_of_pairs(fours[2 * i], fours[2 * i + 1]);
            }
            x86::_mm512_storeu_ps(all.as_mut_ptr(), sum_of_pairs(halves[0], halves[1]));
        }
        all
    }

    #[inline(always)]
    unsafe fn mask(lanes: Range<usize>) -> Self::Mask {
        first_of_16(lanes.end) & !first_of_16(lanes.start)
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_maskz_loadu_ps(mask, from) }
    }

    #[inline(always)]
    unsafe fn or_masked(self, from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_mask_loadu_ps(self, mask, from) }
    }

    #[inline(always)]
    unsafe fn unzip(self, other: Self) -> [Self; 2] {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe {
            let step = x86::_mm512_set1_epi32(1);
            let even =
                x86::_mm512_setr_epi32(0, 2, 4, 6, 8, 10, 12, 14, 16, 18, 20, 22, 24, 26, 28, 30);
            let odd = x86::_mm512_add_epi32(even, step);
            [even, odd].map(|places| x86::_mm512_permutex2var_ps(self, places, other))
        }
    }

    #[inline(always)]
    unsafe fn zip(self, other: Self) -> [Self; 2] {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe {
            let half = x86::_mm512_set1_epi32(8);
            let first =
                x86::_mm512_setr_epi32(0, 16, 1, 17, 2, 18, 3, 19, 4, 20, 5, 21, 6, 22, 7, 23);
            let second = x86::_mm512_add_epi32(first, half);
            [first, second].map(|places| x86::_mm512_permutex2var_ps(self, places, other))
        }
    }

    #[inline(always)]
    unsafe fn times_power(self, n: Self) -> Self {
        // SAFETY: the processor has the instructions, as the caller promises.
        unsafe { x86::_mm512_scalef_ps(self, n) }
    }
}
