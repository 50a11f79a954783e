//! The times at which the steps of a split plan run, and the resulting parts.

use std::collections::HashSet;

use super::parts::{PartValue, Phase, Split, SplitPart, Supply, seconds};
use super::steps::Steps;
use crate::cost::Backend;
use crate::error::PlanError;
use crate::graph::{Graph, GraphPart, NodeId, PartUpload};
use crate::plan::execution_plan::Plan;
use crate::plan::pipeline::plan;
use crate::plan::placement::assign::{Assignment, FlowOrigin};
use crate::plan::value::ValueId;

/// The phase in which each step runs, and that in which each value is made.
pub(super) struct Phases {
    pub steps: Vec<Phase>,
    /// `None` for data that is on the host, or on both sides.
    values: Vec<Option<Phase>>,
}

impl Steps<'_> {
    /// The phases of an assignment.
    pub(super) fn phases(&self, sides: &Assignment) -> Phases {
        let count = self.whole.values.len();
        let (mut after, mut before) = (vec![false; count], vec![false; count]);
        for (id, origin) in self.values() {
            after[id.index()] = origin == FlowOrigin::Gpu;
        }
        let reads = |at: usize| self.whole.steps[at].reads();
        let makes = |at: usize| self.whole.steps[at].outputs.iter().map(|output| output.value);
        let mut is_after = vec![false; sides.len()];
        for (at, &side) in sides.iter().enumerate() {
            is_after[at] = reads(at).iter().any(|value| after[value.index()]);
            makes(at).for_each(|value| after[value.index()] = side == Backend::Gpu || is_after[at]);
        }
        let mut steps = vec![Phase::Beside; sides.len()];
        for (at, &side) in sides.iter().enumerate().rev() {
            let is_before = makes(at).any(|value| before[value.index()]);
            if side == Backend::Gpu || is_before {
                reads(at).iter().for_each(|value| before[value.index()] = true);
            }
            steps[at] = match (side, is_before, is_after[at]) {
                (Backend::Gpu, ..) => Phase::Gpu,
                (Backend::Cpu, true, _) => Phase::Before,
                (Backend::Cpu, false, true) => Phase::After,
                (Backend::Cpu, false, false) => Phase::Beside,
            };
        }
        let values = self.values().map(|(id, origin)| {
            let phase = match origin {
                FlowOrigin::Step(at) => Some(steps[at]),
                FlowOrigin::Gpu => Some(Phase::Gpu),
                FlowOrigin::Host | FlowOrigin::Both => None,
            };
            (id, phase)
        });
        let mut of = vec![None; count];
        values.for_each(|(id, phase)| of[id.index()] = phase);
        Phases { steps, values: of }
    }

    /// `part` with a plan, unless it would have to fetch data that lies on the GPU alone or is too large for its side.
    pub(super) fn plan(
        &self,
        phase: Phase,
        uploads: Vec<Supply>,
        part: &GraphPart,
    ) -> Option<Result<SplitPart, PlanError>> {
        let far =
            |&at: &u32| self.residents.get(at as usize).is_some_and(|residence| residence.is_far());
        let target = if phase == Phase::Gpu {
            self.sides.gpu
        } else if part.residents.iter().any(far) {
            return None;
        } else {
            self.sides.cpu
        };
        let residents = part.residents.clone();
        match plan(&part.graph, target) {
            Ok(plan) => Some(Ok(SplitPart { phase, plan: plan.into(), uploads, residents })),
            Err(error) => (!error.leaves_the_other_side()).then_some(Err(error)),
        }
    }
}

impl Phases {
    pub(super) fn split(&self, graph: &Graph, of: &Steps<'_>) -> Option<Result<Split, PlanError>> {
        let mut orders = self.hand_over(of.whole);
        let on_host = self.steps.iter().copied().filter(|&phase| phase != Phase::Gpu).min();
        let phase = |value: ValueId| self.values[value.index()].or(on_host).unwrap_or(Phase::Gpu);
        let outputs = graph.outputs().into_iter().zip(&of.whole.downloads);
        let downloads: Vec<PhaseOutput> =
            outputs.map(|(node, &value)| orders.download(phase(value), node)).collect();
        let kept = graph.keeps.iter().zip(&of.whole.keeps);
        let keeps: Vec<PhaseOutput> =
            kept.map(|(&node, &value)| orders.keep(phase(value), node)).collect();
        let present = orders.present();
        let made = |(phase, at): PhaseOutput| {
            Some(PartValue { part: present.iter().position(|&present| present == phase)?, at })
        };
        let parts = present.iter().map(|&phase| {
            let PartOrder { downloads, keeps, given } = orders.of(phase);
            let is_given = |node| given.contains(&node);
            let part = graph.part(downloads.clone(), keeps.clone(), is_given);
            let supply = |brought: &PartUpload| match *brought {
                PartUpload::Upload(at) => Some(Supply::Upload(at)),
                PartUpload::Made(node) => made(orders.maker(node)?).map(Supply::Part),
            };
            let uploads = part.uploads.iter().map(supply).collect::<Option<_>>()?;
            of.plan(phase, uploads, &part)
        });
        let parts: Result<Vec<SplitPart>, PlanError> = parts.collect::<Option<_>>()?;
        let downloads = downloads.into_iter().map(made).collect::<Option<_>>()?;
        let keeps = keeps.into_iter().map(made).collect::<Option<_>>()?;
        Some(parts.map(|parts| Split { seconds: seconds(&parts), parts, downloads, keeps }))
    }

    /// The values that parts make for each other.
    fn hand_over(&self, whole: &Plan) -> PartOrders {
        let mut orders = PartOrders::default();
        for (step, &phase) in whole.steps.iter().zip(&self.steps) {
            for value in step.reads() {
                if let Some(maker) = self.values[value.index()].filter(|&maker| maker != phase) {
                    let node = whole.values[value.index()].node;
                    orders.download(maker, node);
                    orders.of_mut(phase).given.insert(node);
                }
            }
        }
        orders
    }
}

/// The values that one part is asked for.
#[derive(Default)]
pub(super) struct PartOrder {
    pub downloads: Vec<NodeId>,
    pub keeps: Vec<NodeId>,
    /// The values that other parts make for it.
    pub given: HashSet<NodeId>,
}

/// The orders of all parts, by phase.
#[derive(Default)]
pub(super) struct PartOrders([PartOrder; 4]);

/// An output, by position among the values that the part of a phase downloads or keeps.
pub(super) type PhaseOutput = (Phase, usize);

impl PartOrders {
    pub fn of(&self, phase: Phase) -> &PartOrder {
        &self.0[phase as usize]
    }

    pub fn of_mut(&mut self, phase: Phase) -> &mut PartOrder {
        &mut self.0[phase as usize]
    }

    pub fn download(&mut self, phase: Phase, node: NodeId) -> PhaseOutput {
        let downloads = &mut self.of_mut(phase).downloads;
        let known = downloads.iter().position(|&download| download == node);
        let at = known.unwrap_or_else(|| {
            downloads.push(node);
            downloads.len() - 1
        });
        (phase, at)
    }

    pub fn keep(&mut self, phase: Phase, node: NodeId) -> PhaseOutput {
        let keeps = &mut self.of_mut(phase).keeps;
        keeps.push(node);
        (phase, keeps.len() - 1)
    }

    /// The phases whose parts have something to make.
    pub fn present(&self) -> Vec<Phase> {
        let asked = |phase: &Phase| {
            let PartOrder { downloads, keeps, .. } = self.of(*phase);
            !downloads.is_empty() || !keeps.is_empty()
        };
        Phase::ALL.into_iter().filter(asked).collect()
    }

    /// The makers of the values that others are given.
    pub fn maker(&self, node: NodeId) -> Option<PhaseOutput> {
        let makes = |order: &PartOrder| !order.given.contains(&node);
        Phase::ALL.into_iter().find_map(|phase| {
            let order = Some(self.of(phase)).filter(|order| makes(order))?;
            Some((phase, order.downloads.iter().position(|&download| download == node)?))
        })
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::cost::{DeviceProfile, Limits};
    use crate::device::Device;
    use crate::plan::Target;
    use crate::plan::placement::split::SideTargets;

    /// The plan of `batch` as a part, if the GPU binds so many bytes.
    fn planned(graph: &Graph, binding_bytes: u64) -> Option<Result<SplitPart, PlanError>> {
        let profile = Arc::new(DeviceProfile::typical(1));
        let target = |backend, limits| Target { backend, limits, profile: Arc::clone(&profile) };
        let cpu = target(Backend::Cpu, Limits::cpu());
        let gpu = target(Backend::Gpu, Limits { binding_bytes, ..Limits::webgpu() });
        let small = GpuCommandBatch::new(&Device::cpu());
        small.upload(&[1.0_f32]);
        let whole = plan(&small.recorded().graph, &cpu).unwrap();
        let sides = SideTargets { cpu: &cpu, gpu: &gpu };
        let steps = Steps { whole: &whole, sides, residents: &[], part: None };
        let part = graph.part(graph.outputs(), Vec::new(), |_| false);
        steps.plan(Phase::Gpu, vec![Supply::Upload(0)], &part)
    }

    fn batch() -> GpuCommandBatch {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload(&[1.0_f32; 100]);
        batch.sum(x, 0);
        batch
    }

    #[test]
    fn a_part_that_is_too_large_is_no_error() {
        let recorded = batch().recorded();
        let graph = &recorded.graph;
        assert!(matches!(planned(graph, 1 << 20), Some(Ok(_))));
        assert!(planned(graph, 100).is_none());
    }

    #[cfg(debug_assertions)]
    #[test]
    fn a_part_that_breaks_an_invariant_is_an_error() {
        let sound = batch();
        let mut broken = Graph::default();
        for (_, node) in sound.recorded().graph.iter() {
            let mut node = node.clone();
            if !node.op.is_source() {
                node.ty.shape = 7.into();
            }
            broken.push(node);
        }
        let error = planned(&broken, 1 << 20);
        assert!(matches!(error, Some(Err(PlanError::Invalid { .. }))), "{error:?}");
    }
}
