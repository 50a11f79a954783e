//! The invariants after each pass. They are checked in debug builds; an error names the pass that broke one.

use crate::error::PlanError;
use crate::ops::{Type, expected_type};
use crate::plan::execution_plan::Plan;
use crate::plan::order::memory::lives;
use crate::plan::passes::failure_sites::Sites;
use crate::plan::passes::fuse::Fusion;
use crate::plan::passes::ir::{Ir, Ix};
use crate::plan::passes::path::Views;
use crate::plan::step::Step;
use crate::plan::step_parts::{OperandSource, Space};
use crate::plan::target::Target;
use crate::plan::value::{Home, Value};

type Check = Result<(), String>;

macro_rules! ensure {
    ($holds:expr, $($what:tt)*) => {
        if !$holds {
            return Err(format!($($what)*));
        }
    };
}

/// Operands come before their users, and every type follows the operation's rule.
pub(crate) fn ir(pass: &'static str, ir: &Ir) -> Result<(), PlanError> {
    checked(pass, || {
        for (ix, node) in ir.nodes.iter().enumerate() {
            let name = node.op.name();
            ensure!(node.inputs.iter().all(|&input| input < ix), "{name} precedes its operand");
            let inputs: Vec<&Type> = node.inputs.iter().map(|&input| &ir.nodes[input].ty).collect();
            let expected = expected_type(&node.op, &inputs, &node.ty);
            let ty = expected.map_err(|mistake| format!("{name}: {mistake}"))?;
            ensure!(ty == node.ty, "{name} is {} but stated as {}", ty, node.ty);
        }
        let nodes = ir.nodes.len();
        ensure!(ir.outputs().all(|ix| ix < nodes), "an output is missing");
        Ok(())
    })
}

/// Every group reads only what is stored before it, through paths that are views, and binds no more
/// than a kernel can; every output is stored.
pub(crate) fn fusion(
    ir: &Ir,
    views: &Views,
    sites: &Sites,
    fusion: &Fusion,
    buffers: usize,
) -> Result<(), PlanError> {
    checked("fuse", || {
        let mut there: Vec<bool> = ir.nodes.iter().map(|node| node.op.is_source()).collect();
        for group in &fusion.groups {
            let name = ir.nodes[group.root].op.name();
            for read in &group.reads {
                let base = &ir.nodes[read.base];
                ensure!(there[read.base], "{name} reads {} before it is stored", base.op.name());
                ensure!(read.path.view(&base.ty.shape).is_some(), "{name} reads no view");
            }
            let mut bound: Vec<Ix> = group.reads.iter().map(|read| read.base).collect();
            bound.sort_unstable();
            bound.dedup();
            let fails = group.ops.iter().any(|&ix| sites.get(ix).is_some());
            let bound = bound.len() + 1 + group.extra.len() + usize::from(fails);
            ensure!(!fails || group.anchor.is_none(), "{name} may fail where nothing is");
            ensure!(bound <= buffers, "{name} binds {bound} buffers");
            for &ix in [group.root].iter().chain(&group.extra) {
                there[ix] = true;
            }
        }
        ensure!(ir.outputs().all(|ix| there[views.of(ix).0]), "an output is not stored");
        Ok(())
    })
}

/// Views stay inside their values, outputs fill theirs, and no kernel binds more than the device can.
pub(crate) fn steps(steps: &[Step], values: &[Value], target: &Target) -> Result<(), PlanError> {
    checked("emit", || steps.iter().try_for_each(|step| check_step(values, step, target)))
}

/// Steps run after the makers of their operands.
pub(crate) fn order(steps: &[Step], values: &[Value]) -> Result<(), PlanError> {
    checked("order", || {
        let given = |value: &Value| matches!(value.home, Home::Upload { .. } | Home::Resident(_));
        let mut made: Vec<bool> = values.iter().map(given).collect();
        for step in steps {
            for value in step.reads() {
                ensure!(made[value.index()], "{} reads what no step made", step.label());
            }
            for output in &step.outputs {
                let again = std::mem::replace(&mut made[output.value.index()], true);
                ensure!(!again, "{} makes what is there", step.label());
            }
        }
        ensure!(made.iter().all(|&made| made), "a value is made by no step");
        Ok(())
    })
}

/// Slots are shared only by values that never live together.
pub(crate) fn memory(plan: &Plan) -> Result<(), PlanError> {
    checked("memory", || {
        let lives = lives(plan);
        let mut tenants: Vec<Vec<usize>> = vec![Vec::new(); plan.slots.len()];
        for (index, value) in plan.values.iter().enumerate() {
            let (Home::Slot(slot) | Home::Upload { slot: Some(slot), .. }) = value.home else {
                continue;
            };
            if let Some(life) = lives[index] {
                for &other in &tenants[slot] {
                    let together = lives[other].is_some_and(|other| life.overlaps(other));
                    ensure!(
                        !together,
                        "values {index} and {other} share slot {slot} and live together"
                    );
                }
                tenants[slot].push(index);
            }
        }
        Ok(())
    })
}

fn checked(pass: &'static str, check: impl FnOnce() -> Check) -> Result<(), PlanError> {
    if !cfg!(debug_assertions) {
        return Ok(());
    }
    check().map_err(|what| PlanError::Invalid { pass, what })
}

fn check_step(values: &[Value], step: &Step, target: &Target) -> Check {
    let (label, form) = (step.label(), step.form.kernel());
    let buffers = step.reads().len() + step.outputs.len() + usize::from(step.can_fail());
    ensure!(
        !step.can_fail() || form.may_fail(),
        "{label} evaluates more than counts, and can fail"
    );
    ensure!(buffers <= target.limits.storage_buffers, "{label} binds {buffers} buffers");
    for output in &step.outputs {
        let value = &values[output.value.index()];
        ensure!(!step.reads().contains(&output.value), "{label} reads what it writes");
        ensure!(output.dtype == value.dtype, "{label} writes another type");
        ensure!(output.view.dims[..] == *form.dims(Space::Out), "{label} misses its space");
        let whole = output.view.shape().elements() == value.shape.elements();
        ensure!(whole, "{label} does not write all of {}", value.shape);
        ensure!(output.view.is_inside(value.shape.elements()), "{label} writes outside");
    }
    for operand in step.operands.iter().filter(|operand| operand.space != Space::Whole) {
        let dims = form.dims(operand.space);
        ensure!(
            operand.view.dims[..] == *dims,
            "{label}: operand over {:?}, space {:?} is {dims:?}",
            operand.view.dims,
            operand.space
        );
        if let (OperandSource::Value(value), false) = (operand.source, operand.clamp) {
            let elements = values[value.index()].shape.elements();
            ensure!(operand.view.is_inside(elements), "{label} reads outside");
        }
    }
    Ok(())
}
