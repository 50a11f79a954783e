//! The first few of each row's order: a workgroup walks along a row, or a part of it, and sorts only what beats the
//! last of those that it holds.

use super::keys::{SortKernel, bitonic};
use crate::codegen::Dispatch;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::template::{holes, shader};
use crate::codegen::rows::DispatchRole;

/// Elements that a workgroup holds.
const HELD: usize = 1024;
/// Elements that a workgroup reads in a round, two a thread.
const ROUND: usize = 512;

/// The dispatches of a selection: one, or with parts a second one that selects among the candidates of each.
pub(super) fn lower<'a>(
    sort: &SortKernel,
    kernel: &dyn Fn() -> KernelBuilder<'a>,
    parts: usize,
) -> Vec<Dispatch> {
    DispatchRole::of(parts).iter().map(|&role| dispatch(sort, kernel(), role, parts)).collect()
}

/// Partial results are candidates, which a dispatch finds in each part of a row.
fn dispatch(
    sort: &SortKernel,
    mut kernel: KernelBuilder<'_>,
    role: DispatchRole,
    parts: usize,
) -> Dispatch {
    let scratch = sort.rows.bind(&mut kernel, role, false);
    let (parts, len) = match role {
        DispatchRole::Whole | DispatchRole::Partial => (parts, sort.rows.len),
        DispatchRole::Combine => (1, parts * sort.count),
    };
    let count = kernel.size(sort.count);
    let fetch = match role {
        DispatchRole::Combine => fetch_candidates(&scratch, &kernel.size(len)),
        DispatchRole::Whole | DispatchRole::Partial => {
            sort.fetch(&mut kernel) + "\nfn position(row: u32, j: u32) -> u32 {\n    return j;\n}\n"
        }
    };
    let write = match role {
        DispatchRole::Partial => write_candidates(&scratch, &count),
        DispatchRole::Whole | DispatchRole::Combine => sort.write(&mut kernel),
    };
    let groups = sort.rows.count() * parts;
    let holes = holes! {
        fetch, write, bitonic: bitonic(HELD, HELD), start: sort.each_group(&mut kernel, groups),
        held: HELD, round: ROUND, count, parts: kernel.size(parts),
        chunk: kernel.size(len.div_ceil(parts)), len: kernel.size(len),
    };
    let label = if role == DispatchRole::Partial { " (parts)" } else { "" };
    kernel.dispatch(shader!("sort/select.wgsl"), &holes, label, groups)
}

/// The functions that read candidates, of which a row has `len`.
fn fetch_candidates(scratch: &str, len: &str) -> String {
    format!(
        "fn fetch(row: u32, j: u32) -> u32 {{\n    \
         return {scratch}[(row * {len} + j) * 2u];\n}}\n\n\
         fn position(row: u32, j: u32) -> u32 {{\n    \
         return {scratch}[(row * {len} + j) * 2u + 1u];\n}}\n"
    )
}

/// The function that writes a candidate, of which a workgroup has `count`.
fn write_candidates(scratch: &str, count: &str) -> String {
    format!(
        "fn write(id: u32, j: u32, key: u32, position: u32) {{\n    \
         let at = (id * {count} + j) * 2u;\n    \
         {scratch}[at] = key;\n    {scratch}[at + 1u] = position;\n}}\n"
    )
}
