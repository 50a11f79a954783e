//! The checksums of a file: of its document, of its list of tensors, and of each tensor.

use std::fmt::Write;

use safetensors::tensor::Dtype;

/// The key of the document's last value: the checksum of all text before it.
const KEY: &str = ",\"checksum\":";

/// The CRC-32 of IEEE 802.3.
#[cfg(not(target_arch = "wasm32"))]
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    crc32fast::hash(bytes)
}

/// The CRC-32 of IEEE 802.3, which takes no tables from the download: they are computed here.
#[cfg(target_arch = "wasm32")]
pub(super) fn crc32(bytes: &[u8]) -> u32 {
    by_tables(bytes)
}

/// The CRC-32, eight bytes at a time (slicing-by-8: Kounavis and Berry, 2005).
#[cfg(any(target_arch = "wasm32", test))]
fn by_tables(bytes: &[u8]) -> u32 {
    const POLYNOMIAL: u32 = 0xedb8_8320;
    let mut tables = [[0_u32; 256]; 8];
    for (byte, entry) in (0..).zip(&mut tables[0]) {
        let step = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
        *entry = (0..8).fold(byte, step);
    }
    for byte in 0..256 {
        for at in 1..8 {
            let before = tables[at - 1][byte];
            tables[at][byte] = (before >> 8) ^ tables[0][before as usize & 255];
        }
    }
    let (words, rest) = bytes.as_chunks::<8>();
    let crc = words.iter().fold(!0, |crc: u32, &word| {
        let word = u64::from_le_bytes(word) ^ u64::from(crc);
        let parts = word.to_le_bytes().into_iter().zip(tables.iter().rev());
        parts.fold(0, |crc, (byte, table)| crc ^ table[usize::from(byte)])
    });
    let one = |crc: u32, &byte: &u8| (crc >> 8) ^ tables[0][(crc as u8 ^ byte) as usize];
    !rest.iter().fold(crc, one)
}

/// `text`, an object of JSON, with its own checksum as the last value.
pub(super) fn with_checksum(mut text: String) -> String {
    let end = text.pop();
    debug_assert_eq!(end, Some('}'), "the text is an object");
    let checksum = crc32(text.as_bytes());
    _ = write!(text, "{KEY}{checksum}}}");
    text
}

/// Returns whether the [checksum](with_checksum) at the end of `text` is that of the rest; `None` without one.
pub(super) fn checksum_matches(text: &str) -> Option<bool> {
    let (before, checksum) = text.strip_suffix('}')?.rsplit_once(KEY)?;
    // A value may be named as the key, too. Its position is not the end of the text.
    let is_number = checksum.bytes().all(|byte| byte.is_ascii_digit());
    is_number.then(|| checksum.parse() == Ok(crc32(before.as_bytes())))
}

/// The checksum of a list of tensors in the order of their names: of the name, type and shape of each.
/// `docs/program-file.md` has the bytes.
pub(super) fn of_tensor_list<'a>(
    tensors: &mut dyn Iterator<Item = (&'a str, Dtype, &'a [usize])>,
) -> u32 {
    let mut bytes = Vec::new();
    for (name, dtype, shape) in tensors {
        for text in [name, &dtype.to_string()] {
            bytes.extend((text.len() as u64).to_le_bytes());
            bytes.extend(text.as_bytes());
        }
        for &number in [shape.len()].iter().chain(shape) {
            bytes.extend((number as u64).to_le_bytes());
        }
    }
    crc32(&bytes)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_known_checksum() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..1000_u32).map(|at| ((at * at) >> 3) as u8).collect();
        for len in [0, 1, 7, 8, 9, 63, 1000] {
            assert_eq!(by_tables(&bytes[..len]), crc32(&bytes[..len]), "{len} bytes");
        }
    }

    #[test]
    fn a_changed_text_has_another_checksum() {
        let text = with_checksum("{\"a\":1}".to_owned());
        assert_eq!(checksum_matches(&text), Some(true));
        assert_eq!(checksum_matches(&text.replace("1,", "2,")), Some(false));
        assert_eq!(checksum_matches(&text.replace("1,", "1 ,")), Some(false));
        for without in ["{\"a\":1}", "{\"names\":{\"a\":0,\"checksum\":2},\"uploads\":[]}"] {
            assert_eq!(checksum_matches(without), None);
        }
    }

    /// The constants are part of the format.
    #[test]
    fn the_checksum_of_a_list_of_tensors_stays() {
        let list: [(&str, Dtype, &[usize]); 2] =
            [("bias", Dtype::F32, &[3]), ("größe", Dtype::BOOL, &[2, 0])];
        assert_eq!(of_tensor_list(&mut list.into_iter()), 0xb5e7_6fd4);
        assert_eq!(of_tensor_list(&mut std::iter::empty()), 0);
    }
}
