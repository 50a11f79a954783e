//! A plan as text that a person understands.

use std::fmt;
use std::fmt::Write as _;

use super::form::{Form, MatMulForm, SortForm};
use super::memory::{Life, lives};
use super::share::{ProductLayout, SortSchedule, UnitTile};
use super::step::{Step, ValueId};
use super::{Home, Placed, Plan};
use crate::cost::{Backend, Limits};
use crate::error::file_and_line;
use crate::units::{bytes, count, quantity, seconds};

/// What will run, where and why. Prints as a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    backend: Backend,
    kernels: Vec<String>,
    dispatches: u64,
    peak_bytes: u64,
    predicted_seconds: f64,
    text: String,
}

impl Explanation {
    /// Explains a plan for a device of these limits, and `why` it is for this side where there is a
    /// choice.
    pub(crate) fn new(placed: &Placed, limits: &Limits, why: Option<&str>) -> Self {
        let plan = &placed.plan;
        let printer = Printer { plan, limits, lives: lives(plan) };
        Self {
            backend: plan.backend,
            kernels: plan.steps.iter().map(Step::label).collect(),
            dispatches: plan.dispatches(),
            peak_bytes: plan.peak_bytes,
            predicted_seconds: plan.seconds,
            text: printer.page(placed, why),
        }
    }

    /// Where the plan runs.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The kernels in the order in which they run, each as the operations fused in it, joined by `+`.
    #[must_use]
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// How often the GPU is dispatched (a split reduction takes two).
    #[must_use]
    pub fn dispatches(&self) -> u64 {
        self.dispatches
    }

    /// Bytes of memory that a run holds at once: intermediates, results and residents.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.peak_bytes
    }

    /// Predicted seconds of a run.
    #[must_use]
    pub fn predicted_seconds(&self) -> f64 {
        self.predicted_seconds
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.text)
    }
}

struct Printer<'a> {
    plan: &'a Plan,
    limits: &'a Limits,
    lives: Vec<Option<Life>>,
}

impl Printer<'_> {
    fn page(&self, placed: &Placed, why: Option<&str>) -> String {
        let plan = self.plan;
        let mut page = String::new();
        let uploads = u64::from(plan.values.iter().any(|v| matches!(v.home, Home::Upload { .. })));
        let downloads = u64::from(!plan.downloads.is_empty());
        let _ = write!(
            page,
            "plan for {}: {} in {}, {} ({}), {} ({}), peak {}, predicted {}",
            plan.backend,
            count(plan.steps.len() as u64, "kernel"),
            count(plan.dispatches(), "dispatch"),
            count(uploads, "upload"),
            bytes(plan.bytes_up),
            count(downloads, "download"),
            bytes(plan.bytes_down),
            bytes(plan.peak_bytes),
            seconds(plan.seconds),
        );
        page.push('\n');
        if let Some(why) = why {
            let _ = write!(page, "  placed by {why}: {} {}", plan.backend, placed.predicted);
            if let Some(other) = placed.other {
                let side = if plan.backend == Backend::Cpu { Backend::Gpu } else { Backend::Cpu };
                let _ = write!(page, "; {side} {other}");
            }
            page.push('\n');
        }
        for (index, value) in plan.values.iter().enumerate() {
            if matches!(value.home, Home::Upload { .. } | Home::Resident(_)) {
                let text = self.value(ValueId(index as u32));
                let _ = writeln!(page, "  {text} at {}", file_and_line(value.place));
            }
        }
        for (at, step) in plan.steps.iter().enumerate() {
            self.step(&mut page, at, step);
        }
        if !plan.downloads.is_empty() {
            let _ = writeln!(page, "  download {}", Self::names(&plan.downloads));
        }
        if !plan.keeps.is_empty() {
            let _ = writeln!(page, "  keep {}", Self::names(&plan.keeps));
        }
        page
    }

    fn step(&self, page: &mut String, at: usize, step: &Step) {
        let outputs: Vec<ValueId> = step.outputs.iter().map(|output| output.value).collect();
        let _ = writeln!(page, "  {}. {} ({})", at + 1, step.label(), form_name(step));
        let reads = step.reads();
        let reads = if reads.is_empty() { "nothing".to_owned() } else { Self::names(&reads) };
        let _ = writeln!(page, "     {} ← {reads}", self.list(&outputs));
        let cost = &step.cost;
        let _ = write!(
            page,
            "     on {}: {} flops, {} read, {} written; cpu {}, gpu {}",
            self.plan.backend,
            quantity(cost.flops),
            bytes(cost.bytes_read),
            bytes(cost.bytes_written),
            seconds(cost.cpu_seconds),
            seconds(cost.gpu_seconds),
        );
        if let Some(memory) = self.memory(at, &outputs) {
            let _ = write!(page, "; {memory}");
        }
        page.push('\n');
    }

    /// Which buffers the step's results take, and whose they were.
    fn memory(&self, at: usize, outputs: &[ValueId]) -> Option<String> {
        let Self { plan, lives, .. } = self;
        let reused: Vec<String> = outputs
            .iter()
            .filter_map(|output| {
                let Home::Slot(slot) = plan.values[output.index()].home else { return None };
                let before = (0..plan.values.len()).filter(|&index| {
                    let same = match plan.values[index].home {
                        Home::Slot(s) | Home::Upload { slot: Some(s), .. } => s == slot,
                        _ => false,
                    };
                    same && lives[index].is_some_and(|life| life.last < at)
                });
                let before = before.max_by_key(|&index| lives[index].map(|life| life.last))?;
                Some(format!("reuses the buffer of v{before}"))
            })
            .collect();
        (!reused.is_empty()).then(|| reused.join(", "))
    }

    fn list(&self, values: &[ValueId]) -> String {
        values.iter().map(|&value| self.value(value)).collect::<Vec<_>>().join(", ")
    }

    fn names(values: &[ValueId]) -> String {
        values.iter().map(|value| format!("v{}", value.0)).collect::<Vec<_>>().join(", ")
    }

    fn value(&self, id: ValueId) -> String {
        let value = &self.plan.values[id.index()];
        let origin = match value.home {
            Home::Upload { .. } => "upload ",
            Home::Resident(_) => "resident ",
            Home::Slot(_) | Home::Kept(_) => "",
        };
        let size = bytes(value.bytes(self.limits));
        format!("{origin}v{} {}{} ({size})", id.0, value.dtype, value.shape)
    }
}

/// The form of a step as people call it.
pub(crate) fn form_name(step: &Step) -> &'static str {
    match step.form {
        Form::Map { .. } => "map",
        Form::Reduce(_) => "reduce",
        Form::Row(_) => "row",
        Form::Scan(_) => "scan",
        Form::Sort(SortForm { schedule: SortSchedule::Select { .. }, .. }) => "sort, selection",
        Form::Sort(_) => "sort",
        Form::Attention(_) => "attention",
        Form::MatMul(MatMulForm { schedule, .. }) => match schedule.layout {
            ProductLayout::Units(UnitTile { split: true, .. }) => "matmul, split on matrix units",
            ProductLayout::Units(_) => "matmul, f16 on matrix units",
            ProductLayout::Tiles(_) | ProductLayout::Strips(_) => "matmul",
        },
    }
}
