//! Products of few rows on scalar units: as fast as the right operand can be read.

use super::collapsed::Product;
use super::parts::locate;
use super::reading::{Factor, Reading};
use super::transfer::IndexCursor;
use crate::base::dtype::Ty;
use crate::codegen::Dispatch;
use crate::codegen::kernel::KernelBuilder;
use crate::codegen::kernel::template::{holes, shader};
use crate::plan::Strip;

pub(super) fn lower(product: &Product, mut kernel: KernelBuilder<'_>, strip: Strip) -> Dispatch {
    let w = product.reading(&kernel, Factor::W, 4, 4);
    let strip = Strips { strip, along_k: w.along_k, ty: product.ty };
    let unit = strip.strip.unit();
    let ragged_k = !product.k.is_multiple_of(unit) || product.k == 0;
    let ragged = !product.n.is_multiple_of(strip.columns());
    let x = Reading { side: Factor::X, along_k: true, ragged: false, ragged_k, halves: false };
    let frame = product.frame(&mut kernel, [x, Reading { ragged, ragged_k, ..w }]);
    let size = [strip.strip.rows, strip.columns(), unit];
    let (locate, groups) = locate(product, &mut kernel, size);
    let mut multiply = strip.multiply(&mut kernel, &frame.walks, false);
    if ragged_k {
        let end = strip.multiply(&mut kernel, &frame.walks, true);
        let last = strip.ahead(Strip::UNROLLED - 1) + 4;
        multiply = format!("if k + {last}u <= end_k {{\n{multiply}}} else {{\n{end}}}\n");
    }
    multiply += &strip.advance(&mut kernel, &frame.walks);
    let holes = holes! {
        ty: product.ty_name(), rows: strip.strip.rows, columns: strip.columns(),
        threads: strip.threads(), functions: frame.functions, bases: frame.bases, locate,
        slice: strip.slice(), column: strip.column(), step: unit,
        accumulators: strip.accumulators(product.ty_name()),
        places: strip.places(&mut kernel, &frame.walks), multiply,
        results: strip.results(&frame.base_arguments, product.ty_name()),
    };
    kernel.dispatch(shader!("product/strips.wgsl"), &holes, product.part_label(), groups)
}

/// A workgroup's share and how its threads walk over it: with `along_k`, a thread has one column and its
/// neighbours the next fours of k; else it has four columns and its neighbours the next four.
struct Strips {
    strip: Strip,
    along_k: bool,
    ty: Ty,
}

impl Strips {
    fn threads(&self) -> usize {
        self.strip.quads * self.strip.slices
    }

    fn columns(&self) -> usize {
        if self.along_k { self.strip.quads } else { self.strip.quads * 4 }
    }

    fn slice(&self) -> String {
        let Strip { quads, slices, .. } = self.strip;
        if self.along_k { format!("thread % {slices}u") } else { format!("thread / {quads}u") }
    }

    fn column(&self) -> String {
        let Strip { quads, slices, .. } = self.strip;
        if self.along_k { format!("thread / {slices}u") } else { format!("thread % {quads}u * 4u") }
    }

    fn accumulators(&self, ty: &str) -> String {
        (0..self.strip.rows).map(|r| format!("var acc{r} = vec4<{ty}>();\n")).collect()
    }

    /// Statements that find the thread's places in memory.
    fn places(&self, kernel: &mut KernelBuilder<'_>, [x, w]: &[IndexCursor<'_>; 2]) -> String {
        let k = "first_k + slice * 4u";
        let rows =
            (0..self.strip.rows).map(|r| x.start(kernel, &format!("x{r}"), &format!("{r}u"), k));
        rows.collect::<String>() + &w.start(kernel, "w", "column", k)
    }

    /// The distance along k of a thread's `u`-th four of a round from its first.
    fn ahead(&self, u: usize) -> usize {
        u * self.strip.slices * 4
    }

    /// Statements that read the elements of one round, then add the products.
    fn multiply(
        &self,
        kernel: &mut KernelBuilder<'_>,
        [x, w]: &[IndexCursor<'_>; 2],
        end: bool,
    ) -> String {
        let mut text = String::new();
        let parts = if self.along_k { 1 } else { 4 };
        for u in 0..Strip::UNROLLED {
            for part in 0..parts {
                let ahead = self.ahead(u) + part;
                let read = w.read(kernel, "w", &format!("k + {ahead}u"), ahead, end);
                text += &format!("let w{u}_{part} = {read};\n");
            }
        }
        for u in 0..Strip::UNROLLED {
            let (ahead, k) = (self.ahead(u), format!("k + {}u", self.ahead(u)));
            for r in 0..self.strip.rows {
                let read = x.read(kernel, &format!("x{r}"), &k, ahead, end);
                text += &format!("let x{u}_{r} = {read};\n");
            }
        }
        for u in 0..Strip::UNROLLED {
            for r in 0..self.strip.rows {
                for part in 0..parts {
                    let x = format!("x{u}_{r}");
                    let x = if self.along_k { x } else { format!("vec4({x}[{part}])") };
                    text += &match self.ty {
                        Ty::F32 => format!("acc{r} = fma({x}, w{u}_{part}, acc{r});\n"),
                        _ => format!("acc{r} += {x} * w{u}_{part};\n"),
                    };
                }
            }
        }
        text
    }

    /// Statements that move on to the next round.
    fn advance(&self, kernel: &mut KernelBuilder<'_>, [x, w]: &[IndexCursor<'_>; 2]) -> String {
        let rows = 0..self.strip.rows;
        let x: String =
            rows.map(|r| x.advance(kernel, &format!("x{r}"), self.strip.unit())).collect();
        x + &w.advance(kernel, "w", self.strip.unit())
    }

    /// Statements that add the sums of the slices, row by row, and store them.
    fn results(&self, arguments: &str, ty: &str) -> String {
        let Strip { rows, quads, slices } = self.strip;
        let step = if self.along_k { 1 } else { quads };
        let mut text = String::new();
        for r in 0..rows {
            text += &format!(
                "partial[thread] = acc{r};\nworkgroupBarrier();\n\
                 for (var half = {}u; half > 0u; half >>= 1u) {{\n    \
                 if slice < half {{\n        \
                 partial[thread] += partial[thread + half * {step}u];\n    }}\n    \
                 workgroupBarrier();\n}}\n",
                slices / 2
            );
            if self.along_k {
                let sums: Vec<String> =
                    (0..4).map(|c| format!("p{c}.x + p{c}.y + p{c}.z + p{c}.w")).collect();
                text += &format!("if thread < {}u {{\n", quads / 4);
                for c in 0..4 {
                    let at = format!("(thread * 4u + {c}u) * {slices}u");
                    text += &format!("    let p{c} = partial[{at}];\n");
                }
                text += &format!(
                    "    store({r}u, first_column + thread * 4u, vec4<{ty}>({}){arguments});\n}}\n",
                    sums.join(", ")
                );
            } else {
                text += &format!(
                    "if slice == 0u {{\n    store({r}u, column, partial[thread]{arguments});\n}}\n"
                );
            }
            if r + 1 < rows {
                text.push_str("workgroupBarrier();\n");
            }
        }
        text
    }
}
