//! Elements on the host and their form on the device: truth values take a word there, and so do halves if kernels cannot
//! hold them.

use half::f16;

use crate::base::dtype::DType;
use crate::cost::Limits;

/// The form of a type's elements on the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum DeviceFormat {
    /// The form of the host, in elements of this many bytes.
    Same(usize),
    /// A truth value as a word, 0 or 1.
    WideBool,
    /// A half as an `f32`.
    WideHalf,
}

/// Elements converted at a time, on the stack.
const CHUNK: usize = 1024;

impl DeviceFormat {
    pub fn of(dtype: DType, limits: &Limits) -> Self {
        let stored = limits.stored(dtype).bytes() as usize;
        match dtype {
            _ if stored == dtype.size() => Self::Same(stored),
            DType::Bool => Self::WideBool,
            DType::F16 => Self::WideHalf,
            DType::F32 | DType::I32 | DType::U32 => Self::Same(stored),
        }
    }

    /// Bytes of one element on the device.
    pub fn size(self) -> usize {
        match self {
            Self::Same(size) => size,
            Self::WideBool | Self::WideHalf => 4,
        }
    }

    /// Bytes of one element on the host.
    pub fn host_size(self) -> usize {
        match self {
            Self::Same(size) => size,
            Self::WideBool => 1,
            Self::WideHalf => 2,
        }
    }

    /// Bytes of `elements` on the device, in whole words.
    pub fn bytes(self, elements: usize) -> u64 {
        let bytes = (elements as u64).saturating_mul(self.size() as u64);
        bytes.checked_next_multiple_of(4).unwrap_or(u64::MAX)
    }

    /// Writes host elements as device elements; the bytes of `out` beyond them become 0.
    pub fn pack(self, host: &[u8], mut out: wgpu::WriteOnly<'_, [u8]>) {
        let end = host.len() / self.host_size() * self.size();
        out.slice(end..).fill(0);
        match self {
            Self::Same(_) => out.slice(..end).copy_from_slice(host),
            Self::WideBool => pack_words(host, out, |&[byte]| u32::from(byte)),
            Self::WideHalf => {
                pack_words(host, out, |&half| f16::from_ne_bytes(half).to_f32().to_bits());
            }
        }
    }

    /// Writes device elements as host elements. `stored` has at least as many as `host`.
    pub fn unpack(self, stored: &[u8], host: &mut [u8]) {
        match self {
            Self::Same(_) => host.copy_from_slice(&stored[..host.len()]),
            Self::WideBool => unpack_words(stored, host, |word| [u8::from(word != 0)]),
            Self::WideHalf => {
                unpack_words(stored, host, |word| {
                    f16::from_f32(f32::from_bits(word)).to_ne_bytes()
                });
            }
        }
    }
}

fn pack_words<const N: usize>(
    host: &[u8],
    mut out: wgpu::WriteOnly<'_, [u8]>,
    word: impl Fn(&[u8; N]) -> u32,
) {
    let (elements, _) = host.as_chunks::<N>();
    let mut words = [0u32; CHUNK];
    for (index, chunk) in elements.chunks(CHUNK).enumerate() {
        for (to, from) in words.iter_mut().zip(chunk) {
            *to = word(from);
        }
        let at = index * CHUNK * 4;
        let bytes = bytemuck::cast_slice(&words[..chunk.len()]);
        out.slice(at..at + bytes.len()).copy_from_slice(bytes);
    }
}

fn unpack_words<const N: usize>(stored: &[u8], host: &mut [u8], element: impl Fn(u32) -> [u8; N]) {
    let (words, _) = stored.as_chunks::<4>();
    let (elements, _) = host.as_chunks_mut::<N>();
    for (to, &from) in elements.iter_mut().zip(words) {
        *to = element(u32::from_ne_bytes(from));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pack(storage: DeviceFormat, host: &[u8], pad: usize) -> Vec<u8> {
        let mut out = vec![0xee; host.len() / storage.host_size() * storage.size() + pad];
        storage.pack(host, wgpu::WriteOnly::from_mut(&mut out[..]));
        out
    }

    #[test]
    fn every_half_survives_the_way_through_f32() {
        let host: Vec<u8> = (0..=u16::MAX).flat_map(u16::to_ne_bytes).collect();
        let stored = pack(DeviceFormat::WideHalf, &host, 0);
        let mut back = vec![0xee; host.len()];
        DeviceFormat::WideHalf.unpack(&stored, &mut back);
        for bits in 0..=u16::MAX {
            let at = usize::from(bits) * 2;
            let got = f16::from_ne_bytes([back[at], back[at + 1]]);
            let want = f16::from_bits(bits);
            let word: [u8; 4] = stored[at * 2..at * 2 + 4].try_into().unwrap();
            if want.is_nan() {
                assert!(got.is_nan() && f32::from_ne_bytes(word).is_nan());
            } else {
                assert_eq!(got.to_bits(), bits);
                assert_eq!(f64::from(f32::from_ne_bytes(word)), want.to_f64());
            }
        }
    }

    #[test]
    fn truth_values_become_words_and_any_word_but_0_is_true() {
        let stored = pack(DeviceFormat::WideBool, &[1, 0, 1], 4);
        let words: Vec<u32> =
            stored.chunks(4).map(|w| u32::from_ne_bytes(w.try_into().unwrap())).collect();
        assert_eq!(words, [1, 0, 1, 0], "the padding is cleared");
        let odd: Vec<u8> = [7u32, 0, u32::MAX, 256].iter().flat_map(|w| w.to_ne_bytes()).collect();
        let mut host = [9; 3];
        DeviceFormat::WideBool.unpack(&odd, &mut host);
        assert_eq!(host, [1, 0, 1]);
    }

    #[test]
    fn plain_elements_are_copied_and_padded_to_a_word() {
        let stored = pack(DeviceFormat::Same(2), &[1, 2, 3, 4, 5, 6], 2);
        assert_eq!(stored, [1, 2, 3, 4, 5, 6, 0, 0]);
        assert_eq!(DeviceFormat::Same(2).bytes(3), 8);
        assert_eq!(DeviceFormat::WideBool.bytes(0), 0);
    }
}
