//! From a graph to a plan: all passes, in their order.

use super::execution_plan::Plan;
use super::passes::failure_sites::Sites;
use super::passes::ir::Ir;
use super::passes::path::Views;
use super::passes::storage::ValueHomes;
use super::step::total;
use super::target::Target;
use super::value::{Home, ValueId};
use super::{order, passes, verify};
use crate::cost::Backend;
use crate::error::PlanError;
use crate::graph::Graph;

/// No device binds fewer storage buffers to one kernel; WebGPU promises 8.
const MIN_BUFFERS: usize = 4;
/// More storage buffers than this in one kernel help nobody.
const MAX_BUFFERS: usize = 16;

/// Plans `graph`, which is not empty, for `target`.
pub(crate) fn plan(graph: &Graph, target: &Target) -> Result<Plan, PlanError> {
    let buffers = target.limits.storage_buffers.clamp(MIN_BUFFERS, MAX_BUFFERS);
    let ir = Ir::prune(graph);
    verify::ir("prune", &ir)?;
    let ir = passes::scale::scale(ir, target);
    verify::ir("scale", &ir)?;
    let ir = passes::simplify::simplify(ir, buffers - 1);
    verify::ir("simplify", &ir)?;
    let ir = passes::kept_copies::copy_kept(ir);
    verify::ir("kept copies", &ir)?;
    let ir = passes::sort_pairs::join_pairs(ir);
    verify::ir("sort pairs", &ir)?;
    let views = Views::resolve(&ir);
    let rates = target.profile.side(target.backend).rates();
    let sites = Sites::of(&ir);
    let fusion = passes::fuse::fuse(&ir, &views, &sites, buffers, &rates, target.backend);
    verify::fusion(&ir, &views, &sites, &fusion, buffers)?;

    let homes = ValueHomes::assign(&ir, &views, &fusion, target.backend)?;
    let mut steps = Vec::with_capacity(fusion.groups.len());
    for group in &fusion.groups {
        let mut step = passes::emit::step(&ir, &views, &sites, &fusion, group, &homes.of)?;
        step.tune(&homes.values, target);
        steps.push(step);
    }
    let ValueHomes { mut values, downloads, keeps, .. } = homes;
    let lasting: Vec<ValueId> = downloads.iter().chain(&keeps).copied().collect();
    if target.backend == Backend::Cpu {
        passes::channels_last::store_channels_last(&mut steps, &mut values, &lasting);
    }
    for step in &mut steps {
        passes::predict::predict(step, &values, target);
    }
    passes::limits::check(&steps, &values, target)?;
    verify::steps(&steps, &values, target)?;

    let bytes: Vec<u64> = values.iter().map(|value| value.bytes(&target.limits)).collect();
    let steps = order::steps::order(steps, &bytes, &lasting);
    verify::order(&steps, &values)?;
    let uploaded = values.iter().zip(&bytes).filter(|(v, _)| matches!(v.home, Home::Upload { .. }));
    let bytes_up = total(uploaded.map(|(_, &bytes)| bytes));
    let mut distinct = downloads.clone();
    distinct.sort_unstable();
    distinct.dedup();
    let bytes_down = total(distinct.iter().map(|value| bytes[value.index()]));
    let sites = sites.nodes;
    let empty = Plan::empty(target.backend);
    let mut plan = Plan { values, steps, sites, downloads, keeps, bytes_up, bytes_down, ..empty };
    order::memory::assign(&mut plan, &bytes);
    order::waves::assign(&mut plan, &bytes, target);
    plan.seconds = plan.predicted(target).total();
    verify::memory(&plan)?;
    Ok(plan)
}
