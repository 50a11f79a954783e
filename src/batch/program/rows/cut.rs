//! Rows are cut into chunks, one a run.

/// Rows of one run: `planned` of them are computed, of which the last ones may be padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowChunk {
    pub start: usize,
    pub rows: usize,
    pub planned: usize,
}

/// The rows of a run in chunks of a few sizes: powers of two up to `most`, which is one. The last chunk is padded to
/// the next power, or cut further where padding would reach a result.
pub(super) fn cut(rows: usize, most: usize, is_exact: bool) -> Vec<RowChunk> {
    if rows == 0 {
        return vec![RowChunk { start: 0, rows: 0, planned: 0 }];
    }
    let (mut chunks, mut start) = (Vec::new(), 0);
    while start < rows {
        let left = rows - start;
        let planned = match left.min(most) {
            whole if whole == most => most,
            few if is_exact => 1 << few.ilog2(),
            few => few.next_power_of_two(),
        };
        let rows = planned.min(left);
        chunks.push(RowChunk { start, rows, planned });
        start += rows;
    }
    chunks
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn chunks_cover_all_rows_once_in_few_sizes() {
        for most in [1, 2, 8, 64] {
            for rows in 0..200 {
                for is_exact in [false, true] {
                    let chunks = cut(rows, most, is_exact);
                    let mut next = 0;
                    for chunk in &chunks {
                        assert_eq!(chunk.start, next);
                        assert!(chunk.rows <= chunk.planned && chunk.planned <= most);
                        assert!(chunk.planned == 0 || chunk.planned.is_power_of_two());
                        assert!(!is_exact || chunk.rows == chunk.planned, "padding");
                        assert!(
                            chunk.rows * 2 > chunk.planned || rows == 0,
                            "more padding than rows"
                        );
                        next += chunk.rows;
                    }
                    assert_eq!(next, rows);
                    let fewest = rows.div_ceil(most).max(1);
                    let bits = if is_exact { most.ilog2() as usize } else { 0 };
                    assert!((fewest..=fewest + bits).contains(&chunks.len()), "{chunks:?}");
                }
            }
        }
    }
}
