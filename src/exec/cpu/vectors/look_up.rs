//! Look-ups of words by their positions.

use multiversion::multiversion;

/// Sets `out[i]` to the word of `data` at `first + positions[i]`, which wraps, or to the last one if that lies beyond
/// it. Without data, all are 0. Slices have the length of the shorter one.
pub(crate) fn look_up(data: &[u32], positions: &[u32], first: u32, out: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    if super::has_avx512() {
        // SAFETY: the processor has the instructions.
        return unsafe { avx512::look_up(data, positions, first, out) };
    }
    anywhere(data, positions, first, out);
}

#[multiversion(targets("x86_64+avx2"))]
fn anywhere(data: &[u32], positions: &[u32], first: u32, out: &mut [u32]) {
    one_by_one(data, positions, first, out);
}

#[inline(always)]
fn one_by_one(data: &[u32], positions: &[u32], first: u32, out: &mut [u32]) {
    let Some(last) = data.len().checked_sub(1) else { return out.fill(0) };
    for (out, &at) in out.iter_mut().zip(positions) {
        // SAFETY: `last` is the position of a word. Without the check, the loop is compiled to vectors.
        *out = unsafe { *data.get_unchecked((first.wrapping_add(at) as usize).min(last)) };
    }
}

/// Look-ups of neighbours, as those of a larger image, take a permutation of two vectors in the place of sixteen reads: a
/// third of the time.
#[cfg(target_arch = "x86_64")]
mod avx512 {
    use std::arch::x86_64::*;

    /// Words of a vector.
    const LEN: usize = 16;

    /// As the other [`look_up`](super::look_up).
    #[target_feature(enable = "avx512f,avx2")]
    pub(super) fn look_up(data: &[u32], positions: &[u32], first: u32, out: &mut [u32]) {
        let Some(last) = data.len().checked_sub(1) else { return out.fill(0) };
        let last = u32::try_from(last).unwrap_or(u32::MAX);
        let len = positions.len().min(out.len());
        let (vectors, rest) = positions[..len].as_chunks::<LEN>();
        let (outs, out_rest) = out[..len].as_chunks_mut::<LEN>();
        for (positions, out) in vectors.iter().zip(outs) {
            let words = of_neighbours(data, positions, first)
                .unwrap_or_else(|| of_any(data, positions, first, last));
            // SAFETY: the address is that of a whole vector.
            unsafe { _mm512_storeu_si512(out.as_mut_ptr().cast(), words) };
        }
        super::one_by_one(data, rest, first, out_rest);
    }

    /// The words at the positions `at` from `first` on, if all lie within two vectors of data.
    #[target_feature(enable = "avx512f,avx2")]
    #[inline]
    fn of_neighbours(data: &[u32], at: &[u32; LEN], first: u32) -> Option<__m512i> {
        const MOST: u32 = 2 * LEN as u32 - 1;
        let least = at[0].min(at[LEN - 1]);
        let start = first.wrapping_add(least);
        let near = data.get(start as usize..=start.checked_add(MOST)? as usize)?;
        // SAFETY: each address is that of a whole vector.
        unsafe {
            let at = _mm512_loadu_si512(at.as_ptr().cast());
            let at = _mm512_sub_epi32(at, _mm512_set1_epi32(least as i32));
            let is_far = _mm512_cmpgt_epu32_mask(at, _mm512_set1_epi32(MOST as i32)) != 0;
            let [low, high] = [0, LEN].map(|at| _mm512_loadu_si512(near[at..].as_ptr().cast()));
            (!is_far).then(|| _mm512_permutex2var_epi32(low, at, high))
        }
    }

    /// The words at the positions `at` from `first` on, or at `last`, which exists, for those beyond it.
    #[target_feature(enable = "avx512f,avx2")]
    #[inline]
    fn of_any(data: &[u32], at: &[u32; LEN], first: u32, last: u32) -> __m512i {
        // SAFETY: each position is that of a word.
        unsafe {
            let at = _mm512_loadu_si512(at.as_ptr().cast());
            let at = _mm512_add_epi32(at, _mm512_set1_epi32(first as i32));
            let at = _mm512_min_epu32(at, _mm512_set1_epi32(last as i32));
            let [low, high] =
                [_mm512_castsi512_si256(at), _mm512_extracti64x4_epi64::<1>(at)].map(|at| {
                    _mm512_i64gather_epi32::<4>(_mm512_cvtepu32_epi64(at), data.as_ptr().cast())
                });
            _mm512_inserti64x4::<1>(_mm512_castsi256_si512(low), high)
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Compares `look_up` with look-ups by hand.
    fn compare(data: &[u32], positions: &[u32], first: u32) {
        let mut got = vec![7; positions.len()];
        look_up(data, positions, first, &mut got);
        let want = positions.iter().map(|&at| match data.last() {
            Some(&last) => *data.get(first.wrapping_add(at) as usize).unwrap_or(&last),
            None => 0,
        });
        assert!(got.iter().copied().eq(want), "{} {first} {positions:?}: {got:?}", data.len());
    }

    #[test]
    fn words_near_and_far_are_looked_up() {
        for len in [0, 1, 2, 15, 31, 32, 33, 47, 48, 64, 100] {
            let data: Vec<u32> = (0..len as u32).map(|i| i * 3 + 1).collect();
            for count in [0, 1, 15, 16, 17, 32, 40] {
                let orders: [fn(u32) -> u32; 7] = [
                    |i| i,
                    |i| i / 2,
                    |i| 2 * i,
                    |i| 40 - i,
                    |i| i * 7 % 32,
                    |i| i * 7 % 33,
                    |_| 5,
                ];
                for order in orders {
                    let positions: Vec<u32> = (0..count).map(order).collect();
                    for first in [0, 1, 16, 17, 32, 69, 1000, u32::MAX, u32::MAX - 39] {
                        compare(&data, &positions, first);
                    }
                }
            }
        }
    }

    #[test]
    fn positions_that_wrap_are_looked_up() {
        let data: Vec<u32> = (0..64).collect();
        let around: Vec<u32> = (0..32).map(|i| (i as u32).wrapping_sub(8)).collect();
        for first in [0, 4, 8, 20] {
            compare(&data, &around, first);
        }
    }
}
