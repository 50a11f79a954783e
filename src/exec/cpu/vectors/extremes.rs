//! The greatest and the least element of a slice.

use super::SimdVector;
use super::by_processor::loops;

/// Vectors of partial results.
const PARTIAL: usize = 8;

loops! {
    /// The functions for one set of instructions.
    pub(crate) struct ExtremeKernels {}

    unsafe fn least(from: *const f32, len: usize) -> f32 =
        extreme::<V>(from, len, f32::INFINITY, |x: V, y| x.lesser(y).or_nan_of(y));
    unsafe fn greatest(from: *const f32, len: usize) -> f32 =
        extreme::<V>(from, len, f32::NEG_INFINITY, |x: V, y| x.greater(y).or_nan_of(y));
}

impl ExtremeKernels {
    /// The least element: NaN if any is NaN, either zero if both are there, ∞ if there is none.
    pub fn least(&self, x: &[f32]) -> f32 {
        // SAFETY: the processor has the instructions (`all`), and the elements exist.
        unsafe { (self.least)(x.as_ptr(), x.len()) }
    }

    /// The greatest element: NaN if any is NaN, either zero if both are there, −∞ if there is none.
    pub fn greatest(&self, x: &[f32]) -> f32 {
        // SAFETY: as above.
        unsafe { (self.greatest)(x.as_ptr(), x.len()) }
    }
}

/// Merges `len` elements and `empty` by `better`.
///
/// # Safety
/// The elements exist, and the processor has the instructions of `V`.
#[inline(always)]
unsafe fn extreme<V: SimdVector>(
    from: *const f32,
    len: usize,
    empty: f32,
    better: impl Fn(V, V) -> V,
) -> f32 {
    // SAFETY: as the caller promises.
    unsafe {
        let mut partial = [V::splat(empty); PARTIAL];
        let block = PARTIAL * V::LEN;
        let blocks = len / block * block;
        for at in (0..blocks).step_by(block) {
            for (k, partial) in partial.iter_mut().enumerate() {
                *partial = better(*partial, V::load(from.add(at + k * V::LEN)));
            }
        }
        for at in (blocks..len).step_by(V::LEN) {
            let lanes = 0..V::LEN.min(len - at);
            partial[0] =
                better(partial[0], V::splat(empty).or_masked(from.add(at), V::mask(lanes)));
        }
        let mut one = partial[0];
        if blocks > 0 {
            for &other in &partial[1..] {
                one = better(one, other);
            }
        }
        let mut lanes = V::LEN;
        while lanes > 1 {
            let [even, odd] = one.unzip(one);
            (one, lanes) = (better(even, odd), lanes / 2);
        }
        let mut merged = empty;
        one.store_first(&raw mut merged, 1);
        merged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_extremes_of_any_number_of_elements_are_found() {
        for kernels in ExtremeKernels::all() {
            assert_eq!(kernels.greatest(&[]), f32::NEG_INFINITY);
            assert_eq!(kernels.least(&[]), f32::INFINITY);
            for len in (1..40).chain([127, 128, 129, 300]) {
                let x: Vec<f32> = (0..len).map(|i| ((i * 367) % len) as f32 - 5.0).collect();
                let [least, greatest] = [-5.0, len as f32 - 6.0];
                let got = [kernels.least(&x), kernels.greatest(&x)];
                assert_eq!(got, [least, greatest], "{len}");
                for at in [0, len / 2, len - 1] {
                    for special in [f32::INFINITY, f32::NEG_INFINITY, f32::NAN, -f32::NAN] {
                        let mut x = x.clone();
                        x[at] = special;
                        let want = [f32::min, f32::max].map(|f| {
                            let of_numbers = x.iter().copied().fold(x[0], f);
                            if special.is_nan() { special } else { of_numbers }
                        });
                        let got = [kernels.least(&x), kernels.greatest(&x)];
                        let is_same =
                            |(got, want): (f32, f32)| got == want || got.is_nan() && want.is_nan();
                        assert!(got.into_iter().zip(want).all(is_same), "{len} {at}: {got:?}");
                    }
                }
            }
        }
    }
}
