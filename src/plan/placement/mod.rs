//! The choice of a graph's route: one side, or both.

pub(super) mod assign;
pub(super) mod chosen_by;
pub(super) mod placed;
pub(super) mod routes;
pub(super) mod rule;
pub(super) mod split;

use smallvec::SmallVec;

use self::placed::{Pieces, PlacedGraph};
use self::routes::{TimedRoute, near, weighted};
use self::rule::Rule;
use self::split::{SideTargets, Split, split};
use super::pipeline::plan;
use super::step::total;
use super::{Plan, Target};
use crate::cost::{Backend, Placement, Residence, Route, Routes};
use crate::error::PlanError;
use crate::graph::Graph;

/// Plans `graph` for the one of `targets`, at least one, that `placement` chooses. A target without room is passed over
/// if another has the room and the placement names no side: it cannot hold the graph, or a run holds more than `room`
/// bytes there. Where the placement leaves it to prediction, the graph takes the `route` that is given, if it can.
/// `residents` says where the data of each lies. Data on the GPU alone is not fetched unless the placement names a side.
pub(crate) fn choose_route<'a>(
    graph: &Graph,
    targets: impl IntoIterator<Item = &'a Target>,
    placement: &Placement,
    route: Option<Route>,
    residents: &[Residence],
    room: Option<u64>,
) -> Result<PlacedGraph, PlanError> {
    let asked = PlacementRequest { graph, route, residents, room };
    let targets: SmallVec<[&Target; 2]> = targets.into_iter().collect();
    let of = |side| targets.iter().copied().find(|target| target.backend == side);
    let named = |side: Backend| {
        let fix = "choose another placement".into();
        of(side).ok_or(PlanError::NoSuchSide { side, fix })
    };
    let by = |rule| match (of(Backend::Cpu), of(Backend::Gpu), asked.is_bound_to_gpu()) {
        (Some(cpu), Some(gpu), false) => asked.by_rule(rule, [cpu, gpu]),
        (cpu, gpu, _) => asked.fastest(cpu, gpu),
    };
    match *placement {
        Placement::Auto => asked.fastest(of(Backend::Cpu), of(Backend::Gpu)),
        Placement::Cpu => asked.on(named(Backend::Cpu)?),
        Placement::Gpu => asked.on(named(Backend::Gpu)?),
        Placement::Threshold(elements) => by(Rule::Threshold(elements)),
        Placement::FiveTimes(selector) => by(Rule::FiveTimes(selector)),
        Placement::Complexity => by(Rule::Complexity),
    }
}

/// Seconds that a split must save, and the share of the time. They cover the hand-over and errors of prediction.
const WORTH_SPLITTING: f64 = 20e-6;
const SHARE_WORTH_SPLITTING: f64 = 0.1;

/// Steps beyond which a graph is not split: the search would take longer than it saves.
const MOST_STEPS_SPLIT: usize = 128;

/// A graph to be placed.
#[derive(Clone, Copy)]
struct PlacementRequest<'a> {
    graph: &'a Graph,
    /// The route to take, if it is not left to prediction.
    route: Option<Route>,
    /// The side or sides of each resident's data.
    residents: &'a [Residence],
    /// Bytes that a run may hold.
    room: Option<u64>,
}

impl PlacementRequest<'_> {
    /// True if data lies on the GPU alone.
    fn has_data_far(&self) -> bool {
        self.residents.iter().any(|residence| residence.is_far())
    }

    /// True if that, or a kernel of the user's own, leaves no choice but the GPU.
    fn is_bound_to_gpu(&self) -> bool {
        self.has_data_far() || self.graph.needs_gpu()
    }

    fn has_room(&self, bytes: u64) -> bool {
        self.room.is_none_or(|room| bytes <= room)
    }

    fn on(&self, target: &Target) -> Result<PlacedGraph, PlanError> {
        Ok(PlacedGraph::first_of(vec![plan(self.graph, target)?], [target]))
    }

    /// The plan for the side that a rule takes, unless only the other has room.
    fn by_rule(&self, rule: Rule, [cpu, gpu]: [&Target; 2]) -> Result<PlacedGraph, PlanError> {
        // The rules look at sizes, which are the same on both sides.
        let on_cpu = plan(self.graph, cpu)?;
        let (planned, taken, other) = match rule.side(&on_cpu, cpu) {
            Backend::Cpu => (Ok(on_cpu), cpu, gpu),
            Backend::Gpu => (plan(self.graph, gpu), gpu, cpu),
        };
        let elsewhere = match &planned {
            Ok(plan) if self.has_room(plan.held_bytes) => None,
            Err(error) if !error.leaves_the_other_side() => None,
            _ => self.on(other).ok().filter(|placed| self.has_room(placed.held_bytes())),
        };
        match elsewhere {
            Some(placed) => Ok(PlacedGraph { too_small: Some(taken.backend), ..placed }),
            None => Ok(PlacedGraph::first_of(vec![planned?], [taken])),
        }
    }

    /// The fastest plan by prediction: one side, or both.
    fn fastest(
        &self,
        cpu: Option<&Target>,
        gpu: Option<&Target>,
    ) -> Result<PlacedGraph, PlanError> {
        let sides: SmallVec<[&Target; 2]> = cpu.into_iter().chain(gpu).collect();
        let (mut plans, too_small) = self.wholes(&sides)?;
        let split = self.split(&plans, cpu, gpu)?;
        let most = self.most_of_a_split(&plans);
        let split = split.filter(|split| self.route == Some(Route::Both) || split.seconds < most);
        let is_asked = |plan: &Plan| self.route == Some(plan.backend.into());
        let asked = plans.iter().position(|plan| is_asked(plan) && self.has_room(plan.held_bytes));
        plans[..=asked.unwrap_or(0)].rotate_right(1);
        let is_split = split.is_some() && asked.is_none();
        let routes = self.routes(&plans, split.as_ref(), is_split);
        let placed = PlacedGraph { too_small, routes, ..PlacedGraph::first_of(plans, sides) };
        Ok(match split.filter(|_| is_split) {
            Some(split) => PlacedGraph { pieces: Pieces::Split(split), ..placed },
            None => placed,
        })
    }

    /// Seconds that a split may take, to be worth it beside the plans for one side.
    fn most_of_a_split(&self, plans: &[Plan]) -> f64 {
        let in_room = plans.iter().filter(|plan| self.has_room(plan.held_bytes));
        let best = in_room.map(|plan| plan.seconds).fold(f64::INFINITY, f64::min);
        best * (1.0 - SHARE_WORTH_SPLITTING) - WORTH_SPLITTING
    }

    /// A split that has room, if there is one; not looked for where it could not be worth it.
    fn split(
        &self,
        plans: &[Plan],
        cpu: Option<&Target>,
        gpu: Option<&Target>,
    ) -> Result<Option<Split>, PlanError> {
        let on_gpu = plans.iter().find(|plan| {
            plan.backend == Backend::Gpu && (2..=MOST_STEPS_SPLIT).contains(&plan.steps.len())
        });
        let pays = self.route == Some(Route::Both) || self.most_of_a_split(plans) > 0.0;
        let (Some(cpu), Some(gpu), Some(whole)) = (cpu, gpu, on_gpu) else { return Ok(None) };
        if !pays || self.graph.needs_gpu() {
            return Ok(None);
        }
        let split = split(self.graph, whole, SideTargets { cpu, gpu }, self.residents)?;
        let held = |split: &Split| total(split.parts.iter().map(|part| part.plan.held_bytes));
        Ok(split.filter(|split| self.has_room(held(split))))
    }

    /// The route that is taken, that of the first plan or the split, and the routes that may be tried: none if a trial
    /// would move a resident.
    fn routes(&self, plans: &[Plan], split: Option<&Split>, is_split: bool) -> Routes {
        let wholes = plans.iter().map(|plan| {
            let seconds = if self.has_room(plan.held_bytes) { plan.seconds } else { f64::INFINITY };
            TimedRoute { route: plan.backend.into(), seconds }
        });
        let both = split.map(|split| TimedRoute { route: Route::Both, seconds: split.seconds });
        let mut all: SmallVec<[TimedRoute; 3]> = wholes.chain(both).collect();
        let taken = all.remove(if is_split { all.len() - 1 } else { 0 });
        let is_still = self.residents.iter().all(|&residence| residence == Residence::Both);
        near(taken, all.into_iter().filter(|_| is_still))
    }

    /// One plan for each side that can run the graph, at least one. Plans with room come first, then the least
    /// [weighted] time. Also returns a side that lacks room. An error fails the call, whatever the other side says,
    /// unless it is of size or of a user's kernel that needs a GPU.
    fn wholes(&self, sides: &[&Target]) -> Result<(Vec<Plan>, Option<Backend>), PlanError> {
        let can_run = |side: &&&Target| !self.has_data_far() || side.backend == Backend::Gpu;
        let (mut plans, mut failed, mut too_small) = (Vec::new(), None, None);
        for side in sides.iter().filter(can_run) {
            match plan(self.graph, side) {
                Ok(plan) => plans.push(plan),
                Err(error) if error.leaves_the_other_side() => {
                    let is_of_size = !matches!(error, PlanError::GpuOnly { .. });
                    too_small = too_small.or(is_of_size.then_some(side.backend));
                    failed = Some(failed.unwrap_or(error));
                }
                Err(error) => return Err(error),
            }
        }
        let lacks_room = |plan: &Plan| !self.has_room(plan.held_bytes);
        let time = |plan: &Plan| weighted(plan.backend, plan.seconds);
        plans.sort_by(|a, b| {
            let by_room = lacks_room(a).cmp(&lacks_room(b));
            by_room.then(time(a).total_cmp(&time(b)))
        });
        if let [first, second] = &plans[..]
            && lacks_room(second)
            && !lacks_room(first)
        {
            too_small = Some(second.backend);
        }
        if plans.is_empty() {
            let what = "no side can run the graph".to_owned();
            return Err(failed.unwrap_or(PlanError::Invalid { pass: "placement", what }));
        }
        Ok((plans, too_small))
    }
}

#[cfg(test)]
pub(super) mod tests {
    use std::sync::Arc;

    use self::routes::GPU_MARGIN;
    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::cost::{Curve, DeviceProfile, Limits};
    use crate::device::Device;

    /// Both sides of a device on which a kernel takes so many seconds.
    pub(in crate::plan) fn targets(cpu: f64, gpu: f64) -> [Target; 2] {
        let mut profile = DeviceProfile::typical(1);
        for (side, dispatch) in [(&mut profile.cpu, cpu), (&mut profile.gpu, gpu)] {
            (side.round_trip, side.dispatch) = (0.0, dispatch);
            side.curves_mut().into_iter().for_each(|curve| *curve = Curve::default());
        }
        let profile = Arc::new(profile);
        let target = |backend, limits| Target { backend, limits, profile: Arc::clone(&profile) };
        [target(Backend::Cpu, Limits::cpu()), target(Backend::Gpu, Limits::webgpu())]
    }

    /// tanh of so many numbers.
    pub(in crate::plan) fn chain(elements: usize) -> GpuCommandBatch {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_shaped(vec![0.0_f32; elements], elements);
        batch.tanh(x);
        batch
    }

    pub(in crate::plan) fn side(
        batch: &GpuCommandBatch,
        targets: &[Target],
        placement: Placement,
    ) -> Backend {
        placed(batch, targets, placement, None).unwrap().sides[0].0
    }

    fn placed(
        batch: &GpuCommandBatch,
        targets: &[Target],
        placement: Placement,
        room: Option<u64>,
    ) -> Result<PlacedGraph, PlanError> {
        choose_route(&batch.recorded().graph, targets, &placement, None, &[], room)
    }

    #[test]
    fn auto_takes_the_faster_side_and_the_first_of_equals() {
        let batch = chain(10);
        assert_eq!(side(&batch, &targets(1.0, 2.0), Placement::Auto), Backend::Cpu);
        assert_eq!(side(&batch, &targets(2.0, 1.0), Placement::Auto), Backend::Gpu);
        assert_eq!(side(&batch, &targets(1.0, 1.0), Placement::Auto), Backend::Cpu);
        let [below, above] = [0.95, 1.05].map(|times| targets(times * GPU_MARGIN, 1.0));
        assert_eq!(side(&batch, &below, Placement::Auto), Backend::Cpu);
        assert_eq!(side(&batch, &above, Placement::Auto), Backend::Gpu);
        let placed = placed(&batch, &targets(2.0, 1.0), Placement::Auto, None).unwrap();
        let sides = placed.sides.iter().map(|(side, time)| (*side, time.total()));
        assert_eq!(sides.collect::<Vec<_>>(), [(Backend::Gpu, 1.0), (Backend::Cpu, 2.0)]);
    }

    #[test]
    fn a_side_that_is_named_is_taken_or_missed() {
        let batch = chain(10);
        let targets = targets(1.0, 2.0);
        assert_eq!(side(&batch, &targets, Placement::Gpu), Backend::Gpu);
        assert_eq!(side(&batch, &targets, Placement::Cpu), Backend::Cpu);
        let missed = placed(&batch, &targets[..1], Placement::Gpu, None).unwrap_err();
        assert!(matches!(missed, PlanError::NoSuchSide { side: Backend::Gpu, .. }));
        let only = &targets[..1];
        assert_eq!(side(&batch, only, Placement::Threshold(1)), Backend::Cpu, "there is no other");
    }

    #[test]
    fn what_needs_a_gpu_goes_there_whatever_it_takes() {
        let targets = targets(1.0, 1e6);
        let source = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(1) fn main() { y[0] = 1.0; }";
        let batch = |kernel: crate::Wgsl| {
            let batch = GpuCommandBatch::new(&Device::cpu());
            batch.wgsl::<f32>(kernel, 9);
            batch
        };
        let alone = batch(crate::Wgsl::new(source).groups([1, 1, 1]));
        for rule in [Placement::Auto, Placement::Threshold(100), Placement::Complexity] {
            assert_eq!(side(&alone, &targets, rule), Backend::Gpu);
            let missed = placed(&alone, &targets[..1], rule, None);
            assert!(matches!(missed, Err(PlanError::GpuOnly { .. })), "{rule}");
        }
        let either =
            batch(crate::Wgsl::new(source).groups([1, 1, 1]).on_cpu(|y: &mut [f32]| y[0] = 1.0));
        assert_eq!(side(&either, &targets, Placement::Auto), Backend::Cpu);
    }

    /// The side, and the one that was passed over.
    fn with_room(
        batch: &GpuCommandBatch,
        targets: &[Target],
        placement: Placement,
        room: u64,
    ) -> (Backend, Option<Backend>) {
        let placed = placed(batch, targets, placement, Some(room)).unwrap();
        (placed.sides[0].0, placed.too_small)
    }

    #[test]
    fn a_side_without_room_is_passed_over_for_one_that_has_it() {
        // 4 kB in and out: the host reads the upload where it lies, a GPU holds both, and the staging memory of both.
        let batch = chain(1000);
        let held = |target: &Target| plan(&batch.recorded().graph, target).unwrap().held_bytes;
        let targets = targets(2.0, 1.0);
        let [on_cpu, on_gpu] = [0, 1].map(|side| held(&targets[side]));
        assert!(on_cpu == 4000 && on_gpu >= 12_000, "{on_cpu} {on_gpu}");
        let rule = Placement::Threshold(1);
        for placement in [Placement::Auto, rule] {
            let on = |room| with_room(&batch, &targets, placement, room);
            assert_eq!(on(on_gpu), (Backend::Gpu, None), "{placement}");
            for room in [on_gpu - 1, on_cpu] {
                assert_eq!(on(room), (Backend::Cpu, Some(Backend::Gpu)), "{placement}");
            }
            assert_eq!(on(on_cpu - 1), (Backend::Gpu, None), "{placement}: neither has room");
        }
        let named = with_room(&batch, &targets, Placement::Gpu, on_cpu);
        assert_eq!(named, (Backend::Gpu, None), "the run says that it cannot");
    }

    #[test]
    fn a_rule_that_takes_a_side_too_small_gets_the_other() {
        let batch = chain(1000);
        let mut targets = targets(1.0, 1.0);
        targets[1].limits.binding_bytes = 3999;
        for placement in [Placement::Auto, Placement::Threshold(1)] {
            let placed = placed(&batch, &targets, placement, None).unwrap();
            let side = (placed.sides[0].0, placed.too_small);
            assert_eq!(side, (Backend::Cpu, Some(Backend::Gpu)), "{placement}");
        }
        let named = placed(&batch, &targets, Placement::Gpu, None);
        assert!(matches!(named, Err(PlanError::TooLarge { .. })));
    }

    /// Both sides alike, but for rows on the GPU and products on the host, which take forever.
    pub(in crate::plan) fn divided() -> [Target; 2] {
        let mut targets = targets(1e-6, 1e-6);
        for target in &mut targets {
            let profile = Arc::make_mut(&mut target.profile);
            profile.gpu.row = Curve::flat(1e3);
            (profile.cpu.product, profile.cpu.thin_product) = (Curve::flat(1e3), Curve::flat(1e3));
        }
        targets
    }

    #[test]
    fn a_graph_is_not_shared_out_where_the_parts_have_no_room() {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_shaped(vec![0.0_f32; 64 * 64], [64, 64]);
        let h = batch.matmul(x, x);
        batch.softmax(h, 1);
        let targets = divided();
        let placed = |room| placed(&batch, &targets, Placement::Auto, room).unwrap();
        let split = placed(None);
        assert!(matches!(split.pieces, Pieces::Split(_)), "{split:?}");
        assert_eq!(placed(Some(split.held_bytes())).pieces, split.pieces);
        let held = |target: &Target| plan(&batch.recorded().graph, target).unwrap().held_bytes;
        let least = targets.iter().map(held).min().unwrap();
        assert!(least < split.held_bytes());
        for room in [split.held_bytes() - 1, least] {
            let whole = placed(Some(room));
            assert!(matches!(whole.pieces, Pieces::Whole(_)) && whole.held_bytes() <= room);
        }
    }
}
