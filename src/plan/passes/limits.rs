//! Refusal of plans that a device cannot run.

use crate::base::place::Place;
use crate::cost::Backend;
use crate::error::PlanError;
use crate::ops::CustomKernel;
use crate::plan::step::Step;
use crate::plan::target::Target;
use crate::plan::value::Value;

/// Refuses values and steps that are too large for the target, or cannot run on it.
pub(crate) fn check(steps: &[Step], values: &[Value], target: &Target) -> Result<(), PlanError> {
    let Target { backend, limits, .. } = target;
    let check_bytes = |bytes: u64, place: &Place, op, what: &dyn Fn() -> String| {
        let (limit, adapter) = (limits.binding_bytes, &limits.adapter);
        if bytes <= limit {
            return Ok(());
        }
        let (place, adapter) = (place.to_string(), adapter.clone());
        Err(PlanError::TooLarge { place, op, what: what(), bytes, limit, adapter })
    };
    for value in values {
        let what = || format!("{}{}", value.dtype, value.shape);
        check_bytes(value.bytes(limits), &value.place, value.op, &what)?;
    }
    let needs_gpu =
        |step: &&Step| step.form.kernel().custom_kernel().is_some_and(CustomKernel::needs_gpu);
    if let (Backend::Cpu, Some(step)) = (backend, steps.iter().find(needs_gpu)) {
        return Err(PlanError::GpuOnly { place: step.place.to_string() });
    }
    // Kernels of a GPU count points in 32 bits.
    let too_many = |step: &&Step| step.points() > u64::from(u32::MAX);
    if let (Backend::Gpu, Some(step)) = (backend, steps.iter().find(too_many)) {
        return Err(PlanError::TooManyPoints {
            place: step.place.to_string(),
            op: step.label(),
            points: step.points(),
            adapter: limits.adapter.clone(),
        });
    }
    for step in steps {
        let bytes = step.scratch.map_or(0, |scratch| scratch.words.saturating_mul(4));
        let op = step.ops.last().map_or("", |op| op.name);
        check_bytes(bytes, &step.place, op, &|| "temporary memory".into())?;
    }
    Ok(())
}
