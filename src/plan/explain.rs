//! A plan as text that a person understands.

use std::fmt;
use std::fmt::Write as _;

use smallvec::SmallVec;

use super::step::Step;
use super::step_parts::ValueId;
use super::{Home, Placed, Plan, Planned, Split, SplitPart, Supply, Target, Value};
use crate::base::units::{bytes, count, quantity, seconds};
use crate::cost::{Backend, Limits, Residence};
use crate::error::file_and_line;
use crate::plan::place::reason::{Chooser, table};
use crate::plan::place::split::Sides;
use crate::plan::schedule::memory::{Life, lives};

/// What will run, where and why. Prints as a page.
#[derive(Clone, Debug, PartialEq)]
pub struct Explanation {
    backend: Backend,
    kernels: Vec<String>,
    sides: Vec<Backend>,
    dispatches: u64,
    peak_bytes: u64,
    predicted_seconds: f64,
    text: String,
}

impl Explanation {
    /// Explains what was placed for `targets`, of which there is one for each side, at least one, by whom where there
    /// is a choice. `residents` says where the data of each lies.
    pub(crate) fn new<'a>(
        placed: &Placed,
        targets: impl IntoIterator<Item = &'a Target>,
        chooser: Option<Chooser>,
        residents: &[Residence],
    ) -> Self {
        let targets: SmallVec<[&Target; 2]> = targets.into_iter().collect();
        let of = |side| targets.iter().copied().find(|target| target.backend == side);
        let page = |plan: &Plan, text: &mut String| {
            let limits = of(plan.backend).map_or_else(Limits::cpu, |target| target.limits.clone());
            Printer { plan, limits: &limits, lives: lives(plan) }.page(text);
        };
        let mut text = String::new();
        let (plans, seconds): (Vec<&Plan>, f64) = match &placed.planned {
            Planned::Whole(plan) => (vec![plan], plan.seconds),
            Planned::Split(split) => {
                (split.parts.iter().map(|part| &part.plan).collect(), split.seconds)
            }
        };
        match &placed.planned {
            Planned::Whole(plan) => {
                head(&mut text, plan);
                placed_by(&mut text, placed, chooser, &targets);
                page(plan, &mut text);
            }
            Planned::Split(split) => {
                let _ = writeln!(
                    text,
                    "plan for both sides, predicted {}",
                    crate::base::units::seconds(seconds)
                );
                placed_by(&mut text, placed, chooser, &targets);
                for part in &split.parts {
                    let _ = write!(text, "{}: ", part.stage);
                    head(&mut text, &part.plan);
                    supplies(&mut text, split, part);
                    page(&part.plan, &mut text);
                }
            }
        }
        if let (Some(cpu), Some(gpu)) = (of(Backend::Cpu), of(Backend::Gpu)) {
            let chooser = chooser.unwrap_or(Chooser::Times);
            table(&mut text, placed, Sides { cpu, gpu }, residents, chooser);
        }
        let total = |of: fn(&Plan) -> u64| plans.iter().map(|plan| of(plan)).sum();
        let on_gpu = plans.iter().any(|plan| plan.backend == Backend::Gpu);
        Self {
            backend: if on_gpu { Backend::Gpu } else { Backend::Cpu },
            kernels: plans.iter().flat_map(|plan| plan.steps.iter().map(Step::label)).collect(),
            sides: plans.iter().flat_map(|plan| plan.steps.iter().map(|_| plan.backend)).collect(),
            dispatches: total(Plan::dispatches),
            peak_bytes: total(|plan| plan.peak_bytes),
            predicted_seconds: seconds,
            text,
        }
    }

    /// Where the plan runs: the GPU if any of it runs there.
    #[must_use]
    pub fn backend(&self) -> Backend {
        self.backend
    }

    /// The kernels in the order in which they run, each as the operations fused in it, joined by `+`.
    #[must_use]
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// Where each of the kernels runs: on one side, or on both where that is predicted to be faster.
    #[must_use]
    pub fn sides(&self) -> &[Backend] {
        &self.sides
    }

    /// How often the GPU is dispatched (a split reduction takes two); once for a kernel on the host's cores.
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

/// A plan in a line.
fn head(page: &mut String, plan: &Plan) {
    let uploads = u64::from(plan.values.iter().any(|v| matches!(v.home, Home::Upload { .. })));
    let downloads = u64::from(!plan.downloads.is_empty());
    let _ = writeln!(
        page,
        "plan for {}: {} in {}, {} ({}){}, {} ({}), peak {}, predicted {}",
        plan.backend,
        count(plan.steps.len() as u64, "kernel"),
        count(plan.dispatches(), "dispatch"),
        count(uploads, "upload"),
        bytes(plan.bytes_up),
        waves(plan),
        count(downloads, "download"),
        bytes(plan.bytes_down),
        bytes(plan.peak_bytes),
        seconds(plan.seconds),
    );
}

/// In how many parts the upload goes, if not in one.
fn waves(plan: &Plan) -> String {
    match plan.waves.len() {
        0 => String::new(),
        waves => format!(" in {waves} waves"),
    }
}

/// What each side would take, by what figures, and who chose the side where there is a choice.
fn placed_by(page: &mut String, placed: &Placed, chooser: Option<Chooser>, targets: &[&Target]) {
    let mut times: Vec<String> =
        placed.sides.iter().map(|(side, prediction)| format!("{side} {prediction}")).collect();
    if let Planned::Split(split) = &placed.planned {
        times.insert(0, format!("both {}", seconds(split.seconds)));
    }
    if let Some(side) = placed.too_small {
        times.push(format!("no room on the {side}"));
    }
    let by = chooser.map_or(String::new(), |chooser| format!("placed by {chooser}: "));
    let measured = targets.iter().all(|target| target.profile.measured);
    let figures = if measured { "" } else { " (by typical figures, none were measured)" };
    let _ = writeln!(page, "  {by}{}{figures}", times.join("; "));
}

/// What other parts hand to this one.
fn supplies(page: &mut String, split: &Split, part: &SplitPart) {
    for (upload, supply) in part.uploads.iter().enumerate() {
        let Supply::Made(made) = supply else { continue };
        let is_it = |value: &&Value| matches!(value.home, Home::Upload { input, .. } if input as usize == upload);
        if let Some(value) = part.plan.values.iter().find(is_it) {
            let from = split.parts[made.part].stage;
            let _ = writeln!(
                page,
                "  {} {}{} comes from what runs {from}",
                value.op, value.dtype, value.shape
            );
        }
    }
}

impl Printer<'_> {
    fn page(&self, page: &mut String) {
        let plan = self.plan;
        for (index, value) in plan.values.iter().enumerate() {
            if matches!(value.home, Home::Upload { .. } | Home::Resident(_)) {
                let text = self.value(ValueId(index as u32));
                let _ = writeln!(page, "  {text} at {}", file_and_line(value.place));
            }
        }
        for (at, step) in plan.steps.iter().enumerate() {
            self.step(page, at, step);
        }
        if !plan.downloads.is_empty() {
            let _ = writeln!(page, "  download {}", Self::names(&plan.downloads));
        }
        if !plan.keeps.is_empty() {
            let _ = writeln!(page, "  keep {}", Self::names(&plan.keeps));
        }
    }

    fn step(&self, page: &mut String, at: usize, step: &Step) {
        let outputs: Vec<ValueId> = step.outputs.iter().map(|output| output.value).collect();
        let _ = writeln!(page, "  {}. {} ({})", at + 1, step.label(), step.form.kernel().name());
        let reads = step.reads();
        let reads = if reads.is_empty() { "nothing".to_owned() } else { Self::names(&reads) };
        let _ = writeln!(page, "     {} ← {reads}", self.list(&outputs));
        let cost = &step.cost;
        let _ = write!(
            page,
            "     on {}: {} flops, {} read, {} written, predicted {}",
            self.plan.backend,
            quantity(cost.flops),
            bytes(cost.bytes_read),
            bytes(cost.bytes_written),
            seconds(match self.plan.backend {
                Backend::Cpu => cost.cpu_seconds,
                Backend::Gpu => cost.gpu_seconds,
            }),
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
