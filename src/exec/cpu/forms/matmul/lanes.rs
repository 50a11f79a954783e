//! Vectors of `f32`, as the innermost loops of products use them.

use std::arch::x86_64 as x86;

/// A vector of `f32`.
///
/// All functions are unsafe to call on a processor without the vector's instructions.
pub(super) trait Lanes: Copy {
    /// Elements of a vector.
    const LEN: usize;

    unsafe fn splat(element: f32) -> Self;
    /// Reads [`LEN`](Self::LEN) elements.
    unsafe fn load(from: *const f32) -> Self;
    /// Writes [`LEN`](Self::LEN) elements.
    unsafe fn store(self, to: *mut f32);
    unsafe fn add(self, other: Self) -> Self;
    /// Returns `self + a * b`, rounded once.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// The sum of all elements.
    unsafe fn sum(self) -> f32;

    /// Hints that the line at `address`, which may be any, will be written.
    #[inline(always)]
    fn fetch(address: *const f32) {
        // SAFETY: a prefetch may have any address.
        unsafe {
            x86::_mm_prefetch::<{ x86::_MM_HINT_T0 }>(address.cast());
        }
    }
}

impl Lanes for x86::__m256 {
    const LEN: usize = 8;

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
    unsafe fn add(self, other: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_add_ps(self, other) }
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm256_fmadd_ps(a, b, self) }
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as the caller promises.
        unsafe {
            let high = x86::_mm256_extractf128_ps::<1>(self);
            let four = x86::_mm_add_ps(x86::_mm256_castps256_ps128(self), high);
            let two = x86::_mm_add_ps(four, x86::_mm_movehl_ps(four, four));
            x86::_mm_cvtss_f32(x86::_mm_add_ss(two, x86::_mm_movehdup_ps(two)))
        }
    }
}
