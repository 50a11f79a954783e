//! Kernels that hand a value on through memory, and the reason why they are not one kernel.

use crate::plan::execution_plan::Plan;
use crate::plan::forms::Form;
use crate::plan::step::Step;
use crate::plan::step_parts::OperandSource;
use crate::plan::value::{Home, ValueId};

/// The step that makes a value of a plan, and the uses of the value.
#[derive(Clone, Copy, Default)]
struct ValueUse {
    maker: Option<usize>,
    readers: usize,
    is_result: bool,
}

/// The kernels of a plan, joined by the values that they hand on.
pub(super) struct Unfused<'a> {
    plan: &'a Plan,
    uses: Vec<ValueUse>,
}

impl<'a> Unfused<'a> {
    pub fn new(plan: &'a Plan) -> Self {
        let mut uses = vec![ValueUse::default(); plan.values.len()];
        for (at, step) in plan.steps.iter().enumerate() {
            step.outputs.iter().for_each(|output| uses[output.value.index()].maker = Some(at));
            step.reads().iter().for_each(|value| uses[value.index()].readers += 1);
        }
        for value in plan.downloads.iter().chain(&plan.keeps) {
            uses[value.index()].is_result = true;
        }
        Self { plan, uses }
    }

    /// For each kernel that makes a value which kernel `at` reads: its position, and the reason where it is known.
    pub fn not_fused_with(&self, at: usize) -> Vec<(usize, String)> {
        let reader = &self.plan.steps[at];
        let mut found: Vec<(usize, String)> = Vec::new();
        for value in reader.reads() {
            let stored = self.plan.values[value.index()].home;
            let (Some(made), Home::Slot(_) | Home::Kept(_)) =
                (self.uses[value.index()].maker, stored)
            else {
                continue;
            };
            if found.iter().all(|&(other, _)| other != made)
                && let Some(why) = self.reason(value, &self.plan.steps[made], reader)
            {
                found.push((made, why));
            }
        }
        found
    }

    /// The reason why `reader` does not compute `value`, which `maker` stores.
    fn reason(&self, value: ValueId, maker: &Step, reader: &Step) -> Option<String> {
        let name = format!("v{}", value.0);
        if [maker, reader].iter().any(|step| matches!(step.form, Form::Custom(_))) {
            return Some("a kernel of your own does not fuse".into());
        }
        let is_table = |source: OperandSource| source == OperandSource::Table(value);
        if reader.operands.iter().any(|operand| is_table(operand.source)) {
            return Some(format!("{name} is looked up in memory"));
        }
        let (made, reads) = (kind(&maker.form), kind(&reader.form));
        let [made_by_map, read_by_map] =
            [maker, reader].map(|step| matches!(step.form, Form::Map(_)));
        if !made_by_map && !read_by_map {
            return Some(match made == reads {
                true => format!("{reads} takes a kernel of its own"),
                false => format!("{made} and {reads} take a kernel each"),
            });
        }
        let ValueUse { readers, is_result, .. } = self.uses[value.index()];
        if made_by_map && is_result {
            return Some(format!("{name} is a result"));
        }
        if readers > 1 {
            return Some(format!("{readers} kernels read {name}"));
        }
        let elements = self.plan.values[value.index()].shape.elements() as u64;
        if !made_by_map && reader.form.kernel().points() > elements {
            let is_broadcast = reader.joins.is_empty() && reader.borders.is_empty();
            return Some(match is_broadcast {
                true => format!("{name} is broadcast"),
                false => format!("{name} has fewer elements than this kernel"),
            });
        }
        let in_tiles = matches!(reader.form, Form::Product(_) | Form::Attention(_));
        in_tiles.then(|| format!("each tile of {reads} would compute {name} anew"))
    }
}

/// The kind of kernel in words.
fn kind(form: &Form) -> &'static str {
    match form {
        Form::Map(_) => "a map",
        Form::Reduce(_) => "a reduction",
        Form::Row(_) => "a row operation",
        Form::Scan(_) => "a scan",
        Form::Sort(_) => "a sort",
        Form::Product(_) => "a matrix product",
        Form::Attention(_) => "an attention",
        Form::Custom(_) => "a kernel of your own",
    }
}
