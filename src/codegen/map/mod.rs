//! Elementwise kernels, one for each [`MapSchedule`].

mod quads;
mod row_table;
mod transpose;

use self::quads::{FetchedQuad, Quads};
use super::Dispatch;
use super::kernel::KernelBuilder;
use crate::cost::Limits;
use crate::expr::Ref;
use crate::plan::{MapForm, MapSchedule, MapSpace, Plan, Step, VectorFetch};

/// Lowers the map `step`.
pub(super) fn lower(plan: &Plan, step: &Step, limits: &Limits, form: &MapForm) -> Dispatch {
    let space = MapSpace::new(&form.dims, &step.context(&plan.values));
    debug_assert!((0..space.outputs).all(|map| space.axes.is_linear(map)), "an output is a view");
    match &form.schedule {
        MapSchedule::Tiles(tiles) => {
            let mut kernel = KernelBuilder::new(plan, step, limits);
            let function = kernel.function("compute_element", &kernel.output_roots(), None);
            transpose::lower(kernel, &space, &function, tiles)
        }
        MapSchedule::RowTable(row) => {
            let (step, operand) = with_load(step, row.fetch, row.table);
            row_table::lower(plan, &step, limits, &Quads::by_row(&space), row, operand)
        }
        MapSchedule::Quads { each } => lower_quads(plan, step, limits, &space, *each, &[]),
        MapSchedule::VectorFetch { each, fetches } => {
            let (mut step, mut fetched) = (step.clone(), Vec::new());
            for &VectorFetch { fetch, table, position } in fetches {
                let operand;
                (step, operand) = with_load(&step, fetch, table);
                fetched.push(FetchedQuad { operand, table, position });
            }
            lower_quads(plan, &step, limits, &space, *each, &fetched)
        }
    }
}

/// The step with a load of a new operand in place of a fetch from `table`, and that operand.
fn with_load(step: &Step, fetch: Ref, table: usize) -> (Step, usize) {
    let mut step = step.clone();
    let operand = step.operands.len();
    step.operands.push(step.operands[table].clone());
    step.expr.load_instead(fetch, operand as u16);
    (step, operand)
}

fn lower_quads(
    plan: &Plan,
    step: &Step,
    limits: &Limits,
    space: &MapSpace,
    each: usize,
    fetched: &[FetchedQuad],
) -> Dispatch {
    let mut kernel = KernelBuilder::new(plan, step, limits);
    let roots = kernel.output_roots();
    kernel.tells_late(step.expr.sites(&roots) == 1);
    let function = kernel.function("compute_element", &roots, None);
    Quads::new(space).lower(kernel, &function, each, fetched)
}
