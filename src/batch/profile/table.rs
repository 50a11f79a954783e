//! A profile as text: a table of kinds of kernels where several are alike, and one of kernels.

use std::fmt;
use std::time::Duration;

use super::{KernelKind, KernelProfile, Profile, StageProfile};
use crate::base::shape::Shape;
use crate::base::units::{self, bytes, count, seconds};
use crate::picture::fold::hash;
use crate::picture::repeats::{ShownSteps, StepLine, fold_steps};
use crate::session::RunStats;

/// From this many arithmetic operations a byte, the rate of a kernel is printed in operations.
const INTENSE: u64 = 8;

const KERNELS: [&str; 9] =
    ["kernel", "form", "shapes", "place", "time", "predicted", "bytes", "rate", "share"];
const KINDS: [&str; 7] = ["kernels alike", "form", "shapes", "count", "time", "rate", "share"];

impl Profile {
    /// The profile in a line.
    pub(super) fn heading(&self) -> String {
        let time = self.kernel_time().map_or_else(|| "not known".into(), short);
        format!(
            "profile on {} ({}): {}, {time} in kernels; first copy to last result {} (predicted {})",
            self.device,
            self.backend,
            count(self.kernels.len() as u64, "kernel"),
            short(self.stats.run_time),
            short(self.stats.predicted_time),
        )
    }

    /// The reasons why other runs may be faster.
    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = Vec::new();
        if cfg!(debug_assertions) {
            notes.push("built with debug assertions: a release build is faster".to_owned());
        }
        let RunStats { pipelines_compiled, pool_misses, .. } = self.stats;
        let work = [
            (pipelines_compiled, format!("compiled {}", count(pipelines_compiled, "pipeline"))),
            (pool_misses, format!("allocated {}", count(pool_misses, "buffer"))),
        ];
        let work: Vec<_> = work.into_iter().filter(|(n, _)| *n > 0).map(|(_, text)| text).collect();
        if !work.is_empty() {
            notes.push(format!(
                "this run {}: runs that find all in place take less time",
                work.join(" and ")
            ));
        }
        notes
    }
}

impl fmt::Display for Profile {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        writeln!(f, "{}", self.heading())?;
        for note in self.notes() {
            writeln!(f, "  {note}")?;
        }
        let kinds = self.kinds();
        if kinds.len() < self.kernels.len() {
            table(f, KINDS, 3, kinds.iter().map(|kind| TableLine::Row(kind_row(kind))))?;
        }
        let shown = if f.alternate() { ShownSteps::Every } else { ShownSteps::Folded };
        let lines = fold_steps(&row_hashes(&self.kernels), shown);
        let whole: Duration = self.kernels.iter().filter_map(|kernel| kernel.time).sum();
        let lines = lines.into_iter().map(|line| match line {
            StepLine::Step(at) => TableLine::Row(kernel_row(&self.kernels[at], whole)),
            StepLine::Copies(repeat) => {
                let copies = self.kernels[repeat.copies.clone()].iter();
                let time: Option<Duration> = copies.map(|kernel| kernel.time).sum();
                let time = time.map_or(String::new(), |time| format!(": {}", short(time)));
                TableLine::Copies(repeat.line("kernel") + &time)
            }
        });
        table(f, KERNELS, 4, lines)?;
        f.write_str(&stage_lines(&self.stages).join("\n"))
    }
}

/// A line for each stage, indented below the stages that it lies in. Copies of the GPU may lie in a stage of the host;
/// nothing lies in them.
fn stage_lines(stages: &[StageProfile]) -> Vec<String> {
    let end = |stage: &StageProfile| stage.start + stage.time;
    // The outer of two stages that begin at once ended, and was noted, last.
    let mut sorted: Vec<&StageProfile> = stages.iter().rev().collect();
    sorted.sort_by_key(|stage| (stage.start, std::cmp::Reverse(stage.time)));
    let mut around: Vec<&StageProfile> = Vec::new();
    let mut lines = Vec::with_capacity(stages.len());
    for stage in sorted {
        around.retain(|outer| end(outer) > stage.start);
        let depth = around.iter().filter(|outer| end(outer) >= end(stage)).count();
        let side = if stage.on_gpu { "gpu " } else { "" };
        let (indent, time) = (2 * depth, short(stage.time));
        lines.push(format!("  {:indent$}{side}{} {time}", "", stage.stage));
        if !stage.on_gpu {
            around.push(stage);
        }
    }
    lines
}

/// A line of a table.
enum TableLine<const N: usize> {
    Row([String; N]),
    /// The text in place of rows like those before.
    Copies(String),
}

/// The hash of each kernel's row without what was measured: rows of equal hashes differ in times alone.
fn row_hashes(kernels: &[KernelProfile]) -> Vec<u64> {
    let row_hash = |of: &KernelProfile| {
        let what = (&of.kernel, of.form, &of.place, &of.inputs, &of.outputs, of.backend);
        hash(&(what, of.predicted, of.flops, of.bytes))
    };
    kernels.iter().map(row_hash).collect()
}

/// Writes lines under their `head`. The first `names` columns start at the left, the others end at the right.
fn table<const N: usize>(
    f: &mut fmt::Formatter<'_>,
    head: [&str; N],
    names: usize,
    lines: impl Iterator<Item = TableLine<N>>,
) -> fmt::Result {
    let head = TableLine::Row(head.map(str::to_owned));
    let lines: Vec<TableLine<N>> = std::iter::once(head).chain(lines).collect();
    let width = |at: usize| {
        let of = |line: &TableLine<N>| match line {
            TableLine::Row(row) => row[at].chars().count(),
            TableLine::Copies(_) => 0,
        };
        lines.iter().map(of).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..N).map(width).collect();
    for line in &lines {
        let row = match line {
            TableLine::Row(row) => row,
            TableLine::Copies(text) => {
                writeln!(f, "{text}")?;
                continue;
            }
        };
        for (at, (cell, width)) in row.iter().zip(&widths).enumerate() {
            match at < names {
                true => write!(f, "  {cell:<width$}")?,
                false => write!(f, "  {cell:>width$}")?,
            }
        }
        writeln!(f)?;
    }
    Ok(())
}

fn unknown() -> String {
    "-".to_owned()
}

fn kernel_row(kernel: &KernelProfile, whole: Duration) -> [String; KERNELS.len()] {
    let share = |time: Duration| match whole.is_zero() {
        true => unknown(),
        false => percent(time.as_secs_f64() / whole.as_secs_f64()),
    };
    let rate = |time| rate(kernel.flops, kernel.bytes, time);
    [
        kernel.kernel.clone(),
        kernel.form.to_owned(),
        shapes(&kernel.inputs, &kernel.outputs),
        kernel.place.clone(),
        kernel.time.map_or_else(unknown, short),
        short(kernel.predicted),
        bytes(kernel.bytes),
        kernel.time.and_then(rate).unwrap_or_else(unknown),
        kernel.time.map_or_else(unknown, share),
    ]
}

fn kind_row(kind: &KernelKind) -> [String; KINDS.len()] {
    let rate = |time| rate(kind.flops, kind.bytes, time);
    [
        kind.kernel.clone(),
        kind.form.to_owned(),
        shapes(&kind.inputs, &kind.outputs),
        kind.count.to_string(),
        kind.time.map_or_else(unknown, short),
        kind.time.and_then(rate).unwrap_or_else(unknown),
        kind.share.map_or_else(unknown, percent),
    ]
}

/// `[64, 784] [784, 128] → [64, 128]`
fn shapes(inputs: &[Shape], outputs: &[Shape]) -> String {
    let list = |shapes: &[Shape]| shapes.iter().map(Shape::to_string).collect::<Vec<_>>().join(" ");
    format!("{} → {}", list(inputs), list(outputs)).trim_start().to_owned()
}

fn percent(share: f64) -> String {
    format!("{:.1} %", 100.0 * share)
}

/// The rate of arithmetic or of memory, whichever the kernel is bound by.
fn rate(flops: u64, bytes: u64, time: Duration) -> Option<String> {
    let (n, unit) = match flops >= INTENSE.saturating_mul(bytes) {
        true => (flops, "FLOP"),
        false => (bytes, "B"),
    };
    (!time.is_zero()).then(|| units::rate(n as f64 / time.as_secs_f64(), unit))
}

fn short(time: Duration) -> String {
    seconds(time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::Backend;

    #[test]
    fn rows_that_differ_in_times_alone_are_alike() {
        let row = |micros, bytes, predicted| KernelProfile {
            kernel: "neg".into(),
            form: "map",
            place: "here:1".into(),
            inputs: vec![[4, 2].into()],
            outputs: vec![[4, 2].into()],
            backend: Backend::Cpu,
            dispatches: 1,
            start: Some(Duration::from_micros(3 * micros)),
            time: Some(Duration::from_micros(micros)),
            predicted: Duration::from_micros(predicted),
            flops: 0,
            bytes,
        };
        // The third one has elements of half the size, as the bytes tell.
        let hashes = row_hashes(&[row(1, 64, 5), row(2, 64, 5), row(1, 32, 5), row(1, 64, 6)]);
        assert_eq!(hashes[0], hashes[1]);
        assert!(hashes[0] != hashes[2] && hashes[0] != hashes[3]);
    }

    #[test]
    fn stages_are_indented_below_those_that_they_lie_in() {
        let stage = |stage, on_gpu, start, time| {
            let [start, time] = [start, time].map(Duration::from_micros);
            StageProfile { stage, on_gpu, start, time }
        };
        let profiled = [
            stage("choose", false, 0, 2),
            stage("execute", false, 0, 100),
            stage("run", false, 2, 90),
            stage("compute", false, 10, 80),
            stage("upload", true, 20, 5),
            stage("inner", false, 21, 2),
            stage("download", false, 100, 7),
        ];
        let want = [
            "  execute 100 µs",
            "    choose 2.0 µs",
            "    run 90.0 µs",
            "      compute 80.0 µs",
            "        gpu upload 5.0 µs",
            "        inner 2.0 µs",
            "  download 7.0 µs",
        ];
        assert_eq!(stage_lines(&profiled), want);
    }
}
