//! Copies of keys and values to workgroup memory.

use super::Squares;
use crate::codegen::attention::rounds::{guarded, rounds};
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::template::{Holes, holes};

/// Keys or values, as a tile in workgroup memory.
struct StagedTile {
    name: &'static str,
    columns: usize,
    /// Text of the first column.
    first: &'static str,
    /// True if all that a thread brings lies in one column, so that its place there is found once.
    even: bool,
    /// The operand, if all that the threads bring are fours of it, as they lie.
    plain: Option<usize>,
}

impl Squares<'_> {
    /// The holes that bring keys and values: `places` finds the thread's in the tiles, and declares variables for the
    /// elements there, `fetch` reads the tiles at `next_key`, and `put` puts the elements into workgroup memory.
    pub(super) fn bring(&self, kernel: &mut KernelBuilder<'_>) -> Holes {
        let sides = self.sides(kernel);
        let (mut fetch, mut put) = (String::new(), String::new());
        for side in &sides {
            let &StagedTile { name, columns, first, plain, .. } = side;
            let pitch = self.pitch(columns);
            for (round, guard) in self.rounds(columns) {
                let held = format!("{name}_held{round}");
                let [row, four] = self.place(side, round);
                let value = if let Some(operand) = plain {
                    let at = self.position(kernel, side, operand, round);
                    kernel.stored_four(operand, &at)
                } else {
                    let column = format!("{first} + {four} * 4u");
                    format!("vec4<f16>(load_{name}(next_key + {row}, {column}{}))", self.arguments)
                };
                fetch += &guarded(format!("{held} = {value};\n"), guard.as_deref());
                let line = format!("{name}_tile[{row} * {pitch}u + {four}] = {held};\n");
                put += &guarded(line, guard.as_deref());
            }
        }
        holes! { places: self.places(kernel, &sides), fetch, put }
    }

    /// The keys and the values.
    fn sides(&self, kernel: &KernelBuilder<'_>) -> [StagedTile; 2] {
        let form = self.attention.form;
        let side = |name, root, columns, first| {
            let even = self.schedule().threads().is_multiple_of(columns / 4);
            let plain = self.attention.plain(kernel, root, columns);
            StagedTile { name, columns, first, even, plain }
        };
        [
            side("k", form.k, self.width(), "0u"),
            side("v", form.v, self.schedule().columns, "first_column"),
        ]
    }

    /// The rounds in which the threads bring `columns` of each key.
    fn rounds(&self, columns: usize) -> impl Iterator<Item = (usize, Option<String>)> {
        rounds(self.schedule().keys * columns / 4, self.schedule().threads(), "thread")
    }

    /// The row of the tile that the thread brings a four of in `round`, and that four.
    fn place(&self, side: &StagedTile, round: usize) -> [String; 2] {
        let &StagedTile { name, columns, even, .. } = side;
        let (fours, first) = (columns / 4, round * self.schedule().threads());
        if even {
            [format!("({name}_row + {}u)", first / fours), format!("{name}_four")]
        } else {
            [format!("(thread + {first}u) / {fours}u"), format!("(thread + {first}u) % {fours}u")]
        }
    }

    /// Statements that find the thread's places in the tiles, and declare variables for the elements there.
    fn places(&self, kernel: &mut KernelBuilder<'_>, sides: &[StagedTile]) -> String {
        let mut text = String::new();
        for &StagedTile { name, columns, first, even, plain } in sides {
            let fours = columns / 4;
            if even {
                text += &format!("let {name}_row = thread / {fours}u;\n");
                text += &format!("let {name}_four = thread % {fours}u;\n");
            }
            for (round, _) in self.rounds(columns) {
                text += &format!("var {name}_held{round}: vec4<f16>;\n");
            }
            if let Some(operand) = plain {
                let start = self.attention.results.maps.base(operand, self.names);
                let mut at = format!("{start} + {first}");
                if even {
                    let stride = key_stride(kernel, operand);
                    at += &format!(" + {name}_four * 4u");
                    at = kernel.index(&at, &[stride], &[format!("{name}_row")]);
                }
                text += &format!("let {name}_from = ({at}) / 4u;\n");
            }
        }
        text
    }

    /// The position, in fours, of the elements that the thread reads of the plain `operand` in `round`.
    fn position(
        &self,
        kernel: &mut KernelBuilder<'_>,
        side: &StagedTile,
        operand: usize,
        round: usize,
    ) -> String {
        let stride = key_stride(kernel, operand) / 4;
        let from = format!("{}_from", side.name);
        if side.even {
            // The thread's place, and what is the same for all threads, so that few registers are taken.
            let further = round * self.schedule().threads() / (side.columns / 4);
            return kernel.index(&from, &[stride], &[format!("(next_key + {further}u)")]);
        }
        let [row, four] = self.place(side, round);
        kernel.index(&format!("{from} + {four}"), &[stride], &[format!("(next_key + {row})")])
    }
}

/// The distance of one key of an operand from the next.
fn key_stride(kernel: &KernelBuilder<'_>, operand: usize) -> i64 {
    let strides = &kernel.step.operands[operand].view.strides;
    strides[strides.len() - 2]
}
