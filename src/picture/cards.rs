//! The kernels, each with the operations fused in it and the kernels that it is not one with.

use super::data::{Kernel, Part};
use super::drawn::Drawn;
use super::fold::Item;
use super::graph;
use super::markup::{Attribute, Markup};
use super::words::value;
use crate::base::units::{bytes, count, quantity};

/// Operations of a kernel, and values, that are listed.
const LISTED: usize = 24;

/// A list of all items of kernels.
pub(super) fn cards(out: &mut Markup, drawn: &Drawn<'_>) {
    let operations = drawn.operations_of_kernels();
    for part in &drawn.picture.parts {
        if drawn.picture.parts.len() > 1 && !part.kernels.is_empty() {
            out.leaf("h3", &[], &part.title);
        }
        out.element("ol", &[("class", &"cards")], |out| {
            for (at, item) in drawn.kernels.iter().enumerate() {
                if part.kernels.contains(&item.members[0]) {
                    card(out, drawn, part, (at, item), &operations[at]);
                }
            }
        });
    }
}

/// The attributes that tie an element to an item of kernels.
pub(super) fn ties(drawn: &Drawn<'_>, at: usize, operations: &[usize]) -> [String; 3] {
    let with: Vec<String> = operations.iter().map(|&item| drawn.operation_id(item)).collect();
    [drawn.kernel_id(at), with.join(" "), format!("--h:{}", Drawn::hue(at))]
}

fn card(
    out: &mut Markup,
    drawn: &Drawn<'_>,
    part: &Part,
    (at, item): (usize, &Item),
    operations: &[usize],
) {
    let kernel = &drawn.picture.kernels[item.members[0]];
    let [id, with, hue] = ties(drawn, at, operations);
    let attributes: [Attribute<'_>; 6] = [
        ("id", &id),
        ("class", &"card"),
        ("tabindex", &"0"),
        ("style", &hue),
        ("data-is", &id),
        ("data-with", &with),
    ];
    out.element("li", &attributes, |out| {
        out.leaf("h4", &[], name(drawn, item));
        out.element("p", &[], |out| {
            side(out, kernel);
            out.text(facts(kernel));
        });
        out.element("p", &[("class", &"ops")], |out| {
            for &operation in operations.iter().take(LISTED) {
                let target = format!("#{}", drawn.operation_id(operation));
                let item = &drawn.operations[operation];
                let name = graph::name(item, &drawn.picture.operations[item.members[0]]);
                out.leaf("a", &[("href", &target)], name);
                out.text(" ");
            }
            more(out, operations.len());
        });
        values(out, "reads", part, &kernel.reads);
        values(out, "writes", part, &kernel.writes);
        for (other, why) in &kernel.not_fused_with {
            out.element("p", &[("class", &"not-fused")], |out| {
                out.text("not fused with ");
                let target = format!("#{}", drawn.kernel_id(drawn.kernel_item(*other)));
                out.leaf("a", &[("href", &target)], format_args!("kernel {}", other + 1));
                out.text(format_args!(": {why}"));
            });
        }
        out.leaf("p", &[("class", &"soft")], format_args!("recorded at {}", kernel.place));
    });
}

/// The name of an item of kernels.
pub(super) fn name(drawn: &Drawn<'_>, item: &Item) -> String {
    let first = item.members[0];
    let label = &drawn.picture.kernels[first].label;
    match (item.members.len(), item.is_repeat) {
        (1, _) => format!("{}. {label}", first + 1),
        (many, true) => format!("{}. {label} ×{many}", first + 1),
        (many, false) => format!("{}. {label} and {} more", first + 1, many - 1),
    }
}

/// The side as a tag.
pub(super) fn side(out: &mut Markup, kernel: &Kernel) {
    let side = kernel.side.to_string();
    let class = format!("side {side}");
    out.leaf("span", &[("class", &class)], side);
}

fn facts(kernel: &Kernel) -> String {
    let mut facts = vec![kernel.form.to_owned()];
    if kernel.dispatches > 1 {
        facts.push(count(kernel.dispatches, "dispatch"));
    }
    facts.extend(kernel.flops.map(|flops| format!("{} flops", quantity(flops))));
    facts.push(format!("{} read", bytes(kernel.bytes_read)));
    facts.push(format!("{} written", bytes(kernel.bytes_written)));
    format!(" {}", facts.join(" · "))
}

fn values(out: &mut Markup, verb: &str, part: &Part, values: &[usize]) {
    if values.is_empty() {
        return;
    }
    out.element("p", &[("class", &"values")], |out| {
        out.text(format_args!("{verb} "));
        let listed = values.iter().take(LISTED);
        let listed: Vec<String> = listed.map(|&at| value(at, &part.values[at])).collect();
        out.text(listed.join(", "));
        more(out, values.len());
    });
}

fn more(out: &mut Markup, all: usize) {
    if all > LISTED {
        out.text(format_args!(" and {} more", all - LISTED));
    }
}
