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
    (0..bytes).step_by(64).for_each(|at| line(start.wrapping_byte_add(at)));
}

/// Hints that the line at `address`, which may be any, will be read or written.
#[inline(always)]
pub(crate) fn line(address: *const i8) {
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    // SAFETY: a prefetch may have any address.
    unsafe {
        use std::arch::x86_64::{_MM_HINT_T0, _mm_prefetch};
        _mm_prefetch::<_MM_HINT_T0>(address);
    }
    #[cfg(not(all(target_arch = "x86_64", not(miri))))]
    let _ = address;
}
