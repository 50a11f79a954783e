//! The weights of scores, and the sums that are relative to the greatest score.

use super::Squares;
use crate::codegen::attention::rounds::{Hidden, guarded, shuffled};
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::template::indent;

/// The greatest sum of a tile's weights that `f16` holds with full precision, each weight alone.
const MOST: &str = "1024f";

impl Squares<'_> {
    /// The factor of scores.
    pub(super) fn scale(&self, kernel: &mut KernelBuilder<'_>) -> String {
        let scale = kernel.scalar(self.attention.form.scale);
        format!("let scale = {}{scale};", self.attention.scale_unit())
    }

    /// Statements that turn scores into weights and bring these back to the units, or leave the loop if some may exceed
    /// the range of `f16`.
    pub(super) fn weights(&self, kernel: &mut KernelBuilder<'_>) -> String {
        let keys = self.schedule().keys;
        let (pitch, ty) = (self.pitch(keys), self.ty("f16", 'A'));
        let fours: Vec<usize> = self.fours(keys).map(|(at, _)| at).collect();
        let mut text = String::new();
        for r in self.blocks() {
            text += &self.leave(r, "square");
            text += &self.seen(kernel, r, &fours);
            text += &self.weigh(r, &fours);
            text += &self.grown(r);
            for n in self.squares(keys) {
                let at = n * self.side() / 4;
                text += &format!(
                    "let p{r}_{n} = coopLoadT<{ty}>(&weights[squares + {at}u], {pitch}u);\n"
                );
            }
        }
        for r in self.blocks() {
            text += &format!("total{r} += sum{r};\n");
        }
        text
    }

    /// Statements that leave the scores in workgroup memory; `name` is one for their places.
    fn leave(&self, r: usize, name: &str) -> String {
        let pitch = self.pitch(self.schedule().keys);
        let mut text = String::new();
        for n in self.squares(self.schedule().keys) {
            let at = n * self.side() / 4;
            text += &format!("let {name}{r}_{n} = squares + {at}u;\n");
            text += &format!("coopStoreT(s{r}_{n}, &scores[{name}{r}_{n}], {pitch}u);\n");
        }
        text + "workgroupBarrier();\n"
    }

    /// Statements that leave the weights of the scores `a{r}_{at}` for the units, and their sum in `sum{r}`.
    fn weigh(&self, r: usize, fours: &[usize]) -> String {
        let mut text = String::new();
        for at in fours {
            text += &format!("let w{r}_{at} = weight(a{r}_{at} - greatest{r});\n");
            text += &format!("weights[row_at + {at}u] = vec4<f16>(w{r}_{at});\n");
        }
        let sum = fours.iter().map(|at| format!("w{r}_{at}")).collect::<Vec<_>>().join(" + ");
        text += &format!("let sum{r} = dot({sum}, vec4<f32>(1f));\n");
        text
    }

    /// Statements that make `a{r}_{at}` of the scores: scaled, with the mask added, −∞ where a key is not seen.
    fn seen(&self, kernel: &mut KernelBuilder<'_>, r: usize, fours: &[usize]) -> String {
        let query = format!("own_rows + {}u + row", r * self.side());
        let mut text = String::new();
        for at in fours {
            let column = format!("key + (four + {at}u) * 4u");
            let score = format!("scores[row_at + {at}u]");
            let value = match self.attention.form.mask {
                None => format!("{score} * scale"),
                Some(_) => format!(
                    "fma({score}, vec4<f32>(scale), load_mask({query}, {column}{}))",
                    self.arguments
                ),
            };
            text += &format!("var a{r}_{at} = {value};\n");
        }
        let hidden = Hidden::new(self.attention, kernel);
        let last = hidden.last(&query);
        let mut inner = format!("let last = vec4<i32>({last} - i32(key));\n");
        for at in fours {
            inner += &format!(
                "a{r}_{at} = select(vec4<f32>(-p_inf()), a{r}_{at}, vec4<i32>(i32((four + {at}u) * 4u)) + vec4<i32>(0, 1, 2, 3) <= last);\n"
            );
        }
        text + &hidden.guard(&format!("own_rows + {}u", r * self.side()), &inner)
    }

    /// Statements that find the greatest of the scores `a{r}_{at}` of a row, as `most{r}`.
    fn most(&self, r: usize, fours: &[usize]) -> String {
        let all = fours[1..]
            .iter()
            .fold(format!("a{r}_{}", fours[0]), |a, at| format!("max({a}, a{r}_{at})"));
        let most = format!("most{r}");
        let take = |other: &str| format!("{most} = max({most}, {other});");
        format!("var {most} = most({all});\n") + &shuffled(&most, self.lanes(), take)
    }

    /// Statements that leave the loop if sums of the workgroup's weights exceed the range in which `f16` holds each
    /// weight with full precision.
    fn grown(&self, r: usize) -> String {
        // In the padding of the first row, since all other workgroup memory is taken.
        let flag = self.pitch(self.schedule().keys) - 1;
        let square = self.side() * self.pitch(self.schedule().keys);
        let flags = (0..self.subgroups()).map(|s| format!("scores[{}u].x", s * square + flag));
        let all = flags.collect::<Vec<_>>().join(" + ");
        format!(
            "let grew{r} = subgroupAny(sum{r} > {MOST});\n\
             if lane == 0u {{\n    scores[squares + {flag}u].x = select(0f, 1f, grew{r});\n}}\n\
             workgroupBarrier();\n\
             grew = {all};\nif grew != 0f {{\n    break;\n}}\n"
        )
    }

    /// Statements that rebase the sums on the greatest scores.
    pub(super) fn shrink(&self, kernel: &mut KernelBuilder<'_>) -> String {
        let keys = self.schedule().keys;
        let fours: Vec<usize> = self.fours(keys).map(|(at, _)| at).collect();
        let mut text = String::new();
        for r in self.blocks() {
            text += "workgroupBarrier();\n";
            text += &self.leave(r, "again");
            text += &self.seen(kernel, r, &fours);
            text += &self.most(r, &fours);
            text += &format!(
                "let now{r} = max(greatest{r}, most{r});\n\
                 let shrink{r} = weight(vec4<f32>(greatest{r} - now{r}));\n\
                 greatest{r} = now{r};\n\
                 total{r} *= shrink{r}.x;\n\
                 workgroupBarrier();\n\
                 // A loop that is left at once, since a branch would have to be known to be uniform.\n\
                 loop {{\n{}}}\n",
                indent(&self.rescale(r))
            );
        }
        text
    }

    /// Statements that multiply the sums by `shrink{r}`.
    fn rescale(&self, r: usize) -> String {
        let (pitch, ty) = (self.pitch(self.schedule().keys), self.ty("f32", 'C'));
        let mut text =
            "// Before the first tile, that is nothing.\nif key == first_key {\n    break;\n}\n"
                .to_string();
        for d in self.squares(self.schedule().columns) {
            text += &format!(
                "let whole{d} = squares;\n\
                 coopStoreT(o{r}_{d}, &scores[whole{d}], {pitch}u);\nworkgroupBarrier();\n"
            );
            for (at, guard) in self.fours(self.side()) {
                let line = format!("scores[row_at + {at}u] *= shrink{r};\n");
                text += &guarded(line, guard.as_deref());
            }
            text += &format!(
                "workgroupBarrier();\n\
                 o{r}_{d} = coopLoadT<{ty}>(&scores[squares], {pitch}u);\nworkgroupBarrier();\n"
            );
        }
        text + "break;\n"
    }
}
