//! Vectors of `f32`, as the innermost loops of forms use them.

pub(crate) mod by_processor;
pub(crate) mod exponential;
pub(crate) mod extremes;
pub(crate) mod links;
pub(crate) mod look_up;
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
mod plain;
pub(crate) mod prefetch;
pub(crate) mod square;
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
mod wasm;
#[cfg(target_arch = "x86_64")]
mod x86;

use std::ops::Range;

/// Repeats a block with each `$i` below `$n`, a constant. `$i` indexes registers.
///
/// WebAssembly is compiled for size, and then loops stay loops, and memory holds the elements that they index. There the
/// first eight turns stand one after another.
macro_rules! each {
    ($i:ident < $n:expr => $body:block) => {{
        #[cfg(not(target_arch = "wasm32"))]
        for $i in 0..$n {
            $body
        }
        #[cfg(target_arch = "wasm32")]
        {
            each!($i in 0 1 2 3 4 5 6 7, of $n => $body);
            for $i in 8..$n {
                $body
            }
        }
    }};
    ($i:ident in $($turn:literal)+, of $n:expr => $body:block) => {$(
        if $turn < $n {
            let $i: usize = $turn;
            $body
        }
    )+};
}
pub(crate) use each;

/// True if this processor has the instructions of loops for 512-bit vectors. Miri has only some of them.
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx512() -> bool {
    cfg!(not(miri)) && has_avx2() && is_x86_feature_detected!("avx512f")
}

/// The same for 256-bit vectors. Miri has them if all code is compiled for them (`docs/checking.md`).
#[cfg(target_arch = "x86_64")]
pub(crate) fn has_avx2() -> bool {
    is_x86_feature_detected!("avx2") && is_x86_feature_detected!("fma")
}

/// Powers of two that [`SimdVector::times_power`] takes too many, so that each is a normal number, and divides by at
/// last. Only this division rounds.
const UP: i32 = 64;

/// Vectors that are summed up at a time.
pub(crate) const SUMS: usize = 16;

/// A vector of `f32`.
///
/// All functions are unsafe to call on a processor without the vector's instructions.
pub(crate) trait SimdVector: Copy {
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
    /// As [`load_masked`](Self::load_masked), with the elements of `self` in place of the others.
    unsafe fn or_masked(self, from: *const f32, mask: Self::Mask) -> Self;
    /// The elements at even places of this vector and then of `other`, and those at odd places.
    unsafe fn unzip(self, other: Self) -> [Self; 2];
    /// The first and the second half of the elements of this vector and of `other` in turns.
    unsafe fn zip(self, other: Self) -> [Self; 2];

    /// Returns `self`·2ⁿ, rounded once, for elements of 0.5..2 and whole numbers n from −151 to 0.
    unsafe fn times_power(self, n: Self) -> Self;

    /// Hints that the line at `address`, which may be any, will be read or written.
    #[inline(always)]
    fn fetch(address: *const f32) {
        prefetch::line(address.cast());
    }
}

/// A vector for any processor, which the compiler maps to the vectors that all processors of the target have.
#[cfg(not(all(target_arch = "wasm32", target_feature = "simd128")))]
#[derive(Clone, Copy)]
pub(crate) struct Plain([f32; 4]);

/// The vectors that all processors of the target have.
#[cfg(all(target_arch = "wasm32", target_feature = "simd128"))]
pub(crate) type Plain = std::arch::wasm32::v128;
