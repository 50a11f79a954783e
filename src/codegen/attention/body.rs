//! The statements of an attention's kernel: a thread has `each` rows, in fours that lie in all of the workgroup's, and
//! of these every eighth four of keys and of columns.

use std::fmt::Write;

use super::hide::Hidden;
use super::share::{guarded, rounds};
use super::{Attention, LEAST};
use crate::codegen::kernel::Kernel;
use crate::codegen::lanes::LANES;
use crate::codegen::template::indent;
use crate::plan::AttentionSchedule;

const CHUNK: usize = AttentionSchedule::CHUNK;
const ACROSS: usize = AttentionSchedule::ACROSS;

pub(super) struct Body<'a> {
    pub attention: &'a Attention<'a>,
    /// Where the batch begins in every map, as arguments.
    pub arguments: &'a str,
}

/// Fours of a tile in workgroup memory from one element of the chunk to the next, and which of them change places so
/// that what a thread writes along the chunk is spread over the banks.
#[derive(Clone, Copy)]
struct Tile {
    name: &'static str,
    pitch: usize,
    swap: usize,
}

impl Tile {
    fn new(name: &'static str, size: usize) -> Self {
        let pitch = size / 4;
        Self { name, pitch, swap: pitch.min(8) - 1 }
    }

    /// The text of the four `quad` at element `4 * four + lane` of the chunk.
    fn at(&self, four: &str, lane: usize, quad: &str) -> String {
        let Self { name, pitch, swap } = self;
        let quad = match swap {
            0 => quad.to_string(),
            _ => format!("({quad} ^ ({four} & {swap}u))"),
        };
        format!("{name}[{four} * {}u + {}u + {quad}]", 4 * pitch, lane * pitch)
    }
}

impl Body<'_> {
    /// What the template's holes take.
    pub fn holes(&self, kernel: &mut Kernel<'_>) -> Vec<(&'static str, String)> {
        let AttentionSchedule { rows, keys, columns, .. } = self.schedule();
        let (fetch_scores, put_scores) = self.bring_scores();
        vec![
            ("x_quads", (CHUNK * rows / 4).to_string()),
            ("w_quads", (CHUNK * keys.max(columns) / 4).to_string()),
            ("width", kernel.size(self.attention.form.width)),
            ("state", self.state()),
            ("scores", self.scores()),
            ("fetch_scores", fetch_scores),
            ("put_scores", put_scores),
            ("multiply_scores", self.multiply_scores()),
            ("hide", self.hide(kernel)),
            ("greatest", self.greatest()),
            ("weights", self.weights()),
            ("add_values", self.add_values()),
            ("totals", self.totals()),
            ("stores", self.stores()),
        ]
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

    fn x(&self) -> Tile {
        Tile::new("x_tile", self.schedule().rows)
    }

    fn rows(&self) -> std::ops::Range<usize> {
        0..self.schedule().each
    }

    fn state(&self) -> String {
        let [high, _, wide] = self.fours();
        let mut text = String::new();
        for i in 0..high {
            let _ = writeln!(text, "var greatest{i} = vec4<f32>({LEAST});");
            let _ = writeln!(text, "var total{i} = vec4<f32>();");
        }
        for r in self.rows() {
            for q in 0..wide {
                let _ = writeln!(text, "var o{r}_{q} = vec4<f32>();");
            }
        }
        text
    }

    fn scores(&self) -> String {
        let [_, keys, _] = self.fours();
        let each = self.rows().flat_map(|r| (0..keys).map(move |q| (r, q)));
        each.map(|(r, q)| format!("var s{r}_{q} = vec4<f32>();\n")).collect()
    }

    /// Statements that read the chunk of queries and keys at `e`, and those that put it into workgroup memory.
    fn bring_scores(&self) -> (String, String) {
        let AttentionSchedule { rows, keys, .. } = self.schedule();
        let (q, put_q) = self.bring_across("q", rows, self.x(), "first_row");
        let (k, put_k) = self.bring_across("k", keys, Tile::new("w_tile", keys), "key");
        (q + &k, put_q + &put_k)
    }

    /// Of `rows` rows a chunk of the width each, with the width outermost in workgroup memory.
    fn bring_across(&self, name: &str, rows: usize, tile: Tile, first: &str) -> (String, String) {
        let (mut fetch, mut put) = (String::new(), String::new());
        let fours = CHUNK / 4;
        for (round, guard) in self.rounds(rows * fours) {
            let at = format!("(thread + {}u)", round * self.schedule().threads());
            let _ = writeln!(fetch, "let {name}_row{round} = {at} / {fours}u;");
            let _ = writeln!(fetch, "let {name}_four{round} = {at} % {fours}u;");
            let load = format!(
                "load_{name}({first} + {name}_row{round}, e + {name}_four{round} * 4u{})",
                self.arguments
            );
            fetch += &fetched(name, round, &load, guard.as_deref());
            let Tile { name: tile, pitch, swap } = tile;
            let mut text = format!(
                "let {name}_to{round} = {name}_four{round} * {}u + ({name}_row{round} / 4u ^ ({name}_four{round} & {swap}u));\n",
                4 * pitch
            );
            for (lane, part) in LANES.iter().enumerate() {
                let _ = writeln!(
                    text,
                    "{tile}[{name}_to{round} + {}u][{name}_row{round} % 4u] = {name}_held{round}.{part};",
                    lane * pitch
                );
            }
            put += &guarded(text, guard.as_deref());
        }
        (fetch, put)
    }

    /// The rounds in which the threads take `items`.
    fn rounds(&self, items: usize) -> impl Iterator<Item = (usize, Option<String>)> {
        rounds(items, self.schedule().threads(), "thread")
    }

    fn multiply_scores(&self) -> String {
        let [_, keys, _] = self.fours();
        self.multiply("s", keys, Tile::new("w_tile", self.schedule().keys))
    }

    /// Statements that add the products of a chunk in both tiles to `sum`, of `wide` fours across. In a loop: written
    /// out, it was 7 % faster on one large card, and took its driver three times as long.
    fn multiply(&self, sum: &str, wide: usize, w: Tile) -> String {
        let fours = CHUNK / 4;
        let body = indent(&self.multiply_four(sum, wide, w, "four"));
        format!("for (var four = 0u; four < {fours}u; four++) {{\n{body}}}\n")
    }

    fn multiply_four(&self, sum: &str, wide: usize, w: Tile, four: &str) -> String {
        let [high, ..] = self.fours();
        let mut text = String::new();
        for lane in 0..4 {
            text.push_str("{\n");
            for q in 0..wide {
                let at = w.at(four, lane, &format!("(tx + {}u)", q * ACROSS));
                let _ = writeln!(text, "    let w{q} = {at};");
            }
            for i in 0..high {
                let _ =
                    writeln!(text, "    let x{i} = {};", self.x().at(four, lane, &self.quad(i)));
            }
            for r in self.rows() {
                let x = format!("vec4<f32>(x{}.{})", r / 4, LANES[r % 4]);
                for q in 0..wide {
                    let _ = writeln!(text, "    {sum}{r}_{q} = fma({x}, w{q}, {sum}{r}_{q});");
                }
            }
            text.push_str("}\n");
        }
        text
    }

    /// Statements that scale the scores, add the mask, and put −∞ where a key is not seen.
    fn hide(&self, kernel: &mut Kernel<'_>) -> String {
        let [_, keys, _] = self.fours();
        let scale = kernel.scalar(self.attention.form.scale);
        let unit = self.attention.scale_unit();
        let mut text = format!("let scale = {unit}{scale};\n");
        let each = || self.rows().flat_map(|r| (0..keys).map(move |q| (r, q)));
        let key = |q: usize| format!("key + (tx + {}u) * 4u", q * ACROSS);
        for (r, q) in each() {
            let _ = match self.attention.form.mask {
                None => writeln!(text, "s{r}_{q} *= scale;"),
                Some(_) => writeln!(
                    text,
                    "s{r}_{q} = fma(s{r}_{q}, vec4<f32>(scale), load_mask(first_row + {}, {}{}));",
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
            let _ = writeln!(inner, "let last{r} = vec4<i32>({last});");
            for q in 0..keys {
                let _ = writeln!(
                    inner,
                    "s{r}_{q} = select(hidden, s{r}_{q}, vec4<i32>(i32({})) + vec4<i32>(0, 1, 2, 3) <= last{r});",
                    key(q)
                );
            }
        }
        text + &hidden.guard("first_row", &inner)
    }

    /// Statements that find the greatest score of each row so far, and shrink what was summed.
    fn greatest(&self) -> String {
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
            let _ = writeln!(text, "let now{i} = max(greatest{i}, most{i});");
            let _ = writeln!(text, "let shrink{i} = weight(greatest{i} - now{i});");
            let _ = writeln!(text, "greatest{i} = now{i};");
        }
        for r in self.rows() {
            for q in 0..wide {
                let _ = writeln!(text, "o{r}_{q} *= shrink{}.{};", r / 4, LANES[r % 4]);
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
            let _ = writeln!(text, "x_tile[tx * {pitch}u + {}] = {};", self.quad(i), own(i));
        }
        text.push_str("workgroupBarrier();\n");
        for i in 0..high {
            let part = |t: usize| format!("x_tile[{}u + {}]", t * pitch, self.quad(i));
            let all = (1..ACROSS).fold(part(0), |a, t| merge(a, part(t)));
            let _ = writeln!(text, "let {name}{i} = {all};");
        }
        text
    }

    /// Statements that turn scores into weights and add these up.
    fn weights(&self) -> String {
        let [high, keys, _] = self.fours();
        let mut text = String::new();
        for r in self.rows() {
            for q in 0..keys {
                let greatest = format!("greatest{}.{}", r / 4, LANES[r % 4]);
                let _ = writeln!(text, "s{r}_{q} = weight(s{r}_{q} - vec4<f32>({greatest}));");
            }
        }
        for i in 0..high {
            let row = |r: usize| {
                let all = (1..keys).fold(format!("s{r}_0"), |a, q| format!("{a} + s{r}_{q}"));
                format!("dot({all}, vec4<f32>(1f))")
            };
            let rows: Vec<String> = (4 * i..4 * i + 4).map(row).collect();
            let _ = writeln!(
                text,
                "total{i} = fma(total{i}, shrink{i}, vec4<f32>({}));",
                rows.join(", ")
            );
        }
        text
    }

    /// Statements that add the weighted values, a chunk of keys at a time.
    fn add_values(&self) -> String {
        let [high, keys, wide] = self.fours();
        let columns = self.schedule().columns;
        let fours = columns / 4;
        let x = self.x();
        let w = Tile { name: "w_tile", pitch: fours, swap: 0 };
        let mut text = String::new();
        for chunk in 0..keys {
            let (mut fetch, mut put) = (String::new(), String::new());
            for (round, guard) in self.rounds(CHUNK * fours) {
                let at = format!("(thread + {}u)", round * self.schedule().threads());
                let load = format!(
                    "load_v(key + {}u + {at} / {fours}u, first_column + {at} % {fours}u * 4u{})",
                    chunk * CHUNK,
                    self.arguments
                );
                fetch += &fetched("v", round, &load, guard.as_deref());
                put += &guarded(format!("w_tile[{at}] = v_held{round};\n"), guard.as_deref());
            }
            for (lane, part) in LANES.iter().enumerate() {
                for i in 0..high {
                    let rows = (4 * i..4 * i + 4).map(|r| format!("s{r}_{chunk}.{part}"));
                    let rows: Vec<String> = rows.collect();
                    let _ = writeln!(
                        put,
                        "x_tile[(tx * 4u + {lane}u) * {}u + ({} ^ (tx & {}u))] = vec4<f32>({});",
                        x.pitch,
                        self.quad(i),
                        x.swap,
                        rows.join(", ")
                    );
                }
            }
            let multiply = self.multiply("o", wide, w);
            let inner = format!("{fetch}workgroupBarrier();\n{put}workgroupBarrier();\n{multiply}");
            let _ = write!(text, "{{\n{}}}\n", indent(&inner));
        }
        text
    }

    /// Statements that put together the sums of the weights.
    fn totals(&self) -> String {
        self.put_together("sum", |i| format!("total{i}"), |a, b| format!("{a} + {b}"))
    }

    fn stores(&self) -> String {
        let [high, _, wide] = self.fours();
        let mut text = String::new();
        if self.schedule().parts == 1 {
            for i in 0..high {
                let zero = "vec4<f32>()";
                let _ = writeln!(
                    text,
                    "let inverse{i} = select(1f / sum{i}, {zero}, sum{i} == {zero});"
                );
            }
        }
        for r in self.rows() {
            let row = format!("first_row + {}", self.row(r));
            let lane = LANES[r % 4];
            for q in 0..wide {
                let column = format!("first_column + (tx + {}u) * 4u", q * ACROSS);
                let _ = if self.schedule().parts == 1 {
                    let value = format!("o{r}_{q} * inverse{}.{lane}", r / 4);
                    writeln!(text, "store({row}, {column}, {value}{});", self.arguments)
                } else {
                    writeln!(text, "store_partial(part, batch, {row}, {column}, o{r}_{q});")
                };
            }
            if self.schedule().parts > 1 {
                let (greatest, sum) = (format!("greatest{}", r / 4), format!("sum{}", r / 4));
                let _ = writeln!(
                    text,
                    "if tx == 0u && first_column == 0u {{ store_sums(part, batch, {row}, {greatest}.{lane}, {sum}.{lane}); }}"
                );
            }
        }
        text
    }
}

/// Statements that hold what `load` reads in round `round`, where there is something.
fn fetched(name: &str, round: usize, load: &str, guard: Option<&str>) -> String {
    match guard {
        None => format!("let {name}_held{round} = {load};\n"),
        Some(guard) => format!(
            "var {name}_held{round}: vec4<f32>;\nif {guard} {{\n    {name}_held{round} = {load};\n}}\n"
        ),
    }
}
