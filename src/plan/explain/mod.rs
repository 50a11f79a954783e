//! [`Explanation`]: a plan as text that a person understands, with its predicted times and the reasons for its sides.
//! The files beside this one have its text, its table of sides, the reasons, the transfers, and its picture.

mod drawing;
mod not_fused;
mod operations;
#[cfg(test)]
mod picture_tests;
mod reasons;
mod repeats;
mod side_table;
#[cfg(test)]
mod tests;
mod text;
mod transfers;
mod value_names;

use std::collections::HashMap;
use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use smallvec::SmallVec;

use self::side_table::table;
use self::text::Printer;
use self::value_names::value_names;
use super::{Home, Pieces, PlacedGraph, Plan, Split, SplitPart, Supply, Target, Value};
use crate::base::units::{bytes, count, seconds};
use crate::cost::{Backend, Limits, Residence};
use crate::graph::{Graph, NodeId};
use crate::picture::repeats::ShownSteps;
use crate::plan::placement::chosen_by::ChosenBy;
use crate::plan::placement::split::SideTargets;

/// The kernels that will run, their sides and the reasons. Prints as text, which is written only then, by
/// `Debug` too; [`to_html`](Self::to_html) is a page of HTML. Each kernel is followed by the place of its last operation.
/// In a long plan, blocks of kernels that repeat are printed once; `{:#}` prints every kernel.
///
/// ```
/// use onetrip::{Backend, Device, GpuCommandBatch};
///
/// let batch = GpuCommandBatch::new(&Device::cpu());
/// let x = batch.upload(&[1.0_f32, -2.0]);
/// (x * 2.0 + 1.0).relu();
/// let plan = batch.explain()?;
/// println!("{plan}");
/// assert_eq!((plan.kernels(), plan.dispatches()), (&["mul+add+relu".to_owned()][..], 1));
/// assert_eq!((plan.backend(), plan.sides()), (Backend::Cpu, &[Backend::Cpu][..]));
/// println!("{} bytes, {} of the budget", plan.peak_bytes(), plan.budget_bytes());
/// println!("{} s, of {:?}", plan.predicted_seconds(), plan.predictions().collect::<Vec<_>>());
/// # Ok::<_, onetrip::Error>(())
/// ```
#[derive(Clone)]
pub struct Explanation {
    kernels: Vec<String>,
    sides: Vec<Backend>,
    placed: Arc<PlacedGraph>,
    graph: Arc<Graph>,
    /// The names that the user gave to values.
    names: HashMap<NodeId, Arc<str>>,
    /// One for each side, at least one.
    targets: SmallVec<[Target; 2]>,
    /// The reason for the side; none if there is no choice.
    chosen_by: Option<ChosenBy>,
    /// The side or sides of each resident's data.
    residents: SmallVec<[Residence; 8]>,
}

impl Explanation {
    pub(crate) fn placed(&self) -> &PlacedGraph {
        &self.placed
    }

    /// Explains the `graph` that was `placed` for `targets`, of which there is one for each side, at least one.
    /// `chosen_by` is the reason where there is a choice. `names` are those that the user gave to values; `residents`
    /// says where the data of each lies.
    pub(crate) fn new<'a>(
        placed: Arc<PlacedGraph>,
        graph: &Arc<Graph>,
        names: HashMap<NodeId, Arc<str>>,
        targets: impl IntoIterator<Item = &'a Target>,
        chosen_by: Option<ChosenBy>,
        residents: &[Residence],
    ) -> Self {
        let steps = placed
            .pieces
            .iter()
            .flat_map(|plan| plan.steps.iter().map(|step| (step.label(), plan.backend)));
        let (kernels, sides) = steps.unzip();
        Self {
            kernels,
            sides,
            graph: Arc::clone(graph),
            names,
            placed,
            targets: targets.into_iter().cloned().collect(),
            chosen_by,
            residents: residents.into(),
        }
    }

    fn target(&self, side: Backend) -> Option<&Target> {
        self.targets.iter().find(|target| target.backend == side)
    }

    /// The plan in a line, and the reason for its sides.
    fn heading(&self) -> Vec<String> {
        let first = match &self.placed.pieces {
            Pieces::Whole(plan) => head(plan),
            Pieces::Split(split) => {
                format!("plan for both sides, predicted {}", seconds(split.seconds))
            }
        };
        let held = bytes(self.placed.held_bytes());
        let budget = match self.backend() {
            Backend::Gpu => {
                format!("a run takes {held} of memory, transfers included, beside residents")
            }
            Backend::Cpu => format!("a run takes {held} of memory beside uploads and residents"),
        };
        vec![first, placed_by(&self.placed, self.chosen_by, &self.targets), budget]
    }

    /// The text with these steps.
    fn text(&self, shown: ShownSteps) -> String {
        let Self { placed, chosen_by, residents, graph, .. } = self;
        let names = value_names(graph, placed, &self.names);
        let page = |plan: &Plan, text: &mut String| {
            let target = self.target(plan.backend);
            let limits = target.map_or_else(Limits::cpu, |target| target.limits.clone());
            Printer::new(plan, graph, &limits, &names).print(text, shown);
        };
        let mut text = self.heading().join("\n  ") + "\n";
        match &placed.pieces {
            Pieces::Whole(plan) => page(plan, &mut text),
            Pieces::Split(split) => {
                for part in &split.parts {
                    let _ = writeln!(text, "{}: {}", part.phase, head(&part.plan));
                    supplies(&mut text, split, part);
                    page(&part.plan, &mut text);
                }
            }
        }
        if let (Some(cpu), Some(gpu)) = (self.target(Backend::Cpu), self.target(Backend::Gpu)) {
            let chosen_by = chosen_by.unwrap_or(ChosenBy::Times);
            let sides = SideTargets { cpu, gpu };
            table(&mut text, placed, sides, residents, chosen_by, shown);
        }
        text
    }

    /// The side of the plan: the GPU if any of it runs there.
    #[must_use]
    pub fn backend(&self) -> Backend {
        let on_gpu = self.sides.contains(&Backend::Gpu);
        if on_gpu { Backend::Gpu } else { Backend::Cpu }
    }

    /// The kernels in the order in which they run, each as the operations fused in it, joined by `+`.
    #[must_use]
    pub fn kernels(&self) -> &[String] {
        &self.kernels
    }

    /// The side of each kernel: all on one side, or on both if that is predicted to be faster.
    #[must_use]
    pub fn sides(&self) -> &[Backend] {
        &self.sides
    }

    /// The number of dispatches of the GPU (a reduction in parts takes two, a kernel of one's own one more that zeroes
    /// its result); one for a kernel on the host's cores.
    #[must_use]
    pub fn dispatches(&self) -> u64 {
        self.placed.pieces.iter().map(|plan| plan.dispatches()).sum()
    }

    /// Bytes of memory that a run holds at once: intermediates, results and residents.
    #[must_use]
    pub fn peak_bytes(&self) -> u64 {
        self.placed.peak_bytes()
    }

    /// Bytes that a [memory budget](crate::DeviceBuilder::memory_budget) counts for a run: buffers of the run, kept
    /// results, and on a GPU the host's memory for transfers. Residents and data of uploads do not count.
    #[must_use]
    pub fn budget_bytes(&self) -> u64 {
        self.placed.held_bytes()
    }

    /// Predicted seconds of a run.
    #[must_use]
    pub fn predicted_seconds(&self) -> f64 {
        self.placed.seconds()
    }

    /// The predicted seconds of each side that could run the whole graph, if there was a choice. The better one comes
    /// first; a plan for both sides may be better than either.
    pub fn predictions(&self) -> impl Iterator<Item = (Backend, f64)> {
        self.placed.sides.iter().map(|(side, time)| (*side, time.total()))
    }
}

impl fmt::Display for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let shown = if f.alternate() { ShownSteps::Every } else { ShownSteps::Folded };
        f.write_str(&self.text(shown))
    }
}

impl fmt::Debug for Explanation {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// A plan in a line.
fn head(plan: &Plan) -> String {
    let uploads = u64::from(plan.values.iter().any(|v| matches!(v.home, Home::Upload { .. })));
    let downloads = u64::from(!plan.downloads.is_empty());
    let dispatches = match plan.backend {
        Backend::Cpu => String::new(),
        Backend::Gpu => format!(" in {}", count(plan.dispatches(), "dispatch")),
    };
    let waves = match plan.waves.len() {
        0 => String::new(),
        waves => format!(" in {waves} waves"),
    };
    format!(
        "plan for {}: {}{}, {} ({}){}, {} ({}), peak {}, predicted {}",
        plan.backend,
        count(plan.steps.len() as u64, "kernel"),
        dispatches,
        count(uploads, "upload"),
        bytes(plan.bytes_up),
        waves,
        count(downloads, "download"),
        bytes(plan.bytes_down),
        bytes(plan.peak_bytes),
        seconds(plan.seconds),
    )
}

/// The prediction of each side, the origin of its figures, and the reason for the choice if there is one.
fn placed_by(placed: &PlacedGraph, chosen_by: Option<ChosenBy>, targets: &[Target]) -> String {
    let mut times: Vec<String> =
        placed.sides.iter().map(|(side, prediction)| prediction.text_for(*side)).collect();
    if let Pieces::Split(split) = &placed.pieces {
        times.insert(0, format!("both {}", seconds(split.seconds)));
    }
    if let Some(side) = placed.too_small {
        times.push(format!("no room on the {side}"));
    }
    let by = chosen_by.map_or(String::new(), |chosen_by| format!("placed {chosen_by}: "));
    let measured = targets.iter().all(|target| target.profile.measured);
    let figures = if measured {
        ""
    } else {
        " (by typical figures: `Device::calibrate` measures those of this device)"
    };
    format!("{by}{}{figures}", times.join("; "))
}

/// The values that other parts hand to this one.
fn supplies(page: &mut String, split: &Split, part: &SplitPart) {
    for (upload, supply) in part.uploads.iter().enumerate() {
        let Supply::Part(made) = supply else { continue };
        let is_it = |value: &&Value| matches!(value.home, Home::Upload { input, .. } if input as usize == upload);
        if let Some(value) = part.plan.values.iter().find(is_it) {
            let from = split.parts[made.part].phase;
            let _ = writeln!(
                page,
                "  {} {}{} comes from what runs {from}",
                value.op, value.dtype, value.shape
            );
        }
    }
}
