//! Refusal of plans that a device cannot run.

use crate::cost::Backend;
use crate::error::{PlanError, file_and_line};
use crate::plan::step::Step;
use crate::plan::{Target, Value};

/// Refuses values and steps that are too large for the target, or cannot run on it.
pub(crate) fn check(steps: &[Step], values: &[Value], target: &Target) -> Result<(), PlanError> {
    check_sizes(values, target)?;
    check_functions(steps, target)?;
    check_spaces(steps, target)?;
    check_scratch(steps, target)
}

/// Refuses kernels that iterate over more points than a GPU's 32-bit indices count.
fn check_spaces(steps: &[Step], target: &Target) -> Result<(), PlanError> {
    let limit = u64::from(u32::MAX);
    let too_large = |step: &&Step| target.backend == Backend::Gpu && step.points() > limit;
    match steps.iter().find(too_large) {
        Some(step) => Err(PlanError::TooManyPoints {
            place: file_and_line(step.place),
            op: step.label(),
            points: step.points(),
            adapter: target.limits.adapter.clone(),
        }),
        None => Ok(()),
    }
}

/// Refuses kernels of the user's own that know nothing of the CPU.
fn check_functions(steps: &[Step], target: &Target) -> Result<(), PlanError> {
    let needs_gpu = |step: &&Step| step.form.kernel().needs_gpu();
    match steps.iter().find(needs_gpu) {
        Some(step) if target.backend == Backend::Cpu => {
            Err(PlanError::GpuOnly { place: file_and_line(step.place) })
        }
        _ => Ok(()),
    }
}

/// Refuses steps whose own memory the device cannot bind.
fn check_scratch(steps: &[Step], target: &Target) -> Result<(), PlanError> {
    let limit = target.limits.binding_bytes;
    let bytes = |step: &Step| step.scratch.map_or(0, |scratch| scratch.words.saturating_mul(4));
    let Some(step) = steps.iter().find(|step| bytes(step) > limit) else { return Ok(()) };
    Err(PlanError::TooLarge {
        place: file_and_line(step.place),
        op: step.ops.last().copied().unwrap_or_default(),
        what: "temporary memory".into(),
        bytes: bytes(step),
        limit,
        adapter: target.limits.adapter.clone(),
    })
}

/// Refuses values that the device cannot bind.
fn check_sizes(values: &[Value], target: &Target) -> Result<(), PlanError> {
    let limit = target.limits.binding_bytes;
    let Some(value) = values.iter().find(|value| value.bytes(&target.limits) > limit) else {
        return Ok(());
    };
    Err(PlanError::TooLarge {
        place: file_and_line(value.place),
        op: value.op,
        what: format!("{}{}", value.dtype, value.shape),
        bytes: value.bytes(&target.limits),
        limit,
        adapter: target.limits.adapter.clone(),
    })
}
