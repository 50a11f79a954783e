//! The statements of an attention's kernel on matrix units: a subgroup has `each` rows, in squares. Between the
//! products a row of a square is shared by a few neighbouring threads.

mod staging;
mod weights;

use super::collapsed::{CollapsedAttention, LEAST};
use crate::codegen::attention::rounds::{guarded, rounds, shuffled};
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::template::{Holes, holes};
use crate::cost::MatrixUnits;
use crate::plan::{AttentionSchedule, UnitTile};

pub(super) struct Squares<'a> {
    pub attention: &'a CollapsedAttention<'a>,
    /// The start of the batch in every map: names, and these as arguments.
    pub names: &'a [String],
    pub arguments: &'a str,
    pub units: MatrixUnits,
}

impl Squares<'_> {
    /// The texts of the template's holes.
    pub fn holes(&self, kernel: &mut KernelBuilder<'_>) -> Holes {
        let keys = self.schedule().keys;
        let mut holes = self.bring(kernel);
        holes.extend(holes! {
            subgroup: self.units.subgroup, lanes: self.lanes(), pitch: self.pitch(keys),
            square_fours: self.side() * self.pitch(keys),
            score_fours: self.subgroups() * self.side() * self.pitch(keys),
            k_fours: keys * self.pitch(self.width()),
            v_fours: keys * self.pitch(self.schedule().columns), queries: self.queries(),
            state: self.state(), scores: self.scores(), scale: self.scale(kernel),
            weights: self.weights(kernel), shrink: self.shrink(kernel),
            add_values: self.add_values(), stores: self.stores(),
        });
        holes
    }

    fn schedule(&self) -> AttentionSchedule {
        self.attention.form.schedule
    }

    fn side(&self) -> usize {
        self.units.side as usize
    }

    fn subgroups(&self) -> usize {
        self.schedule().rows / self.schedule().each
    }

    /// Threads that share a row of a square.
    fn lanes(&self) -> usize {
        self.units.subgroup as usize / self.side()
    }

    /// The width, with zeros at its end.
    fn width(&self) -> usize {
        self.attention.form.width.next_multiple_of(AttentionSchedule::CHUNK)
    }

    /// Fours from one row of `columns` to the next in workgroup memory.
    fn pitch(&self, columns: usize) -> usize {
        (columns + UnitTile::PAD) / 4
    }

    /// Squares of rows, of the width, of keys and of columns.
    fn blocks(&self) -> std::ops::Range<usize> {
        0..self.schedule().each / self.side()
    }

    fn squares(&self, elements: usize) -> std::ops::Range<usize> {
        0..elements / self.side()
    }

    fn ty(&self, scalar: &str, role: char) -> String {
        let side = self.side();
        format!("coop_mat{side}x{side}<{scalar}, {role}>")
    }

    /// The thread's fours of `columns` elements of a row, from its first on, with what holds where there is one.
    fn fours(&self, columns: usize) -> impl Iterator<Item = (usize, Option<String>)> {
        let lanes = self.lanes();
        rounds(columns / 4, lanes, "four").map(move |(round, guard)| (round * lanes, guard))
    }

    /// Statements that bring the queries to the units, through the memory for weights.
    fn queries(&self) -> String {
        let keys = self.schedule().keys;
        let (pitch, subgroup, ty) = (self.pitch(keys), self.units.subgroup, self.ty("f16", 'A'));
        let mut text = String::new();
        for r in self.blocks() {
            for chunk in (0..self.width()).step_by(keys) {
                let columns = keys.min(self.width() - chunk);
                let fours = columns / 4;
                let load = format!(
                    "load_q(own_rows + {}u + at / {fours}u, {chunk}u + at % {fours}u * 4u{})",
                    r * self.side(),
                    self.arguments
                );
                text += &format!(
                    "for (var at = lane; at < {}u; at += {subgroup}u) {{\n    \
                     weights[squares + at / {fours}u * {pitch}u + at % {fours}u] = vec4<f16>({load});\n}}\n\
                     workgroupBarrier();\n",
                    self.side() * fours
                );
                for e in self.squares(columns) {
                    let (name, at) = (chunk / self.side() + e, e * self.side() / 4);
                    text += &format!(
                        "let q{r}_{name} = coopLoadT<{ty}>(&weights[squares + {at}u], {pitch}u);\n"
                    );
                }
                text.push_str("workgroupBarrier();\n");
            }
        }
        text
    }

    fn state(&self) -> String {
        let ty = self.ty("f32", 'C');
        let mut text = String::new();
        for r in self.blocks() {
            text += &format!("var greatest{r} = {LEAST};\nvar total{r} = 0f;\n");
            for d in self.squares(self.schedule().columns) {
                text += &format!("var o{r}_{d} = {ty}();\n");
            }
        }
        text
    }

    /// Statements that add up the scores of a tile.
    fn scores(&self) -> String {
        let (pitch, side, zero) = (self.pitch(self.width()), self.side(), self.ty("f32", 'C'));
        let mut text = String::new();
        for n in self.squares(self.schedule().keys) {
            for r in self.blocks() {
                text += &format!("var s{r}_{n} = {zero}();\n");
            }
            for e in self.squares(self.width()) {
                let at = n * side * pitch + e * side / 4;
                text += &self.add_products("k", "coopLoad", [at, pitch], |r| {
                    [format!("s{r}_{n}"), format!("q{r}_{e}")]
                });
            }
        }
        text
    }

    /// Statements that add the weighted values of a tile.
    fn add_values(&self) -> String {
        let AttentionSchedule { keys, columns, .. } = self.schedule();
        let (pitch, side) = (self.pitch(columns), self.side());
        let mut text = String::new();
        for n in self.squares(keys) {
            for d in self.squares(columns) {
                let at = n * side * pitch + d * side / 4;
                text += &self.add_products("v", "coopLoadT", [at, pitch], |r| {
                    [format!("o{r}_{d}"), format!("p{r}_{n}")]
                });
            }
        }
        text
    }

    /// Statements that add the products of the square at `at` of a tile and those of the rows: `of` names the sum and the
    /// left square of each block.
    fn add_products(
        &self,
        tile: &str,
        load: &str,
        [at, pitch]: [usize; 2],
        of: impl Fn(usize) -> [String; 2],
    ) -> String {
        let ty = self.ty("f16", 'B');
        let mut text =
            format!("{{\n    let {tile} = {load}<{ty}>(&{tile}_tile[{at}u], {pitch}u);\n");
        for [sum, left] in self.blocks().map(of) {
            text += &format!("    {sum} = coopMultiplyAdd({left}, {tile}, {sum});\n");
        }
        text + "}\n"
    }

    fn stores(&self) -> String {
        let pitch = self.pitch(self.schedule().keys);
        let whole = self.schedule().parts == 1;
        let mut text = String::new();
        for r in self.blocks() {
            let query = format!("own_rows + {}u + row", r * self.side());
            let total = format!("total{r}");
            text += &shuffled(&total, self.lanes(), |other| format!("{total} += {other};"));
            text += &if whole {
                format!("let inverse{r} = select(1f / total{r}, 0f, total{r} == 0f);\n")
            } else {
                format!(
                    "if four == 0u {{ store_sums(part, batch, {query}, greatest{r}, total{r}); }}\n"
                )
            };
            for d in self.squares(self.schedule().columns) {
                text += &format!("let result{r}_{d} = squares;\n");
                text += &format!("coopStoreT(o{r}_{d}, &scores[result{r}_{d}], {pitch}u);\n");
                text.push_str("workgroupBarrier();\n");
                for (at, guard) in self.fours(self.side()) {
                    let column =
                        format!("first_column + {}u + (four + {at}u) * 4u", d * self.side());
                    let value = format!("scores[row_at + {at}u]");
                    let line = if whole {
                        format!(
                            "store({query}, {column}, {value} * inverse{r}{});\n",
                            self.arguments
                        )
                    } else {
                        format!("store_partial(part, batch, {query}, {column}, {value});\n")
                    };
                    text += &guarded(line, guard.as_deref());
                }
                text.push_str("workgroupBarrier();\n");
            }
        }
        text
    }
}
