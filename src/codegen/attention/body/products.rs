//! The products of an attention: operands are brought to workgroup memory a chunk at a time, and multiplied there.

use super::tile::SwappedTile;
use super::{ACROSS, CHUNK, TileKernel};
use crate::codegen::attention::rounds::{guarded, rounds};
use crate::codegen::kernel::lanes::LANES;
use crate::codegen::kernel::template::indent;
use crate::plan::AttentionSchedule;

impl TileKernel<'_> {
    /// Statements that read the chunk of queries and keys at `e`, and those that put it into workgroup memory.
    pub(super) fn bring_scores(&self) -> (String, String) {
        let AttentionSchedule { rows, keys, .. } = self.schedule();
        let (q, put_q) = self.bring_across("q", rows, self.x(), "first_row");
        let (k, put_k) = self.bring_across("k", keys, SwappedTile::new("w_tile", keys), "key");
        (q + &k, put_q + &put_k)
    }

    /// A chunk of the width of each of `rows` rows, with the width outermost in workgroup memory.
    fn bring_across(
        &self,
        name: &str,
        rows: usize,
        tile: SwappedTile,
        first: &str,
    ) -> (String, String) {
        let (mut fetch, mut put) = (String::new(), String::new());
        let fours = CHUNK / 4;
        for (round, guard) in self.rounds(rows * fours) {
            let at = format!("(thread + {}u)", round * self.schedule().threads());
            fetch += &format!("let {name}_row{round} = {at} / {fours}u;\n");
            fetch += &format!("let {name}_four{round} = {at} % {fours}u;\n");
            let load = format!(
                "load_{name}({first} + {name}_row{round}, e + {name}_four{round} * 4u{})",
                self.arguments
            );
            fetch += &fetched(name, round, &load, guard.as_deref());
            let SwappedTile { name: tile, pitch, swap } = tile;
            let mut text = format!(
                "let {name}_to{round} = {name}_four{round} * {}u + (({name}_row{round} / 4u) ^ ({name}_four{round} & {swap}u));\n",
                4 * pitch
            );
            for (lane, part) in LANES.iter().enumerate() {
                text += &format!(
                    "{tile}[{name}_to{round} + {}u][{name}_row{round} % 4u] = {name}_held{round}.{part};\n",
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

    pub(super) fn multiply_scores(&self) -> String {
        let [_, keys, _] = self.fours();
        self.multiply("s", keys, SwappedTile::new("w_tile", self.schedule().keys))
    }

    /// Statements that add the products of a chunk in both tiles to `sum`, of `wide` fours across. In a loop: written
    /// out, it was 7 % faster on one large card, and took its driver three times as long.
    fn multiply(&self, sum: &str, wide: usize, w: SwappedTile) -> String {
        let fours = CHUNK / 4;
        let body = indent(&self.multiply_four(sum, wide, w, "four"));
        format!("for (var four = 0u; four < {fours}u; four++) {{\n{body}}}\n")
    }

    fn multiply_four(&self, sum: &str, wide: usize, w: SwappedTile, four: &str) -> String {
        let [high, ..] = self.fours();
        let mut text = String::new();
        for lane in 0..4 {
            text.push_str("{\n");
            for q in 0..wide {
                let at = w.at(four, lane, &format!("(tx + {}u)", q * ACROSS));
                text += &format!("    let w{q} = {at};\n");
            }
            for i in 0..high {
                text += &format!("    let x{i} = {};\n", self.x().at(four, lane, &self.quad(i)));
            }
            for r in self.rows() {
                let x = format!("vec4<f32>(x{}.{})", r / 4, LANES[r % 4]);
                for q in 0..wide {
                    text += &format!("    {sum}{r}_{q} = fma({x}, w{q}, {sum}{r}_{q});\n");
                }
            }
            text.push_str("}\n");
        }
        text
    }

    /// Statements that add the weighted values, a chunk of keys at a time.
    pub(super) fn add_values(&self) -> String {
        let [high, keys, wide] = self.fours();
        let columns = self.schedule().columns;
        let fours = columns / 4;
        let x = self.x();
        let w = SwappedTile { name: "w_tile", pitch: fours, swap: 0 };
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
                    put += &format!(
                        "x_tile[(tx * 4u + {lane}u) * {}u + ({} ^ (tx & {}u))] = vec4<f32>({});\n",
                        x.pitch,
                        self.quad(i),
                        x.swap,
                        rows.join(", ")
                    );
                }
            }
            let multiply = self.multiply("o", wide, w);
            let inner = format!("{fetch}workgroupBarrier();\n{put}workgroupBarrier();\n{multiply}");
            text += &format!("{{\n{}}}\n", indent(&inner));
        }
        text
    }
}

/// Statements that hold the value that `load` reads in round `round`, if there is one.
fn fetched(name: &str, round: usize, load: &str, guard: Option<&str>) -> String {
    match guard {
        None => format!("let {name}_held{round} = {load};\n"),
        Some(guard) => format!(
            "var {name}_held{round}: vec4<f32>;\nif {guard} {{\n    {name}_held{round} = {load};\n}}\n"
        ),
    }
}
