//! Tables of times: kernels with the reasons for their sides, transfers, and the stages of a run.

use super::cards::{name, side, ties};
use super::data::{Stage, Transfer};
use super::drawn::Drawn;
use super::fold::Item;
use super::markup::{Attribute, Markup};
use super::words::percent;
use crate::base::units::{bytes, seconds};

/// Values of a transfer, and stages of a run, that are listed.
const LISTED: usize = 12;
const STAGES: usize = 80;

/// A row of the table of kernels: times are of all members together.
struct Times {
    predicted: f64,
    elsewhere: Option<f64>,
    measured: Option<f64>,
}

impl Times {
    fn of(drawn: &Drawn<'_>, item: &Item) -> Self {
        let members = || item.members.iter().map(|&at| &drawn.picture.kernels[at]);
        Self {
            predicted: members().map(|kernel| kernel.predicted).sum(),
            elsewhere: members().map(|kernel| kernel.elsewhere).sum(),
            measured: members().filter_map(|kernel| kernel.measured).reduce(|a, b| a + b),
        }
    }
}

/// The table of kernels.
pub(super) fn kernels(out: &mut Markup, drawn: &Drawn<'_>) {
    let operations = drawn.operations_of_kernels();
    let rows: Vec<Times> = drawn.kernels.iter().map(|item| Times::of(drawn, item)).collect();
    let is_measured = rows.iter().any(|row| row.measured.is_some());
    let has_other = rows.iter().any(|row| row.elsewhere.is_some());
    let longest = rows.iter().map(|row| row.predicted.max(row.measured.unwrap_or(0.0)));
    let longest = longest.fold(0.0, f64::max);
    let mut heads = vec!["kernel", "side", "predicted"];
    if is_measured {
        heads.push("measured");
    }
    heads.push("time");
    if has_other {
        heads.push("other side");
    }
    heads.push("reason");
    table(out, &heads, |out| {
        for (at, (item, times)) in drawn.kernels.iter().zip(&rows).enumerate() {
            let [id, with, hue] = ties(drawn, at, &operations[at]);
            let attributes: [Attribute<'_>; 3] =
                [("data-is", &id), ("data-with", &with), ("style", &hue)];
            out.element("tr", &attributes, |out| {
                out.element("th", &[("scope", &"row")], |out| {
                    let target = format!("#{id}");
                    out.leaf("a", &[("href", &target)], name(drawn, item));
                });
                cell(out, "side", |out| side(out, &drawn.picture.kernels[item.members[0]]));
                number(out, "predicted", Some(times.predicted));
                if is_measured {
                    number(out, "measured", times.measured);
                }
                cell(out, "time", |out| {
                    bar(out, "predicted", 0.0, times.predicted / longest);
                    if let Some(measured) = times.measured {
                        bar(out, "measured", 0.0, measured / longest);
                    }
                });
                if has_other {
                    number(out, "other side", times.elsewhere);
                }
                cell(out, "reason", |out| out.text(reason(drawn, item)));
            });
        }
    });
}

/// The reason for the side of all members, or of the first.
fn reason(drawn: &Drawn<'_>, item: &Item) -> String {
    let reason = |at: usize| &drawn.picture.kernels[at].reason;
    let first = reason(item.members[0]);
    let others = item.members.iter().filter(|&&at| reason(at) != first).count();
    match others {
        0 => first.clone(),
        others => format!("{first}; {others} for other reasons"),
    }
}

/// The table of transfers.
pub(super) fn transfers(out: &mut Markup, drawn: &Drawn<'_>) {
    table(out, &["transfer", "values", "bytes", "predicted"], |out| {
        for Transfer { name, part, values, bytes: moved, seconds: time } in &drawn.picture.transfers
        {
            out.element("tr", &[], |out| {
                out.leaf("th", &[("scope", &"row")], name);
                cell(out, "values", |out| {
                    let stored = &drawn.picture.parts[*part].values;
                    let listed = values.iter().take(LISTED);
                    let listed = listed.map(|&at| format!("v{at} {}", stored[at].ty));
                    out.text(listed.collect::<Vec<_>>().join(", "));
                    if values.len() > LISTED {
                        out.text(format_args!(" and {} more", values.len() - LISTED));
                    }
                });
                cell(out, "bytes", |out| out.text(bytes(*moved)));
                number(out, "predicted", Some(*time));
            });
        }
    });
}

/// The stages of a run, on a line of time.
pub(super) fn stages(out: &mut Markup, stages: &[Stage]) {
    let end = stages.iter().map(|stage| stage.start + stage.seconds).fold(0.0, f64::max);
    table(out, &["stage", "start", "time", "from start to end"], |out| {
        for Stage { name, on_gpu, start, seconds } in stages.iter().take(STAGES) {
            out.element("tr", &[], |out| {
                let on = if *on_gpu { " on the gpu" } else { "" };
                out.leaf("th", &[("scope", &"row")], format_args!("{name}{on}"));
                number(out, "start", Some(*start));
                number(out, "time", Some(*seconds));
                cell(out, "from start to end", |out| {
                    bar(out, "measured", start / end, seconds / end);
                });
            });
        }
    });
    if stages.len() > STAGES {
        let more = format!("{} later stages are not shown.", stages.len() - STAGES);
        out.leaf("p", &[("class", &"soft")], more);
    }
}

fn table(out: &mut Markup, heads: &[&str], rows: impl FnOnce(&mut Markup)) {
    out.element("table", &[], |out| {
        out.element("thead", &[], |out| {
            out.element("tr", &[], |out| {
                for head in heads {
                    let class = format!("head-{}", head.split(' ').next().unwrap_or_default());
                    out.leaf("th", &[("scope", &"col"), ("class", &class)], head);
                }
            });
        });
        out.element("tbody", &[], rows);
    });
}

fn cell(out: &mut Markup, head: &str, inside: impl FnOnce(&mut Markup)) {
    out.element("td", &[("data-head", &head)], inside);
}

fn number(out: &mut Markup, head: &str, time: Option<f64>) {
    let attributes: [Attribute<'_>; 2] = [("class", &"number"), ("data-head", &head)];
    out.element("td", &attributes, |out| match time {
        Some(time) => out.text(seconds(time)),
        None => out.text("–"),
    });
}

fn bar(out: &mut Markup, class: &str, start: f64, share: f64) {
    out.element("div", &[("class", &"track")], |out| {
        let class = format!("bar {class}");
        let style = format!("left:{};width:{}", percent(start), percent(share));
        out.element("div", &[("class", &class), ("style", &style)], |_| {});
    });
}
