//! Vectors for any processor.

use std::ops::Range;

use super::{Plain, SUMS, SimdVector, UP};

impl SimdVector for Plain {
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
    unsafe fn or_masked(self, from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: as the caller promises.
        let Self(elements) = unsafe { Self::load_masked(from, mask) };
        Self(std::array::from_fn(|i| if mask[i] { elements[i] } else { self.0[i] }))
    }

    #[inline(always)]
    unsafe fn unzip(self, other: Self) -> [Self; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        [Self([a, c, e, g]), Self([b, d, f, h])]
    }

    #[inline(always)]
    unsafe fn zip(self, other: Self) -> [Self; 2] {
        let ([a, b, c, d], [e, f, g, h]) = (self.0, other.0);
        [Self([a, e, b, f]), Self([c, g, d, h])]
    }

    #[inline(always)]
    unsafe fn times_power(self, n: Self) -> Self {
        let power = |n: f32| f32::from_bits(((n as i32 + UP + 127) << 23).cast_unsigned());
        let last = f32::from_bits(((127 - UP) << 23).cast_unsigned());
        Self(std::array::from_fn(|i| self.0[i] * power(n.0[i]) * last))
    }
}
