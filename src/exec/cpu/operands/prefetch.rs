//! Hints that memory will be read or written. They have no effect that the program can observe.

/// Hint to fetch a line for reading (`_MM_HINT_T0`).
const READ: i32 = 3;
/// Hint to fetch a line for writing (`_MM_HINT_ET0`).
const WRITE: i32 = 7;

/// Hints that `words` will be read.
#[inline]
pub(crate) fn read(words: &[u32]) {
    hint::<READ>(words.as_ptr().cast(), size_of_val(words));
}

/// Hints that the memory 4 KiB after `elements` will be read, if any lies there.
#[inline(always)]
pub(crate) fn read_on<T>(elements: &[T]) {
    hint::<READ>(elements.as_ptr().wrapping_byte_add(4096).cast(), size_of_val(elements));
}

/// Hints that `words` will be written.
#[inline]
pub(crate) fn write(words: &mut [u32]) {
    hint::<WRITE>(words.as_ptr().cast(), size_of_val(words));
}

/// Hints the use of each line of 64 bytes.
#[inline(always)]
fn hint<const KIND: i32>(start: *const i8, bytes: usize) {
    #[cfg(target_arch = "x86_64")]
    for at in (0..bytes).step_by(64) {
        // SAFETY: a prefetch may have any address.
        unsafe { std::arch::x86_64::_mm_prefetch::<KIND>(start.wrapping_byte_add(at)) };
    }
    #[cfg(not(target_arch = "x86_64"))]
    let _ = (start, bytes);
}
