//! The statements of an attention's kernel on matrix units: a subgroup has `each` rows, in squares. Between the
//! products a row of a square is shared by a few neighbouring threads.

use std::fmt::Write;

use super::hide::Hidden;
use super::{Attention, LEAST};
use crate::codegen::kernel::Kernel;
use crate::codegen::results::base;
use crate::codegen::template::indent;
use crate::cost::MatrixUnits;
use crate::plan::{AttentionSchedule, UnitTile};

/// How far scores may outgrow what they are relative to before that follows: weights up to e⁵ are as exact as others.
const SLACK: &str = "5f";

pub(super) struct Squares<'a> {
    pub attention: &'a Attention<'a>,
    /// Where the batch begins in every map: names, and these as arguments.
    pub names: &'a [String],
    pub arguments: &'a str,
    /// For each operand, whether its value is bound in fours.
    pub wide: &'a [bool],
    pub units: MatrixUnits,
}

/// Keys or values, as a tile in workgroup memory.
struct Side {
    name: &'static str,
    columns: usize,
    /// Text of the first column.
    first: &'static str,
    /// The operand, if all that the threads bring are fours of it, as they lie.
    plain: Option<usize>,
}

impl Squares<'_> {
    /// What the template's holes take.
    pub fn holes(&self, kernel: &mut Kernel<'_>) -> Vec<(&'static str, String)> {
        let keys = self.schedule().keys;
        let sides = self.sides(kernel);
        let (fetch, put) = self.bring(kernel, &sides);
        let numbers = [
            ("subgroup", self.units.subgroup as usize),
            ("lanes", self.lanes()),
            ("pitch", self.pitch(keys)),
            ("square_fours", self.side() * self.pitch(keys)),
            ("score_fours", self.subgroups() * self.side() * self.pitch(keys)),
            ("k_fours", keys * self.pitch(self.width())),
            ("v_fours", keys * self.pitch(self.schedule().columns)),
        ];
        let texts = [
            ("queries", self.queries()),
            ("state", self.state()),
            ("places", self.places(kernel, &sides)),
            ("fetch", fetch),
            ("put", put),
            ("scores", self.scores()),
            ("weights", self.weights(kernel)),
            ("add_values", self.add_values()),
            ("stores", self.stores()),
        ];
        numbers.map(|(name, number)| (name, number.to_string())).into_iter().chain(texts).collect()
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
        let (all, lanes) = (columns / 4, self.lanes());
        (0..all.div_ceil(lanes)).map(move |round| {
            let whole = (round + 1) * lanes <= all;
            (round * lanes, (!whole).then(|| format!("four + {}u < {all}u", round * lanes)))
        })
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
                let _ = write!(
                    text,
                    "for (var at = lane; at < {}u; at += {subgroup}u) {{\n    \
                     weights[squares + at / {fours}u * {pitch}u + at % {fours}u] = vec4<f16>({load});\n}}\n\
                     workgroupBarrier();\n",
                    self.side() * fours
                );
                for e in self.squares(columns) {
                    let (name, at) = (chunk / self.side() + e, e * self.side() / 4);
                    let _ = writeln!(
                        text,
                        "let q{r}_{name} = coopLoadT<{ty}>(&weights[squares + {at}u], {pitch}u);"
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
            let _ = writeln!(text, "var greatest{r} = {LEAST};\nvar total{r} = 0f;");
            for d in self.squares(self.schedule().columns) {
                let _ = writeln!(text, "var o{r}_{d} = {ty}();");
            }
        }
        text
    }

    /// The keys and the values.
    fn sides(&self, kernel: &Kernel<'_>) -> [Side; 2] {
        let form = self.attention.form;
        let side = |name, root, columns, first| {
            let plain = self.attention.plain(kernel, self.wide, root, columns);
            Side { name, columns, first, plain }
        };
        [
            side("k", form.k, self.width(), "0u"),
            side("v", form.v, self.schedule().columns, "first_column"),
        ]
    }

    /// The rounds in which the threads bring `columns` of each key, with what holds for those that have one in it, if
    /// not all do.
    fn rounds(&self, columns: usize) -> impl Iterator<Item = (usize, Option<String>)> {
        let (items, threads) = (self.schedule().keys * columns / 4, self.schedule().threads());
        (0..items.div_ceil(threads)).map(move |round| {
            let whole = (round + 1) * threads <= items;
            (round, (!whole).then(|| format!("thread + {}u < {items}u", round * threads)))
        })
    }

    /// Statements that find the thread's places in the tiles, and variables for what is there.
    fn places(&self, kernel: &mut Kernel<'_>, sides: &[Side]) -> String {
        let mut text = String::new();
        for &Side { name, columns, first, plain } in sides {
            let fours = columns / 4;
            for (round, _) in self.rounds(columns) {
                let at = format!("(thread + {}u)", round * self.schedule().threads());
                let _ = writeln!(text, "let {name}_row{round} = {at} / {fours}u;");
                let _ = writeln!(text, "let {name}_four{round} = {at} % {fours}u;");
                let _ = writeln!(text, "var {name}_held{round}: vec4<f16>;");
                if let Some(operand) = plain {
                    let start = base(kernel, &self.attention.operands, operand, self.names);
                    let start = format!("{start} + {first} + {name}_four{round} * 4u");
                    let stride = key_stride(kernel, operand);
                    let at = kernel.index(&start, &[stride], &[format!("{name}_row{round}")]);
                    let _ = writeln!(text, "let {name}_from{round} = ({at}) / 4u;");
                }
            }
        }
        text
    }

    /// Statements that read the tiles at `next_key`, and those that put them into workgroup memory.
    fn bring(&self, kernel: &mut Kernel<'_>, sides: &[Side]) -> (String, String) {
        let (mut fetch, mut put) = (String::new(), String::new());
        for &Side { name, columns, first, plain } in sides {
            let pitch = self.pitch(columns);
            for (round, guard) in self.rounds(columns) {
                let held = format!("{name}_held{round}");
                let four = if let Some(operand) = plain {
                    // Positions move by additions.
                    let stride = key_stride(kernel, operand) / 4;
                    let from = format!("{name}_from{round}");
                    let at = kernel.index(&from, &[stride], &["next_key".to_string()]);
                    kernel.stored_four(operand, &at)
                } else {
                    format!(
                        "vec4<f16>(load_{name}(next_key + {name}_row{round}, {first} + {name}_four{round} * 4u{}))",
                        self.arguments
                    )
                };
                fetch += &guarded(format!("{held} = {four};\n"), guard.as_deref());
                let at = format!("{name}_row{round} * {pitch}u + {name}_four{round}");
                put += &guarded(format!("{name}_tile[{at}] = {held};\n"), guard.as_deref());
            }
        }
        (fetch, put)
    }

    /// Statements that add up the scores of a tile.
    fn scores(&self) -> String {
        let (pitch, side) = (self.pitch(self.width()), self.side());
        let (ty, zero) = (self.ty("f16", 'B'), self.ty("f32", 'C'));
        let mut text = String::new();
        for n in self.squares(self.schedule().keys) {
            for r in self.blocks() {
                let _ = writeln!(text, "var s{r}_{n} = {zero}();");
            }
            for e in self.squares(self.width()) {
                let at = n * side * pitch + e * side / 4;
                let _ = writeln!(text, "{{\n    let k = coopLoad<{ty}>(&k_tile[{at}u], {pitch}u);");
                for r in self.blocks() {
                    let _ =
                        writeln!(text, "    s{r}_{n} = coopMultiplyAdd(q{r}_{e}, k, s{r}_{n});");
                }
                text.push_str("}\n");
            }
        }
        text
    }

    /// Statements that turn scores into weights, add these up, and bring them back to the units.
    fn weights(&self, kernel: &mut Kernel<'_>) -> String {
        let keys = self.schedule().keys;
        let (pitch, ty) = (self.pitch(keys), self.ty("f16", 'A'));
        let scale = kernel.scalar(self.attention.form.scale);
        let unit = self.attention.scale_unit();
        let mut text = format!("let scale = {unit}{scale};\n");
        let fours: Vec<usize> = self.fours(keys).map(|(at, _)| at).collect();
        for r in self.blocks() {
            for n in self.squares(keys) {
                let at = n * self.side() / 4;
                let _ = writeln!(text, "let square{r}_{n} = squares + {at}u;");
                let _ = writeln!(text, "coopStoreT(s{r}_{n}, &scores[square{r}_{n}], {pitch}u);");
            }
            text.push_str("workgroupBarrier();\n");
            text += &self.seen(kernel, r, &fours);
            text += &self.greatest(r, &fours);
            for at in &fours {
                let _ = writeln!(text, "a{r}_{at} = weight(a{r}_{at} - greatest{r});");
                let _ = writeln!(text, "weights[row_at + {at}u] = vec4<f16>(a{r}_{at});");
            }
            let sum = fours.iter().map(|at| format!("a{r}_{at}")).collect::<Vec<_>>().join(" + ");
            let _ = writeln!(text, "total{r} += dot({sum}, vec4<f32>(1f));\nworkgroupBarrier();");
            for n in self.squares(keys) {
                let at = n * self.side() / 4;
                let _ = writeln!(
                    text,
                    "let p{r}_{n} = coopLoadT<{ty}>(&weights[squares + {at}u], {pitch}u);"
                );
            }
        }
        text
    }

    /// Statements that make `a{r}_{at}` of the scores: scaled, with the mask added, −∞ where a key is not seen.
    fn seen(&self, kernel: &mut Kernel<'_>, r: usize, fours: &[usize]) -> String {
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
            let _ = writeln!(text, "var a{r}_{at} = {value};");
        }
        let hidden = Hidden::new(self.attention, kernel);
        let last = hidden.last(&query);
        let mut inner = format!("let last = vec4<i32>({last} - i32(key));\n");
        for at in fours {
            let _ = writeln!(
                inner,
                "a{r}_{at} = select(vec4<f32>(-p_inf()), a{r}_{at}, vec4<i32>(i32((four + {at}u) * 4u)) + vec4<i32>(0, 1, 2, 3) <= last);"
            );
        }
        text + &hidden.guard(&format!("own_rows + {}u", r * self.side()), &inner)
    }

    /// Statements that follow the greatest score where it grew by much, and shrink what was summed.
    fn greatest(&self, r: usize, fours: &[usize]) -> String {
        let all = fours[1..]
            .iter()
            .fold(format!("a{r}_{}", fours[0]), |a, at| format!("max({a}, a{r}_{at})"));
        let mut text = format!("var most{r} = most({all});\n");
        let mut apart = 1;
        while apart < self.lanes() {
            let other = format!("subgroupShuffleXor(most{r}, {apart}u)");
            let _ = writeln!(text, "most{r} = max(most{r}, {other});");
            apart *= 2;
        }
        // In what pads the first row, since all else of workgroup memory is taken.
        let flag = self.pitch(self.schedule().keys) - 1;
        let square = self.side() * self.pitch(self.schedule().keys);
        let flags = (0..self.subgroups()).map(|s| format!("scores[{}u].x", s * square + flag));
        let any = flags.collect::<Vec<_>>().join(" + ");
        let _ = write!(
            text,
            "let grew{r} = subgroupAny(most{r} > greatest{r} + {SLACK});\n\
             if lane == 0u {{\n    scores[squares + {flag}u].x = select(0f, 1f, grew{r});\n}}\n\
             workgroupBarrier();\n\
             // A loop that is left at once, since a branch would have to be known to be uniform.\n\
             loop {{\n    if {any} == 0f {{\n        break;\n    }}\n{}    break;\n}}\n",
            indent(&self.shrink(r))
        );
        text
    }

    /// Statements that make the greatest score what things are relative to.
    fn shrink(&self, r: usize) -> String {
        let (pitch, ty) = (self.pitch(self.schedule().keys), self.ty("f32", 'C'));
        let mut text = format!(
            "let now = max(greatest{r}, most{r});\n\
             let shrink = weight(vec4<f32>(greatest{r} - now));\n\
             greatest{r} = now;\n\
             total{r} *= shrink.x;\n"
        );
        for d in self.squares(self.schedule().columns) {
            let _ = writeln!(text, "let whole{d} = squares;");
            let _ = writeln!(text, "coopStoreT(o{r}_{d}, &scores[whole{d}], {pitch}u);");
            text.push_str("workgroupBarrier();\n");
            for (at, guard) in self.fours(self.side()) {
                let line = format!("scores[row_at + {at}u] *= shrink;\n");
                text += &guarded(line, guard.as_deref());
            }
            text.push_str("workgroupBarrier();\n");
            let _ = writeln!(text, "o{r}_{d} = coopLoadT<{ty}>(&scores[squares], {pitch}u);");
            text.push_str("workgroupBarrier();\n");
        }
        text
    }

    /// Statements that add the weighted values of a tile.
    fn add_values(&self) -> String {
        let AttentionSchedule { keys, columns, .. } = self.schedule();
        let (pitch, side, ty) = (self.pitch(columns), self.side(), self.ty("f16", 'B'));
        let mut text = String::new();
        for n in self.squares(keys) {
            for d in self.squares(columns) {
                let at = n * side * pitch + d * side / 4;
                let _ =
                    writeln!(text, "{{\n    let v = coopLoadT<{ty}>(&v_tile[{at}u], {pitch}u);");
                for r in self.blocks() {
                    let _ =
                        writeln!(text, "    o{r}_{d} = coopMultiplyAdd(p{r}_{n}, v, o{r}_{d});");
                }
                text.push_str("}\n");
            }
        }
        text
    }

    fn stores(&self) -> String {
        let pitch = self.pitch(self.schedule().keys);
        let whole = self.schedule().parts == 1;
        let mut text = String::new();
        for r in self.blocks() {
            let query = format!("own_rows + {}u + row", r * self.side());
            let mut apart = 1;
            while apart < self.lanes() {
                let _ = writeln!(text, "total{r} += subgroupShuffleXor(total{r}, {apart}u);");
                apart *= 2;
            }
            let _ = if whole {
                writeln!(text, "let inverse{r} = select(1f / total{r}, 0f, total{r} == 0f);")
            } else {
                writeln!(
                    text,
                    "if four == 0u {{ store_sums(part, batch, {query}, greatest{r}, total{r}); }}"
                )
            };
            for d in self.squares(self.schedule().columns) {
                let _ = writeln!(text, "let result{r}_{d} = squares;");
                let _ = writeln!(text, "coopStoreT(o{r}_{d}, &scores[result{r}_{d}], {pitch}u);");
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

/// How far one key of an operand is from the next.
fn key_stride(kernel: &Kernel<'_>, operand: usize) -> i64 {
    let strides = &kernel.step.operands[operand].view.strides;
    strides[strides.len() - 2]
}

fn guarded(text: String, guard: Option<&str>) -> String {
    match guard {
        None => text,
        Some(guard) => format!("if {guard} {{\n{}}}\n", indent(&text)),
    }
}
