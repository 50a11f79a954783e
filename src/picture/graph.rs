//! The recorded graph as SVG: operands above their users, the operations of one kernel in one colour.

use std::fmt::Write as _;

use super::data::{Fate, Operation, Picture};
use super::drawn::Drawn;
use super::fold::Item;
use super::layered::{Layout, Sizes, layout};
use super::markup::{Attribute, Markup};
use super::words::{fitted, kernels, short_place};

/// The colours and shapes of a graph, for the page and for a graph alone.
pub(super) const STYLE: &str = include_str!("graph.css");

/// Width and height of a node, and the height of a row, in pixels.
const WIDTH: f64 = 158.0;
const HEIGHT: f64 = 50.0;
const ROW: f64 = 80.0;
const MARGIN: f64 = 10.0;
/// Letters of a line in a node.
const LETTERS: usize = 23;

impl Picture {
    /// The recorded graph alone.
    pub fn to_svg(&self) -> String {
        let mut out = Markup::default();
        graph(&mut out, &Drawn::new(self), &self.title, false);
        out.finish()
    }
}

/// The graph in a page whose kernels it links to.
pub(super) fn linked(out: &mut Markup, drawn: &Drawn<'_>) {
    graph(out, drawn, "The recorded graph", true);
}

fn graph(out: &mut Markup, drawn: &Drawn<'_>, title: &str, is_linked: bool) {
    let lines = drawn.lines();
    let sizes = Sizes { node: WIDTH, line: 12.0, gap: 14.0 };
    let layout = layout(drawn.operations.len(), &lines, sizes);
    let width = (layout.width + 2.0 * MARGIN).ceil();
    let height = (layout.rows as f64 * ROW - (ROW - HEIGHT) + 2.0 * MARGIN).max(0.0);
    let frame = format!("0 0 {width} {height}");
    let attributes: [Attribute<'_>; 7] = [
        ("xmlns", &"http://www.w3.org/2000/svg"),
        ("class", &"graph"),
        ("width", &width),
        ("height", &height),
        ("viewBox", &frame),
        ("role", &if is_linked { "group" } else { "img" }),
        ("aria-label", &title),
    ];
    out.element("svg", &attributes, |out| {
        if !is_linked {
            out.leaf("title", &[], title);
            out.element("style", &[], |out| out.verbatim(STYLE));
        }
        layout.lines.iter().for_each(|way| line(out, way));
        for (at, item) in drawn.operations.iter().enumerate() {
            node(out, drawn, &layout, (at, item), is_linked);
        }
    });
}

fn x(across: f64) -> f64 {
    MARGIN + across
}

fn top(row: usize) -> f64 {
    MARGIN + row as f64 * ROW
}

/// A line from the lower edge of its first node to the upper edge of its last one.
fn line(out: &mut Markup, way: &[(f64, usize)]) {
    let Some(&(across, row)) = way.first() else { return };
    let (mut from, mut y) = (x(across), top(row) + HEIGHT);
    let mut path = format!("M{from:.1} {y:.1}");
    for &(across, row) in &way[1..] {
        let (to, end) = (x(across), top(row));
        let middle = (y + end) / 2.0;
        let _ = write!(path, "C{from:.1} {middle:.1} {to:.1} {middle:.1} {to:.1} {end:.1}");
        let _ = write!(path, "V{:.1}", end + HEIGHT);
        (from, y) = (to, end + HEIGHT);
    }
    // The last part would lead through the node.
    let end = path.rfind('V').unwrap_or(path.len());
    path.truncate(end);
    out.empty("path", &[("class", &"line"), ("d", &path)]);
}

fn node(
    out: &mut Markup,
    drawn: &Drawn<'_>,
    layout: &Layout,
    (at, item): (usize, &Item),
    is_linked: bool,
) {
    let operation = &drawn.picture.operations[item.members[0]];
    let id = drawn.operation_id(at);
    let behind = drawn.kernels_of(item);
    let with: Vec<String> = behind.iter().map(|&kernel| drawn.kernel_id(kernel)).collect();
    let target = format!("#{}", with.first().unwrap_or(&id));
    let with = with.join(" ");
    let class = class(operation);
    let hue = behind.first().filter(|_| operation.fate == Fate::Computed);
    let hue = hue.map_or_else(String::new, |&kernel| format!("--h:{}", Drawn::hue(kernel)));
    let mut attributes: Vec<Attribute<'_>> = vec![("id", &id), ("class", &class)];
    if !hue.is_empty() {
        attributes.push(("style", &hue));
    }
    if is_linked {
        attributes.extend([("href", &target as &dyn std::fmt::Display), ("data-is", &id)]);
        attributes.push(("data-with", &with));
    }
    let (across, row) = layout.nodes[at];
    let (left, above) = (x(across) - WIDTH / 2.0, top(row));
    out.element(if is_linked { "a" } else { "g" }, &attributes, |out| {
        out.leaf("title", &[], title(drawn, item));
        let size = [left, above, WIDTH, HEIGHT].map(|n| format!("{n:.1}"));
        let rounding = if operation.fate == Fate::Source { "20" } else { "6" };
        let all: [Attribute<'_>; 5] = [
            ("x", &size[0]),
            ("y", &size[1]),
            ("width", &size[2]),
            ("height", &size[3]),
            ("rx", &rounding),
        ];
        out.empty("rect", &all);
        let place = short_place(&operation.place);
        let last = match &operation.given {
            Some(given) => format!("“{given}”"),
            None => place,
        };
        let lines = [("name", name(item, operation)), ("type", ty(drawn, item)), ("place", last)];
        for ((class, text), down) in lines.into_iter().zip([17.0, 31.0, 43.0]) {
            let (x, y) = (format!("{:.1}", x(across)), format!("{:.1}", above + down));
            let attributes: [Attribute<'_>; 3] = [("class", &class), ("x", &x), ("y", &y)];
            out.leaf("text", &attributes, fitted(&text, LETTERS));
        }
    });
}

/// The name of an item of operations.
pub(super) fn name(item: &Item, operation: &Operation) -> String {
    match (item.members.len(), item.is_repeat) {
        (1, _) => operation.name.to_owned(),
        (many, true) => format!("{} ×{many}", operation.name),
        (many, false) => format!("{} and {} more", operation.name, many - 1),
    }
}

/// The type of an item's values, or of its first with an ellipsis if the types differ.
fn ty(drawn: &Drawn<'_>, item: &Item) -> String {
    let ty = |at: usize| &drawn.picture.operations[at].ty;
    let first = ty(item.members[0]);
    let is_one = item.members.iter().all(|&at| ty(at) == first);
    format!("{first}{}", if is_one { "" } else { " …" })
}

fn class(operation: &Operation) -> String {
    let fate = match operation.fate {
        Fate::Computed => "computed",
        Fate::Source => "source",
        Fate::Number => "number",
        Fate::View => "view",
        Fate::Simplified => "simplified",
        Fate::Unused => "unused",
    };
    format!("op {fate}{}", if operation.is_result { " result" } else { "" })
}

/// All facts of an item in words.
fn title(drawn: &Drawn<'_>, item: &Item) -> String {
    let operation = &drawn.picture.operations[item.members[0]];
    let mut text = format!("{} {}", name(item, operation), ty(drawn, item));
    if let Some(given) = &operation.given {
        let _ = write!(text, " “{given}”");
    }
    if operation.method != operation.name {
        let _ = write!(text, ", recorded by {}", operation.method);
    }
    let _ = write!(text, ", at {}", operation.place);
    let behind = &operation.kernels;
    let fate = match operation.fate {
        Fate::Computed => format!("computed by {}", kernels(behind)),
        Fate::Source => format!("data from outside, for {}", kernels(behind)),
        Fate::Number => format!("a number in {}", kernels(behind)),
        Fate::View => format!("a view of its operand, for {}", kernels(behind)),
        Fate::Simplified => "something equal and simpler stands in its place".to_owned(),
        Fate::Unused => "no result needs it".to_owned(),
    };
    let _ = write!(text, ": {fate}");
    if operation.is_result {
        text.push_str("; a result");
    }
    text
}
