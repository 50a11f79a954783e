//! The form of reductions.

mod axes;
mod find_sliding;
mod sliding;
mod windows;

pub(crate) use self::axes::ReduceAxes;
pub(crate) use self::sliding::{Sliding, SlidingAxis};
pub(crate) use self::windows::{ThreadWindows, WindowElement, WindowLanes};
use super::axes::Dims;
use super::host_work::with_indexed_loads;
use super::kernel_form::{KernelForm, WORKGROUP_THREADS, join, partial};
use super::tally::{Tally, count};
use crate::base::shape::points;
use crate::cost::Work;
use crate::expr::Ref;
use crate::ops::Combine;
use crate::plan::step_parts::{Space, StepContext};
use crate::plan::target::Target;

/// Threads that fill a large GPU, about half of what the 132 cores of an H200 hold; a reduction of columns with fewer
/// results is cut into parts until it has as many. More of them have less to add each, and leave more partial results.
const FILL: usize = 1 << 17;
/// Columns from which on neighbouring threads read neighbouring elements of one row: 32 of 4 bytes are a cache line.
const SIDE_BY_SIDE: usize = 32;
/// Columns of this length are read row by row even where they are few: a second dispatch pays, since there are 512
/// parts of 64 elements. Of shorter ones, too few threads would each read a small part of every line.
const LONG_COLUMN: usize = 1 << 15;
/// Parts of a column, at most: where there is one result, the 256 threads that put parts together have 32 each. With
/// more, that takes longer, on one core; with fewer, others have nothing to do before.
const MOST_PARTS: usize = 8192;
/// Reduced rows up to this length are one thread's work. In longer ones, neighbouring threads read elements ever
/// farther apart; shorter ones would be shared by threads that have an element each.
const SHORT: usize = 8;

/// `prologue` over main space `outer ++ inner`, combined over `inner`; outputs over `outer`, with
/// the combination as [`ExprNode::Acc`](crate::expr::ExprNode).
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ReduceForm {
    pub combine: Combine,
    pub outer: Dims,
    pub inner: Dims,
    pub prologue: Ref,
    /// The schedule on a GPU; `None` in a plan for the host.
    pub schedule: Option<ReduceSchedule>,
    /// The windows that the elements are of, if they slide over images. They slide on the host alone.
    pub sliding: Option<Sliding>,
}

/// The schedule of a reduction on a GPU.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct ReduceSchedule {
    /// The threads of one result: a workgroup, or one alone.
    pub layout: ReduceLayout,
    /// Parts that each row of `inner` is cut into; with more than one, partial results go to the scratch
    /// memory and a second dispatch combines them.
    pub parts: usize,
    /// Neighbouring results that a thread makes of overlapping windows, if more than one.
    pub lanes: Option<WindowLanes>,
}

impl ReduceSchedule {
    /// A schedule whose threads make one result at a time.
    pub fn new(layout: ReduceLayout, parts: usize) -> Self {
        Self { layout, parts, lanes: None }
    }
}

/// The threads that walk along the reduced elements of one result.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum ReduceLayout {
    /// The threads of a workgroup together: for rows that lie close in memory.
    Group,
    /// One thread alone, its neighbours taking the neighbouring results: for columns and short rows.
    Thread,
}

impl ReduceForm {
    /// Returns `schedule` with the results of each thread, if the elements are those of windows.
    fn with_lanes(&self, schedule: ReduceSchedule, context: &StepContext<'_>) -> ReduceSchedule {
        let by_one = schedule.layout == ReduceLayout::Thread && schedule.parts == 1;
        let is_empty = context.outputs[0].view.dims.contains(&0);
        let lanes = (by_one && !is_empty).then(|| {
            let axes = ReduceAxes::new(&self.outer, &self.inner, self.prologue, context);
            ThreadWindows::cheapest(&axes, context)
        });
        ReduceSchedule { lanes: lanes.flatten(), ..schedule }
    }

    /// The form with the lanes that the plan would choose for its schedule.
    #[cfg(test)]
    pub fn laned(mut self, context: &StepContext<'_>) -> Self {
        self.schedule = self.schedule.map(|schedule| self.with_lanes(schedule, context));
        self
    }
}

impl KernelForm for ReduceForm {
    fn name(&self) -> &'static str {
        match (self.schedule, &self.sliding) {
            (Some(ReduceSchedule { lanes: Some(_), .. }), _) => "reduce, shared windows",
            (None, Some(sliding)) if sliding.channels_last => "reduce, windows, channels last",
            (None, Some(sliding)) if sliding.is_of_rows() => "reduce, short rows",
            (None, Some(_)) => "reduce, sliding windows",
            (Some(_), _) | (None, None) => "reduce",
        }
    }

    fn dims(&self, space: Space) -> Vec<usize> {
        let inner = if space == Space::Main { &self.inner[..] } else { &[] };
        join(&self.outer, inner)
    }

    fn work(&self, tally: &mut Tally<'_>) {
        let elements = count(&self.outer) * count(&self.inner);
        tally.evaluate(&[self.prologue], elements);
        tally.results(count(&self.outer));
        tally.work.reduce = elements;
    }

    /// Elements of images are read in rows.
    fn on_host(&self, work: Work, context: &StepContext<'_>) -> Work {
        match &self.sliding {
            Some(sliding) => sliding.on_host(work, count(&self.outer)),
            None => with_indexed_loads(work, context.operands),
        }
    }

    fn analyse(&mut self, context: &StepContext<'_>) {
        self.sliding = self.find_sliding(context);
    }

    fn tune(&mut self, context: &StepContext<'_>, target: &Target) {
        let (outer, inner) = (points(&self.outer), points(&self.inner));
        let cores = target.profile.cores as usize;
        let schedule = reduce_schedule(outer, inner, inner_is_strided(self, context), cores);
        self.schedule = Some(self.with_lanes(schedule, context));
    }

    fn scratch_words(&self, _context: &StepContext<'_>) -> usize {
        let parts = self.schedule.map_or(1, |schedule| schedule.parts);
        partial(parts, &[points(&self.outer), self.combine.words()])
    }
}

fn reduce_schedule(
    outer: usize,
    inner: usize,
    walks_columns: bool,
    cores: usize,
) -> ReduceSchedule {
    if inner <= SHORT || walks_columns && (outer >= SIDE_BY_SIDE || inner >= LONG_COLUMN) {
        // At least 64 elements a thread, so that parts pay for their second dispatch.
        let parts = FILL.div_ceil(outer.max(1)).min(inner / 64).clamp(1, MOST_PARTS);
        return ReduceSchedule::new(ReduceLayout::Thread, parts);
    }
    // As many workgroups as run at once, so that none comes late.
    let wanted = (4 * cores).div_ceil(outer.max(1));
    let parts = wanted.min(inner / (WORKGROUP_THREADS * 16)).max(1);
    ReduceSchedule::new(ReduceLayout::Group, parts)
}

/// True if the prologue's largest operand lies so that neighbouring results, not neighbouring
/// elements of one row, are close in memory: as columns do, and as windows do that touch or overlap.
fn inner_is_strided(form: &ReduceForm, context: &StepContext<'_>) -> bool {
    let ReduceForm { outer, inner, prologue, .. } = form;
    let loads = context.expr.loads(&[*prologue]);
    let views = loads.iter().map(|&k| &context.operands[k].view);
    let largest = views.max_by_key(|view| view.moving_points());
    let Some(view) = largest else { return false };
    // The stride and length of the nearest axis.
    let nearest = |range: std::ops::Range<usize>| {
        let moving = range.filter(|&axis| view.dims[axis] > 1 && view.strides[axis] != 0);
        let axes = moving.map(|axis| (view.strides[axis].unsigned_abs(), view.dims[axis]));
        axes.min_by_key(|&(stride, _)| stride).unwrap_or((u64::MAX, 1))
    };
    let (between, _) = nearest(0..outer.len());
    let (stride, len) = nearest(outer.len()..outer.len() + inner.len());
    let windows = len < points(inner) && between <= stride.saturating_mul(len as u64);
    between < stride || windows && between != u64::MAX
}
