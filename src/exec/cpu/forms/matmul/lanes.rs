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
    /// Reads the first `count` elements; the others are 0. `count` is at most [`LEN`](Self::LEN).
    unsafe fn load_first(from: *const f32, count: usize) -> Self;
    /// Writes the first `count` elements. `count` is at most [`LEN`](Self::LEN).
    unsafe fn store_first(self, to: *mut f32, count: usize);
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

/// A mask of the first `count` of eight lanes.
#[inline(always)]
unsafe fn first_of_8(count: usize) -> x86::__m256i {
    const LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    debug_assert!(count <= 8);
    // SAFETY: the processor has the instructions, as the caller promises, and eight lanes follow lane 8 − `count`.
    unsafe { x86::_mm256_loadu_si256(LANES.as_ptr().add(8 - count).cast()) }
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

/// A mask of the first `count` of sixteen lanes.
#[inline(always)]
fn first_of_16(count: usize) -> x86::__mmask16 {
    debug_assert!(count <= 16);
    ((1_u32 << count) - 1) as x86::__mmask16
}

impl Lanes for x86::__m512 {
    const LEN: usize = 16;

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
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_fmadd_ps(a, b, self) }
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_reduce_add_ps(self) }
    }
}
