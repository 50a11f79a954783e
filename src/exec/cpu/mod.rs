//! Running a plan on the host: each step in tiles that stay in the cache, shared out over threads where
//! that pays.

mod failures;
pub(crate) mod forms;
mod offload;
pub(crate) mod operands;
mod pool;
mod program;
mod tape;

use std::borrow::Cow;
use std::sync::Arc;

use smallvec::SmallVec;

pub(crate) use offload::{CpuJob, Here, run_off_thread};
pub(crate) use pool::CpuPool;
pub(crate) use program::CpuProgram;

use self::failures::Failures;
use self::program::{Hole, Tapes};
use self::tape::Tape;
use crate::base::shape::View;
use crate::base::trace::{Timeline, What};
use crate::error::{DeviceError, Result, RunError};
use crate::exec::HostBuffer;
use crate::exec::cpu::operands::input::Input;
use crate::expr::Ref;
use crate::ops::Function;
use crate::plan::{Failed, Form, Home, Operand, Plan, Source, Space, Step, ValueId};

/// What a run made.
#[derive(Debug)]
pub(crate) struct CpuRun {
    /// In the order of [`Plan::downloads`].
    pub downloads: Vec<Arc<HostBuffer>>,
    /// In the order of [`Plan::keeps`].
    pub keeps: SmallVec<[Arc<HostBuffer>; 1]>,
    /// Where the run failed, if it did.
    pub failed: Option<Failed>,
    /// Steps that ran.
    pub dispatches: usize,
    /// Buffers that came from the pool.
    pub pool_hits: usize,
    /// Buffers that had to be allocated.
    pub pool_misses: usize,
}

/// What a run is given: of the types and lengths that its plan was made for.
#[derive(Clone, Copy, Default)]
pub(crate) struct Given<'a> {
    /// By position of the batch's uploads.
    pub uploads: &'a [Arc<HostBuffer>],
    /// By position of the batch's bound residents.
    pub residents: &'a [Arc<HostBuffer>],
    /// Of the batch's kernels of the user's own.
    pub functions: &'a [Function],
}

/// Runs `program` on the calling thread and rayon's.
///
/// # Errors
/// [`RunError::Cancelled`] before the next step, once the run is no longer `wanted`; [`DeviceError::OutOfMemory`];
/// [`DeviceError::Refused`] for a plan without a step for one of its results.
fn run(
    program: &CpuProgram,
    given: Given<'_>,
    pool: &CpuPool,
    timeline: &Timeline,
    wanted: &impl Fn() -> bool,
) -> Result<CpuRun> {
    let plan = program.plan();
    let mut memory = Memory::new(plan, given, pool);
    let failures = Failures::default();
    let mut dispatches = 0;
    for (at, (step, tapes)) in program.steps().enumerate() {
        let is_empty = step.is_empty();
        let _timing = (!is_empty).then(|| timeline.part(What::Step(at)));
        let done = if wanted() {
            memory.run(step, tapes, is_empty, &failures)
        } else {
            Err(RunError::Cancelled.into())
        };
        if let Err(error) = done {
            memory.release();
            return Err(error);
        }
        dispatches += usize::from(!is_empty);
    }
    let downloads = memory.share(&plan.downloads);
    let keeps = memory.share(&plan.keeps);
    let (pool_hits, pool_misses) = (memory.pool_hits, memory.pool_misses);
    memory.release();
    let failed = failures.first();
    let (downloads, keeps) = (downloads?, keeps?);
    Ok(CpuRun { downloads, keeps, failed, dispatches, pool_hits, pool_misses })
}

fn run_step(job: &Job<'_>, outputs: &mut [HostBuffer]) -> Result<(), DeviceError> {
    match &job.step.form {
        Form::Map { .. } => forms::map::run(job, outputs),
        Form::Reduce(form) => forms::reduce::run(job, form, outputs),
        Form::Row(form) => forms::row::run(job, form, outputs)?,
        Form::Sort(form) => forms::sort::run(job, form, outputs)?,
        Form::Scan(form) => forms::scan::run(job, form, outputs),
        Form::Attention(form) => forms::attention::run(job, form, outputs)?,
        Form::Own(form) => forms::custom::run(job, form, outputs)?,
        Form::MatMul(form) => forms::matmul::run(job, form, outputs)?,
    }
    Ok(())
}

/// A step and what it reads.
struct Job<'a> {
    step: &'a Step,
    tapes: &'a Tapes,
    values: &'a [Option<Arc<HostBuffer>>],
    functions: &'a [Function],
    failures: &'a Failures,
}

impl<'a> Job<'a> {
    /// The operands that run over `space`, by position among all operands.
    fn inputs(&self, space: Space) -> Vec<Option<Input<'a>>> {
        self.inputs_through(space, Cow::Borrowed)
    }

    /// As [`inputs`](Self::inputs), each read through what `view` makes of its own view.
    fn inputs_through(
        &self,
        space: Space,
        view: impl Fn(&'a View) -> Cow<'a, View>,
    ) -> Vec<Option<Input<'a>>> {
        let bind = |operand: &'a Operand| {
            let value =
                operand.source.value().and_then(|value| self.values[value.index()].as_deref());
            match operand.source {
                Source::Failures => Some(Input::Failures(self.failures)),
                Source::Table(_) => value.map(Input::table),
                Source::Value(_) | Source::Iota => (operand.space == space)
                    .then(|| Input::bind(operand, &view(&operand.view), value)),
            }
        };
        self.step.operands.iter().map(bind).collect()
    }

    /// The tape of `roots`, which stand in `hole`, for operands bound as `inputs`.
    fn tape(&self, hole: Hole, roots: &[Ref], inputs: &[Option<Input<'_>>]) -> &'a Tape {
        let Step { expr, scalars, .. } = self.step;
        self.tapes.get(hole, || Tape::compile(expr, roots, scalars, inputs))
    }

    /// The expressions of the outputs.
    fn roots(&self) -> SmallVec<[Ref; 2]> {
        self.step.outputs.iter().map(|output| output.root).collect()
    }
}

/// The values of a run and the buffers that they lie in.
struct Memory<'a> {
    plan: &'a Plan,
    pool: &'a CpuPool,
    functions: &'a [Function],
    values: SmallVec<[Option<Arc<HostBuffer>>; 8]>,
    /// Who lies in each slot.
    tenants: SmallVec<[Option<ValueId>; 8]>,
    pool_hits: usize,
    pool_misses: usize,
}

impl<'a> Memory<'a> {
    fn new(plan: &'a Plan, given: Given<'a>, pool: &'a CpuPool) -> Self {
        let Given { uploads, residents, functions } = given;
        let value = |home| match home {
            Home::Upload { input, .. } => uploads.get(input as usize).cloned(),
            Home::Resident(resident) => residents.get(resident as usize).cloned(),
            Home::Slot(_) | Home::Kept(_) => None,
        };
        let values = plan.values.iter().map(|described| value(described.home)).collect();
        let tenants = SmallVec::from_elem(None, plan.slots.len());
        Self { plan, pool, functions, values, tenants, pool_hits: 0, pool_misses: 0 }
    }

    /// Runs a step, and keeps what it made.
    fn run(
        &mut self,
        step: &Step,
        tapes: &Tapes,
        is_empty: bool,
        failures: &Failures,
    ) -> Result<()> {
        let values = step.outputs.iter().map(|output| output.value);
        let mut outputs = SmallVec::<[HostBuffer; 1]>::new();
        for value in values.clone() {
            outputs.push(self.take(value)?);
        }
        if !is_empty {
            let Self { values, functions, .. } = self;
            run_step(&Job { step, tapes, values, functions, failures }, &mut outputs)?;
        }
        for (value, buffer) in values.zip(outputs) {
            self.values[value.index()] = Some(Arc::new(buffer));
        }
        Ok(())
    }

    /// A buffer to write `value` to, in place of whatever was in its slot.
    fn take(&mut self, value: ValueId) -> Result<HostBuffer, DeviceError> {
        let described = &self.plan.values[value.index()];
        let (dtype, len) = (described.dtype, described.shape.elements());
        let mut reused = None;
        if let Home::Slot(slot) = described.home {
            let tenant = self.tenants[slot].replace(value);
            reused = tenant
                .and_then(|tenant| self.values[tenant.index()].take())
                .and_then(|buffer| Arc::try_unwrap(buffer).ok())
                .map(HostBuffer::into_words);
        }
        if let Some(words) = reused {
            return Ok(HostBuffer::recycled(dtype, len, words));
        }
        let (buffer, pooled) = self.pool.buffer(dtype, len)?;
        self.pool_hits += usize::from(pooled);
        self.pool_misses += usize::from(!pooled && len > 0);
        Ok(buffer)
    }

    /// The buffers of `values`, for whoever outlives the run.
    fn share<C>(&self, values: &[ValueId]) -> Result<C, DeviceError>
    where
        C: FromIterator<Arc<HostBuffer>>,
    {
        let made = values.iter().map(|value| self.values[value.index()].clone());
        let made: Option<C> = made.collect();
        made.ok_or_else(|| DeviceError::broken("a result was never computed"))
    }

    /// Gives what nobody else holds back to the pool, and lends it what somebody does.
    fn release(self) {
        for (value, buffer) in self.plan.values.iter().zip(self.values) {
            if let (Home::Slot(_) | Home::Kept(_), Some(buffer)) = (value.home, buffer) {
                self.pool.give(buffer);
            }
        }
    }
}

#[cfg(test)]
mod tests;
