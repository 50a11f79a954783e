//! The checksums of a file: of its document, of its table of tensors, and of each tensor.

use std::fmt::Write;

use safetensors::tensor::Metadata;

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
    for byte in 0..256 {
        let step = |crc: u32, _| (crc >> 1) ^ if crc & 1 == 1 { POLYNOMIAL } else { 0 };
        tables[0][byte] = (0..8).fold(byte as u32, step);
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
pub(super) fn sealed(mut text: String) -> String {
    let end = text.pop();
    debug_assert_eq!(end, Some('}'), "the text is an object");
    let checksum = crc32(text.as_bytes());
    _ = write!(text, "{KEY}{checksum}}}");
    text
}

/// Returns whether a text is as it was [sealed]; `None` for one without a checksum at its end.
pub(super) fn is_as_sealed(text: &str) -> Option<bool> {
    let (before, checksum) = text.strip_suffix('}')?.rsplit_once(KEY)?;
    Some(checksum.parse() == Ok(crc32(before.as_bytes())))
}

/// The checksum of the table of tensors: their names, types, shapes and places in the file.
pub(super) fn of_table(table: &Metadata) -> u32 {
    let mut text = String::new();
    for name in table.offset_keys() {
        let Some(info) = table.info(&name) else { continue };
        let (shape, (start, end)) = (&info.shape, info.data_offsets);
        _ = writeln!(text, "{name:?} {} {shape:?} {start}..{end}", info.dtype);
    }
    crc32(text.as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn both_ways_give_the_known_checksum() {
        assert_eq!(crc32(b"123456789"), 0xcbf4_3926);
        let bytes: Vec<u8> = (0..1000_u32).map(|at| (at * at >> 3) as u8).collect();
        for len in [0, 1, 7, 8, 9, 63, 1000] {
            assert_eq!(by_tables(&bytes[..len]), crc32(&bytes[..len]), "{len} bytes");
        }
    }

    #[test]
    fn a_sealed_text_is_known_by_its_end() {
        let text = sealed("{\"a\":1}".to_owned());
        assert_eq!(is_as_sealed(&text), Some(true));
        assert_eq!(is_as_sealed(&text.replace("1,", "2,")), Some(false));
        assert_eq!(is_as_sealed(&text.replace("1,", "1 ,")), Some(false));
        assert_eq!(is_as_sealed("{\"a\":1}"), None);
    }
}
