//! Element data in host memory.

use std::sync::Arc;

use bytes::Bytes;

use super::arranged::ArrangedCopy;
use super::memory;
use super::words::{Misfit, Words};
use crate::base::dtype::{DType, Element};
use crate::error::DeviceError;

/// A tensor's elements in row-major order, each in [`DType::size`] bytes. The memory is aligned for every element type.
#[derive(Clone, Debug)]
pub(crate) struct HostBuffer {
    dtype: DType,
    len: usize,
    /// Memory for at least `len` elements. The bytes beyond them are unspecified.
    words: Words,
    allocator: Allocator,
    arranged: ArrangedCopy,
}

/// The party that allocated the memory of a buffer.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Allocator {
    /// This crate allocated the memory.
    Crate,
    /// The user passed the memory in as a vector.
    Caller,
}

impl HostBuffer {
    pub fn try_from_slice<T: Element>(data: &[T]) -> Result<Self, DeviceError> {
        let mut buffer = Self::try_zeroed(T::DTYPE, data.len())?;
        buffer.write(data);
        Ok(buffer)
    }

    #[cfg(test)]
    pub fn from_slice<T: Element>(data: &[T]) -> Self {
        Self::try_from_slice(data).expect("memory")
    }

    /// Takes the elements of `data`. The buffer reuses its memory if an element takes a word, and copies it otherwise.
    pub fn try_from_vec<T: Element>(data: Vec<T>) -> Result<Self, DeviceError> {
        let len = data.len();
        match bytemuck::try_cast_vec(data) {
            Ok(words) => Ok(Self::holding(T::DTYPE, len, Words::Own(words), Allocator::Caller)),
            Err((_, data)) => Self::try_from_slice(&data),
        }
    }

    /// Returns a buffer in the memory of `bytes`, the elements of type `dtype`; `None` if an element is no word.
    ///
    /// # Safety
    /// The caller outlives the buffer: `bytes` stay borrowed until nobody holds it.
    #[cfg(any(test, all(feature = "blocking", not(target_arch = "wasm32"))))]
    pub unsafe fn lent(dtype: DType, bytes: &[u8]) -> Option<Self> {
        let words = dtype.is_word().then(|| bytemuck::try_cast_slice::<u8, u32>(bytes).ok())??;
        // SAFETY: the caller keeps the memory borrowed while the slice is in use.
        let words = unsafe { std::slice::from_raw_parts(words.as_ptr(), words.len()) };
        let len = words.len();
        Some(Self::holding(dtype, len, Words::Lent(words), Allocator::Caller))
    }

    /// Returns a buffer of the elements of type `dtype` in bytes of an owner, which it keeps.
    ///
    /// # Errors
    /// The reason why the bytes are no elements.
    pub fn shared(dtype: DType, bytes: Bytes) -> Result<Self, Misfit> {
        match Misfit::of(dtype, &bytes) {
            Some(misfit) => Err(misfit),
            None => {
                let len = bytes.len() / dtype.size();
                // No bytes may lie anywhere, also where no word may.
                let words = if len == 0 { Words::Own(Vec::new()) } else { Words::Shared(bytes) };
                Ok(Self::holding(dtype, len, words, Allocator::Caller))
            }
        }
    }

    fn holding(dtype: DType, len: usize, words: Words, allocator: Allocator) -> Self {
        Self { dtype, len, words, allocator, arranged: ArrangedCopy::default() }
    }

    /// Returns whether the memory is [lent](Self::lent).
    pub fn is_lent(&self) -> bool {
        matches!(self.words, Words::Lent(_))
    }

    /// Returns `buffer`, or a copy of it if its memory is [lent](Self::lent), for a holder that outlives the run.
    pub fn outliving(buffer: &Arc<Self>) -> Arc<Self> {
        if buffer.is_lent() { Arc::new(Self::clone(buffer)) } else { Arc::clone(buffer) }
    }

    /// Copies `data`, which has as many elements, over the elements.
    pub fn write<T: Element>(&mut self, data: &[T]) {
        memory::copy(bytemuck::cast_slice(data), self.bytes_mut());
    }

    /// Allocates `len` zeros.
    ///
    /// # Errors
    /// [`DeviceError::OutOfMemory`] if the host lacks that much memory.
    pub fn try_zeroed(dtype: DType, len: usize) -> Result<Self, DeviceError> {
        let words = memory::try_zeroed(Self::words_for(dtype, len))?;
        Ok(Self::holding(dtype, len, Words::Own(words), Allocator::Crate))
    }

    /// Makes a buffer in the memory of `words`, which has room for it. The elements are unspecified, but valid for
    /// `dtype`. Only `bool` differs: the caller must write its bytes.
    pub fn recycled(dtype: DType, len: usize, mut words: Vec<u32>) -> Self {
        let needed = Self::words_for(dtype, len);
        // The vector is never shortened: growing it again would write all of the new part.
        if words.len() < needed {
            words.resize(needed, 0);
        }
        Self::holding(dtype, len, Words::Own(words), Allocator::Crate)
    }

    /// Returns the memory, to be [`recycled`](Self::recycled).
    pub fn into_words(self) -> Vec<u32> {
        self.words.into_own()
    }

    pub fn words_for(dtype: DType, len: usize) -> usize {
        (len * dtype.size()).div_ceil(4)
    }

    pub fn dtype(&self) -> DType {
        self.dtype
    }

    pub fn len(&self) -> usize {
        self.len
    }

    pub fn bytes(&self) -> &[u8] {
        &self.words.bytes()[..self.len * self.dtype.size()]
    }

    pub fn bytes_mut(&mut self) -> &mut [u8] {
        self.arranged = ArrangedCopy::default();
        &mut bytemuck::cast_slice_mut(self.words.own_mut())[..self.len * self.dtype.size()]
    }

    pub fn allocator(&self) -> Allocator {
        self.allocator
    }

    /// Number of words that memory of its own has room for.
    pub fn capacity(&self) -> usize {
        match &self.words {
            Words::Own(words) => words.capacity(),
            Words::Lent(_) | Words::Shared(_) => 0,
        }
    }

    /// The memory as 32-bit words, without the last partial one.
    pub fn words(&self) -> &[u32] {
        bytemuck::cast_slice(&self.bytes()[..self.len * self.dtype.size() / 4 * 4])
    }

    /// Copies the elements to a vector, which is empty if they are not of type `T`.
    pub fn to_vec<T: Element>(&self) -> Vec<T> {
        self.as_slice().map(memory::to_vec).unwrap_or_default()
    }

    /// Returns the elements as a vector, which is empty if they are not of type `T`. The vector takes over the memory
    /// if an element is a word and at least half of the memory is used. Otherwise the elements are copied.
    pub fn into_vec<T: Element>(mut self) -> Vec<T> {
        if !self.becomes_vec::<T>() {
            return self.to_vec();
        }
        self.words.own_mut().truncate(Self::words_for(self.dtype, self.len));
        let words = self.words.into_own();
        T::from_words(words)
            .unwrap_or_else(|words| Self { words: Words::Own(words), ..self }.to_vec())
    }

    /// Returns whether [`into_vec`](Self::into_vec) takes the memory and copies nothing.
    pub fn becomes_vec<T: Element>(&self) -> bool {
        let is_word = T::DTYPE == self.dtype && self.dtype.is_word();
        is_word && matches!(self.words, Words::Own(_)) && self.capacity() <= 2 * self.len
    }

    /// The copy of the elements in another order, which is kept until they change.
    pub fn arranged(&self) -> &ArrangedCopy {
        &self.arranged
    }

    /// The elements, or `None` if they are not of type `T`.
    pub fn as_slice<T: Element>(&self) -> Option<&[T]> {
        if T::DTYPE == self.dtype { T::in_place(self.bytes()) } else { None }
    }

    pub fn as_slice_mut<T: Element>(&mut self) -> Option<&mut [T]> {
        if T::DTYPE == self.dtype { T::in_place_mut(self.bytes_mut()) } else { None }
    }
}

impl AsRef<[u8]> for HostBuffer {
    fn as_ref(&self) -> &[u8] {
        self.bytes()
    }
}

#[cfg(test)]
mod tests {
    use half::f16;

    use super::*;

    #[test]
    fn memory_that_is_used_again_is_not_written_to_grow_back() {
        let long = vec![7_u32; 100];
        let short = HostBuffer::recycled(DType::F16, 9, long);
        assert_eq!((short.len(), short.bytes().len(), short.words().len()), (9, 18, 4));
        let again = HostBuffer::recycled(DType::U32, 100, short.into_words());
        assert_eq!(again.words(), [7; 100]);
        let short = HostBuffer::recycled(DType::U32, 60, again.into_words());
        assert_eq!(short.into_vec::<u32>(), [7; 60]);
    }

    #[test]
    fn slices_come_back_and_only_as_their_type() {
        let halves = [1.5, -0.0, 65504.0].map(f16::from_f32);
        let buffer = HostBuffer::from_slice(&halves);
        assert_eq!(buffer.as_slice::<f16>(), Some(&halves[..]));
        assert_eq!(buffer.bytes().len(), 6);
        assert_eq!(buffer.as_slice::<f32>(), None);
        assert_eq!(buffer.as_slice::<u32>(), None);
        let truths = [true, false, true, true, false];
        let mut buffer = HostBuffer::from_slice(&truths);
        assert_eq!(buffer.as_slice::<bool>(), Some(&truths[..]));
        buffer.bytes_mut()[1] = 7;
        assert_eq!(buffer.as_slice::<bool>(), None, "7 is no truth value");
        assert_eq!(HostBuffer::from_slice::<i32>(&[]).as_slice::<i32>(), Some(&[][..]));
    }

    #[test]
    fn memory_is_handed_over_where_an_element_is_a_word() {
        let address = |buffer: &HostBuffer| buffer.words().as_ptr().addr();
        let buffer = HostBuffer::recycled(DType::F32, 5, vec![1.5f32.to_bits(); 7]);
        let before = address(&buffer);
        let values = buffer.into_vec::<f32>();
        assert_eq!((values.as_ptr().addr(), &values[..]), (before, &[1.5; 5][..]));
        let buffer = HostBuffer::recycled(DType::I32, 3, vec![7; 30]);
        let before = address(&buffer);
        let values = buffer.into_vec::<i32>();
        assert_eq!(values, [7; 3]);
        assert_ne!(values.as_ptr().addr(), before, "most of the memory would be of no use");
        let halves = [1.0, -0.0, 3.0].map(f16::from_f32);
        assert_eq!(HostBuffer::from_slice(&halves).into_vec::<f16>(), halves);
        assert_eq!(
            HostBuffer::from_slice(&[true, false, true]).into_vec::<bool>(),
            [true, false, true]
        );
        assert!(HostBuffer::from_slice(&[1u32]).into_vec::<f32>().is_empty());
        assert!(HostBuffer::from_slice::<u32>(&[]).into_vec::<u32>().is_empty());
    }

    #[test]
    fn lent_memory_is_read_in_place_and_copied_for_whoever_keeps_or_writes_it() {
        let data = [1.0f32, -0.0, f32::NAN];
        // SAFETY: no buffer in that memory outlives `data`.
        let lent = |dtype, bytes| unsafe { HostBuffer::lent(dtype, bytes) };
        let bytes = bytemuck::cast_slice(&data);
        assert!(lent(DType::F16, bytes).is_none());
        let buffer = Arc::new(lent(DType::F32, bytes).unwrap());
        assert_eq!(buffer.bytes().as_ptr(), bytes.as_ptr());
        assert!(buffer.is_lent() && buffer.capacity() == 0 && !buffer.becomes_vec::<f32>());
        let own = HostBuffer::outliving(&buffer);
        assert!(!own.is_lent() && own.bytes() == bytes);
        assert!(Arc::ptr_eq(&HostBuffer::outliving(&own), &own));
        let mut written = lent(DType::F32, bytes).unwrap();
        written.bytes_mut().fill(0);
        assert_eq!(data[0], 1.0);
        assert_eq!(lent(DType::U32, bytes).unwrap().into_words(), data.map(f32::to_bits));
    }

    #[test]
    fn shared_bytes_are_read_in_place_and_outlive_other_holders() {
        let words: Arc<Vec<u32>> = Arc::new(vec![0x0001_0100, 0x3c00_0001, 5]);
        struct Owner(Arc<Vec<u32>>);
        impl AsRef<[u8]> for Owner {
            fn as_ref(&self) -> &[u8] {
                bytemuck::cast_slice(&self.0)
            }
        }
        let owner = Bytes::from_owner(Owner(Arc::clone(&words)));
        let shared = |dtype, range| HostBuffer::shared(dtype, owner.slice(range));
        let truths = shared(DType::Bool, 0..5).unwrap();
        assert_eq!(truths.as_slice::<bool>(), Some(&[false, true, true, false, true][..]));
        assert_eq!(truths.words(), &words[..1]);
        assert_eq!(shared(DType::Bool, 0..8).unwrap_err(), Misfit::Truth(7));
        assert_eq!(shared(DType::F16, 2..4).unwrap_err(), Misfit::Askew);
        assert_eq!(shared(DType::F16, 4..7).unwrap_err(), Misfit::Length);
        assert_eq!(shared(DType::F32, 12..12).unwrap().len(), 0);
        let mut numbers = shared(DType::U32, 4..12).unwrap();
        drop(owner);
        assert_eq!((Arc::strong_count(&words), numbers.words()), (2, &words[1..]));
        assert!(!numbers.is_lent() && numbers.capacity() == 0 && !numbers.becomes_vec::<u32>());
        let own = numbers.clone();
        numbers.bytes_mut().fill(0);
        drop(truths);
        assert_eq!((Arc::strong_count(&words), own.words()), (1, &words[1..]));
    }

    #[test]
    fn memory_is_recycled() {
        let words = HostBuffer::from_slice(&[1u32, 2, 3]).into_words();
        let capacity = words.capacity();
        let buffer = HostBuffer::recycled(DType::F16, 5, words);
        assert_eq!(buffer.len(), 5);
        assert_eq!(buffer.into_words().capacity(), capacity, "nothing was allocated");
    }
}
