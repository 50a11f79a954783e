//! The cost of a step, and how long it should take on each side.

use crate::cost::{Backend, Limits, Work};
use crate::plan::forms::{Tally, without_repeats};
use crate::plan::step::{Cost, SideSeconds, Step, total};
use crate::plan::step_parts::OperandSource;
use crate::plan::target::Target;
use crate::plan::value::{Value, ValueId};

/// Sets the step's cost. A GPU's dispatches and its partial results are no work of the host.
pub(crate) fn predict(step: &mut Step, values: &[Value], target: &Target) {
    let limits = &target.limits;
    let bytes = |value: ValueId| values[value.index()].bytes(limits);
    let read = total(step.reads().iter().map(|&id| read_bytes(step, id, values, limits)));
    let written = total(step.outputs.iter().map(|output| bytes(output.value)));
    let form = step.form.kernel();
    let context = step.context(values);
    let mut tally = Tally::new(&context);
    form.work(&mut tally);
    let work = Work { bytes: read as f64 + written as f64, ..tally.work };
    let on_cpu = Work {
        dispatches: u64::from(!step.is_empty()),
        ..form.on_host(without_repeats(work, &context), &context)
    };
    // Partial results are written and read again.
    let partial = step.scratch.map_or(0.0, |scratch| 8.0 * scratch.words as f64);
    let is_gpu = target.backend == Backend::Gpu;
    let on_gpu = Work {
        bytes: work.bytes + partial,
        product_seconds: is_gpu.then(|| form.product_seconds(&work, target)).flatten(),
        dispatches: step.dispatches(),
        ..work
    };
    step.cost = Cost {
        flops: work.flops() as u64,
        bytes_read: read,
        bytes_written: written,
        seconds: SideSeconds {
            cpu: target.profile.cpu.step(&on_cpu),
            gpu: target.profile.gpu.step(&on_gpu),
        },
    };
}

/// Bytes of a value that the step's views reach, each counted once.
fn read_bytes(step: &Step, id: ValueId, values: &[Value], limits: &Limits) -> u64 {
    let value = &values[id.index()];
    let operands = step.operands.iter().filter(|operand| operand.source.value() == Some(id));
    let reached = total(operands.map(|operand| match operand.source {
        OperandSource::Table(_) if step.form.kernel().custom_kernel().is_some() => u64::MAX,
        OperandSource::Table(_) => step.points(),
        _ => operand.view.moving_points() as u64,
    }));
    reached.min(value.shape.elements() as u64) * limits.stored(value.dtype).bytes()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::cost::{Curve, DeviceProfile};
    use crate::device::Device;
    use crate::ops::SortOrder;
    use crate::plan::plan;
    use crate::{Conv2d, Pool2d};

    /// A target on which a dispatch, or a kernel of the host, takes a second and nothing else takes any time.
    fn target(backend: Backend) -> Target {
        let mut profile = DeviceProfile::typical(16);
        for side in [&mut profile.cpu, &mut profile.gpu] {
            let free = Curve::flat(f64::INFINITY);
            side.dispatch = 1.0;
            (side.memory, side.arithmetic, side.transcendental) =
                (free.clone(), free.clone(), free.clone());
            (side.reduce, side.row, side.product, side.thin_product) =
                (free.clone(), free.clone(), free.clone(), free);
        }
        Target { backend, limits: Limits::webgpu(), profile: Arc::new(profile) }
    }

    #[test]
    fn the_time_on_the_host_is_the_same_in_plans_for_both_sides() {
        type Record = fn(&GpuCommandBatch, crate::Tensor<'_, f32>);
        let cases: [(&str, Record); 5] = [
            ("pooling", |_, x| _ = x.max_pool2d(Pool2d::new([3, 3])).download()),
            ("depthwise convolution", |b, x| {
                let options = Conv2d { groups: 8, ..Conv2d::default() };
                x.conv2d(b.full([8, 1, 3, 3], 0.5), None, options).download();
            }),
            ("convolution", |b, x| {
                x.conv2d(b.full([4, 8, 3, 3], 0.5), None, Conv2d::default()).download();
            }),
            ("sum", |_, x| _ = x.sum([2, 3]).download()),
            ("softmax", |_, x| _ = x.softmax(3).download()),
        ];
        let profile = Arc::new(DeviceProfile::typical(16));
        for (what, record) in cases {
            let batch = GpuCommandBatch::new(&Device::cpu());
            record(&batch, batch.upload_shaped(vec![1.0_f32; 8 << 12], [1, 8, 64, 64]));
            let [on_gpu, on_cpu] = [Backend::Gpu, Backend::Cpu].map(|backend| {
                let target = Target { backend, limits: Limits::cpu(), profile: profile.clone() };
                let plan = plan(&batch.recorded().graph, &target).expect("a sound graph");
                plan.steps.iter().map(|step| step.cost.seconds.cpu).collect::<Vec<_>>()
            });
            assert_eq!(on_gpu, on_cpu, "{what}");
        }
    }

    #[test]
    fn the_host_is_not_charged_for_dispatches_of_a_gpu() {
        type Record = fn(&GpuCommandBatch, crate::BufferId<f32>);
        let cases: [(&str, Record, u64); 3] = [
            ("sort by digits", |b, x| _ = b.sort(x, 0, SortOrder::Ascending), 48),
            ("reduction in parts", |b, x| _ = b.sum(x, 0), 2),
            ("scan in parts", |b, x| _ = b.cumsum(x, 0), 2),
        ];
        for (what, record, dispatches) in cases {
            let batch = GpuCommandBatch::new(&Device::cpu());
            let x = batch.upload_shaped(vec![0.0_f32; 1 << 20], 1 << 20);
            record(&batch, x.id());
            for backend in [Backend::Gpu, Backend::Cpu] {
                let plan = plan(&batch.recorded().graph, &target(backend)).expect("a sound graph");
                let cost = plan.steps[0].cost;
                assert_eq!((plan.steps.len(), cost.seconds.cpu), (1, 1.0), "{what} on {backend}");
                if backend == Backend::Gpu {
                    assert_eq!(plan.steps[0].dispatches(), dispatches, "{what}");
                    assert_eq!(cost.seconds.gpu, dispatches as f64, "{what}");
                }
            }
        }
    }
}
