//! The table at the end of an explanation: the time of each step on both sides, the reason for its side, and each
//! transfer.

use std::fmt::Write as _;

use super::reasons::{PartReasons, parts_with_reasons};
use super::repeats::{kind, write_steps};
use super::transfers::transfers;
use crate::base::units::{bytes, seconds};
use crate::cost::Residence;
use crate::picture::repeats::ShownSteps;
use crate::plan::placement::chosen_by::ChosenBy;
use crate::plan::placement::split::SideTargets;
use crate::plan::{Phase, PlacedGraph};

/// Prints the time of these steps on both sides, the reason for their side, and each transfer.
pub(super) fn table(
    text: &mut String,
    placed: &PlacedGraph,
    sides: SideTargets<'_>,
    residents: &[Residence],
    chosen_by: ChosenBy,
    shown: ShownSteps,
) {
    let _ = writeln!(text, "  {:34} {:12} {:>8} {:>8}  why", "predicted", "side", "cpu", "gpu");
    let parts = parts_with_reasons(placed, sides, residents, chosen_by);
    for PartReasons { steps, phase, reasons } in &parts {
        let side =
            phase.map_or_else(|| steps.whole.backend.to_string(), |at| column(at).to_owned());
        let whole = steps.whole;
        let kinds = whole.steps.iter().zip(reasons);
        let kinds = kinds.map(|(step, why)| kind(whole, step, &why.to_string()));
        write_steps(text, &kinds.collect::<Vec<_>>(), shown, |text, at| {
            let (step, why) = (&whole.steps[at], &reasons[at]);
            let name = shortened(&format!("{}. {}", at + 1, step.label()));
            let [cpu, gpu] = [step.cost.seconds.cpu, step.cost.seconds.gpu].map(seconds);
            let _ = writeln!(text, "  {name:34} {side:12} {cpu:>8} {gpu:>8}  {why}");
        });
    }
    for moved in
        parts.iter().flat_map(|part| transfers(part.steps.whole, part.steps.part, sides.gpu))
    {
        let names: Vec<String> = moved.values.iter().map(|id| format!("v{}", id.0)).collect();
        let name = shortened(&format!("{} {}", moved.name, names.join(", ")));
        let (moved, time) = (bytes(moved.bytes), seconds(moved.seconds));
        let _ = writeln!(text, "  {name:34} {moved:12} {:>8} {time:>8}", "");
    }
}

fn column(phase: Phase) -> &'static str {
    match phase {
        Phase::Gpu => "gpu",
        Phase::Before => "cpu, before",
        Phase::Beside => "cpu, beside",
        Phase::After => "cpu, after",
    }
}

/// The name, cut to the width of its column.
fn shortened(name: &str) -> String {
    const MOST: usize = 34;
    if name.chars().count() <= MOST {
        return name.to_owned();
    }
    name.chars().take(MOST - 1).chain(['…']).collect()
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use crate::batch::{GpuCommandBatch, Tensor};
    use crate::cost::{Curve, Placement};
    use crate::device::Device;
    use crate::plan::Target;
    use crate::plan::explain::picture_tests::explanation;
    use crate::plan::placement::tests::{divided, targets};

    /// The explanation of a product of 64² and the operations that follow.
    fn page(
        targets: &[Target],
        placement: Placement,
        room: Option<u64>,
        follow: impl for<'b> Fn(Tensor<'b, f32>),
    ) -> String {
        let batch = GpuCommandBatch::new(&Device::cpu());
        let x = batch.upload_shaped(vec![0.0_f32; 64 * 64], [64, 64]);
        follow(x.matmul(x));
        explanation(&batch, targets, placement, room).to_string()
    }

    /// The line of the table that begins with `name`, without repeated spaces.
    fn line(page: &str, name: &str) -> String {
        let table = page.split("why\n").nth(1).expect("a table");
        let line = table.lines().find(|line| line.trim_start().starts_with(name)).expect(name);
        line.split_whitespace().collect::<Vec<_>>().join(" ")
    }

    fn sum(h: Tensor<'_, f32>) {
        h.sum(1);
    }

    #[test]
    fn a_step_stays_where_its_transfers_would_cost_more_than_it_saves() {
        let mut targets = divided();
        for target in &mut targets {
            let profile = Arc::make_mut(&mut target.profile);
            (profile.gpu.reduce, profile.gpu.download) = (Curve::flat(1e9), Curve::flat(1e6));
        }
        let page = page(&targets, Placement::Auto, None, sum);
        assert!(
            line(&page, "1. matmul").ends_with("predicted to be as fast here, or faster"),
            "{page}"
        );
        // 4 µs are saved; 16 KiB less 256 B at 1 MB/s, 16.1 ms, are not worth it.
        assert!(line(&page, "2. sum").ends_with("transfers would add 16.1 ms"), "{page}");
        assert_eq!(line(&page, "upload"), "upload v0 16.0 KiB 0 ns", "{page}");
        assert_eq!(line(&page, "download"), "download v2 256 B 256 µs", "{page}");
    }

    #[test]
    fn a_near_tie_goes_to_the_host_and_says_so() {
        let near = page(&targets(1.1, 1.0), Placement::Auto, None, sum);
        for step in ["1. matmul", "2. sum"] {
            let said = line(&near, step);
            assert!(said.ends_with("1.1 s 1.0 s a near tie: the gpu would save 200 ms"), "{near}");
        }
        let far = page(&targets(1.0, 1.1), Placement::Auto, None, sum);
        assert!(
            line(&far, "1. matmul").ends_with("predicted to be as fast here, or faster"),
            "{far}"
        );
    }

    #[test]
    fn a_step_between_two_on_the_gpu_stays_there() {
        let mut targets = divided();
        for target in &mut targets {
            Arc::make_mut(&mut target.profile).gpu.row = Curve::flat(1e9);
        }
        let page = page(&targets, Placement::Auto, None, |h| {
            let y = h.softmax(1);
            y.matmul(y);
        });
        assert!(line(&page, "2. softmax").ends_with("else a second trip"), "{page}");
    }

    #[test]
    fn what_was_asked_for_or_has_no_room_says_so() {
        let free = targets(1e-6, 2e-6);
        let asked = page(&free, Placement::Gpu, None, sum);
        let said = line(&asked, "2. sum");
        assert_eq!(said, "2. sum gpu 1.0 µs 2.0 µs asked for", "{asked}");
        let ruled = page(&free, Placement::Threshold(1), None, sum);
        assert!(line(&ruled, "1. matmul").ends_with("by the rule"), "{ruled}");
        let small = page(&targets(2e-6, 1e-6), Placement::Auto, Some(40_000), sum);
        assert!(line(&small, "1. matmul").ends_with("no room on the gpu"), "{small}");
        let alone = page(&free[..1], Placement::Auto, None, sum);
        assert!(!alone.contains("why") && !alone.contains("gpu"), "{alone}");
    }

    #[test]
    fn parts_say_what_they_hand_over() {
        let page = page(&divided(), Placement::Auto, None, |h| _ = h.softmax(1));
        assert!(line(&page, "1. matmul").contains(" gpu "), "{page}");
        assert!(line(&page, "1. softmax").contains(" cpu, after "), "{page}");
        assert_eq!(line(&page, "gpu → cpu"), "gpu → cpu v1 16.0 KiB 0 ns", "{page}");
        assert!(page.ends_with("0 ns\n"), "nothing is downloaded by the user: {page}");
    }
}
