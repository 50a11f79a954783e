//! Vectors of `f32`, as the innermost loops of products use them.

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
use std::arch::wasm32 as wasm;
#[cfg(target_arch = "x86_64")]
use std::arch::x86_64 as x86;

/// Repeats a block with `$i` from 0 to `$n` − 1, which index registers. WebAssembly is compiled for size, which keeps loops,
/// and what a loop indexes lies in memory: there the turns, at most four, stand one after another.
macro_rules! each {
    ($i:ident < $n:expr => $body:block) => {{
        #[cfg(not(target_arch = "wasm32"))]
        for $i in 0..$n {
            $body
        }
        #[cfg(target_arch = "wasm32")]
        {
            const { assert!($n <= 4) };
            each!($i = 0 of $n => $body);
            each!($i = 1 of $n => $body);
            each!($i = 2 of $n => $body);
            each!($i = 3 of $n => $body);
        }
    }};
    ($i:ident = $turn:literal of $n:expr => $body:block) => {
        if $turn < $n {
            let $i: usize = $turn;
            $body
        }
    };
}
pub(super) use each;

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
    /// Returns `self + a * b`, rounded once where the processor has an instruction for it.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// The sum of all elements.
    unsafe fn sum(self) -> f32;

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

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
/// Lanes for any processor, which the compiler maps to the vectors that all processors of the target have.
#[derive(Clone, Copy)]
pub(super) struct Plain([f32; 4]);

#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
impl Lanes for Plain {
    const LEN: usize = 4;

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
}

#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
impl Lanes for wasm::v128 {
    const LEN: usize = 4;

    #[inline(always)]
    unsafe fn splat(element: f32) -> Self {
        wasm::f32x4_splat(element)
    }

    #[inline(always)]
    unsafe fn load(from: *const f32) -> Self {
        // SAFETY: as the caller promises. The load needs no alignment.
        unsafe { wasm::v128_load(from.cast()) }
    }

    #[inline(always)]
    unsafe fn store(self, to: *mut f32) {
        // SAFETY: as in `load`.
        unsafe { wasm::v128_store(to.cast(), self) }
    }

    #[inline(always)]
    unsafe fn load_first(from: *const f32, count: usize) -> Self {
        // SAFETY: as the caller promises.
        unsafe {
            let at = |lane: usize| if lane < count { *from.add(lane) } else { 0.0 };
            match count {
                4 => Self::load(from),
                _ => wasm::f32x4(at(0), at(1), at(2), 0.0),
            }
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises.
        unsafe {
            match count {
                4 => self.store(to),
                3 => {
                    wasm::v128_store64_lane::<0>(self, to.cast());
                    wasm::v128_store32_lane::<2>(self, to.add(2).cast());
                }
                2 => wasm::v128_store64_lane::<0>(self, to.cast()),
                1 => wasm::v128_store32_lane::<0>(self, to.cast()),
                _ => {}
            }
        }
    }

    #[inline(always)]
    unsafe fn add(self, other: Self) -> Self {
        wasm::f32x4_add(self, other)
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        wasm::f32x4_add(self, wasm::f32x4_mul(a, b))
    }

    #[inline(always)]
    unsafe fn sum(self) -> f32 {
        let pairs = wasm::f32x4_add(self, wasm::i32x4_shuffle::<2, 3, 0, 1>(self, self));
        wasm::f32x4_extract_lane::<0>(pairs) + wasm::f32x4_extract_lane::<1>(pairs)
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
#[cfg(target_arch = "x86_64")]
#[inline(always)]
fn first_of_16(count: usize) -> x86::__mmask16 {
    debug_assert!(count <= 16);
    ((1_u32 << count) - 1) as x86::__mmask16
}

#[cfg(target_arch = "x86_64")]
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
