//! Workgroups in a grid of three sides, and the number of each.

/// The parameters of `main` that [`WORKGROUP`] is made of.
pub(super) const GRID: &str =
    "@builtin(workgroup_id) group: vec3<u32>,\n@builtin(num_workgroups) groups: vec3<u32>,";

/// The number of a workgroup, as an expression.
pub(in crate::codegen) const WORKGROUP: &str =
    "(group.z * groups.y + group.y) * groups.x + group.x";

/// A grid of at least `groups` workgroups with no side past `limit`. Kernels number them by
/// [`WORKGROUP`] and leave out those past the end.
pub(super) fn grid(groups: usize, limit: u32) -> [u32; 3] {
    let limit = limit as usize;
    let rows = groups.div_ceil(limit).max(1);
    let x = groups.div_ceil(rows).max(1);
    let y = rows.min(limit);
    [x, y, rows.div_ceil(y)].map(|side| side as u32)
}
