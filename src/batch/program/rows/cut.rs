//! Rows are cut into parts, one a run.

/// Rows of one run: `planned` of them are computed, of which the last ones may be padding.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct RowPart {
    pub start: usize,
    pub rows: usize,
    pub planned: usize,
}

/// The rows of a run in parts of a few sizes: powers of two up to `most`, which is one. The last part is padded to the
/// next power, or cut further where padding would reach a result.
pub(super) fn cut(rows: usize, most: usize, is_exact: bool) -> Vec<RowPart> {
    if rows == 0 {
        return vec![RowPart { start: 0, rows: 0, planned: 0 }];
    }
    let (mut parts, mut start) = (Vec::new(), 0);
    while start < rows {
        let left = rows - start;
        let planned = match left.min(most) {
            whole if whole == most => most,
            few if is_exact => 1 << few.ilog2(),
            few => few.next_power_of_two(),
        };
        let rows = planned.min(left);
        parts.push(RowPart { start, rows, planned });
        start += rows;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_cover_all_rows_once_in_few_sizes() {
        for most in [1, 2, 8, 64] {
            for rows in 0..200 {
                for is_exact in [false, true] {
                    let parts = cut(rows, most, is_exact);
                    let mut next = 0;
                    for part in &parts {
                        assert_eq!(part.start, next);
                        assert!(part.rows <= part.planned && part.planned <= most);
                        assert!(part.planned == 0 || part.planned.is_power_of_two());
                        assert!(!is_exact || part.rows == part.planned, "padding");
                        assert!(
                            part.rows * 2 > part.planned || rows == 0,
                            "more padding than rows"
                        );
                        next += part.rows;
                    }
                    assert_eq!(next, rows);
                    let fewest = rows.div_ceil(most).max(1);
                    let bits = if is_exact { most.ilog2() as usize } else { 0 };
                    assert!((fewest..=fewest + bits).contains(&parts.len()), "{parts:?}");
                }
            }
        }
    }
}
