//! Pictures of recorded graphs.

use std::sync::Arc;

use super::Explanation;
use crate::batch::GpuCommandBatch;
use crate::cost::{Curve, Placement};
use crate::device::Device;
use crate::picture::tests::Page;
use crate::picture::{Fate, Memory, Picture};
use crate::plan::placement::chosen_by::ChosenBy;
use crate::plan::placement::tests::{divided, targets};
use crate::plan::{Target, choose_route};

/// The picture of the batch on a device of the host alone.
fn picture(batch: &GpuCommandBatch) -> Picture {
    batch.explain().expect("a plan").picture()
}

/// The picture of the batch on a device with these sides.
fn picture_on(targets: &[Target], placement: Placement, batch: &GpuCommandBatch) -> Picture {
    explanation(batch, targets, placement, None).picture()
}

/// The explanation of the batch on a device with these sides, and with so much room for a run.
pub(super) fn explanation(
    batch: &GpuCommandBatch,
    targets: &[Target],
    placement: Placement,
    room: Option<u64>,
) -> Explanation {
    let recorded = batch.recorded();
    let graph = &recorded.graph;
    let placed = choose_route(graph, targets, &placement, None, &[], room).expect("a plan");
    let chosen_by = match placement {
        Placement::Auto => ChosenBy::Times,
        placement => ChosenBy::Asked(placement),
    };
    let names = recorded.names.by_node();
    Explanation::new(placed.into(), graph, names, targets, Some(chosen_by), &[])
}

fn on_host(record: impl FnOnce(&GpuCommandBatch)) -> Picture {
    let batch = GpuCommandBatch::new(&Device::cpu());
    record(&batch);
    picture(&batch)
}

#[test]
fn each_operation_and_each_kernel_is_drawn_once() {
    let picture = on_host(|batch| {
        let x = batch.upload_shaped(&[0.5_f32; 12], [3, 4]);
        let w = batch.upload_shaped(&[0.5_f32; 8], [4, 2]);
        let y = x.matmul(w).relu().named("hidden");
        batch.outputs((y.softmax(1), y.sum(0)));
    });
    let page = Page::of(&picture);
    assert_eq!((picture.operations.len(), picture.kernels.len()), (6, 3));
    let mut ids: Vec<&str> = page.all("id").collect();
    ids.sort_unstable();
    assert_eq!(ids, ["k1", "k2", "k3", "o1", "o2", "o3", "o4", "o5", "o6"]);
    let matmul = page.with_class("op").find(|op| op.get("id") == Some("o3")).expect("a product");
    assert_eq!((matmul.get("href"), matmul.get("data-with")), (Some("#k1"), Some("k1")));
    let card = page.with_class("card").next().expect("a kernel");
    assert_eq!((card.get("data-is"), card.get("data-with")), (Some("k1"), Some("o3 o4")));
    assert!(page.says("“hidden”") && page.says("1. matmul+relu"));
    assert_eq!(page.cells("reason").collect::<Vec<_>>(), ["the device has no other side"; 3]);
}

#[test]
fn operations_know_their_fate() {
    let picture = on_host(|batch| {
        let x = batch.upload_shaped(&[0.5_f32; 12], [3, 4]);
        let _unused = x.exp();
        let same = x.scale(1.0);
        let product = same.matmul(x.transpose());
        let y = product + batch.full([3, 3], 2.0_f32);
        batch.download(y.reshape([9]));
    });
    let seen: Vec<(&str, Fate, &[usize], bool)> = picture
        .operations
        .iter()
        .map(|op| (op.name, op.fate, &op.kernels[..], op.is_result))
        .collect();
    let want: [(&str, Fate, &[usize], bool); 8] = [
        ("upload", Fate::Source, &[0], false),
        ("exp", Fate::Unused, &[], false),
        ("scale", Fate::Simplified, &[0], false),
        ("transpose", Fate::View, &[0], false),
        ("matmul", Fate::Computed, &[0], false),
        ("full", Fate::Number, &[0], false),
        ("add", Fate::Computed, &[0], false),
        ("reshape", Fate::View, &[0], true),
    ];
    assert_eq!(seen, want);
    Page::of(&picture);
}

#[test]
fn few_operations_and_no_kernels() {
    let one = on_host(|batch| _ = batch.upload(&[1.0_f32]));
    assert_eq!((one.operations.len(), one.kernels.len()), (1, 0));
    assert!(one.operations[0].is_result);
    Page::of(&one);
    let empty = on_host(|batch| _ = batch.upload(&[0.0_f32; 0]).exp());
    Page::of(&empty);
    let full = on_host(|batch| _ = batch.full([2, 2], 1.0_f32));
    assert_eq!(full.operations[0].fate, Fate::Computed);
    Page::of(&full);
}

#[test]
fn residents_and_updates_have_memory_of_their_own() {
    let device = Device::cpu();
    let batch = GpuCommandBatch::new(&device);
    let state = device.resident(&[1.0_f32; 64], [8, 8]).expect("a resident");
    let x = batch.bind(&state);
    let y = (x * 0.5).softmax(1);
    batch.update(&state, y.replace_slice(batch.full([1, 8], 0.0_f32), 0, 0));
    y.sum(1).download();
    let _kept = y.exp().keep();
    let picture = picture(&batch);
    let memories: Vec<Memory> = picture.parts[0].values.iter().map(|value| value.memory).collect();
    assert!(memories.contains(&Memory::Resident) && memories.contains(&Memory::Kept));
    let page = Page::of(&picture);
    assert!(page.says("resident · 256 B") && page.says("kept result · 256 B"));
}

#[test]
fn parts_and_their_transfers_are_drawn() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<f32>("x", [64, 64]);
    x.matmul(x).softmax(1).download();
    let picture = picture_on(&divided(), Placement::Auto, &batch);
    let titles: Vec<&str> = picture.parts.iter().map(|part| part.title.as_str()).collect();
    assert_eq!(titles, ["On the gpu", "After the gpu"]);
    assert_eq!(picture.parts[1].kernels, 1..2);
    let moved: Vec<(&str, usize, u64)> =
        picture.transfers.iter().map(|moved| (moved.name, moved.part, moved.bytes)).collect();
    assert_eq!(moved, [("upload", 0, 16384), ("gpu → cpu", 0, 16384)]);
    let page = Page::of(&picture);
    assert_eq!(page.cells("reason").count(), 2);
    assert!(page.with_class("side").any(|side| side.text == "cpu"));
    assert!(page.with_class("side").any(|side| side.text == "gpu"));
}

#[test]
fn waves_and_partial_results_are_drawn() {
    let mut targets = targets(1e-3, 1e-6);
    for target in &mut targets {
        let profile = Arc::make_mut(&mut target.profile);
        (profile.gpu.upload, profile.gpu.memory) = (Curve::flat(1e6), Curve::flat(1e6));
    }
    let batch = GpuCommandBatch::new(&Device::cpu());
    let mut y = batch.input::<f32>("x", [48, 48]);
    for layer in 0..4 {
        y = y.matmul(batch.input::<f32>(&format!("w{layer}"), [48, 48])).softmax(1);
    }
    let long = batch.input::<f32>("long", 1 << 22);
    batch.outputs((y, long.sum(0)));
    let picture = picture_on(&targets, Placement::Gpu, &batch);
    assert!(picture.heading[0].contains(" waves"), "{}", picture.heading[0]);
    assert!(!picture.parts[0].scratch.is_empty());
    let page = Page::of(&picture);
    assert!(page.says("parts") && page.says("2 dispatches"));
    assert!(page.cells("reason").all(|reason| reason == "asked for"));
}

#[test]
fn a_thousand_operations_fold_to_their_blocks() {
    let picture = on_host(|batch| {
        let mut x = batch.input::<f32>("x", [8, 8]);
        let w = batch.input::<f32>("w", [8, 8]);
        for _ in 0..200 {
            let h = x.matmul(w).relu().softmax(1);
            x = (h + x).tanh();
        }
        x.download();
    });
    assert_eq!(picture.operations.len(), 1002);
    let page = Page::of(&picture);
    assert!(page.with_class("op").count() < 30, "{}", page.with_class("op").count());
    assert!(page.with_class("card").count() < 10);
    assert!(page.says("matmul ×19"), "all blocks but a few at the ends are one");
    assert!(picture.to_html().len() < 60_000);
}

#[test]
fn layers_of_growing_shapes_fold_too() {
    let picture = on_host(|batch| {
        let mut x = batch.input::<f32>("x", [4, 1]);
        for width in 1..150 {
            let w = batch.input::<f32>(&format!("w{width}"), [width, width + 1]);
            x = x.matmul(w).relu().softmax(1);
        }
        x.download();
    });
    let page = Page::of(&picture);
    assert!(page.with_class("op").count() < 30, "{}", page.with_class("op").count());
    assert!(page.says(" …"), "the types differ");
}

#[test]
fn names_and_places_of_the_user_are_text() {
    let hostile = "</title></svg><script>alert(1)</script>&\"'\u{0}\u{7f}\u{ffff}";
    let batch = GpuCommandBatch::new(&Device::cpu());
    let place = batch.at("a\"><img src=x>&.rs", 3);
    batch.upload(&[1.0_f32, 2.0]).exp().named(hostile).download();
    drop(place);
    let picture = picture(&batch);
    let html = picture.to_html();
    assert!(!html.contains("<script>alert") && !html.contains("<img"));
    let page = Page::of(&picture);
    assert!(page.says("</title></svg><script>alert"), "the name is there as text");
    assert!(page.says("recorded at a\"><img src=x>&.rs:3"));
}

#[test]
fn reasons_stand_beside_both_times() {
    let batch = GpuCommandBatch::new(&Device::cpu());
    let x = batch.input::<f32>("x", [64, 64]);
    x.matmul(x).download();
    let picture = picture_on(&targets(2e-6, 1e-6), Placement::Auto, &batch);
    let page = Page::of(&picture);
    let row = ["predicted", "other side", "reason"].map(|head| page.cells(head).next());
    assert_eq!(
        row,
        [Some("1.0 µs"), Some("2.0 µs"), Some("predicted to be as fast here, or faster")]
    );
}
