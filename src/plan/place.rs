//! The pass *place*: on which side a graph runs.

use smallvec::{SmallVec, smallvec};

use super::form::Form;
use super::split::{Sides, Split, split};
use super::step::Step;
use super::{Plan, Target, plan};
use crate::cost::selector::{self, BackendSelector, OpComplexity};
use crate::cost::{Backend, Placement, Prediction, Residence};
use crate::error::PlanError;
use crate::graph::Graph;

/// A graph's plan, and what the sides would take for all of it.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Placed {
    pub planned: Planned,
    /// What each side takes for the whole graph, where it can hold it and had a choice; the one that was chosen first.
    pub sides: SmallVec<[(Backend, Prediction); 2]>,
}

/// What runs.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum Planned {
    /// All on one side.
    Whole(Plan),
    /// Some on either.
    Split(Split),
}

impl Placed {
    fn new(plan: Plan, target: &Target) -> Self {
        let sides = smallvec![(plan.backend, plan.predicted(target))];
        Self { planned: Planned::Whole(plan), sides }
    }

    /// The first of `plans`, of which there is at least one.
    fn fastest<'a>(mut plans: Vec<Plan>, targets: impl IntoIterator<Item = &'a Target>) -> Self {
        let targets: SmallVec<[&Target; 2]> = targets.into_iter().collect();
        let predicted = plans.iter().filter_map(|plan| {
            let target = targets.iter().find(|target| target.backend == plan.backend)?;
            Some((plan.backend, plan.predicted(target)))
        });
        Self { sides: predicted.collect(), planned: Planned::Whole(plans.swap_remove(0)) }
    }

    /// Predicted seconds of a run.
    pub fn seconds(&self) -> f64 {
        match &self.planned {
            Planned::Whole(plan) => plan.seconds,
            Planned::Split(split) => split.seconds,
        }
    }

    /// Whether another side could have run the graph.
    pub fn was_chosen(&self) -> bool {
        self.sides.len() > 1 || matches!(self.planned, Planned::Split(_))
    }
}

/// Plans `graph` for the one of `targets`, at least one, that `placement` chooses. A target that cannot hold the graph
/// is passed over if another can and the placement leaves the choice. `residents` says where the data of each lies;
/// what lies on the GPU alone is not fetched from there unless the placement names a side.
pub(crate) fn place<'a>(
    graph: &Graph,
    targets: impl IntoIterator<Item = &'a Target> + Clone,
    placement: &Placement,
    residents: &[Residence],
) -> Result<Placed, PlanError> {
    let far = residents.contains(&Residence::Gpu) || graph.needs_gpu();
    let side = match placement {
        Placement::Auto => return fastest(graph, targets, residents),
        Placement::Cpu => Backend::Cpu,
        Placement::Gpu => Backend::Gpu,
        Placement::Threshold(_) | Placement::FiveTimes(_) | Placement::Complexity => {
            let mut sides = targets.clone().into_iter();
            let (Some(first), Some(_), false) = (sides.next(), sides.next(), far) else {
                return Ok(Placed::fastest(wholes(graph, targets.clone(), residents)?, targets));
            };
            // The rules look at sizes, which are the same on both sides.
            ruled(&plan(graph, first)?, first, placement)
        }
    };
    let Some(target) = targets.into_iter().find(|target| target.backend == side) else {
        let fix = "choose another placement".into();
        return Err(PlanError::NoSuchSide { side: side.to_string(), fix });
    };
    Ok(Placed::new(plan(graph, target)?, target))
}

/// Seconds that a split must save, and the share of the time: what it takes to hand over, and predictions err.
const WORTH_SPLITTING: f64 = 20e-6;
const SHARE_WORTH_SPLITTING: f64 = 0.1;

/// Steps beyond which a graph is not shared out: to look for how would take longer than it saves.
const MOST_STEPS_SPLIT: usize = 128;

/// What is predicted to take least: one side, or both.
fn fastest<'a>(
    graph: &Graph,
    targets: impl IntoIterator<Item = &'a Target> + Clone,
    residents: &[Residence],
) -> Result<Placed, PlanError> {
    let of =
        |side| targets.clone().into_iter().find(move |target: &&Target| target.backend == side);
    let wholes = wholes(graph, targets.clone(), residents)?;
    let least = wholes[0].seconds;
    let most = least * (1.0 - SHARE_WORTH_SPLITTING) - WORTH_SPLITTING;
    let on_gpu = wholes.iter().find(|plan| {
        plan.backend == Backend::Gpu && (2..=MOST_STEPS_SPLIT).contains(&plan.steps.len())
    });
    let split = match (of(Backend::Cpu), of(Backend::Gpu), on_gpu) {
        (Some(cpu), Some(gpu), Some(whole)) if most > 0.0 && !graph.needs_gpu() => {
            split(graph, whole, Sides { cpu, gpu }, residents)?
        }
        _ => None,
    };
    let placed = Placed::fastest(wholes, targets);
    Ok(match split {
        Some(split) if split.seconds < most => Placed { planned: Planned::Split(split), ..placed },
        _ => placed,
    })
}

/// The plans for each side alone that can run the graph, at least one, the one with the least predicted time first. A
/// side that is too small, or cannot run a kernel of the user's own, is passed over; any other error counts, whatever the other side says.
fn wholes<'a>(
    graph: &Graph,
    targets: impl IntoIterator<Item = &'a Target>,
    residents: &[Residence],
) -> Result<Vec<Plan>, PlanError> {
    let far = residents.contains(&Residence::Gpu);
    let fits = |target: &&Target| !far || target.backend == Backend::Gpu;
    let (mut plans, mut failed) = (Vec::new(), None);
    for target in targets.into_iter().filter(fits) {
        match plan(graph, target) {
            Ok(plan) => plans.push(plan),
            Err(error) if error.leaves_the_other_side() => drop(failed.get_or_insert(error)),
            Err(error) => return Err(error),
        }
    }
    plans.sort_by(|a, b| a.seconds.total_cmp(&b.seconds));
    if plans.is_empty() { Err(failed.unwrap_or(PlanError::Empty)) } else { Ok(plans) }
}

/// What a rule says of a graph, of which `plan` is a plan for `target`.
fn ruled(plan: &Plan, target: &Target, placement: &Placement) -> Backend {
    let elements = |value: &super::Value| value.shape.elements();
    let on_gpu = match placement {
        Placement::Threshold(least) => plan.values.iter().any(|value| elements(value) >= *least),
        Placement::FiveTimes(selector) => {
            let is_input = |value: &&super::Value| {
                matches!(value.home, super::Home::Upload { .. } | super::Home::Resident(_))
            };
            let inputs = plan.values.iter().filter(is_input);
            let bytes =
                inputs.map(|value| value.bytes(&target.limits)).fold(0, u64::saturating_add);
            let bytes = usize::try_from(bytes.saturating_add(plan.bytes_down));
            let flops = plan.steps.iter().map(|step| step.cost.flops);
            let flops = flops.fold(0, u64::saturating_add);
            selector.select_backend(bytes.unwrap_or(usize::MAX), flops) == selector::Backend::Gpu
        }
        Placement::Complexity => plan.steps.iter().any(|step| {
            let values = step.reads().into_iter().chain(step.outputs.iter().map(|o| o.value));
            let largest = values.map(|id| elements(&plan.values[id.index()])).max();
            let choice =
                BackendSelector::new().select_with_moe(complexity(step), largest.unwrap_or(0));
            choice == selector::Backend::Gpu
        }),
        Placement::Auto | Placement::Cpu => false,
        Placement::Gpu => true,
    };
    if on_gpu { Backend::Gpu } else { Backend::Cpu }
}

fn complexity(step: &Step) -> OpComplexity {
    match &step.form {
        Form::Map { .. } => OpComplexity::Low,
        Form::Reduce(_) | Form::Row(_) | Form::Scan(_) | Form::Sort(_) => OpComplexity::Medium,
        Form::MatMul(_) | Form::Attention(_) | Form::Own(_) => OpComplexity::High,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::cost::{Curve, DeviceProfile, Limits};
    use crate::device::Device;

    /// Both sides of a device on which a kernel takes so many seconds.
    fn targets(cpu: f64, gpu: f64) -> [Target; 2] {
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
    fn chain(elements: usize) -> GpuCommandBatch {
        let mut batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_vec(vec![0.0_f32; elements], elements);
        batch.tanh(x);
        batch
    }

    fn side(batch: &GpuCommandBatch, targets: &[Target], placement: Placement) -> Backend {
        place(&batch.graph, targets, &placement, &[]).unwrap().sides[0].0
    }

    #[test]
    fn auto_takes_the_faster_side_and_the_first_of_equals() {
        let batch = chain(10);
        assert_eq!(side(&batch, &targets(1.0, 2.0), Placement::Auto), Backend::Cpu);
        assert_eq!(side(&batch, &targets(2.0, 1.0), Placement::Auto), Backend::Gpu);
        assert_eq!(side(&batch, &targets(1.0, 1.0), Placement::Auto), Backend::Cpu);
        let placed = place(&batch.graph, &targets(2.0, 1.0), &Placement::Auto, &[]).unwrap();
        let sides = placed.sides.iter().map(|(side, time)| (*side, time.total()));
        assert_eq!(sides.collect::<Vec<_>>(), [(Backend::Gpu, 1.0), (Backend::Cpu, 2.0)]);
    }

    #[test]
    fn a_side_that_is_named_is_taken_or_missed() {
        let batch = chain(10);
        let targets = targets(1.0, 2.0);
        assert_eq!(side(&batch, &targets, Placement::Gpu), Backend::Gpu);
        assert_eq!(side(&batch, &targets, Placement::Cpu), Backend::Cpu);
        let missed = place(&batch.graph, &targets[..1], &Placement::Gpu, &[]).unwrap_err();
        assert!(matches!(missed, PlanError::NoSuchSide { side, .. } if side == "gpu"));
        let only = &targets[..1];
        assert_eq!(side(&batch, only, Placement::Threshold(1)), Backend::Cpu, "there is no other");
    }

    #[test]
    fn what_needs_a_gpu_goes_there_whatever_it_takes() {
        let targets = targets(1.0, 1e6);
        let source = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(1) fn main() { y[0] = 1.0; }";
        let batch = |kernel: crate::Wgsl| {
            let mut batch = GpuCommandBatch::new(&Device::cpu());
            batch.wgsl::<f32>(kernel, 9);
            batch
        };
        let alone = batch(crate::Wgsl::new(source));
        for rule in [Placement::Auto, Placement::Threshold(100), Placement::Complexity] {
            assert_eq!(side(&alone, &targets, rule), Backend::Gpu);
            let missed = place(&alone.graph, &targets[..1], &rule, &[]);
            assert!(matches!(missed, Err(PlanError::GpuOnly { .. })), "{rule}");
        }
        let either = batch(crate::Wgsl::new(source).on_cpu(|_, y: &mut [f32]| y[0] = 1.0));
        assert_eq!(side(&either, &targets, Placement::Auto), Backend::Cpu);
    }

    #[test]
    fn rules_look_at_sizes_alone() {
        let targets = targets(1.0, 1.0);
        let by = |batch: &GpuCommandBatch, placement| side(batch, &targets, placement);
        let small = chain(999);
        assert_eq!(by(&small, Placement::Threshold(1000)), Backend::Cpu);
        assert_eq!(by(&chain(1000), Placement::Threshold(1000)), Backend::Gpu);
        assert_eq!(by(&chain(2_000_000), Placement::Complexity), Backend::Cpu, "elementwise");
        let mut product = GpuCommandBatch::new(&Device::cpu());
        let x = product.upload_vec(vec![0.0_f32; 101 * 101], [101, 101]);
        product.matmul(x, x);
        assert_eq!(by(&product, Placement::Complexity), Backend::Gpu, "10 201 elements");
        let selector = BackendSelector::new();
        assert_eq!(by(&product, Placement::FiveTimes(selector)), Backend::Cpu);
        let slow = selector.with_gpu_gflops(1e9).unwrap();
        assert_eq!(by(&product, Placement::FiveTimes(slow)), Backend::Gpu);
        let sums = |elements| {
            let mut batch = GpuCommandBatch::new(&Device::cpu());
            let x = batch.upload_vec(vec![0.0_f32; elements], elements);
            batch.sum(x, 0);
            batch
        };
        assert_eq!(by(&sums(100_000), Placement::Complexity), Backend::Cpu);
        assert_eq!(by(&sums(100_001), Placement::Complexity), Backend::Gpu);
    }
}
