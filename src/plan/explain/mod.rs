//! [`Explanation`]: a plan as text that a person understands, with its predicted times and the reasons for its sides.
//! The files beside this one have its text, its table of sides, the reasons, the transfers, and its picture.

mod drawing;
mod not_fused;
mod operations;
#[cfg(test)]
mod picture_tests;
mod reasons;
mod side_table;
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
use crate::plan::placement::chosen_by::ChosenBy;
use crate::plan::placement::split::SideTargets;

/// The kernels that will run, their sides and the reasons. Prints as text, which is written only then, by
/// `Debug` too; [`to_html`](Self::to_html) is a page of HTML.
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
        let budget = format!("a memory budget counts {held} for a run");
        vec![first, placed_by(&self.placed, self.chosen_by, &self.targets), budget]
    }

    fn text(&self) -> String {
        let Self { placed, chosen_by, residents, graph, .. } = self;
        let names = value_names(graph, placed, &self.names);
        let page = |plan: &Plan, text: &mut String| {
            let target = self.target(plan.backend);
            let limits = target.map_or_else(Limits::cpu, |target| target.limits.clone());
            Printer::new(plan, &limits, &names).print(text);
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
            table(&mut text, placed, SideTargets { cpu, gpu }, residents, chosen_by);
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

    /// The number of dispatches of the GPU (a reduction in parts takes two); one for a kernel on the host's cores.
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
        f.write_str(&self.text())
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
        placed.sides.iter().map(|(side, prediction)| format!("{side} {prediction}")).collect();
    if let Pieces::Split(split) = &placed.pieces {
        times.insert(0, format!("both {}", seconds(split.seconds)));
    }
    if let Some(side) = placed.too_small {
        times.push(format!("no room on the {side}"));
    }
    let by = chosen_by.map_or(String::new(), |chosen_by| format!("placed by {chosen_by}: "));
    let measured = targets.iter().all(|target| target.profile.measured);
    let figures = if measured { "" } else { " (by typical figures, none were measured)" };
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::batch::GpuCommandBatch;
    use crate::cost::DeviceProfile;
    use crate::device::Device;
    use crate::methods::Pool2d;
    use crate::ops::SortOrder;
    use crate::plan::plan;

    fn page(backend: Backend, record: impl FnOnce(&GpuCommandBatch)) -> String {
        let batch = GpuCommandBatch::new(&Device::cpu());
        record(&batch);
        let limits = if backend == Backend::Cpu { Limits::cpu() } else { Limits::webgpu() };
        let profile = DeviceProfile::typical(16).into();
        let target = Target { backend, limits, profile };
        let plan = plan(&batch.recorded().graph, &target).expect("a sound graph");
        let mut text = head(&plan) + "\n";
        let names = batch.recorded().names.by_node();
        let names = names.into_iter().map(|(node, name)| (node, vec![name])).collect();
        Printer::new(&plan, &target.limits, &names).print(&mut text);
        text
    }

    #[test]
    fn many_uploads_take_a_line() {
        let page = page(Backend::Cpu, |batch| {
            let mut sum = batch.upload(&[1.0_f32; 4]);
            for count in 1..=100 {
                sum = sum + batch.upload_shaped(vec![0.5_f32; 4 * count], [count, 4]).sum(0);
            }
        });
        let uploads: Vec<&str> = page.lines().filter(|line| line.contains("upload")).collect();
        assert_eq!(uploads.len(), 2, "{page}");
        let line = uploads[1];
        assert!(line.starts_with("  101 uploads (78.9 KiB): the largest v"), "{line}");
        assert!(line.contains(" f32[100, 4] (1.6 KiB) at "), "{line}");
        assert!(page.contains(" ← v0 f32[2, 4]\n"), "a kernel says the shape of an upload: {page}");
    }

    #[test]
    fn a_plan_for_the_host_has_no_dispatches_and_a_sort_no_flops() {
        let sort = |batch: &GpuCommandBatch| {
            batch.upload_shaped(vec![0.5_f32; 1 << 20], 1 << 20).sort(0, SortOrder::Ascending);
        };
        let (cpu, gpu) = (page(Backend::Cpu, sort), page(Backend::Gpu, sort));
        assert!(cpu.starts_with("plan for cpu: 1 kernel, 1 upload"), "{cpu}");
        assert!(gpu.starts_with("plan for gpu: 1 kernel in 48 dispatches, 1 upload"), "{gpu}");
        for page in [cpu, gpu] {
            assert!(page.contains(": 1.0 M elements, 4.0 MiB read"), "{page}");
            assert!(!page.contains("flops"), "{page}");
        }
    }

    #[test]
    fn kernels_that_do_not_fuse_say_why() {
        let reasons = |record: fn(&GpuCommandBatch)| {
            let page = page(Backend::Cpu, record);
            let lines = page.lines().filter_map(|line| line.strip_prefix("     not fused with "));
            lines.map(str::to_owned).collect::<Vec<_>>()
        };
        assert_eq!(reasons(|batch| _ = batch.exp(batch.upload(&[1.0_f32])).neg()), [""; 0]);
        let two = reasons(|batch| {
            batch.sum(batch.upload_shaped(&[0.5_f32; 12], [3, 4]), 0).softmax(0);
        });
        assert_eq!(two, ["1: a reduction and a row operation take a kernel each"]);
        let result = reasons(|batch| {
            let y = batch.upload_shaped(&[0.5_f32; 12], [3, 4]).exp();
            batch.download(y);
            y.sum(0).download();
        });
        assert_eq!(result, ["1: v1 is a result"]);
        let broadcast = reasons(|batch| {
            let x = batch.upload_shaped(&[0.5_f32; 12], [3, 4]);
            let _ = x - x.sum(0);
        });
        assert_eq!(broadcast, ["1: v1 is broadcast"]);
        let own = reasons(|batch| {
            let x = batch.upload(&[0.5_f32; 4]).exp();
            let source = "@group(0) @binding(0) var<storage, read> x: array<f32>;
                @group(0) @binding(1) var<storage, read_write> y: array<f32>;
                @compute @workgroup_size(1) fn main() { y[0] = x[0]; }";
            let twin = |x: &[f32], y: &mut [f32]| y[0] = x[0];
            let kernel = crate::Wgsl::new(source).input(x).groups([1, 1, 1]).on_cpu(twin);
            batch.wgsl::<f32>(kernel, 1).neg();
        });
        assert_eq!(
            own,
            ["1: a kernel of your own does not fuse", "2: a kernel of your own does not fuse"]
        );
        let table = reasons(|batch| {
            let rows = batch.upload(&[1_u32, 0]);
            let _ = batch.upload_shaped(&[0.5_f32; 12], [3, 4]).exp().gather(rows, 0);
        });
        assert_eq!(table, ["1: v2 is looked up in memory"]);
    }

    #[test]
    fn maps_say_which_kernel_runs() {
        let kernel = |record: fn(&GpuCommandBatch)| {
            let page = page(Backend::Gpu, record);
            page.lines().find(|line| line.starts_with("  1. ")).expect("a kernel").to_owned()
        };
        let chain = kernel(|batch| _ = batch.upload(&[1.0_f32; 64]).relu());
        assert_eq!(chain, "  1. relu (map)");
        let transposed = kernel(|batch| {
            let x = batch.upload_shaped(vec![1.0_f32; 64 * 64], [64, 64]);
            let _ = x + x.transpose();
        });
        assert!(transposed.ends_with(" (map, transposing tiles)"), "{transposed}");
        // Few long windows: the host's loop that slides has no counterpart on a GPU.
        let pooled = kernel(|batch| {
            let image = batch.upload_shaped(vec![1.0_f32; 64 * 64], [1, 1, 64, 64]);
            image.avg_pool2d(Pool2d::new([33, 33])).download();
        });
        assert!(pooled.contains(" (reduce") && !pooled.contains("sliding"), "{pooled}");
        let rows = kernel(|batch| {
            let table = batch.upload_shaped(vec![1.0_f32; 1000 * 64], [1000, 64]);
            let index = batch.upload_shaped(vec![1_u32; 100], 100);
            batch.gather(table, index, 0);
        });
        assert!(rows.ends_with(" (map, vector look-ups)"), "{rows}");
    }
}
