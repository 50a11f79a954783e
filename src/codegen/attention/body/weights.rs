//! The weights of scores, the greatest scores that they are relative to, and their sums.

use super::{ACROSS, TileKernel};
use crate::codegen::attention::rounds::Hidden;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::lanes::LANES;

impl TileKernel<'_> {
    /// Statements that scale the scores, add the mask, and put −∞ where a key is not seen.
    pub(super) fn hide(&self, kernel: &mut KernelBuilder<'_>) -> String {
        let [_, keys, _] = self.fours();
        let scale = kernel.scalar(self.attention.form.scale);
        let unit = self.attention.scale_unit();
        let mut text = format!("let scale = {unit}{scale};\n");
        let each = || self.rows().flat_map(|r| (0..keys).map(move |q| (r, q)));
        let key = |q: usize| format!("key + (tx + {}u) * 4u", q * ACROSS);
        for (r, q) in each() {
            text += &match self.attention.form.mask {
                None => format!("s{r}_{q} *= scale;\n"),
                Some(_) => format!(
                    "s{r}_{q} = fma(s{r}_{q}, vec4<f32>(scale), load_mask(first_row + {}, {}{}));\n",
                    self.row(r),
                    key(q),
                    self.arguments
                ),
            };
        }
        let hidden = Hidden::new(self.attention, kernel);
        let mut inner = "let hidden = vec4<f32>(-p_inf());\n".to_string();
        for r in self.rows() {
            let last = hidden.last(&format!("first_row + {}", self.row(r)));
            inner += &format!("let last{r} = vec4<i32>({last});\n");
            for q in 0..keys {
                inner += &format!(
                    "s{r}_{q} = select(hidden, s{r}_{q}, vec4<i32>(i32({})) + vec4<i32>(0, 1, 2, 3) <= last{r});\n",
                    key(q)
                );
            }
        }
        text + &hidden.guard("first_row", &inner)
    }

    /// Statements that find the greatest score of each row so far, and shrink the sums.
    pub(super) fn greatest(&self) -> String {
        let [high, keys, wide] = self.fours();
        let own = |i: usize| {
            let row = |r: usize| {
                let all = (1..keys).fold(format!("s{r}_0"), |a, q| format!("max({a}, s{r}_{q})"));
                format!("most({all})")
            };
            let rows: Vec<String> = (4 * i..4 * i + 4).map(row).collect();
            format!("vec4<f32>({})", rows.join(", "))
        };
        let mut text = self.put_together("most", own, |a, b| format!("max({a}, {b})"));
        for i in 0..high {
            text += &format!("let now{i} = max(greatest{i}, most{i});\n");
            text += &format!("let shrink{i} = weight(greatest{i} - now{i});\n");
            text += &format!("greatest{i} = now{i};\n");
        }
        for r in self.rows() {
            for q in 0..wide {
                text += &format!("o{r}_{q} *= shrink{}.{};\n", r / 4, LANES[r % 4]);
            }
        }
        text
    }

    /// Statements that make `name0`, … of what each thread has for its fours of rows, for all threads that share
    /// them.
    fn put_together(
        &self,
        name: &str,
        own: impl Fn(usize) -> String,
        merge: impl Fn(String, String) -> String,
    ) -> String {
        let [high, ..] = self.fours();
        let pitch = self.x().pitch;
        let mut text = "workgroupBarrier();\n".to_string();
        for i in 0..high {
            text += &format!("x_tile[tx * {pitch}u + {}] = {};\n", self.quad(i), own(i));
        }
        text.push_str("workgroupBarrier();\n");
        for i in 0..high {
            let part = |t: usize| format!("x_tile[{}u + {}]", t * pitch, self.quad(i));
            let all = (1..ACROSS).fold(part(0), |a, t| merge(a, part(t)));
            text += &format!("let {name}{i} = {all};\n");
        }
        text
    }

    /// Statements that turn scores into weights and add these up.
    pub(super) fn weights(&self) -> String {
        let [high, keys, _] = self.fours();
        let mut text = String::new();
        for r in self.rows() {
            for q in 0..keys {
                let greatest = format!("greatest{}.{}", r / 4, LANES[r % 4]);
                text += &format!("s{r}_{q} = weight(s{r}_{q} - vec4<f32>({greatest}));\n");
            }
        }
        for i in 0..high {
            let row = |r: usize| {
                let all = (1..keys).fold(format!("s{r}_0"), |a, q| format!("{a} + s{r}_{q}"));
                format!("dot({all}, vec4<f32>(1f))")
            };
            let rows: Vec<String> = (4 * i..4 * i + 4).map(row).collect();
            text +=
                &format!("total{i} = fma(total{i}, shrink{i}, vec4<f32>({}));\n", rows.join(", "));
        }
        text
    }

    /// Statements that put together the sums of the weights.
    pub(super) fn totals(&self) -> String {
        self.put_together("sum", |i| format!("total{i}"), |a, b| format!("{a} + {b}"))
    }
}
