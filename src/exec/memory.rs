//! Large memory on the host: fresh vectors in large pages, copies shared among threads.

use std::mem::MaybeUninit;
use std::{fmt, ptr, slice};

use bytemuck::{NoUninit, Zeroable};

use super::threads;
use crate::base::units;
use crate::error::DeviceError;

/// Size in bytes from which memory is no longer copied or touched where a task awaits it. One thread copies that much in a
/// few tenths of a millisecond.
pub(crate) const LARGE: usize = (4 << 20) / threads::SMALLER;
/// As [`LARGE`], for results. Their copies are bound by memory bandwidth, so that help pays later. Measured on the host
/// of an H200: 4 MiB take 0.35 ms alone and 0.48 ms with help; 16 MiB take 1.8 and 1.0 ms.
pub(crate) const LARGE_RESULT: usize = (8 << 20) / threads::SMALLER;
/// Size in bytes from which fresh memory is in large pages. Below it, an allocator has memory that was touched before.
const LARGE_PAGES: usize = (16 << 20) / threads::SMALLER;
/// Size in bytes from which copies are shared among threads. Measured on the host of an H200: 1 MiB takes 60 µs alone
/// and 18 to 28 µs by 16 threads; 4 MiB take 218 and 36 µs; 512 KiB take 33 and 23 µs.
const SHARED: usize = (1 << 20) / threads::SMALLER;
/// Bytes of a shared copy that a thread takes at a time.
const SHARE: usize = (128 << 10) / threads::SMALLER;
/// Bytes of a result that a thread takes at a time.
#[cfg(feature = "gpu")]
pub(crate) const PART: usize = 1 << 20;

/// Counters of a pool of memory.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[cfg_attr(feature = "serde", derive(serde::Serialize))]
#[non_exhaustive]
pub struct MemoryCounts {
    /// Requests that were met with reused memory.
    pub hits: u64,
    /// Requests for which memory was allocated.
    pub misses: u64,
    /// Bytes in use by runs, by results that are still held and by residents.
    pub live_bytes: u64,
    /// Idle bytes, which wait for reuse until they are freed.
    pub idle_bytes: u64,
    /// The greatest sum of bytes in use and idle bytes so far.
    pub peak_bytes: u64,
}

impl fmt::Display for MemoryCounts {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [live, idle, peak] =
            [self.live_bytes, self.idle_bytes, self.peak_bytes].map(units::bytes);
        let made = units::count(self.misses, "allocation");
        let reused = units::count(self.hits, "reuse");
        write!(f, "{live} in use, {idle} idle, {peak} at most; {made}, {reused}")
    }
}

/// Copies `from` to `to`, which has as many elements.
pub(crate) fn copy<T: NoUninit>(from: &[T], to: &mut [T]) {
    if size_of_val(from) < SHARED {
        return to.copy_from_slice(from);
    }
    // SAFETY: an initialised element may be seen as one that need not be, and only copies of elements are written.
    let to = unsafe { &mut *(ptr::from_mut(to) as *mut [MaybeUninit<T>]) };
    copy_to(from, to);
}

/// Copies `from` to `to`, which has as many elements, in parts that threads share.
fn copy_to<T: NoUninit>(from: &[T], to: &mut [MaybeUninit<T>]) {
    assert_eq!(from.len(), to.len(), "the elements of a copy");
    let (room, bytes) = (to.as_mut_ptr().cast::<MaybeUninit<u8>>(), size_of_val(to));
    // SAFETY: the memory is that of `to`, which is borrowed for as long, and bytes need no alignment.
    let to = unsafe { slice::from_raw_parts_mut(room, bytes) };
    threads::copy(bytemuck::cast_slice(from), to, SHARE);
}

/// Allocates `len` zeros. No page of a long vector is touched yet, so that the threads that fill it share the page
/// faults too.
#[cfg(any(feature = "gpu", test))]
pub(crate) fn zeroed<T: Zeroable>(len: usize) -> Vec<T> {
    in_large_pages(bytemuck::zeroed_vec(len))
}

/// Allocates `len` zeros. No page of a long vector is touched yet.
///
/// # Errors
/// [`DeviceError::OutOfMemory`] if the host lacks that much memory.
pub(crate) fn try_zeroed<T: Zeroable>(len: usize) -> Result<Vec<T>, DeviceError> {
    let values = bytemuck::try_zeroed_vec(len);
    let bytes = (len as u64).saturating_mul(size_of::<T>() as u64);
    values.map(in_large_pages).map_err(|()| exhausted(bytes))
}

/// Allocates `len` words of unspecified content. Zeroing memory that an allocator has used before takes one thread
/// longer than a softmax by two.
///
/// # Errors
/// [`DeviceError::OutOfMemory`] if the host lacks that much memory.
pub(crate) fn try_unspecified(len: usize) -> Result<Vec<u32>, DeviceError> {
    #[cfg(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri)))]
    {
        let mut values = Vec::<u32>::new();
        let reserved = values.try_reserve_exact(len);
        reserved.map_err(|_| exhausted((len as u64).saturating_mul(4)))?;
        let room = values.spare_capacity_mut();
        if size_of_val(room) >= LARGE_PAGES {
            ask_for_large_pages(room);
        }
        // SAFETY: the instruction list is empty. As far as the compiler knows, it writes to the memory behind its
        // argument, which is therefore initialised: every bit pattern is a `u32`.
        unsafe {
            std::arch::asm!("/* {0} */", in(reg) room.as_mut_ptr(), options(nostack, preserves_flags));
        }
        // SAFETY: room for `len` elements is reserved, and initialised as above.
        unsafe { values.set_len(len) };
        Ok(values)
    }
    #[cfg(not(all(any(target_arch = "x86_64", target_arch = "aarch64"), not(miri))))]
    try_zeroed(len)
}

/// Returns the error of a host without `bytes` of free memory.
pub(crate) fn exhausted(bytes: u64) -> DeviceError {
    DeviceError::OutOfMemory { doing: format!("allocating {} of host memory", units::bytes(bytes)) }
}

fn in_large_pages<T>(mut values: Vec<T>) -> Vec<T> {
    if size_of_val(&values[..]) >= LARGE_PAGES {
        ask_for_large_pages(&mut values);
    }
    values
}

/// Copies the elements of `from` to a new vector. A long vector is written once: zeroing it first would take one thread
/// as long as copying it.
pub(crate) fn to_vec<T: NoUninit>(from: &[T]) -> Vec<T> {
    if size_of_val(from) < SHARED {
        return from.to_vec();
    }
    let mut values = Vec::with_capacity(from.len());
    let room = &mut values.spare_capacity_mut()[..from.len()];
    if size_of_val(from) >= LARGE_PAGES {
        ask_for_large_pages(room);
    }
    copy_to(from, room);
    // SAFETY: the vector has room for `from.len()` elements, and `copy_to` returns when all of them were written.
    unsafe { values.set_len(from.len()) };
    values
}

/// Asks for pages of 2 MiB. Pages of 4 KiB cost more than the copying (measured on Linux 6). A copy of 256 MiB to a
/// fresh vector by 16 threads takes 12.2 ms with small pages and 7.6 ms with large ones. Freeing the vector takes 6.6
/// ms against 0.8 ms.
#[cfg(all(target_os = "linux", not(miri)))]
fn ask_for_large_pages<T>(values: &mut [T]) {
    const PAGE: usize = 2 << 20;
    let range = values.as_mut_ptr_range();
    let start = range.start.addr().next_multiple_of(PAGE);
    let end = range.end.addr() / PAGE * PAGE;
    if start < end {
        let start = range.start.cast::<libc::c_void>().with_addr(start);
        // SAFETY: the range lies in `values`, which are borrowed exclusively, and the advice changes none of their
        // bytes. A kernel that does not know the advice refuses it, which changes nothing either.
        let _ = unsafe { libc::madvise(start, end - start.addr(), libc::MADV_HUGEPAGE) };
    }
}

#[cfg(any(not(target_os = "linux"), miri))]
fn ask_for_large_pages<T>(_: &mut [T]) {}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn copies_are_exact_at_every_odd_size() {
        for bytes in [0, 1, SHARED - 1, SHARED, SHARED + 1, LARGE + SHARE + 13, LARGE_PAGES + 7] {
            let from: Vec<u8> = (0..bytes).map(|at| (at % 251) as u8).collect();
            let mut to = vec![0xee; bytes];
            copy(&from, &mut to);
            assert!(to == from, "{bytes} bytes");
            assert!(to_vec(&from) == from, "{bytes} bytes in a new vector");
        }
        let words: Vec<u32> = (0..(3_000_001 / threads::SMALLER) as u32).collect();
        assert!(to_vec(&words) == words);
    }

    #[test]
    #[cfg_attr(miri, ignore = "miri stops where there is no memory")]
    fn what_the_host_has_not_is_an_error() {
        assert!(try_unspecified(1 << 46).is_err() && try_unspecified(usize::MAX).is_err());
        assert_eq!(try_unspecified(7).unwrap().len(), 7);
        let error = try_zeroed::<u32>(1 << 46).unwrap_err().to_string();
        assert!(
            error.starts_with("out of memory while allocating 256 TiB of host memory"),
            "{error}"
        );
        assert!(try_zeroed::<u32>(usize::MAX).is_err(), "a length that no vector has");
        assert_eq!(try_zeroed::<u8>(3).unwrap(), [0; 3]);
    }

    #[test]
    fn zeroed_memory_is() {
        for len in [0, 1, LARGE_PAGES / 4 - 1, LARGE_PAGES / 4 + 5] {
            let values: Vec<u32> = zeroed(len);
            assert!(values.len() == len && values.iter().all(|&value| value == 0), "{len}");
        }
        assert_eq!(zeroed::<bool>(3), [false; 3]);
    }
}
