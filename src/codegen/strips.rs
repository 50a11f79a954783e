//! Products of few rows on scalar units: as fast as the right operand can be read.

use std::fmt::Write;

use super::Dispatch;
use super::kernel::Kernel;
use super::product::{Product, Reading, Side};
use super::tiles::locate;
use crate::dtype::Ty;
use crate::plan::Strip;

/// Fours of k that a thread reads at once.
const UNROLLED: usize = 2;

pub(super) fn lower(product: &Product, mut kernel: Kernel<'_>, strip: Strip) -> Dispatch {
    let w = product.reading(&kernel, Side::W, 4, 4);
    let strip = Strips { strip, along_k: w.along_k, ty: product.ty };
    let unit = strip.unit();
    let guarded = !(product.k.is_multiple_of(unit)
        && product.n.is_multiple_of(strip.columns())
        && product.k > 0);
    let x = Reading { side: Side::X, along_k: true, guarded, halves: false };
    let frame = product.frame(&mut kernel, &[x, Reading { guarded, ..w }]);
    let size = [strip.strip.rows, strip.columns(), unit];
    let (locate, groups) = locate(product, &mut kernel, size);
    let arguments = &frame.base_arguments;
    let holes = [
        ("ty", product.ty_name().to_string()),
        ("rows", strip.strip.rows.to_string()),
        ("columns", strip.columns().to_string()),
        ("threads", strip.threads().to_string()),
        ("functions", frame.functions),
        ("bases", frame.bases),
        ("locate", locate),
        ("slice", strip.slice()),
        ("column", strip.column()),
        ("step", unit.to_string()),
        ("accumulators", strip.accumulators(product.ty_name())),
        ("multiply", strip.multiply(arguments)),
        ("results", strip.results(arguments, product.ty_name())),
    ];
    let holes: Vec<(&str, &str)> = holes.iter().map(|(n, text)| (*n, text.as_str())).collect();
    let template = include_str!("../../shaders/product_strips.wgsl");
    kernel.dispatch(template, &holes, product.phase(), groups)
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

    /// Elements of k that the workgroup reads in one round.
    fn unit(&self) -> usize {
        self.strip.slices * 4 * UNROLLED
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

    /// Statements that read what one round needs, then add the products.
    fn multiply(&self, arguments: &str) -> String {
        let mut text = String::new();
        let at = |u: usize| format!("k + {}u", u * self.strip.slices * 4);
        let parts = if self.along_k { 1 } else { 4 };
        for u in 0..UNROLLED {
            for part in 0..parts {
                let k = format!("{} + {part}u", at(u));
                let _ = writeln!(text, "let w{u}_{part} = load_w({k}, column{arguments});");
            }
        }
        for u in 0..UNROLLED {
            for r in 0..self.strip.rows {
                let _ = writeln!(text, "let x{u}_{r} = load_x({r}u, {}{arguments});", at(u));
            }
        }
        for u in 0..UNROLLED {
            for r in 0..self.strip.rows {
                for part in 0..parts {
                    let x = format!("x{u}_{r}");
                    let x = if self.along_k { x } else { format!("vec4({x}[{part}])") };
                    let _ = match self.ty {
                        Ty::F32 => writeln!(text, "acc{r} = fma({x}, w{u}_{part}, acc{r});"),
                        _ => writeln!(text, "acc{r} += {x} * w{u}_{part};"),
                    };
                }
            }
        }
        text
    }

    /// Statements that add what the slices have, row by row, and store it.
    fn results(&self, arguments: &str, ty: &str) -> String {
        let Strip { rows, quads, slices } = self.strip;
        let step = if self.along_k { 1 } else { quads };
        let mut text = String::new();
        for r in 0..rows {
            let _ = write!(
                text,
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
                let _ = writeln!(text, "if thread < {}u {{", quads / 4);
                for c in 0..4 {
                    let at = format!("(thread * 4u + {c}u) * {slices}u");
                    let _ = writeln!(text, "    let p{c} = partial[{at}];");
                }
                let _ = writeln!(
                    text,
                    "    store({r}u, first_column + thread * 4u, vec4<{ty}>({}){arguments});\n}}",
                    sums.join(", ")
                );
            } else {
                let _ = writeln!(
                    text,
                    "if slice == 0u {{\n    store({r}u, column, partial[thread]{arguments});\n}}"
                );
            }
            if r + 1 < rows {
                text.push_str("workgroupBarrier();\n");
            }
        }
        text
    }
}
