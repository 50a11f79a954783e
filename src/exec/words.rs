//! The memory of a buffer: its own, lent by a caller, or shared with an owner.

use std::fmt;

use bytes::Bytes;

use super::memory;
use crate::base::dtype::DType;

/// Memory from the address of a word on.
pub(super) enum Words {
    Own(Vec<u32>),
    /// Memory of a caller who waits until nobody holds the buffer.
    #[cfg_attr(
        not(any(test, all(feature = "blocking", not(target_arch = "wasm32")))),
        expect(dead_code, reason = "blocking runs alone are lent memory")
    )]
    Lent(&'static [u32]),
    /// Bytes of an owner, which they keep.
    Shared(Bytes),
}

impl Words {
    pub fn bytes(&self) -> &[u8] {
        match self {
            Self::Own(words) => bytemuck::cast_slice(words),
            Self::Lent(words) => bytemuck::cast_slice(words),
            Self::Shared(bytes) => bytes,
        }
    }

    /// Returns the memory, or a copy if it is not its own.
    pub fn into_own(self) -> Vec<u32> {
        match self {
            Self::Own(words) => words,
            Self::Lent(_) | Self::Shared(_) => copied(self.bytes()),
        }
    }

    pub fn own_mut(&mut self) -> &mut Vec<u32> {
        if !matches!(self, Self::Own(_)) {
            *self = self.clone();
        }
        match self {
            Self::Own(words) => words,
            Self::Lent(_) | Self::Shared(_) => unreachable!("a clone owns its memory"),
        }
    }
}

/// The words that hold `bytes`, the last one filled up with zeros.
fn copied(bytes: &[u8]) -> Vec<u32> {
    let (whole, rest) = bytes.split_at(bytes.len() / 4 * 4);
    let mut words = memory::to_vec(bytemuck::cast_slice(whole));
    if !rest.is_empty() {
        let mut last = [0; 4];
        last[..rest.len()].copy_from_slice(rest);
        words.push(u32::from_ne_bytes(last));
    }
    words
}

impl fmt::Debug for Words {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let whose = match self {
            Self::Own(_) => "own",
            Self::Lent(_) => "lent",
            Self::Shared(_) => "shared",
        };
        write!(f, "{} {whose} bytes", self.bytes().len())
    }
}

/// A clone owns its memory.
impl Clone for Words {
    fn clone(&self) -> Self {
        Self::Own(copied(self.bytes()))
    }
}

/// The reason why bytes are no elements.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Misfit {
    /// They do not begin at a multiple of four bytes.
    Askew,
    /// The last element is cut off.
    Length,
    /// The byte at this position is no truth value.
    Truth(usize),
}

impl Misfit {
    /// The reason why `bytes` are no elements of type `dtype`, if they are none.
    pub fn of(dtype: DType, bytes: &[u8]) -> Option<Self> {
        if !bytes.is_empty() && !bytes.as_ptr().addr().is_multiple_of(align_of::<u32>()) {
            return Some(Self::Askew);
        }
        if !bytes.len().is_multiple_of(dtype.size()) {
            return Some(Self::Length);
        }
        let mut truths = bytes.iter().take(if dtype == DType::Bool { bytes.len() } else { 0 });
        truths.position(|&byte| byte > 1).map(Self::Truth)
    }
}
