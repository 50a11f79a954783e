//! Short products whose operands the first run finds in memory for all later ones: the search takes as long as the product.
//! This thread computes them by one call of the kernel, or shares blocks with helpers that spin.

use std::slice::{from_mut, from_raw_parts_mut};

use bytemuck::cast_slice;
use smallvec::SmallVec;

use super::blocks;
use super::by_kernel::ProductBlock;
use super::kernel::{DotProducts, Kernel, PanelProduct, Panels, Rows};
use crate::exec::cpu::StepJob;
use crate::exec::cpu::chain::LinkOperand;
use crate::exec::cpu::operands::SharedOutputs;
use crate::exec::cpu::step_cache::{OperandMatrix, PreparedProduct, RightMatrix};
use crate::exec::cpu::vectors::links::{LaneLink, LaneOperand, Link, apply_links_in_place};
use crate::exec::threads;
use crate::exec::{ArrangementKey, HostBuffer};

impl PreparedProduct {
    /// Computes `out`, the only output of `job`. Returns `None`, and computes nothing, if `out` has another length than
    /// expected, if an operand is shorter, or if panels are not kept yet.
    pub fn multiply(&self, job: &StepJob<'_>, out: &mut HostBuffer) -> Option<()> {
        let [m, n, _] = self.size;
        let right = match &self.w {
            RightMatrix::Rows(w) => BoundRight::Rows(w.rows(job)?),
            RightMatrix::Columns(w) => BoundRight::Columns(w.rows(job)?),
            RightMatrix::Panels(operand, key) => {
                let operand = &job.step.operands[*operand];
                let key = ArrangementKey { start: operand.view.offset, ..*key };
                BoundRight::Panels(job.value_of(operand)?.1.arranged().kept(key)?)
            }
        };
        if out.as_slice::<f32>()?.len() != m * n {
            return None;
        }
        let product = BoundProduct {
            size: self.size,
            x: self.x.rows(job)?,
            right,
            links: links(job, m * n)?,
        };
        let block_size = match right {
            BoundRight::Panels(_) => blocks::short_blocks(self.size),
            BoundRight::Rows(_) | BoundRight::Columns(_) => [m, n],
        };
        let outputs = SharedOutputs::new(from_mut(out));
        // SAFETY: the output is borrowed here alone and has m·n elements, as checked. Blocks are disjoint and lie in it.
        let compute = |block| unsafe {
            product.compute(block, outputs.start(0).cast());
        };
        if block_size == [m, n] {
            compute(ProductBlock { index: 0, rows: 0..m, columns: 0..n });
        } else {
            let blocks = || blocks::cut(self.size, 1, block_size);
            threads::for_each_number(blocks().count(), |at| blocks().nth(at).map_or((), compute));
        }
        Some(())
    }
}

/// A product whose operands are bound to memory.
struct BoundProduct<'a> {
    size: [usize; 3],
    x: Rows<'a>,
    right: BoundRight<'a>,
    links: SmallVec<[LaneLink<'a>; 4]>,
}

/// A [`RightMatrix`] bound to memory.
#[derive(Clone, Copy)]
enum BoundRight<'a> {
    Rows(Rows<'a>),
    Columns(Rows<'a>),
    Panels(&'a [f32]),
}

impl BoundProduct<'_> {
    /// Computes the results of a block of some rows and columns. The columns begin with a panel, and a panel or the product ends them.
    ///
    /// # Safety
    /// The results of the whole product lie at `results`, and the block lies in the product. Nothing else accesses the
    /// block's results meanwhile.
    unsafe fn compute(&self, block: ProductBlock, results: *mut f32) {
        let ProductBlock { rows, columns, .. } = block;
        let [_, n, k] = self.size;
        let (kernel, size) = (Kernel::native(), [rows.len(), columns.len(), k]);
        let x = Rows { data: &self.x.data[rows.start * self.x.stride..], ..self.x };
        // SAFETY: the block lies in the results and is this call's alone, as the caller promises. `apply` is given whole rows
        // of it, or its part of one row.
        unsafe {
            let sums = results.add(rows.start * n + columns.start);
            match self.right {
                BoundRight::Rows(w) => {
                    let w = Panels::InPlace(w);
                    kernel.panels(&PanelProduct { size, x, w }, sums, n, false);
                }
                BoundRight::Columns(w) => kernel.dots(&DotProducts { size, x, w }, sums, n, false),
                BoundRight::Panels(all) => {
                    debug_assert_eq!(
                        columns.start % kernel.panel_width,
                        0,
                        "blocks are whole panels"
                    );
                    let data = &all[columns.start * k..];
                    let w = Panels::Packed { data, pitch: kernel.panel_width * k };
                    kernel.panels(&PanelProduct { size, x, w }, sums, n, false);
                }
            }
            if self.links.is_empty() {
                return;
            }
            let apply = |first, len| {
                apply_links_in_place(
                    &self.links,
                    first,
                    from_raw_parts_mut(results.add(first), len),
                );
            };
            if columns.len() == n {
                return apply(rows.start * n, rows.len() * n);
            }
            rows.for_each(|row| apply(row * n + columns.start, columns.len()));
        }
    }
}

/// The operations that follow `len` sums, bound to their operands. `None` if a value has another length than expected.
fn links<'a>(job: &StepJob<'a>, len: usize) -> Option<SmallVec<[LaneLink<'a>; 4]>> {
    let links = job.cache.known_chain().map_or(&[][..], |chain| &chain.links);
    let bound = |&(op, operand): &(Link, LinkOperand)| {
        let operand = match operand {
            LinkOperand::Constant(number) => LaneOperand::Splat(number),
            LinkOperand::Memory(at) => {
                let operand = &job.step.operands[usize::from(at)];
                let (_, value) = job.value_of(operand)?;
                let start = usize::try_from(operand.view.offset).ok()?;
                LaneOperand::Lanes(cast_slice(value.words().get(start..start + len)?))
            }
            LinkOperand::Stretch(_) | LinkOperand::Column(_) => return None,
        };
        Some(LaneLink::One(op, operand))
    };
    links.iter().map(bound).collect()
}

impl OperandMatrix {
    /// The rows or columns, if the value holds them all.
    fn rows<'a>(&self, job: &StepJob<'a>) -> Option<Rows<'a>> {
        let operand = &job.step.operands[self.operand];
        let words = job.value_of(operand)?.1.words();
        let words = words.get(usize::try_from(operand.view.offset).ok()?..)?;
        (words.len() >= self.span).then(|| Rows { data: cast_slice(words), stride: self.stride })
    }
}

#[cfg(test)]
mod tests {
    use smallvec::smallvec;

    use super::*;

    /// Numbers without a pattern, in −1..1.
    fn numbers(len: usize, seed: usize) -> Vec<f32> {
        (0..len).map(|at| ((at * 7919 + seed) % 1013) as f32 / 506.5 - 1.0).collect()
    }

    #[test]
    fn blocks_have_the_bits_of_the_whole_with_what_follows_the_sums() {
        let width = Kernel::native().panel_width;
        for (m, n, k) in [(1, 2 * width, 37), (3, 3 * width, 5), (8, 2 * width + 5, 9)] {
            let size = [m, n, k];
            let (x, w, after) = (numbers(m * k, 1), numbers(k * n, 2), numbers(m * n, 3));
            let mut panels = vec![0.0; n.next_multiple_of(width) * k];
            for (at, &number) in w.iter().enumerate() {
                let (row, column) = (at / n, at % n);
                panels[column / width * width * k + row * width + column % width] = number;
            }
            let product = BoundProduct {
                size,
                x: Rows { data: &x, stride: k },
                right: BoundRight::Panels(&panels),
                links: smallvec![
                    LaneLink::One(Link::Mul, LaneOperand::Splat(0.5)),
                    LaneLink::One(Link::Add, LaneOperand::Lanes(&after)),
                ],
            };
            let by = |block_size| {
                let mut out = vec![f32::NAN; m * n];
                for block in blocks::cut(size, 1, block_size) {
                    // SAFETY: `out` has all results, and no other thread has it.
                    unsafe { product.compute(block, out.as_mut_ptr()) };
                }
                out
            };
            let whole = by([m, n]);
            for (at, &got) in whole.iter().enumerate() {
                let (row, column) = (at / n, at % n);
                let terms =
                    (0..k).map(|i| f64::from(x[row * k + i]) * f64::from(w[i * n + column]));
                let want = terms.sum::<f64>() * 0.5 + f64::from(after[at]);
                assert!((f64::from(got) - want).abs() < 1e-5, "{size:?} at {at}: {got} for {want}");
            }
            for blocks in [[1, n], [m, width], [2, 2 * width]] {
                assert!(by(blocks).iter().zip(&whole).all(|(a, b)| a.to_bits() == b.to_bits()));
            }
        }
    }
}
