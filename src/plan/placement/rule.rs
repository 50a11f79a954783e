//! The published rules, which look at sizes alone.

use crate::cost::Backend;
use crate::cost::selector::{self, BackendSelector};
use crate::plan::execution_plan::Plan;
use crate::plan::step::{Step, total};
use crate::plan::target::Target;
use crate::plan::value::{Home, Value};

/// The rule of the [placement](crate::Placement) of the same name.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Rule {
    Threshold(usize),
    FiveTimes(BackendSelector),
    Complexity,
}

impl Rule {
    /// The side that it takes for a graph, of which `plan` is a plan for `target`.
    pub fn side(self, plan: &Plan, target: &Target) -> Backend {
        let on_gpu = match self {
            Self::Threshold(least) => {
                plan.values.iter().any(|value| value.shape.elements() >= least)
            }
            Self::FiveTimes(selector) => {
                selector.select_backend(moved(plan, target), flops(plan)) == selector::Choice::Gpu
            }
            Self::Complexity => plan.steps.iter().any(|step| {
                let largest = largest(plan, step);
                BackendSelector::new().select_with_moe(step.form.kernel().complexity(), largest)
                    == selector::Choice::Gpu
            }),
        };
        if on_gpu { Backend::Gpu } else { Backend::Cpu }
    }
}

/// Bytes of all inputs and downloads.
fn moved(plan: &Plan, target: &Target) -> usize {
    let is_input = |value: &&Value| matches!(value.home, Home::Upload { .. } | Home::Resident(_));
    let inputs = plan.values.iter().filter(is_input).map(|value| value.bytes(&target.limits));
    let bytes = total(inputs.chain([plan.bytes_down]));
    usize::try_from(bytes).unwrap_or(usize::MAX)
}

fn flops(plan: &Plan) -> u64 {
    total(plan.steps.iter().map(|step| step.cost.flops))
}

/// Elements of the largest operand or result.
fn largest(plan: &Plan, step: &Step) -> usize {
    let values = step.reads().into_iter().chain(step.outputs.iter().map(|output| output.value));
    values.map(|id| plan.values[id.index()].shape.elements()).max().unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::cost::Placement;
    use crate::device::Device;
    use crate::plan::placement::tests::{chain, side, targets};

    #[test]
    fn rules_look_at_sizes_alone() {
        let targets = targets(1.0, 1.0);
        let by = |batch: &GpuCommandBatch, placement| side(batch, &targets, placement);
        let small = chain(999);
        assert_eq!(by(&small, Placement::Threshold(1000)), Backend::Cpu);
        assert_eq!(by(&chain(1000), Placement::Threshold(1000)), Backend::Gpu);
        assert_eq!(by(&chain(2_000_000), Placement::Complexity), Backend::Cpu, "elementwise");
        let product = GpuCommandBatch::new(&Device::cpu());
        let x = product.upload_shaped(vec![0.0_f32; 101 * 101], [101, 101]);
        product.matmul(x, x);
        assert_eq!(by(&product, Placement::Complexity), Backend::Gpu, "10 201 elements");
        let selector = BackendSelector::new();
        assert_eq!(by(&product, Placement::FiveTimes(selector)), Backend::Cpu);
        let slow = selector.with_gpu_gflops(1e9).unwrap();
        assert_eq!(by(&product, Placement::FiveTimes(slow)), Backend::Gpu);
        let sums = |elements| {
            let batch = GpuCommandBatch::new(&Device::cpu());
            let x = batch.upload_shaped(vec![0.0_f32; elements], elements);
            batch.sum(x, 0);
            batch
        };
        assert_eq!(by(&sums(100_000), Placement::Complexity), Backend::Cpu);
        assert_eq!(by(&sums(100_001), Placement::Complexity), Backend::Gpu);
    }
}
