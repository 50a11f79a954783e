//! The statements of an attention's kernel: a thread has `each` rows, in fours that lie in all of the workgroup's, and
//! of these every eighth four of keys and of columns.

mod products;
mod tile;
mod weights;

use self::tile::SwappedTile;
use super::collapsed::{CollapsedAttention, LEAST};
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::lanes::LANES;
use crate::codegen::kernel::template::{Holes, holes};
use crate::plan::AttentionSchedule;

const CHUNK: usize = AttentionSchedule::CHUNK;
const ACROSS: usize = AttentionSchedule::ACROSS;

pub(super) struct TileKernel<'a> {
    pub attention: &'a CollapsedAttention<'a>,
    /// The start of the batch in every map, as arguments.
    pub arguments: &'a str,
}

impl TileKernel<'_> {
    /// The texts of the template's holes.
    pub fn holes(&self, kernel: &mut KernelBuilder<'_>) -> Holes {
        let AttentionSchedule { rows, keys, columns, .. } = self.schedule();
        let (fetch_scores, put_scores) = self.bring_scores();
        holes! {
            x_quads: CHUNK * rows / 4, w_quads: CHUNK * keys.max(columns) / 4,
            width: kernel.size(self.attention.form.width), state: self.state(),
            scores: self.scores(), fetch_scores, put_scores,
            multiply_scores: self.multiply_scores(), hide: self.hide(kernel),
            greatest: self.greatest(), weights: self.weights(), add_values: self.add_values(),
            totals: self.totals(), stores: self.stores(),
        }
    }

    fn schedule(&self) -> AttentionSchedule {
        self.attention.form.schedule
    }

    /// Threads along the rows.
    fn high(&self) -> usize {
        self.schedule().rows / self.schedule().each
    }

    /// Fours of rows, of keys and of columns of a thread.
    fn fours(&self) -> [usize; 3] {
        let AttentionSchedule { each, keys, columns, .. } = self.schedule();
        [each / 4, keys / CHUNK, columns / CHUNK]
    }

    /// Text of the thread's four of rows `i` among the workgroup's.
    fn quad(&self, i: usize) -> String {
        format!("(ty + {}u)", i * self.high())
    }

    /// Row `r` of the thread, from the workgroup's first.
    fn row(&self, r: usize) -> String {
        format!("{} * 4u + {}u", self.quad(r / 4), r % 4)
    }

    fn x(&self) -> SwappedTile {
        SwappedTile::new("x_tile", self.schedule().rows)
    }

    fn rows(&self) -> std::ops::Range<usize> {
        0..self.schedule().each
    }

    fn state(&self) -> String {
        let [high, _, wide] = self.fours();
        let mut text = String::new();
        for i in 0..high {
            text += &format!("var greatest{i} = vec4<f32>({LEAST});\n");
            text += &format!("var total{i} = vec4<f32>();\n");
        }
        for r in self.rows() {
            for q in 0..wide {
                text += &format!("var o{r}_{q} = vec4<f32>();\n");
            }
        }
        text
    }

    fn scores(&self) -> String {
        let [_, keys, _] = self.fours();
        let each = self.rows().flat_map(|r| (0..keys).map(move |q| (r, q)));
        each.map(|(r, q)| format!("var s{r}_{q} = vec4<f32>();\n")).collect()
    }

    fn stores(&self) -> String {
        let [high, _, wide] = self.fours();
        let mut text = String::new();
        if self.schedule().parts == 1 {
            for i in 0..high {
                let zero = "vec4<f32>()";
                text +=
                    &format!("let inverse{i} = select(1f / sum{i}, {zero}, sum{i} == {zero});\n");
            }
        }
        for r in self.rows() {
            let row = format!("first_row + {}", self.row(r));
            let lane = LANES[r % 4];
            for q in 0..wide {
                let column = format!("first_column + (tx + {}u) * 4u", q * ACROSS);
                text += &if self.schedule().parts == 1 {
                    let value = format!("o{r}_{q} * inverse{}.{lane}", r / 4);
                    format!("store({row}, {column}, {value}{});\n", self.arguments)
                } else {
                    format!("store_partial(part, batch, {row}, {column}, o{r}_{q});\n")
                };
            }
            if self.schedule().parts > 1 {
                let (greatest, sum) = (format!("greatest{}", r / 4), format!("sum{}", r / 4));
                text += &format!(
                    "if tx == 0u && first_column == 0u {{ store_sums(part, batch, {row}, {greatest}.{lane}, {sum}.{lane}); }}\n"
                );
            }
        }
        text
    }
}
