//! The names of stored values: a result that is only another shape of a value is read from it, and gives it its name too.

use std::collections::HashMap;
use std::sync::Arc;

use crate::graph::{Graph, NodeId};
use crate::plan::value::ValueId;
use crate::plan::{PartValue, Pieces, PlacedGraph, Plan, Split};

/// The names of values, by the node that each stores.
pub(super) type ValueNames = HashMap<NodeId, Vec<Arc<str>>>;

/// The names of the values of `graph`, which was `placed`. `names` are those that the user gave to nodes.
pub(super) fn value_names(
    graph: &Graph,
    placed: &PlacedGraph,
    names: &HashMap<NodeId, Arc<str>>,
) -> ValueNames {
    let of_nodes = names.iter().map(|(&node, name)| (node, vec![Arc::clone(name)]));
    let mut all: ValueNames = of_nodes.collect();
    let downloads = stored(&placed.pieces, |plan| &plan.downloads, |split| &split.downloads);
    let keeps = stored(&placed.pieces, |plan| &plan.keeps, |split| &split.keeps);
    let outputs = graph.outputs().into_iter().zip(downloads);
    for (result, node) in outputs.chain(graph.keeps.iter().copied().zip(keeps)) {
        if let Some(name) = names.get(&result) {
            let of_value = all.entry(node).or_default();
            if !of_value.contains(name) {
                of_value.push(Arc::clone(name));
            }
        }
    }
    all
}

/// The nodes that the values of results store, in the order of the results: of a plan and of a split.
fn stored(
    pieces: &Pieces,
    of_plan: fn(&Plan) -> &Vec<ValueId>,
    of_split: fn(&Split) -> &Vec<PartValue>,
) -> Vec<NodeId> {
    let node = |plan: &Plan, value: ValueId| plan.values[value.index()].node;
    match pieces {
        Pieces::Whole(plan) => of_plan(plan).iter().map(|&value| node(plan, value)).collect(),
        Pieces::Split(split) => of_split(split)
            .iter()
            .map(|&PartValue { part, at }| {
                let plan = &split.parts[part].plan;
                node(plan, of_plan(plan)[at])
            })
            .collect(),
    }
}

#[cfg(test)]
mod tests {
    use crate::batch::GpuCommandBatch;
    use crate::device::Device;

    #[test]
    fn a_result_of_another_shape_than_its_value_keeps_its_name() {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_shaped(&[0.5_f32; 12], [3, 4]);
        let y = x.exp();
        let _ = y.reshape([2, 6]).named("wide");
        let _ = y.reshape([6, 2]).named("tall");
        let _ = y.transpose().named("across");
        let _ = y.slice([1..3, 0..4]).named("part");
        let _ = x.neg().named("own").reshape(12).named("flat");
        let page = batch.explain().expect("a sound graph").to_string();
        let downloads = page.lines().find(|line| line.starts_with("  download"));
        let downloads = downloads.expect("downloads");
        for name in ["wide", "tall", "across", "part", "own", "flat"] {
            assert!(downloads.contains(&format!(" \"{name}\"")), "{name}: {page}");
        }
        let _ = batch.upload(&[1.0_f32; 4]).reshape([2, 2]).named("given");
        let kept = batch.upload(&[1.0_f32; 4]).exp().reshape([2, 2]).named("kept");
        batch.keep(kept);
        let page = batch.explain().expect("a sound graph").to_string();
        let keep = page.lines().find(|line| line.starts_with("  keep")).expect("a kept value");
        assert!(keep.ends_with(" \"kept\"") && page.contains(" \"given\""), "{page}");
    }
}
