//! Vectors of `f32`, as the innermost loops of products and convolutions use them.

#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::Range;

/// Vectors that are summed up at a time.
pub(crate) const SUMS: usize = 16;

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
    unsafe fn sub(self, other: Self) -> Self;
    unsafe fn mul(self, other: Self) -> Self;
    /// The lesser elements; those of `self` where both are zeros, or either is NaN.
    unsafe fn lesser(self, other: Self) -> Self;
    /// The greater elements; those of `self` where both are zeros, or either is NaN.
    unsafe fn greater(self, other: Self) -> Self;
    /// The elements of `other` that are NaN, and those of `self`.
    unsafe fn or_nan_of(self, other: Self) -> Self;
    /// Returns `self + a * b`, rounded once where the processor has an instruction for it.
    unsafe fn add_product(self, a: Self, b: Self) -> Self;
    /// The sum of all elements of each vector.
    unsafe fn sums(vectors: [Self; SUMS]) -> [f32; SUMS];
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
            use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
            _mm_prefetch::<_MM_HINT_T0>(address.cast());
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
    unsafe fn sub(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] - other.0[i]))
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        Self(std::array::from_fn(|i| self.0[i] * other.0[i]))
    }

    #[inline(always)]
    unsafe fn lesser(self, other: Self) -> Self {
        let lane = |i: usize| if other.0[i] < self.0[i] { other.0[i] } else { self.0[i] };
        Self(std::array::from_fn(lane))
    }

    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        let lane = |i: usize| if other.0[i] > self.0[i] { other.0[i] } else { self.0[i] };
        Self(std::array::from_fn(lane))
    }

    #[inline(always)]
    unsafe fn or_nan_of(self, other: Self) -> Self {
        let lane = |i: usize| if other.0[i].is_nan() { other.0[i] } else { self.0[i] };
        Self(std::array::from_fn(lane))
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
    unsafe fn sums(vectors: [Self; SUMS]) -> [f32; SUMS] {
        vectors.map(|Self([a, b, c, d])| (a + c) + (b + d))
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
