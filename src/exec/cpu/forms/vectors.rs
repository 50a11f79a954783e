//! Vectors of `f32`, as the innermost loops of products and convolutions use them.

use std::ops::Range;

#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

/// A vector of `f32`.
///
/// All functions are unsafe to call on a processor without the vector's instructions.
pub(crate) trait Lanes: Copy {
    /// Elements of a vector.
    const LEN: usize;
    /// A choice of lanes.
    type Mask: Copy;

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
    /// Returns `self + a * b`, rounded once where the processor has an instruction for it.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// The sum of all elements.
    unsafe fn sum(self) -> f32;
    /// The choice of the lanes of a range, which ends at [`LEN`](Self::LEN) at most.
    unsafe fn mask(lanes: Range<usize>) -> Self::Mask;
    /// Reads the elements of `mask`. The others are 0, and need not exist.
    unsafe fn load_masked(from: *const f32, mask: Self::Mask) -> Self;
    /// The elements at even places of this vector and then of `other`, and those at odd places.
    unsafe fn unzip(self, other: Self) -> [Self; 2];

    /// Hints that the line at `address`, which may be any, will be written.
    #[inline(always)]
    fn fetch(address: *const f32) {
        #[cfg(all(target_arch = "x86_64", not(miri)))]
        // SAFETY: a prefetch may have any address.
        unsafe {
            x86::_mm_prefetch::<{ x86::_MM_HINT_T0 }>(address.cast());
        }
        #[cfg(not(all(target_arch = "x86_64", not(miri))))]
        let _ = address;
    }
}

/// Lanes for any processor, which the compiler maps to the vectors that all processors of the target have.
#[derive(Clone, Copy)]
pub(crate) struct Plain([f32; 4]);

impl Lanes for Plain {
    const LEN: usize = 4;
    type Mask = [bool; 4];

    #[inline(always)]
    unsafe fn splat(element: f32) -> Self {
        Self([element; 4])
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises. An array of floats needs no more alignment than a float.
        Self(unsafe { from.cast::<[f32; 4]>().read() })
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { to.cast::<[f32; 4]>().write(self.0) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        if count == Self::LEN {
            // SAFETY: as the caller promises.
            return unsafe { Self::load(from) };
        }
        let mut lanes = [0.0; 4];
        for (i, lane) in lanes.iter_mut().enumerate().take(count) {
            // SAFETY: as the caller promises.
            *lane = unsafe { from.add(i).read() };
        }
        Self(lanes)
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        if count == Self::LEN {
            // SAFETY: as the caller promises.
            return unsafe { self.store(to) };
        }
        for (i, lane) in self.0.into_iter().enumerate().take(count) {
            // SAFETY: as the caller promises.
            unsafe { to.add(i).write(lane) };
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] + other.0[i]))
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // Processors without an instruction for it would call a function for each.
        let fused = cfg!(any(target_arch = "aarch64", target_feature = "fma"));
        let lane = |i: usize| {
            if fused { a.0[i].mul_add(b.0[i], self.0[i]) } else { self.0[i] + a.0[i] * b.0[i] }
        };
        Self(std::array::from_fn(lane))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let [a, b, c, d] = self.0;
        (a + c) + (b + d)
    }

    #[inline(always)]
    unsafe fn mask(lanes: Range<usize>) -> Self::Mask {
        std::array::from_fn(|i| lanes.contains(&i))
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: elements of the mask exist, as the caller promises.
        let lane = |i: usize| if mask[i] { unsafe { from.wrapping_add(i).read() } } else { 0.0 };
        Self(std::array::from_fn(lane))
    }

    #[inline(always)]
    unsafe fn unzip(self, other: Self) -> [Self; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        [Self([a, c, e, g]), Self([b, d, f, h])]
    }
}

/// A mask of the first `count` of eight lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
unsafe fn first_of_8(count: usize) -> x86::__m256i {
    const LANES: [i32; 16] = [-1, -1, -1, -1, -1, -1, -1, -1, 0, 0, 0, 0, 0, 0, 0, 0];
    debug_assert!(count <= 8);
    // SAFETY: the processor has the instructions, as the caller promises, and eight lanes follow lane 8 − `count`.
    unsafe { x86::_mm256_loadu_si256(LANES.as_ptr().add(8 - count).cast()) }
}

#[cfg(target_arch = "x86_64")]
impl Lanes for x86::__m256 {
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
}

/// A mask of the first `count` of sixteen lanes.
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn first_of_16(count: usize) -> x86::__mmask16 {
    debug_assert!(count <= 16);
    ((1_u32 << count) - 1) as x86::__mmask16
}

#[cfg(target_arch = "x86_64")]
impl Lanes for x86::__m512 {
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
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_fmadd_ps(a, b, self) }
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        // SAFETY: as the caller promises.
        unsafe { x86::_mm512_reduce_add_ps(self) }
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
}
