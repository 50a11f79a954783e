//! Rows in parts, for the forms that work along rows.

/// Workgroups that fill a large GPU: of 256 threads, an H200's 132 cores hold 1056.
const FILL_GROUPS: usize = 1024;
/// Threads of a workgroup that share a row: the most that WebGPU promises.
const GROUP: usize = 256;

/// Parts of each row, so that long rows, or columns (`across`), fill a GPU however few they are. Rows up to `held`
/// elements are not cut.
pub(super) fn row_parts(rows: usize, len: usize, across: bool, held: usize) -> usize {
    let (groups, held, least) =
        if across { (rows.div_ceil(32), 128, 128) } else { (rows, held, GROUP * 16) };
    if len <= held || groups >= FILL_GROUPS {
        return 1;
    }
    (2 * FILL_GROUPS).div_ceil(groups.max(1)).min(len / least).max(1)
}
