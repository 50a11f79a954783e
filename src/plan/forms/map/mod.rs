//! The form of elementwise kernels.

mod row_table;
mod space;
mod transpose;
mod vector_fetch;

pub(crate) use self::row_table::RowTable;
pub(crate) use self::space::MapSpace;
pub(crate) use self::transpose::TransposeTiles;
pub(crate) use self::vector_fetch::VectorFetch;
use super::axes::Dims;
use super::host_work::with_indexed_loads;
use super::kernel_form::KernelForm;
use super::tally::{Tally, count};
use crate::base::dtype::DType;
use crate::cost::selector::OpComplexity;
use crate::cost::{Limits, Work};
use crate::plan::step_parts::{Join, OperandSource, Space, StepContext};
use crate::plan::target::Target;

/// One result an element. The main space and the out space are both `dims`.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct MapForm {
    pub dims: Dims,
    pub schedule: MapSchedule,
}

/// The kernel of a map on a GPU.
#[derive(Clone, Debug, PartialEq)]
pub(crate) enum MapSchedule {
    /// Each thread computes `each` quads of neighbours.
    Quads { each: usize },
    /// As [`Quads`](Self::Quads); these look-ups fetch four neighbours at once.
    VectorFetch { each: usize, fetches: Vec<VectorFetch> },
    /// Transposed operands go through tiles in workgroup memory.
    Tiles(TransposeTiles),
    /// Rows of a table go through workgroup memory.
    RowTable(RowTable),
}

impl MapForm {
    /// A map over `dims`, not yet scheduled.
    pub fn new(dims: Dims) -> Self {
        Self { dims, schedule: MapSchedule::Quads { each: 1 } }
    }

    /// The map with the kernel for a device of these limits.
    pub fn scheduled(mut self, context: &StepContext<'_>, limits: &Limits) -> Self {
        if !self.dims.contains(&0) {
            self.schedule = schedule(&MapSpace::new(&self.dims, context), context, limits);
        }
        self
    }
}

impl KernelForm for MapForm {
    fn name(&self) -> &'static str {
        match self.schedule {
            MapSchedule::Quads { .. } => "map",
            MapSchedule::VectorFetch { .. } => "map, vector look-ups",
            MapSchedule::Tiles(_) => "map, transposing tiles",
            MapSchedule::RowTable(_) => "map, table rows in workgroup memory",
        }
    }

    fn complexity(&self) -> OpComplexity {
        OpComplexity::Low
    }

    fn dims(&self, _space: Space) -> Vec<usize> {
        self.dims.to_vec()
    }

    fn work(&self, tally: &mut Tally<'_>) {
        tally.results(count(&self.dims));
    }

    /// Parts of lines are copied as they are.
    fn on_host(&self, work: Work, context: &StepContext<'_>) -> Work {
        let &StepContext { expr, operands, outputs, joins, .. } = context;
        let is_copied = Join::copied(joins, expr, outputs).is_some();
        if is_copied { work } else { with_indexed_loads(work, operands) }
    }

    fn tune(&mut self, context: &StepContext<'_>, target: &Target) {
        *self = self.clone().scheduled(context, &target.limits);
    }

    fn may_fail(&self) -> bool {
        true
    }
}

/// The kernel for a map over `space`.
fn schedule(space: &MapSpace, context: &StepContext<'_>, limits: &Limits) -> MapSchedule {
    if let Some(tiles) = TransposeTiles::find(space, context, limits) {
        return MapSchedule::Tiles(tiles);
    }
    if let Some(row) = RowTable::find(space, context, limits) {
        return MapSchedule::RowTable(row);
    }
    let fetches =
        if space.has_whole_quads() { VectorFetch::find(space, context) } else { Vec::new() };
    let each = quads_a_thread(space, context, limits, &fetches);
    if fetches.is_empty() {
        MapSchedule::Quads { each }
    } else {
        MapSchedule::VectorFetch { each, fetches }
    }
}

/// Quads that a thread computes. On an H200, two of 128-element rows took 0.94 of the time of one, four of single
/// elements 0.7, and four of `f16` 0.92 of the time of two.
fn quads_a_thread(
    space: &MapSpace,
    context: &StepContext<'_>,
    limits: &Limits,
    fetches: &[VectorFetch],
) -> usize {
    const MANY: usize = 1 << 20;
    let looks_up = context.operands.iter().any(|o| matches!(o.source, OperandSource::Table(_)));
    let many = space.axes.len() >= MANY;
    match (fetches.is_empty(), looks_up && many) {
        (true, true) => 4,
        (false, true) => 2,
        _ if limits.f16 && binds_halves_alone(space, context, fetches) => {
            if many {
                4
            } else {
                2
            }
        }
        _ => 1,
    }
}

/// True if all outputs, operands and tables fetched from in fours are `f16`.
fn binds_halves_alone(
    space: &MapSpace,
    context: &StepContext<'_>,
    fetches: &[VectorFetch],
) -> bool {
    let outputs = context.outputs.iter().map(|output| output.dtype);
    let is_bound = |&o: &usize| {
        matches!(context.operands[o].source, OperandSource::Value(_))
            && context.elements(o) != Some(0)
    };
    let loaded = space.operands.iter().copied().filter(is_bound);
    let bound = loaded.chain(fetches.iter().map(|fetch| fetch.table));
    outputs.chain(bound.map(|o| context.operands[o].dtype)).all(|dtype| dtype == DType::F16)
}
