//! Vectors of SIMD128, the vector instructions of WebAssembly.

use std::arch::wasm32::{self as wasm, v128};
use std::ops::Range;

use super::{SUMS, SimdVector, UP, each};

impl SimdVector for v128 {
    const LEN: usize = 4;
    type Mask = Self;

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
            if count == Self::LEN {
                return Self::load(from);
            }
            let lane = |lane: usize| if lane < count { *from.add(lane) } else { 0.0 };
            wasm::f32x4(lane(0), lane(1), lane(2), 0.0)
        }
    }

    #[inline(always)]
    unsafe fn store_first(self, to: *mut f32, count: usize) {
        // SAFETY: as the caller promises. The stores need no alignment.
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
    unsafe fn sub(self, other: Self) -> Self {
        wasm::f32x4_sub(self, other)
    }

    #[inline(always)]
    unsafe fn mul(self, other: Self) -> Self {
        wasm::f32x4_mul(self, other)
    }

    #[inline(always)]
    unsafe fn lesser(self, other: Self) -> Self {
        wasm::f32x4_pmin(self, other)
    }

    #[inline(always)]
    unsafe fn greater(self, other: Self) -> Self {
        wasm::f32x4_pmax(self, other)
    }

    #[inline(always)]
    unsafe fn or_nan_of(self, other: Self) -> Self {
        wasm::v128_bitselect(other, self, wasm::f32x4_ne(other, other))
    }

    #[inline(always)]
    unsafe fn add_product(self, a: Self, b: Self) -> Self {
        wasm::f32x4_add(self, wasm::f32x4_mul(a, b))
    }

    #[inline(always)]
    unsafe fn sums(vectors: [Self; SUMS]) -> [f32; SUMS] {
        let mut all = [0.0_f32; SUMS];
        // The sums of four vectors, side by side.
        each!(i < SUMS / 4 => {
            let [a, b] = [vectors[4 * i], vectors[4 * i + 1]];
            let [c, d] = [vectors[4 * i + 2], vectors[4 * i + 3]];
            let low = wasm::f32x4_add(
                wasm::i32x4_shuffle::<0, 4, 1, 5>(a, b),
                wasm::i32x4_shuffle::<2, 6, 3, 7>(a, b),
            );
            let high = wasm::f32x4_add(
                wasm::i32x4_shuffle::<0, 4, 1, 5>(c, d),
                wasm::i32x4_shuffle::<2, 6, 3, 7>(c, d),
            );
            let four = wasm::f32x4_add(
                wasm::i32x4_shuffle::<0, 1, 4, 5>(low, high),
                wasm::i32x4_shuffle::<2, 3, 6, 7>(low, high),
            );
            // SAFETY: there is room for all sums.
            unsafe { four.store(all.as_mut_ptr().add(4 * i)) };
        });
        all
    }

    #[inline(always)]
    unsafe fn mask(lanes: Range<usize>) -> Self::Mask {
        let places = wasm::u32x4(0, 1, 2, 3);
        wasm::v128_and(
            wasm::u32x4_ge(places, wasm::u32x4_splat(lanes.start as u32)),
            wasm::u32x4_lt(places, wasm::u32x4_splat(lanes.end as u32)),
        )
    }

    #[inline(always)]
    unsafe fn load_masked(from: *const f32, mask: Self::Mask) -> Self {
        let chosen = wasm::i32x4_bitmask(mask);
        // SAFETY: elements of the mask exist, as the caller promises.
        unsafe {
            if chosen == 0b1111 {
                return Self::load(from);
            }
            let lane = |lane: usize| {
                if chosen >> lane & 1 == 1 { from.wrapping_add(lane).read() } else { 0.0 }
            };
            wasm::f32x4(lane(0), lane(1), lane(2), lane(3))
        }
    }

    #[inline(always)]
    unsafe fn or_masked(self, from: *const f32, mask: Self::Mask) -> Self {
        // SAFETY: as the caller promises.
        unsafe { wasm::v128_bitselect(Self::load_masked(from, mask), self, mask) }
    }

    #[inline(always)]
    unsafe fn unzip(self, other: Self) -> [Self; 2] {
        [
            wasm::i32x4_shuffle::<0, 2, 4, 6>(self, other),
            wasm::i32x4_shuffle::<1, 3, 5, 7>(self, other),
        ]
    }

    #[inline(always)]
    unsafe fn zip(self, other: Self) -> [Self; 2] {
        [
            wasm::i32x4_shuffle::<0, 4, 1, 5>(self, other),
            wasm::i32x4_shuffle::<2, 6, 3, 7>(self, other),
        ]
    }

    #[inline(always)]
    unsafe fn times_power(self, n: Self) -> Self {
        let exponent = wasm::i32x4_add(wasm::i32x4_trunc_sat_f32x4(n), wasm::i32x4_splat(UP + 127));
        let last = wasm::i32x4_splat((127 - UP) << 23);
        wasm::f32x4_mul(wasm::f32x4_mul(self, wasm::i32x4_shl(exponent, 23)), last)
    }
}
