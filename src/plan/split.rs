//! The pass *split*: a graph in up to four parts, of which one runs on the GPU in one trip.

use std::collections::HashSet;
use std::fmt;

use super::assign::{Assignment, Costs, Flow, Origin, Problem};
use super::predict::total;
use super::step::ValueId;
use super::{Home, Plan, Target, plan};
use crate::cost::{Aspect, Backend, Residence};
use crate::error::PlanError;
use crate::graph::{Brought, Graph, NodeId, Part};

/// A graph in parts that hand values to each other.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Split {
    /// In an order in which they can run, at most one of each stage.
    pub parts: Vec<SplitPart>,
    /// Where the whole graph's outputs are made, in their order.
    pub downloads: Vec<Made>,
    /// Where what it keeps is made.
    pub keeps: Vec<Made>,
    /// Predicted seconds of a whole run.
    pub seconds: f64,
}

impl Split {
    /// Bytes that a run of all parts holds until it is done.
    pub fn held_bytes(&self) -> u64 {
        total(self.parts.iter().map(|part| part.plan.held_bytes))
    }
}

/// One part with its plan.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SplitPart {
    pub stage: Stage,
    pub plan: Plan,
    /// What the plan's uploads are, by position.
    pub uploads: Vec<Supply>,
    /// The whole graph's residents that the plan's are, by position.
    pub residents: Vec<u32>,
}

/// When a part runs. Two that do not wait for each other run at the same time.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Stage {
    /// On the host, before the GPU.
    Before,
    /// On the GPU.
    Gpu,
    /// On the host, meanwhile.
    Beside,
    /// On the host, when the others are done.
    After,
}

/// What an upload of a part brings.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Supply {
    /// The whole graph's upload of this position.
    Upload(u32),
    /// What another part made.
    Made(Made),
}

/// A value that a part makes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Made {
    /// By position in [`Split::parts`].
    pub part: usize,
    /// By position among what that part downloads, or keeps.
    pub at: usize,
}

/// Both sides of a device.
#[derive(Clone, Copy)]
pub(super) struct Sides<'a> {
    pub cpu: &'a Target,
    pub gpu: &'a Target,
}

impl fmt::Display for Stage {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Before => "before the gpu",
            Self::Gpu => "on the gpu",
            Self::Beside => "beside the gpu",
            Self::After => "after the gpu",
        })
    }
}

impl Stage {
    const ALL: [Self; 4] = [Self::Before, Self::Gpu, Self::Beside, Self::After];
}

/// Splits `graph`, of which `whole` is the plan for the GPU, if some of it is better done on either side. `residents` says
/// where the data of each lies.
///
/// # Errors
/// [`PlanError::Invalid`]. A part that is too large for its side is no error: there is no split then.
pub(super) fn split(
    graph: &Graph,
    whole: &Plan,
    sides: Sides<'_>,
    residents: &[Residence],
) -> Result<Option<Split>, PlanError> {
    let steps = Steps { whole, sides, residents, part: None };
    let on_gpu = steps.problem().solve();
    let stages = steps.stages(&on_gpu);
    // One side whole is not for this pass.
    let Some(first) = stages.steps.first() else { return Ok(None) };
    if stages.steps.iter().all(|stage| stage == first) && *first != Stage::After {
        return Ok(None);
    }
    stages.split(graph, &steps).transpose()
}

/// The steps of a plan, to be shared out.
pub(super) struct Steps<'a> {
    pub whole: &'a Plan,
    pub sides: Sides<'a>,
    /// Where the data of each of the graph's residents lies.
    pub residents: &'a [Residence],
    /// Whose plan it is, where it is not that of the whole graph.
    pub part: Option<PartOf<'a>>,
}

/// A part of a graph that is split already.
#[derive(Clone, Copy)]
pub(super) struct PartOf<'a> {
    pub split: &'a Split,
    pub at: usize,
}

impl PartOf<'_> {
    fn part(&self) -> &SplitPart {
        &self.split.parts[self.at]
    }

    /// When what the plan's upload `input` brings is made, unless the whole graph's upload brings it.
    pub fn maker(&self, input: u32) -> Option<Stage> {
        match self.part().uploads.get(input as usize)? {
            Supply::Made(made) => Some(self.split.parts[made.part].stage),
            Supply::Upload(_) => None,
        }
    }

    /// Whether the plan makes a result of the whole graph as `value`.
    pub fn is_result(&self, value: ValueId) -> bool {
        self.made(value).any(|made| self.split.downloads.contains(&made))
    }

    /// Whether a part on the GPU, or one on the host, is handed `value`.
    fn is_handed(&self, value: ValueId, to_gpu: bool) -> bool {
        let takes = |made: Made| {
            let takers =
                self.split.parts.iter().filter(|part| (part.stage == Stage::Gpu) == to_gpu);
            takers.flat_map(|part| &part.uploads).any(|supply| *supply == Supply::Made(made))
        };
        self.made(value).any(takes)
    }

    fn made(&self, value: ValueId) -> impl Iterator<Item = Made> {
        let downloads = self.part().plan.downloads.iter().enumerate();
        downloads
            .filter(move |(_, download)| **download == value)
            .map(|(at, _)| Made { part: self.at, at })
    }
}

/// When each step runs, and where each value is made.
struct Stages {
    steps: Vec<Stage>,
    /// `None` for data that is on the host, or on both sides.
    values: Vec<Option<Stage>>,
}

impl Steps<'_> {
    /// Where the data of the plan's resident of this position lies.
    fn residence(&self, at: u32) -> Option<&Residence> {
        let at = match self.part {
            Some(part) => *part.part().residents.get(at as usize)?,
            None => at,
        };
        self.residents.get(at as usize)
    }

    fn origin(&self, home: Home) -> Option<Origin> {
        match home {
            Home::Upload { input, .. } => {
                let maker = self.part.and_then(|part| part.maker(input));
                Some(if maker == Some(Stage::Gpu) { Origin::Gpu } else { Origin::Host })
            }
            Home::Resident(at) => Some(match self.residence(at) {
                None | Some(Residence::Both) => Origin::Both,
                Some(Residence::Host) => Origin::Host,
                Some(Residence::Gpu) => Origin::Gpu,
            }),
            Home::Slot(_) | Home::Kept(_) => None,
        }
    }

    /// The values in an order of dependency: what is given, then what each step makes.
    fn values(&self) -> impl Iterator<Item = (ValueId, Origin)> {
        let given =
            self.whole.values.iter().zip(0..).filter_map(|(value, at)| {
                self.origin(value.home).map(|origin| (ValueId(at), origin))
            });
        let made = self.whole.steps.iter().enumerate().flat_map(|(at, step)| {
            step.outputs.iter().map(move |output| (output.value, Origin::Step(at)))
        });
        given.chain(made)
    }

    pub fn problem(&self) -> Problem {
        let Self { whole, sides, .. } = *self;
        let gpu = sides.gpu.profile.side(Backend::Gpu);
        let cpu = sides.gpu.profile.side(Backend::Cpu);
        let costs = whole
            .steps
            .iter()
            .map(|step| Costs { cpu: step.cost.cpu_seconds, gpu: step.cost.gpu_seconds });
        let bytes = |id: ValueId| whole.values[id.index()].bytes(&sides.gpu.limits) as f64;
        // Transfers are packed together: their fixed costs are those of the trip.
        let largest = |bytes: u64| (bytes as f64).max(SMALL_TRANSFER);
        let learned = sides.gpu.profile.learned.factor(Aspect::trip(Backend::Gpu));
        let up = gpu.upload.rate(largest(whole.bytes_up)) / learned;
        let down = gpu.download.rate(largest(whole.bytes_down)) / learned;
        let copied = cpu.memory.last();
        // Parts share one trip, whatever becomes of a step of one.
        let trip = match self.part {
            Some(_) => 0.0,
            None => gpu.round_trip + gpu.upload.seconds(1.0) + gpu.download.seconds(1.0),
        };
        let mut readers = vec![Vec::new(); whole.values.len()];
        for (at, step) in whole.steps.iter().enumerate() {
            step.reads().iter().for_each(|value| readers[value.index()].push(at));
        }
        let values = self.values().map(|(id, from)| Flow {
            from,
            readers: std::mem::take(&mut readers[id.index()]),
            to_host: match self.part {
                Some(part) => part.is_result(id) || part.is_handed(id, false),
                None => whole.downloads.contains(&id),
            },
            to_gpu: whole.keeps.contains(&id) && bytes(id) > LARGE_KEPT
                || self.part.is_some_and(|part| part.is_handed(id, true)),
            up: bytes(id) / up,
            down: bytes(id) / down + 2.0 * bytes(id) / copied,
        });
        Problem { steps: costs.collect(), values: values.collect(), trip: trip * learned }
    }

    /// What an assignment means.
    fn stages(&self, on_gpu: &Assignment) -> Stages {
        let count = self.whole.values.len();
        let (mut after, mut before) = (vec![false; count], vec![false; count]);
        for (id, origin) in self.values() {
            after[id.index()] = origin == Origin::Gpu;
        }
        let reads = |at: usize| self.whole.steps[at].reads();
        let makes = |at: usize| self.whole.steps[at].outputs.iter().map(|output| output.value);
        let mut is_after = vec![false; on_gpu.len()];
        for at in 0..on_gpu.len() {
            is_after[at] = reads(at).iter().any(|value| after[value.index()]);
            makes(at).for_each(|value| after[value.index()] = on_gpu[at] || is_after[at]);
        }
        let mut steps = vec![Stage::Beside; on_gpu.len()];
        for at in (0..on_gpu.len()).rev() {
            let is_before = makes(at).any(|value| before[value.index()]);
            if on_gpu[at] || is_before {
                reads(at).iter().for_each(|value| before[value.index()] = true);
            }
            steps[at] = match (on_gpu[at], is_before, is_after[at]) {
                (true, ..) => Stage::Gpu,
                (false, true, _) => Stage::Before,
                (false, false, true) => Stage::After,
                (false, false, false) => Stage::Beside,
            };
        }
        let values = self.values().map(|(id, origin)| {
            let stage = match origin {
                Origin::Step(at) => Some(steps[at]),
                Origin::Gpu => Some(Stage::Gpu),
                Origin::Host | Origin::Both => None,
            };
            (id, stage)
        });
        let mut of = vec![None; count];
        values.for_each(|(id, stage)| of[id.index()] = stage);
        Stages { steps, values: of }
    }
}

/// Transfers of no more bytes take as long as they would with one byte.
const SMALL_TRANSFER: f64 = 65_536.0;
/// Bytes of a kept result from which on it is to be on the GPU, as residents of that size are.
const LARGE_KEPT: f64 = 4e6;

/// What one part is asked for.
#[derive(Default)]
struct Order {
    downloads: Vec<NodeId>,
    keeps: Vec<NodeId>,
    /// What other parts make for it.
    given: HashSet<NodeId>,
}

/// What each part is asked for, by stage.
#[derive(Default)]
struct Orders([Order; 4]);

/// An output, by position among what the part of a stage downloads or keeps.
type Place = (Stage, usize);

impl Orders {
    fn of(&mut self, stage: Stage) -> &mut Order {
        &mut self.0[stage as usize]
    }

    fn download(&mut self, stage: Stage, node: NodeId) -> Place {
        let downloads = &mut self.of(stage).downloads;
        let known = downloads.iter().position(|&download| download == node);
        let at = known.unwrap_or_else(|| {
            downloads.push(node);
            downloads.len() - 1
        });
        (stage, at)
    }

    fn keep(&mut self, stage: Stage, node: NodeId) -> Place {
        let keeps = &mut self.of(stage).keeps;
        keeps.push(node);
        (stage, keeps.len() - 1)
    }

    /// The stages whose parts have something to make.
    fn present(&self) -> Vec<Stage> {
        let asked = |stage: &Stage| {
            let Order { downloads, keeps, .. } = &self.0[*stage as usize];
            !downloads.is_empty() || !keeps.is_empty()
        };
        Stage::ALL.into_iter().filter(asked).collect()
    }

    /// Who makes what others are given.
    fn maker(&self, node: NodeId) -> Option<Place> {
        let makes = |order: &Order| !order.given.contains(&node);
        Stage::ALL.into_iter().find_map(|stage| {
            let order = Some(&self.0[stage as usize]).filter(|order| makes(order))?;
            Some((stage, order.downloads.iter().position(|&download| download == node)?))
        })
    }
}

impl Stages {
    fn split(&self, graph: &Graph, of: &Steps<'_>) -> Option<Result<Split, PlanError>> {
        let mut orders = self.hand_over(of.whole);
        let on_host = self.steps.iter().copied().filter(|&stage| stage != Stage::Gpu).min();
        let stage = |value: ValueId| self.values[value.index()].or(on_host).unwrap_or(Stage::Gpu);
        let outputs = graph.outputs().into_iter().zip(&of.whole.downloads);
        let downloads: Vec<Place> =
            outputs.map(|(node, &value)| orders.download(stage(value), node)).collect();
        let kept = graph.keeps.iter().zip(&of.whole.keeps);
        let keeps: Vec<Place> =
            kept.map(|(&node, &value)| orders.keep(stage(value), node)).collect();
        let present = orders.present();
        let made = |(stage, at): Place| {
            Some(Made { part: present.iter().position(|&present| present == stage)?, at })
        };
        let parts = present.iter().map(|&stage| {
            let Order { downloads, keeps, given } = &orders.0[stage as usize];
            let is_given = |node| given.contains(&node);
            let part = graph.part(downloads.clone(), keeps.clone(), is_given);
            let supply = |brought: &Brought| match *brought {
                Brought::Upload(at) => Some(Supply::Upload(at)),
                Brought::Made(node) => made(orders.maker(node)?).map(Supply::Made),
            };
            let uploads = part.uploads.iter().map(supply).collect::<Option<_>>()?;
            of.plan(stage, uploads, &part)
        });
        let parts: Result<Vec<SplitPart>, PlanError> = parts.collect::<Option<_>>()?;
        let downloads = downloads.into_iter().map(made).collect::<Option<_>>()?;
        let keeps = keeps.into_iter().map(made).collect::<Option<_>>()?;
        Some(parts.map(|parts| Split { seconds: seconds(&parts), parts, downloads, keeps }))
    }

    /// What parts make for each other.
    fn hand_over(&self, whole: &Plan) -> Orders {
        let mut orders = Orders::default();
        for (step, &stage) in whole.steps.iter().zip(&self.steps) {
            for value in step.reads() {
                if let Some(maker) = self.values[value.index()].filter(|&maker| maker != stage) {
                    let node = whole.values[value.index()].node;
                    orders.download(maker, node);
                    orders.of(stage).given.insert(node);
                }
            }
        }
        orders
    }
}

impl Steps<'_> {
    /// `part` with a plan, unless it would have to fetch what lies on the GPU alone or is too large for its side.
    fn plan(
        &self,
        stage: Stage,
        uploads: Vec<Supply>,
        part: &Part,
    ) -> Option<Result<SplitPart, PlanError>> {
        let far = |&at: &u32| self.residents.get(at as usize) == Some(&Residence::Gpu);
        let target = if stage == Stage::Gpu {
            self.sides.gpu
        } else if part.residents.iter().any(far) {
            return None;
        } else {
            self.sides.cpu
        };
        let residents = part.residents.clone();
        match plan(&part.graph, target) {
            Ok(plan) => Some(Ok(SplitPart { stage, plan, uploads, residents })),
            Err(error) => (!error.leaves_the_other_side()).then_some(Err(error)),
        }
    }
}

/// What a run in these parts takes.
fn seconds(parts: &[SplitPart]) -> f64 {
    let of = |stage: Stage| {
        let found = parts.iter().find(|part| part.stage == stage);
        found.map_or(0.0, |part| part.plan.seconds)
    };
    of(Stage::Before) + of(Stage::Gpu).max(of(Stage::Beside)) + of(Stage::After)
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::cost::{DeviceProfile, Limits};
    use crate::device::Device;

    /// What becomes of `batch` as a part, where the GPU binds so many bytes.
    fn planned(graph: &Graph, binding_bytes: u64) -> Option<Result<SplitPart, PlanError>> {
        let profile = Arc::new(DeviceProfile::typical(1));
        let target = |backend, limits| Target { backend, limits, profile: Arc::clone(&profile) };
        let cpu = target(Backend::Cpu, Limits::cpu());
        let gpu = target(Backend::Gpu, Limits { binding_bytes, ..Limits::webgpu() });
        let mut small = GpuCommandBatch::new(&Device::cpu());
        small.upload(&[1.0_f32]);
        let whole = plan(&small.graph, &cpu).unwrap();
        let sides = Sides { cpu: &cpu, gpu: &gpu };
        let steps = Steps { whole: &whole, sides, residents: &[], part: None };
        let part = graph.part(graph.outputs(), Vec::new(), |_| false);
        steps.plan(Stage::Gpu, vec![Supply::Upload(0)], &part)
    }

    fn batch() -> GpuCommandBatch {
        let mut batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload(&[1.0_f32; 100]);
        batch.sum(x, 0);
        batch
    }

    #[test]
    fn a_part_that_is_too_large_is_no_error() {
        let graph = &batch().graph;
        assert!(matches!(planned(graph, 1 << 20), Some(Ok(_))));
        assert!(planned(graph, 100).is_none());
    }

    #[cfg(debug_assertions)]
    #[test]
    fn a_part_that_breaks_an_invariant_is_an_error() {
        let sound = batch();
        let mut broken = Graph::default();
        for (_, node) in sound.graph.iter() {
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
