//! Hints that memory will be read. They have no effect that the program can observe.

/// Hints that `words` will be read.
#[inline]
pub(crate) fn read(words: &[u32]) {
    hint(words.as_ptr().cast(), size_of_val(words));
}

/// Hints that the memory 4 KiB after `elements` will be read, if any lies there.
#[inline(always)]
pub(crate) fn read_on<T>(elements: &[T]) {
    hint(elements.as_ptr().wrapping_byte_add(4096).cast(), size_of_val(elements));
}

/// Hints that each line of 64 bytes will be read.
#[inline(always)]
fn hint(start: *const i8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(64) {
        // SAFETY: a prefetch may have any address.
        unsafe { _mm_prefetch::<_MM_HINT_T0>(start.wrapping_byte_add(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}
