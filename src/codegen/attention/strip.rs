//! The statements of an attention's kernel for few queries: `lanes` neighbouring threads have a row, and four keys at a
//! time.

use std::ops::Range;

use super::collapsed::{CollapsedAttention, LEAST};
use super::rounds::{Hidden, shuffled};
use crate::codegen::group_fold::GroupFold;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::lanes::LANES;
use crate::codegen::kernel::template::{Holes, holes};
use crate::plan::AttentionSchedule;

const THREADS: usize = AttentionSchedule::STRIP_THREADS;

pub(super) struct StripKernel<'a> {
    pub attention: &'a CollapsedAttention<'a>,
    /// The start of the batch in every map, as arguments.
    pub arguments: &'a str,
    pub lanes: usize,
}

impl StripKernel<'_> {
    /// The texts of the template's holes.
    pub fn holes(&self, kernel: &mut KernelBuilder<'_>) -> Holes {
        let group_fold =
            GroupFold { width: THREADS, stride: 1, subgroups: kernel.limits.subgroups };
        let (numbers, number) = group_fold.numbering();
        let AttentionSchedule { rows, columns, .. } = self.attention.form.schedule;
        let (groups, fours) = (THREADS / self.lanes, columns / 4);
        holes! {
            lanes: self.lanes, groups, fours, row_fours: rows * fours, sum_fours: groups * fours,
            numbers, number, least: LEAST, state: self.state(), fetch: self.fetch(),
            scores: self.scores(kernel), hide: self.hide(kernel), add_values: self.add_values(),
            leave: self.leave(), store: self.store(),
        }
    }

    /// Fours of the width and of the result's columns that a thread has.
    fn fours(&self) -> [Range<usize>; 2] {
        let held = |columns: usize| 0..columns.div_ceil(4 * self.lanes);
        [held(self.attention.form.width), held(self.attention.form.out)]
    }

    /// The position of the thread's four `i` among the fours of a row.
    fn place(&self, i: usize) -> String {
        format!("lane + {}u", i * self.lanes)
    }

    /// The text of a load of the thread's four `i` in `row` of an operand.
    fn load(&self, name: &str, row: &str, i: usize) -> String {
        format!("load_{name}({row}, ({}) * 4u{})", self.place(i), self.arguments)
    }

    fn state(&self) -> String {
        let [width, out] = self.fours();
        let queries = width.map(|i| format!("let q_{i} = {};\n", self.load("q", "query", i)));
        queries.chain(out.map(|i| format!("var o_{i} = vec4<f32>();\n"))).collect()
    }

    /// Statements that read the four keys and their values.
    fn fetch(&self) -> String {
        let mut text = String::new();
        for (name, fours) in ["k", "v"].into_iter().zip(self.fours()) {
            for key in 0..4 {
                for i in fours.clone() {
                    let load = self.load(name, &format!("four + {key}u"), i);
                    text += &format!("let {name}{key}_{i} = {load};\n");
                }
            }
        }
        text
    }

    /// Statements that sum the scores of the keys, scale them and add the mask.
    fn scores(&self, kernel: &mut KernelBuilder<'_>) -> String {
        let [width, _] = self.fours();
        let dot = |key: usize| {
            let sum = width.clone().fold("vec4<f32>()".to_string(), |sum, i| match i {
                0 => format!("q_0 * k{key}_0"),
                _ => format!("fma(q_{i}, k{key}_{i}, {sum})"),
            });
            format!("dot({sum}, vec4<f32>(1f))")
        };
        let dots: Vec<String> = (0..4).map(dot).collect();
        let mut text = format!("var s = vec4<f32>({});\n", dots.join(", "));
        text += &shuffled("s", self.lanes, |other| format!("s += {other};"));
        let scale = kernel.scalar(self.attention.form.scale);
        let unit = self.attention.scale_unit();
        text += &match self.attention.form.mask {
            None => format!("s *= {unit}{scale};\n"),
            Some(_) => format!(
                "s = fma(s, vec4<f32>({unit}{scale}), load_mask(query, four{}));\n",
                self.arguments
            ),
        };
        text
    }

    /// Statements that put −∞ where a key is not seen.
    fn hide(&self, kernel: &mut KernelBuilder<'_>) -> String {
        let hidden = Hidden::new(self.attention, kernel);
        let text = format!(
            "let last = vec4<i32>({});\n\
             s = select(vec4<f32>(-p_inf()), s, vec4<i32>(i32(four)) + vec4<i32>(0, 1, 2, 3) <= last);",
            hidden.last("query")
        );
        hidden.guard("first_row", &text)
    }

    fn add_values(&self) -> String {
        let [_, out] = self.fours();
        let mut text = String::new();
        for i in out {
            text += &format!("o_{i} *= shrink;\n");
            for (key, lane) in LANES.iter().enumerate() {
                text += &format!("o_{i} = fma(vec4<f32>(s.{lane}), v{key}_{i}, o_{i});\n");
            }
        }
        text
    }

    /// Statements that leave the sums for the other threads.
    fn leave(&self) -> String {
        let [_, out] = self.fours();
        let fours = self.attention.form.schedule.columns / 4;
        let line = |i| format!("sum_parts[own * {fours}u + {}] = o_{i} * shrink;\n", self.place(i));
        out.map(line).collect()
    }

    /// Statements that store a four of the result, or of a part of it.
    fn store(&self) -> String {
        let AttentionSchedule { columns, parts, .. } = self.attention.form.schedule;
        let fours = columns / 4;
        if parts == 1 {
            return format!(
                "let inverse = select(1f / weights, 0f, weights == 0f);\n\
                 store(first_row + row, at % {fours}u * 4u, sum * inverse{});\n",
                self.arguments
            );
        }
        format!(
            "store_partial(part, batch, first_row + row, at % {fours}u * 4u, sum);\n\
             if at % {fours}u == 0u {{\n    \
             store_sums(part, batch, first_row + row, total_parts[row].x, weights);\n}}\n"
        )
    }
}
