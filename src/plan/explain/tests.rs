//! Texts of plans.

use super::*;
use crate::batch::GpuCommandBatch;
use crate::cost::DeviceProfile;
use crate::device::Device;
use crate::methods::{Conv2d, Pool2d};
use crate::ops::SortOrder;
use crate::plan::plan;

fn page(backend: Backend, record: impl FnOnce(&GpuCommandBatch)) -> String {
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch);
    let limits = if backend == Backend::Cpu { Limits::cpu() } else { Limits::webgpu() };
    let profile = DeviceProfile::typical(16).into();
    let target = Target { backend, limits, profile };
    let plan = plan(&batch.recorded().graph, &target).expect("a sound graph");
    let mut text = head(&plan) + "\n";
    let names = batch.recorded().names.by_node();
    let names = names.into_iter().map(|(node, name)| (node, vec![name])).collect();
    let recorded = batch.recorded();
    Printer::new(&plan, &recorded.graph, &target.limits, &names)
        .print(&mut text, ShownSteps::Folded);
    text
}

#[test]
fn many_uploads_take_a_line() {
    let page = page(Backend::Cpu, |batch| {
        let mut sum = batch.upload(&[1.0_f32; 4]);
        for count in 1..=100 {
            sum = sum + batch.upload_shaped(vec![0.5_f32; 4 * count], [count, 4]).sum(0);
        }
    });
    let uploads: Vec<&str> = page.lines().filter(|line| line.contains("upload")).collect();
    assert_eq!(uploads.len(), 2, "{page}");
    let line = uploads[1];
    assert!(line.starts_with("  101 uploads (78.9 KiB): the largest v"), "{line}");
    assert!(line.contains(" f32[100, 4] (1.6 KiB) at "), "{line}");
    assert!(page.contains(" ← v0 f32[2, 4]\n"), "a kernel says the shape of an upload: {page}");
}

#[test]
fn a_plan_for_the_host_has_no_dispatches_and_a_sort_no_flops() {
    let sort = |batch: &GpuCommandBatch| {
        batch.upload_shaped(vec![0.5_f32; 1 << 20], 1 << 20).sort(0, SortOrder::Ascending);
    };
    let (cpu, gpu) = (page(Backend::Cpu, sort), page(Backend::Gpu, sort));
    assert!(cpu.starts_with("plan for cpu: 1 kernel, 1 upload"), "{cpu}");
    assert!(gpu.starts_with("plan for gpu: 1 kernel in 48 dispatches, 1 upload"), "{gpu}");
    for page in [cpu, gpu] {
        assert!(page.contains(": 1.0 M elements, 4.0 MiB read"), "{page}");
        assert!(!page.contains("flops"), "{page}");
    }
}

#[test]
fn kernels_that_do_not_fuse_say_why() {
    let reasons = |record: fn(&GpuCommandBatch)| {
        let page = page(Backend::Cpu, record);
        let lines = page.lines().filter_map(|line| line.strip_prefix("     not fused with "));
        lines.map(str::to_owned).collect::<Vec<_>>()
    };
    assert_eq!(reasons(|batch| _ = batch.exp(batch.upload(&[1.0_f32])).neg()), [""; 0]);
    let two = reasons(|batch| {
        batch.sum(batch.upload_shaped(&[0.5_f32; 12], [3, 4]), 0).softmax(0);
    });
    assert_eq!(two, ["1: a reduction and a row operation take a kernel each"]);
    let result = reasons(|batch| {
        let y = batch.upload_shaped(&[0.5_f32; 12], [3, 4]).exp();
        batch.download(y);
        y.sum(0).download();
    });
    assert_eq!(result, ["1: v1 is a result"]);
    let broadcast = reasons(|batch| {
        let x = batch.upload_shaped(&[0.5_f32; 12], [3, 4]);
        let _ = x - x.sum(0);
    });
    assert_eq!(broadcast, ["1: v1 is broadcast"]);
    let joined = reasons(|batch| {
        let x = batch.upload_shaped(&[0.5_f32; 300], [3, 100]);
        batch.concat([x.sum(1), x.amax(1)], 0);
    });
    assert!(
        joined.iter().all(|why| why.ends_with(" has fewer elements than this kernel")),
        "{joined:?}"
    );
    assert!(!joined.is_empty());
    let own = reasons(|batch| {
        let x = batch.upload(&[0.5_f32; 4]).exp();
        let source = "@group(0) @binding(0) var<storage, read> x: array<f32>;
            @group(0) @binding(1) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(1) fn main() { y[0] = x[0]; }";
        let twin = |x: &[f32], y: &mut [f32]| y[0] = x[0];
        let kernel = crate::Wgsl::new(source).input(x).groups([1, 1, 1]).on_cpu(twin);
        batch.wgsl::<f32>(kernel, 1).neg();
    });
    assert_eq!(
        own,
        ["1: a kernel of your own does not fuse", "2: a kernel of your own does not fuse"]
    );
    let table = reasons(|batch| {
        let rows = batch.upload(&[1_u32, 0]);
        let _ = batch.upload_shaped(&[0.5_f32; 12], [3, 4]).exp().gather(rows, 0);
    });
    assert_eq!(table, ["1: v2 is looked up in memory"]);
}

#[test]
fn a_kernel_has_the_place_of_its_last_operation() {
    let mut line = 0;
    let page = page(Backend::Cpu, |batch| {
        let x = batch.upload(&[1.0_f32, 2.0]).exp();
        line = line!() + 1;
        let _ = x.relu();
    });
    assert!(page.contains(&format!("  1. exp+relu (map) at {}:{line}\n", file!())), "{page}");
}

#[test]
fn steps_that_repeat_are_printed_once() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let w = batch.upload_shaped(&[0.5_f32; 16], [4, 4]);
    let mut x = batch.upload_shaped(&[0.5_f32; 16], [4, 4]);
    for _ in 0..100 {
        x = x.matmul(w).softmax(1);
    }
    let plan = batch.explain().expect("a sound graph");
    let (page, whole) = (plan.to_string(), format!("{plan:#}"));
    assert_eq!(whole.matches("(row) at ").count(), 100);
    let folded = "  … the same 2 steps 99 times more (steps 3 to 200)\n";
    assert!(page.contains(folded) && page.lines().count() < 24, "{page}");
    assert_eq!(plan.kernels().len(), 200);
}

#[test]
fn steps_that_differ_in_a_constant_or_an_axis_do_not_repeat() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let mut x = batch.upload_shaped(&[0.5_f32; 16], [4, 4]);
    for at in 0..20 {
        x = (x * at as f32).softmax(1);
    }
    let page = batch.explain().expect("a sound graph").to_string();
    assert!(!page.contains("the same"), "{page}");
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.upload_shaped(&[0.5_f32; 16], [4, 4]);
    for at in 0..20 {
        let _ = x.softmax(1).sum(at % 2);
    }
    let page = batch.explain().expect("a sound graph").to_string();
    assert!(!page.contains("the same step"), "{page}");
}

#[test]
fn steps_that_fail_or_read_other_rows_repeat() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let rows = batch.upload(&[1_u32, 0, 3, 2]);
    let given = batch.upload_shaped(&[0.5_f32; 160], [40, 4]);
    let mut x = batch.upload_shaped(&[0.5_f32; 16], [4, 4]);
    for at in 0..20 {
        let row = given.slice([at..at + 1, 0..4]);
        x = x.gather(rows, 0).add(row).softmax(1);
    }
    let page = batch.explain().expect("a sound graph").to_string();
    assert!(page.contains(" 19 times more (") || page.contains(" 18 times more ("), "{page}");
}

#[test]
fn maps_say_which_kernel_runs() {
    let kernel = |record: fn(&GpuCommandBatch)| {
        let page = page(Backend::Gpu, record);
        let line = page.lines().find(|line| line.starts_with("  1. ")).expect("a kernel");
        line.split(" at ").next().expect("a kernel").to_owned()
    };
    let chain = kernel(|batch| _ = batch.upload(&[1.0_f32; 64]).relu());
    assert_eq!(chain, "  1. relu (map)");
    let transposed = kernel(|batch| {
        let x = batch.upload_shaped(vec![1.0_f32; 64 * 64], [64, 64]);
        let _ = x + x.transpose();
    });
    assert!(transposed.ends_with(" (map, transposing tiles)"), "{transposed}");
    // Few long windows: the host's loop that slides has no counterpart on a GPU.
    let pooled = kernel(|batch| {
        let image = batch.upload_shaped(vec![1.0_f32; 64 * 64], [1, 1, 64, 64]);
        image.avg_pool2d(Pool2d::new([33, 33])).download();
    });
    assert!(pooled.contains(" (reduce") && !pooled.contains("sliding"), "{pooled}");
    let rows = kernel(|batch| {
        let table = batch.upload_shaped(vec![1.0_f32; 1000 * 64], [1000, 64]);
        let index = batch.upload_shaped(vec![1_u32; 100], 100);
        batch.gather(table, index, 0);
    });
    assert!(rows.ends_with(" (map, vector look-ups)"), "{rows}");
}

#[test]
fn kernels_name_the_methods_that_they_are_made_for() {
    let page = page(Backend::Cpu, |batch| {
        let x = batch.upload_shaped(vec![0.5_f32; 512], [2, 4, 8, 8]);
        let w = batch.upload_shaped(vec![0.5_f32; 144], [4, 4, 3, 3]);
        let conv = Conv2d { padding: [(1, 1); 2], ..Conv2d::default() };
        x.conv2d(w, None, conv).named("hidden").relu().sum(-1).download();
    });
    let of = |text: &str| page.lines().filter(|line| line.contains(text)).count();
    assert_eq!(
        [of(" of conv2d, with \"hidden\" inside, at "), of(" of "), of("  2. sum ")],
        [1, 1, 1],
        "{page}"
    );
}
