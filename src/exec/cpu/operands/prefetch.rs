//! Hints that memory will be read or written. They have no effect that the program can observe.

/// Words of a cache line.
const LINE: usize = 16;

/// Hints that `words` will be read.
#[inline]
pub(crate) fn read(words: &[u32]) {
    #[cfg(target_arch = "x86_64")]
    for line in words.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        // SAFETY: a prefetch may have any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (words, LINE);
}

/// Hints that the memory 4 KiB after `elements` will be read, if any lies there.
#[inline(always)]
pub(crate) fn read_on<T>(elements: &[T]) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..size_of_val(elements)).step_by(4 * LINE) {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        let address = elements.as_ptr().wrapping_byte_add(4096 + at);
        // SAFETY: a prefetch may have any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(address.cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = elements;
}

/// Hints that `words` will be written.
#[inline]
pub(crate) fn write(words: &mut [u32]) {
    #[cfg(target_arch = "x86_64")]
    for line in words.chunks(LINE) {
        use std::arch::x86_64::{_MM_HINT_ET0, _mm_prefetch};
        // SAFETY: a prefetch may have any address.
        unsafe { _mm_prefetch::<_MM_HINT_ET0>(line.as_ptr().cast()) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = words;
}
