//! The page: the graph beside its kernels, times and reasons, memory, and transfers.

use super::data::Picture;
use super::drawn::Drawn;
use super::markup::{Attribute, Markup};
use super::{cards, graph, memory, tables};
use crate::base::units::count;

const STYLE: &str = include_str!("page.css");
/// The script lights up everything that belongs to the element under the pointer or the focus.
const SCRIPT: &str = include_str!("page.js");

impl Picture {
    /// One page with everything that it needs.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

fn page(picture: &Picture) -> String {
    let drawn = Drawn::new(picture);
    let mut out = Markup::default();
    out.verbatim("<!DOCTYPE html>\n");
    out.element("html", &[("lang", &"en")], |out| {
        out.element("head", &[], |out| {
            out.empty("meta", &[("charset", &"utf-8")]);
            let viewport: [Attribute<'_>; 2] =
                [("name", &"viewport"), ("content", &"width=device-width, initial-scale=1")];
            out.empty("meta", &viewport);
            out.leaf("title", &[], &picture.title);
            out.element("style", &[], |out| {
                out.verbatim(graph::STYLE);
                out.verbatim(STYLE);
            });
        });
        out.element("body", &[], |out| {
            body(out, &drawn);
            out.element("script", &[], |out| out.verbatim(SCRIPT));
        });
    });
    out.finish()
}

fn body(out: &mut Markup, drawn: &Drawn<'_>) {
    let Picture { title, heading, operations, kernels, parts, transfers, stages } = drawn.picture;
    out.element("header", &[], |out| {
        out.leaf("h1", &[], title);
        heading.iter().for_each(|line| out.leaf("p", &[], line));
    });
    out.element("main", &[], |out| {
        out.element("div", &[("class", &"split")], |out| {
            section(
                out,
                "The recorded graph",
                &count(operations.len() as u64, "operation"),
                |out| {
                    pane(out, "The recorded graph", |out| graph::linked(out, drawn));
                    legend(out, drawn);
                },
            );
            section(out, "The kernels", &count(kernels.len() as u64, "kernel"), |out| {
                pane(out, "The kernels", |out| cards::cards(out, drawn));
            });
        });
        if !kernels.is_empty() {
            let is_measured = kernels.iter().any(|kernel| kernel.measured.is_some());
            let times = if is_measured { "predicted and measured" } else { "predicted" };
            section(out, "Times and sides", times, |out| tables::kernels(out, drawn));
        }
        if !transfers.is_empty() {
            let transfers = count(transfers.len() as u64, "transfer");
            section(out, "Transfers", &transfers, |out| tables::transfers(out, drawn));
        }
        section(out, "Memory over time", "from the first kernel to the results", |out| {
            for part in parts {
                if parts.len() > 1 {
                    out.leaf("h3", &[], &part.title);
                }
                memory::memory(out, drawn, part);
            }
        });
        if !stages.is_empty() {
            let number = count(stages.len() as u64, "stage");
            section(out, "Stages of the run", &number, |out| tables::stages(out, stages));
        }
    });
}

fn section(out: &mut Markup, title: &str, facts: &str, inside: impl FnOnce(&mut Markup)) {
    out.element("section", &[], |out| {
        out.element("h2", &[], |out| {
            out.text(title);
            out.text(" ");
            out.leaf("small", &[], facts);
        });
        inside(out);
    });
}

/// A part of the page that scrolls by itself.
fn pane(out: &mut Markup, label: &str, inside: impl FnOnce(&mut Markup)) {
    let attributes: [Attribute<'_>; 4] =
        [("class", &"pane"), ("tabindex", &"0"), ("role", &"region"), ("aria-label", &label)];
    out.element("div", &attributes, inside);
}

fn legend(out: &mut Markup, drawn: &Drawn<'_>) {
    out.element("p", &[("class", &"soft")], |out| {
        out.text(
            "Operations of one colour are one kernel. Round: data. Dashed: a view or a number in \
             the kernels that read it. Dotted: nothing is computed. A thick frame: a result. ",
        );
        out.text("×: operations alike, drawn once.");
        if drawn.is_joined() {
            out.text(
                " The graph is large: neighbours that differ are joined, and not all links drawn.",
            );
        }
    });
}
