//! A run of a plan on the host. The steps run one after the other, each shared out over threads if that pays.

use std::sync::Arc;

use smallvec::SmallVec;

use super::failures::Failures;
use super::forms;
use super::program::CpuProgram;
use super::step_cache::StepCache;
use super::step_job::StepJob;
use super::values::{HeldValues, RunData, RunValues};
use crate::base::trace::{TimedWork, Timeline};
use crate::error::{DeviceError, Result, RunError};
use crate::exec::{FailedElement, HostBuffer, HostPool};
use crate::ops::CpuFunction;
use crate::plan::{Form, Plan, Step};

#[derive(Debug)]
pub(crate) struct CpuRun {
    /// Downloaded values in the order of `Plan::downloads`.
    pub downloads: SmallVec<[Arc<HostBuffer>; 1]>,
    /// Kept values in the order of `Plan::keeps`.
    pub keeps: SmallVec<[Arc<HostBuffer>; 1]>,
    /// The first failure of an operation on its data, if there was one.
    pub failed: Option<FailedElement>,
    /// Number of steps that ran.
    pub dispatches: usize,
    /// Number of buffers that came from the pool.
    pub pool_hits: usize,
    /// Number of buffers that had to be allocated.
    pub pool_misses: usize,
}

/// Runs `program` on the calling thread and helpers.
///
/// # Errors
/// [`RunError::Cancelled`] before the next step, once the run is no longer `wanted`; [`DeviceError::OutOfMemory`];
/// [`DeviceError::Refused`] for a plan without a step for one of its results.
pub(super) fn run(
    program: &CpuProgram,
    data: RunData<'_>,
    pool: &HostPool,
    timeline: &Timeline,
    wanted: &impl Fn() -> bool,
) -> Result<CpuRun> {
    let plan = program.plan();
    let mut values = RunValues::new(plan, data, pool);
    let failures = Failures::default();
    let mut dispatches = 0;
    let mut before = None;
    for (at, (step, kept)) in program.steps().enumerate() {
        let cache = &kept.cache;
        if kept.is_fused {
            before = Some((step, cache.as_ref(), values.hold(step)));
            dispatches += 1;
            continue;
        }
        let before = before.take();
        let is_empty = step.is_empty();
        let _timing = (!is_empty).then(|| timeline.begin_span(TimedWork::Step(at)));
        let done = if wanted() {
            run_step((plan, step, cache), before, &mut values, data.functions, &failures)
        } else {
            Err(RunError::Cancelled.into())
        };
        if let Err(error) = done {
            values.release();
            return Err(error);
        }
        dispatches += usize::from(!is_empty);
    }
    let downloads = values.share(&plan.downloads);
    let keeps = values.share(&plan.keeps);
    let (pool_hits, pool_misses) = (values.pool_hits, values.pool_misses);
    values.release();
    let failed = failures.first();
    let (downloads, keeps) = (downloads?, keeps?);
    Ok(CpuRun { downloads, keeps, failed, dispatches, pool_hits, pool_misses })
}

/// Runs a step, and the step `before` it if the two are fused.
fn run_step(
    (plan, step, cache): (&Plan, &Step, &StepCache),
    before: Option<(&Step, &StepCache, HeldValues)>,
    values: &mut RunValues<'_>,
    functions: &[CpuFunction],
    failures: &Failures,
) -> Result<()> {
    let ids = step.outputs.iter().map(|output| output.value);
    let mut outputs = SmallVec::<[HostBuffer; 1]>::new();
    for id in ids.clone() {
        outputs.push(values.buffer_for(id)?);
    }
    if !step.is_empty() {
        let job = StepJob { plan, step, cache, values: values.all(), functions, failures };
        match &before {
            Some((step, cache, held)) => {
                let before = StepJob { plan, step, cache, values: held, functions, failures };
                forms::sliding::fused_product::run(&before, &job, &mut outputs)?;
            }
            None => compute(&job, &mut outputs)?,
        }
    }
    for (id, buffer) in ids.zip(outputs) {
        values.put(id, buffer);
    }
    if let Some((.., held)) = before {
        values.give_back(held);
    }
    Ok(())
}

fn compute(job: &StepJob<'_>, outputs: &mut [HostBuffer]) -> Result<(), DeviceError> {
    match &job.step.form {
        Form::Map(form) => forms::map::run(job, form, outputs),
        Form::Reduce(form) => match &form.sliding {
            Some(sliding) if sliding.channels_last => {
                forms::sliding::channels_last::run(job, form, sliding, outputs)?;
            }
            Some(sliding) => forms::sliding::run(job, form, sliding, outputs),
            None => forms::reduce::run(job, form, outputs),
        },
        Form::Row(form) => forms::row::run(job, form, outputs)?,
        Form::Sort(form) => forms::sort::run(job, form, outputs)?,
        Form::Scan(form) => forms::scan::run(job, form, outputs),
        Form::Attention(form) => forms::attention::run(job, form, outputs)?,
        Form::Custom(form) => forms::custom::run(job, form, outputs)?,
        Form::Product(form) => forms::product::run(job, form, outputs)?,
    }
    Ok(())
}
