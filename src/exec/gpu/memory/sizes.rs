//! The sizes of buffers.

/// The least size of a buffer.
const LEAST: u64 = 256;

/// The size of a buffer for `bytes`: a multiple of an eighth of the next power of two, so that nearly equal requests
/// share buffers and less than a quarter is wasted, but for the smallest. `None` if `bytes` exceeds `limit`.
pub(super) fn size_class(bytes: u64, limit: u64) -> Option<u64> {
    let limit = limit & !3;
    if bytes > limit {
        return None;
    }
    let bytes = bytes.max(LEAST);
    let step = (bytes.checked_next_power_of_two()? / 8).max(LEAST);
    Some(bytes.checked_next_multiple_of(step)?.min(limit))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_size_class_holds_what_was_asked_for_and_wastes_less_than_a_quarter() {
        for bytes in (0..5_000).chain([65_537, (1 << 20) + 1, 256_000_000]) {
            let class = size_class(bytes, u64::MAX).unwrap();
            assert!(class >= bytes && class.is_multiple_of(LEAST), "{bytes} → {class}");
            assert!(class == LEAST || class - bytes < (bytes / 4).max(LEAST), "{bytes} → {class}");
            assert_eq!(size_class(class, u64::MAX), Some(class), "{bytes}");
        }
    }

    #[test]
    fn a_size_class_keeps_to_the_limit() {
        assert_eq!(size_class(1_000_001, 1_000_004), Some(1_000_004));
        assert_eq!(size_class(1_000_005, 1_000_004), None);
        assert_eq!(size_class(3, 3), None, "buffers are whole words");
    }
}
