//! What a row kernel does, as WGSL: from `row`'s choices to the holes of its template.

use std::fmt::Write;

use super::kernel::Kernel;
use super::lanes;
use super::norm::{Pass, Statistics, passes};
use super::row::{Phase, Row, Share};
use super::template::indent;
use super::together::Together;
use crate::dtype::Ty;

/// What makes the text of one dispatch.
pub(super) struct Body<'a> {
    pub row: &'a Row,
    pub phase: Phase,
    /// The bases of the maps, as further arguments of a call.
    pub arguments: &'a str,
    pub scratch: &'a str,
}

/// The holes of the template.
#[derive(Default)]
pub(super) struct Texts {
    pub functions: String,
    pub element: String,
    pub shared: String,
    pub builtins: String,
    pub thread: String,
    pub slot: String,
    pub body: String,
}

impl Body<'_> {
    pub fn texts(&self, kernel: &mut Kernel<'_>, bases: &[String]) -> Texts {
        let mut texts = self.threads(kernel);
        let row = self.row;
        let prologue = kernel.function("prologue", &[row.prologue], None);
        let (loads, held) = row.loads(kernel, bases, &prologue.operands);
        let value = if row.share.lanes == 4 {
            format!("vec4<f32>({})", lanes::calls(&prologue, "", |o| held[o]).join(", "))
        } else {
            prologue.call("", |o| format!("x{o}"))
        };
        texts.element = format!("{loads}return {value};\n");
        texts.functions = prologue.text;
        if self.phase != Phase::Gather {
            let (functions, write) = self.write(kernel, bases);
            texts.functions = [texts.functions, functions].join("\n");
            texts.shared = write;
        }
        let len = kernel.float(row.len as f32);
        let epsilon = row.epsilon.map_or_else(String::new, |e| kernel.scalar(e));
        let (shared, body) = match row.share.held {
            Some(held) => self.in_registers(kernel, held, &len, &epsilon),
            None => self.streamed(kernel, &len, &epsilon),
        };
        texts.shared = [texts.shared, shared].join("\n");
        texts.body = body;
        texts
    }

    /// Where threads find their rows.
    fn threads(&self, kernel: &Kernel<'_>) -> Texts {
        let Share { width, across, .. } = self.row.share;
        let rows = self.row.share.rows();
        let (slot, lane) = if across {
            (format!("thread % {rows}u"), format!("thread / {rows}u"))
        } else {
            (format!("thread / {width}u"), format!("thread % {width}u"))
        };
        let (builtins, thread) = self.together(kernel).numbering();
        Texts {
            builtins: builtins.to_string(),
            thread: format!("{thread}let lane = {lane};\n"),
            slot,
            ..Texts::default()
        }
    }

    /// The threads of a row. A long row folds once, which no subgroups are needed for.
    fn together(&self, kernel: &Kernel<'_>) -> Together {
        let Share { width, across, held, .. } = self.row.share;
        let stride = if across { self.row.share.rows() } else { 1 };
        let subgroups = kernel.limits.subgroups.filter(|_| held.is_some() && !across);
        Together { width, stride, subgroups }
    }

    /// The function that makes the outputs, and the function `write`.
    fn write(&self, kernel: &mut Kernel<'_>, bases: &[String]) -> (String, String) {
        let row = self.row;
        let function = kernel.function("compute_results", &kernel.output_roots(), Some(Ty::F32));
        let (mut text, held) = row.loads(kernel, bases, &function.operands);
        let four = row.share.lanes == 4;
        if four {
            let calls = lanes::calls(&function, "acc", |o| held[o]);
            for (lane, call) in lanes::LANES.iter().zip(calls) {
                let _ = writeln!(text, "let values_{lane} = {call};");
            }
        } else {
            let _ = writeln!(text, "let values = {};", function.call("acc", |o| format!("x{o}")));
        }
        for (output, result) in function.results.iter().enumerate() {
            let at = row.at(kernel, bases, output);
            text.push_str(&if four {
                let values = lanes::LANES.map(|lane| format!("values_{lane}{result}"));
                kernel.store_quad(output, &format!("({at}) / 4u"), &values)
            } else {
                kernel.store(output, &at, &format!("values{result}"))
            });
        }
        let parameters: String = bases.iter().map(|name| format!(", {name}: u32")).collect();
        let vector = if four { "vec4<f32>" } else { "f32" };
        let write =
            format!("fn write(j: u32, acc: {vector}{parameters}) {{\n{}}}\n", indent(&text));
        (function.text, write)
    }

    /// The texts of the lanes of a unit.
    fn lanes(&self, x: &str) -> Vec<String> {
        if self.row.share.lanes == 4 {
            lanes::LANES.iter().map(|lane| format!("{x}.{lane}")).collect()
        } else {
            vec![x.to_string()]
        }
    }

    /// A unit of what becomes of each lane.
    fn each(&self, x: &str, text: impl Fn(&str) -> String) -> String {
        let lanes: Vec<String> = self.lanes(x).iter().map(|lane| text(lane)).collect();
        match &lanes[..] {
            [one] => one.clone(),
            lanes => format!("vec4<f32>({})", lanes.join(", ")),
        }
    }

    /// What is shared, and the body, for rows that stay in registers.
    fn in_registers(
        &self,
        kernel: &Kernel<'_>,
        held: usize,
        len: &str,
        epsilon: &str,
    ) -> (String, String) {
        let (passes, result) = passes(self.row.kind, len, epsilon);
        let Share { width, .. } = self.row.share;
        let mut body = "let last = max(units, 1u) - 1u;\n".to_string();
        for k in 0..held {
            let first = k * width;
            let _ = write!(
                body,
                "let j{k} = lane + {first}u;\nvar v{k} = element(min(j{k}, last){});\n",
                self.arguments
            );
        }
        let mut shared = String::new();
        for pass in &passes {
            let shuffled = "subgroupShuffleXor(all, step)";
            let merge = |a: &str, b: &str| pass.fold.merge(a, b);
            shared.push_str(&self.together(kernel).function(pass.name, "f32", shuffled, merge));
            body.push_str(&self.pass(kernel, held, pass));
        }
        for k in 0..held {
            let value = self.each(&format!("v{k}"), result);
            let arguments = self.arguments;
            let _ = write!(body, "if j{k} < units {{\n    write(j{k}, {value}{arguments});\n}}\n");
        }
        (shared, body)
    }

    /// Statements that find the number of `pass` from the units in registers.
    fn pass(&self, kernel: &Kernel<'_>, held: usize, pass: &Pass) -> String {
        let Pass { name, fold, before, term, value } = pass;
        let mut text = format!("var {name}_fold = {};\n", fold.identity());
        for k in 0..held {
            let v = format!("v{k}");
            let _ = writeln!(text, "if j{k} < units {{");
            if let Some(before) = before {
                let _ = writeln!(text, "    {v} = {};", self.each(&v, before));
            }
            let terms: Vec<String> = self.lanes(&v).iter().map(|lane| term(lane)).collect();
            let folded = tree(&terms, |a, b| fold.merge(a, b));
            let _ = writeln!(
                text,
                "    {name}_fold = {};\n}}",
                fold.merge(&format!("{name}_fold"), &folded)
            );
        }
        let all = self.together(kernel).call(name, &format!("{name}_fold"));
        let _ = writeln!(text, "let {name} = {};", value.replace("fold", &all));
        text
    }

    /// What is shared, and the body, for rows that are read for their statistics and then again.
    fn streamed(&self, kernel: &mut Kernel<'_>, len: &str, epsilon: &str) -> (String, String) {
        let row = self.row;
        let statistics = Statistics::new(row.kind, len, epsilon);
        let together = self.together(kernel);
        let all = together.function("state", "State", "", |a, b| format!("merge({a}, {b})"));
        let shared = [statistics.text, &all].join("\n");
        let parts = kernel.size(row.parts);
        let chunk = kernel.size((row.len / row.share.lanes).div_ceil(row.parts));
        let mut body = format!(
            "let part = id % {parts};\nlet start = min(part * {chunk}, units);\n\
             let end = min(start + {chunk}, units);\nvar state = identity();\n"
        );
        let at = |k: usize, parts: &str| format!("(row * {parts} + {}) * {}u", "part", k);
        let words = statistics.pack("state").len();
        if self.phase == Phase::Apply {
            let scratch = self.scratch;
            let word =
                |word: usize| format!("{scratch}[(row * {parts} + other) * {words}u + {word}u]");
            let _ = write!(
                body,
                "for (var other = lane; other < {parts}; other += {}u) {{\n    \
                 state = merge(state, {});\n}}\n",
                row.share.width,
                statistics.unpack(word)
            );
        } else {
            body.push_str(&self.gather());
        }
        let _ = writeln!(body, "state = {};", together.call("state", "state"));
        if self.phase == Phase::Gather {
            let mut stores = String::new();
            for (word, value) in statistics.pack("state").iter().enumerate() {
                let _ = writeln!(
                    stores,
                    "{}[{} + {word}u] = {value};",
                    self.scratch,
                    at(words, &parts)
                );
            }
            let _ = write!(body, "if lane == 0u && units > 0u {{\n{}}}\n", indent(&stores));
            return (shared, body);
        }
        body.push_str(&statistics.numbers);
        let value = self.each("x", statistics.result);
        let arguments = self.arguments;
        let _ = write!(
            body,
            "for (var j = start + lane; j < end; j += {}u) {{\n    let x = element(j{arguments});\n    \
             write(j, {value}{arguments});\n}}\n",
            row.share.width
        );
        (shared, body)
    }

    /// Statements that merge the elements of the part into `state`, with four loads under way.
    fn gather(&self) -> String {
        let Share { lanes, width, .. } = self.row.share;
        let arguments = self.arguments;
        let element = |k: usize| match k {
            0 => format!("element(j{arguments})"),
            k => format!("element(j + {}u{arguments})", k * width),
        };
        let (together, one, lift) = if lanes == 4 {
            let pair = format!(
                "let a = {};\n    let b = {};\n    state = merge(merge(state, lift4(a)), lift4(b));",
                element(0),
                element(1)
            );
            (2, pair, "lift4")
        } else {
            let four = |from: usize| (from..from + 4).map(element).collect::<Vec<_>>().join(", ");
            let pair = format!(
                "let a = vec4<f32>({});\n    let b = vec4<f32>({});\n    \
                 state = merge(merge(state, lift4(a)), lift4(b));",
                four(0),
                four(4)
            );
            (8, pair, "lift")
        };
        format!(
            "var j = start + lane;\nfor (; j + {}u < end; j += {}u) {{\n    {one}\n}}\n\
             for (; j < end; j += {width}u) {{\n    state = merge(state, {lift}({}));\n}}\n",
            (together - 1) * width,
            together * width,
            element(0)
        )
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
                if terms.len() > 1 && !text.starts_with("p_") { format!("({text})") } else { text }
            };
            merge(&nested(tree(a, merge), a), &nested(tree(b, merge), b))
        }
    }
}
