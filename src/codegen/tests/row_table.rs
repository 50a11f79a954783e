//! Look-ups that take rows of their table through workgroup memory.

use std::sync::Arc;

use super::text::validate_text;
use crate::batch::{GpuCommandBatch, Tensor};
use crate::codegen::lower;
use crate::cost::{Backend, DeviceProfile, Limits};
use crate::device::Device;
use crate::plan::{Target, plan};

/// The text of the graph that `record` makes of a table and indices of these shapes.
fn text(
    [table, indices]: [&[usize]; 2],
    limits: &Limits,
    record: impl for<'b> Fn(&'b GpuCommandBatch, Tensor<'b, f32>, Tensor<'b, u32>) -> Tensor<'b, f32>,
) -> String {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload_shaped(vec![0.0; table.iter().product()], table);
    let i = batch.upload_shaped(vec![0; indices.iter().product()], indices);
    let y = record(&batch, x, i);
    batch.download(y);
    let profile = Arc::new(DeviceProfile::typical(1));
    let target = Target { backend: Backend::Gpu, limits: limits.clone(), profile };
    let plan = plan(&batch.recorded().graph, &target).unwrap();
    let wgsl = lower(&plan, plan.steps.last().unwrap(), limits).remove(0).wgsl;
    validate_text(&wgsl);
    wgsl
}

fn is_staged(wgsl: &str) -> bool {
    wgsl.contains("var<workgroup> piece")
}

#[test]
fn long_rows_where_workgroups_are_large() {
    let limits = Limits { threads: 1024, ..Limits::webgpu() };
    let staged = |shapes, limits: &Limits| {
        let gather = text(shapes, limits, |b, x, i| b.gather(x, i, -1));
        is_staged(&gather)
    };
    assert!(staged([&[128, 4096], &[4096]], &limits));
    assert!(staged([&[43, 16_383], &[2, 4098]], &limits));
    // Few rows, short rows, rows in which little is looked up, rows that do not fit, small workgroups.
    assert!(!staged([&[100, 4096], &[4096]], &limits));
    assert!(!staged([&[128, 4092], &[4096]], &limits));
    assert!(!staged([&[128, 4096], &[4092]], &limits));
    assert!(!staged([&[128, 8193], &[4096]], &limits));
    assert!(!staged([&[128, 16_385], &[16_384]], &limits));
    assert!(!staged([&[128, 4096], &[4096]], &Limits::webgpu()));
    // Results that are no whole fours.
    assert!(!staged([&[128, 4096], &[4097]], &limits));
}

#[test]
fn ways_to_look_up() {
    let limits = Limits { threads: 512, ..Limits::webgpu() };
    let table: &[usize] = &[128, 4096];
    let take = text([table, table], &limits, |b, x, i| b.take_along_axis(x, i, 1));
    assert!(is_staged(&take));
    let columns = text([table, table], &limits, |b, x, i| b.take_along_axis(x, i, 0));
    assert!(!is_staged(&columns));
    let rows = text([table, &[4096]], &limits, |b, x, i| b.gather(x, i, 0));
    assert!(!is_staged(&rows));
    let turned = text([&[4096, 128], &[4096]], &limits, |_, x, i| x.transpose().gather(i, 1));
    assert!(!is_staged(&turned));
    // With later operations, as long as they do not read the table by themselves.
    let follows = text([table, &[4096]], &limits, |_, x, i| x.gather(i, 1).relu());
    assert!(is_staged(&follows));
    let by_itself = text([table, &[4096]], &limits, |_, x, i| x.gather(i, 1) + x);
    assert!(!is_staged(&by_itself));
}

#[test]
fn the_text_for_two_pieces() {
    let limits = Limits { threads: 512, ..Limits::webgpu() };
    let wgsl = text([&[128, 8192], &[4096]], &limits, |b, x, i| b.gather(x, i, 1));
    insta::assert_snapshot!(wgsl);
}
