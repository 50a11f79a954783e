//! The statements of a row kernel: from the kernel's layout to the holes of its template.

use super::share::{Row, Share};
use super::statistics::{PassFold, RowPass, Statistics, passes};
use crate::base::dtype::Ty;
use crate::codegen::group_fold::GroupFold;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::lanes;
use crate::codegen::kernel::template::{Holes, holes, indent};
use crate::codegen::rows::DispatchRole;

/// The text of one dispatch.
pub(crate) struct RowBody<'a> {
    pub row: &'a Row,
    pub role: DispatchRole,
    /// The bases of the maps, as further arguments of a call.
    pub arguments: &'a str,
    pub scratch: &'a str,
    /// The threads of a row.
    pub group_fold: GroupFold,
}

impl RowBody<'_> {
    /// The texts that depend on the kind of operation.
    pub fn holes(&self, kernel: &mut KernelBuilder<'_>, bases: &[String]) -> Holes {
        let row = self.row;
        let (mut functions, element) = row.rows.element(kernel, bases);
        let mut shared = String::new();
        if self.role != DispatchRole::Partial {
            let results;
            (results, shared) = row.rows.write(kernel, bases, Ty::F32);
            functions = [functions, results].join("\n");
        }
        let len = kernel.float(row.rows.len as f32);
        let epsilon = row.epsilon.map_or_else(String::new, |e| kernel.scalar(e));
        let (statistics, body) = match row.share.held {
            Some(held) => self.in_registers(held, &len, &epsilon),
            None => self.streamed(kernel, &len, &epsilon),
        };
        holes! { functions, element, shared: [shared, statistics].join("\n"), body }
    }

    /// The part of a row that a thread holds: `held` units, and an edge if there are any.
    fn held(&self, held: usize) -> Vec<HeldElements> {
        let lanes = self.row.rows.lanes();
        let units = (0..held).map(|k| HeldElements {
            name: format!("v{k}"),
            live: format!("j{k} < units"),
            at: format!("j{k}"),
            lanes,
        });
        units.chain(self.row.rows.has_edges().then(HeldElements::edge)).collect()
    }

    /// The shared text and the body for rows that stay in registers.
    fn in_registers(&self, held: usize, len: &str, epsilon: &str) -> (String, String) {
        let (passes, result) = passes(self.row.kind, len, epsilon);
        let Share { width, .. } = self.row.share;
        let mut body = "let last = max(units, 1u) - 1u;\n".to_string();
        for k in 0..held {
            let first = k * width;
            body += &format!(
                "let j{k} = lane + {first}u;\nvar v{k} = element(min(j{k}, last){});\n",
                self.arguments
            );
        }
        if self.row.rows.has_edges() {
            body += &format!(
                "var w = 0f;\nif lane < edges {{\n    w = element_edge(edge{});\n}}\n",
                self.arguments
            );
        }
        let held = self.held(held);
        let mut shared = String::new();
        for pass in &passes {
            let shuffled = "subgroupShuffleXor(all, step)";
            let merge = |a: &str, b: &str| pass.fold.merge(a, b);
            shared += &self.group_fold.function(pass.name, pass.fold.ty(), shuffled, merge);
            body += &self.pass(&held, pass);
        }
        for unit in &held {
            body += &format!("if {} {{\n{}}}\n", unit.live, indent(&self.write(unit, result)));
        }
        (shared, body)
    }

    /// Statements that find the number of `pass` from the units in registers.
    fn pass(&self, held: &[HeldElements], pass: &RowPass) -> String {
        let RowPass { name, fold, before, term, value } = pass;
        if *fold == PassFold::Max {
            return self.greatest(held, name);
        }
        let mut text = format!("var {name}_fold = {};\n", fold.identity());
        for unit in held {
            text += &format!("if {} {{\n", unit.live);
            if let Some(before) = before {
                text += &format!("    {} = {};\n", unit.name, unit.each(before));
            }
            let terms: Vec<String> = unit.elements().iter().map(|lane| term(lane)).collect();
            let folded = tree(&terms, |a, b| fold.merge(a, b));
            text += &format!(
                "    {name}_fold = {};\n}}\n",
                fold.merge(&format!("{name}_fold"), &folded)
            );
        }
        let all = self.group_fold.call(name, &format!("{name}_fold"));
        text += &format!("let {name} = {};\n", value.replace("fold", &all));
        text
    }

    /// Statements that find the greatest element from the units in registers, or NaN if there is one. The result of
    /// `max` with NaN is up to the device, so a sum tells whether there is one. `p_faint` scales its
    /// terms down, so that it does not overflow. The sum is NaN also where there are ∞ and −∞, and then so are all results.
    fn greatest(&self, held: &[HeldElements], name: &str) -> String {
        let mut text = format!("var {name}_fold = -p_inf();\nvar {name}_nan = 0f;\n");
        for unit in held {
            let terms = unit.elements();
            let most = tree(&terms, |a, b| format!("max({a}, {b})"));
            let faint: Vec<String> = terms.iter().map(|x| format!("p_faint({x})")).collect();
            let faint = tree(&faint, |a, b| format!("{a} + {b}"));
            text += &format!(
                "if {} {{\n    {name}_fold = max({name}_fold, {most});\n    \
                 {name}_nan += {faint};\n}}\n",
                unit.live
            );
        }
        let fold = format!("select({name}_fold, {name}_nan, p_is_nan({name}_nan))");
        let all = self.group_fold.call(name, &fold);
        text += &format!("let {name} = {all};\n");
        text
    }

    /// The shared text and the body for rows that are read for their statistics and then again.
    fn streamed(
        &self,
        kernel: &mut KernelBuilder<'_>,
        len: &str,
        epsilon: &str,
    ) -> (String, String) {
        let row = self.row;
        let statistics = Statistics::new(row.kind, len, epsilon);
        let all = self.group_fold.function("state", "State", "", |a, b| format!("merge({a}, {b})"));
        let shared = [statistics.text, &all].join("\n");
        let parts = kernel.size(row.parts);
        let chunk = kernel.size((row.rows.len / row.rows.lanes()).div_ceil(row.parts));
        let mut body = format!(
            "let part = id % {parts};\nlet start = min(part * {chunk}, units);\n\
             let end = min(start + {chunk}, units);\nvar state = identity();\n"
        );
        body.push_str(&match self.role {
            DispatchRole::Combine => self.merge_parts(&statistics, &parts),
            DispatchRole::Whole | DispatchRole::Partial => self.merge_units(),
        });
        body += &format!("state = {};\n", self.group_fold.call("state", "state"));
        body.push_str(&match self.role {
            DispatchRole::Partial => self.store_part(&statistics, &parts),
            DispatchRole::Whole | DispatchRole::Combine => {
                statistics.numbers + &self.write_units(statistics.result)
            }
        });
        (shared, body)
    }

    /// Statements that merge the statistics of a row's parts into `state`.
    fn merge_parts(&self, statistics: &Statistics, parts: &str) -> String {
        let (scratch, width) = (self.scratch, self.row.share.width);
        let words = statistics.pack("").len();
        let state = statistics
            .unpack(|word| format!("{scratch}[(row * {parts} + other) * {words}u + {word}u]"));
        format!(
            "for (var other = lane; other < {parts}; other += {width}u) {{\n    \
             state = merge(state, {state});\n}}\n"
        )
    }

    /// Statements that leave the statistics of a part in the scratch memory.
    fn store_part(&self, statistics: &Statistics, parts: &str) -> String {
        let words = statistics.pack("state");
        let mut stores = format!("let at = (row * {parts} + part) * {}u;\n", words.len());
        for (word, value) in words.iter().enumerate() {
            stores += &format!("{}[at + {word}u] = {value};\n", self.scratch);
        }
        format!("if lane == 0u && units > 0u {{\n{}}}\n", indent(&stores))
    }

    /// Statements that merge the units of the part into `state`.
    fn merge_units(&self) -> String {
        let add = |function: &str, x: &str| format!("state = {function}(state, {x});\n");
        if self.row.rows.lanes() == 4 {
            let edge = self.of_edge(|x| add("add", x));
            return edge + &self.walk(4, |names| names.iter().map(|x| add("add4", x)).collect());
        }
        self.walk(8, |names| match names {
            [one] => add("add", one),
            names => {
                let fours = names.chunks(4).map(|four| format!("vec4<f32>({})", four.join(", ")));
                fours.map(|four| add("add4", &four)).collect()
            }
        })
    }

    /// Statements that write the results of the part's units.
    fn write_units(&self, result: fn(&str) -> String) -> String {
        let (lanes, width) = (self.row.rows.lanes(), self.row.share.width);
        let edge = self.of_edge(|x| {
            self.write(&HeldElements { name: x.to_string(), ..HeldElements::edge() }, result)
        });
        let count = if lanes == 4 { 4 } else { 8 };
        edge + &self.walk(count, |names| {
            let write = |(k, name): (usize, &String)| {
                let (name, at) = (name.clone(), format!("j + {}u", k * width));
                self.write(&HeldElements { name, live: String::new(), at, lanes }, result)
            };
            names.iter().enumerate().map(write).collect()
        })
    }

    /// A statement that writes the results of a unit.
    fn write(&self, unit: &HeldElements, result: fn(&str) -> String) -> String {
        let edge = unit.lanes < self.row.rows.lanes();
        let function = if edge { "write_edge" } else { "write" };
        format!("{function}({}, {}{});\n", unit.at, unit.each(result), self.arguments)
    }

    /// The statements that `body` makes of the name of an edge, for the first part of a row that has edges.
    fn of_edge(&self, body: impl Fn(&str) -> String) -> String {
        if !self.row.rows.has_edges() {
            return String::new();
        }
        let load = format!("let x = element_edge(edge{});\n", self.arguments);
        format!("if part == 0u && lane < edges {{\n{}}}\n", indent(&(load + &body("x"))))
    }

    /// Loops over the units of the part, of which `count` are read before the first of them goes
    /// into what `body` makes of their names.
    fn walk(&self, count: usize, body: impl Fn(&[String]) -> String) -> String {
        let width = self.row.share.width;
        let take = |count: usize| {
            let names: Vec<String> = (0..count).map(|k| format!("x{k}")).collect();
            let mut text = String::new();
            for (k, name) in names.iter().enumerate() {
                let at = k * width;
                text += &format!("let {name} = element(j + {at}u{});\n", self.arguments);
            }
            indent(&(text + &body(&names)))
        };
        format!(
            "{{\n    var j = start + lane;\n    for (; j + {}u < end; j += {}u) {{\n{}    }}\n    \
             for (; j < end; j += {width}u) {{\n{}    }}\n}}\n",
            (count - 1) * width,
            count * width,
            indent(&take(count)),
            indent(&take(1))
        )
    }
}

/// Elements that a thread holds.
struct HeldElements {
    name: String,
    /// WGSL of the condition that the row has the unit.
    live: String,
    /// WGSL of the index at which the unit is read and written.
    at: String,
    lanes: usize,
}

impl HeldElements {
    fn edge() -> Self {
        let [name, live, at] = ["w", "lane < edges", "edge"].map(str::to_string);
        Self { name, live, at, lanes: 1 }
    }

    /// The texts of the elements.
    fn elements(&self) -> Vec<String> {
        if self.lanes == 4 {
            lanes::LANES.iter().map(|lane| format!("{}.{lane}", self.name)).collect()
        } else {
            vec![self.name.clone()]
        }
    }

    /// The unit with `text` applied to each element.
    fn each(&self, text: impl Fn(&str) -> String) -> String {
        let elements: Vec<String> = self.elements().iter().map(|x| text(x)).collect();
        match &elements[..] {
            [one] => one.clone(),
            elements => format!("vec4<f32>({})", elements.join(", ")),
        }
    }
}

/// The terms merged in pairs, so that few wait for each other.
fn tree(terms: &[String], merge: impl Fn(&str, &str) -> String + Copy) -> String {
    match terms {
        [] => String::new(),
        [one] => one.clone(),
        terms => {
            let (a, b) = terms.split_at(terms.len() / 2);
            let nested = |text: String, terms: &[String]| {
                if terms.len() > 1 { format!("({text})") } else { text }
            };
            merge(&nested(tree(a, merge), a), &nested(tree(b, merge), b))
        }
    }
}
