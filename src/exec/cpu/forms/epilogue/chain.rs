//! Chains: operations that follow a sum, each of which takes the result of the one before and a second operand. A loop
//! runs all of them over lanes in registers.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use std::ops::Range;
use std::sync::LazyLock;

use bytemuck::cast_slice;
use smallvec::SmallVec;

use crate::exec::cpu::forms::vectors::{self, Lanes};
use crate::exec::cpu::operands::BoundInput;
use crate::exec::cpu::tape::pair::Link;
use crate::exec::cpu::tape::{Machine, Span, TILE, Tape};

/// The operations of a chain, and the values that operands have in common.
#[derive(Debug)]
pub(crate) struct Chain {
    pub links: SmallVec<[(Link, LinkOperand); 4]>,
    /// Elements of a run, along which each value of a run is the same; `usize::MAX` without such values.
    pub run: usize,
    /// Elements of a row, each with the same values of columns; `usize::MAX` without such values.
    pub row: usize,
    pub of_runs: Option<LinkTable>,
    pub of_columns: Option<LinkTable>,
}

/// The second operand of an operation.
#[derive(Clone, Copy, Debug)]
pub(crate) enum LinkOperand {
    Constant(f32),
    /// The root of the table of runs.
    Run(usize),
    /// The root of the table of columns.
    Column(usize),
    /// An operand's memory.
    Memory(u16),
}

/// Values that are computed once for each run or column.
#[derive(Debug)]
pub(crate) struct LinkTable {
    pub tape: Tape,
    /// The axes of the out space that the values run over.
    pub axes: Range<usize>,
    pub len: usize,
}

impl LinkTable {
    /// The values of each root.
    fn values(&self, inputs: &[Option<BoundInput<'_>>]) -> Vec<Vec<f32>> {
        let mut values = vec![Vec::with_capacity(self.len); self.tape.roots.len()];
        let mut machine = Machine::new(&self.tape);
        for start in (0..self.len).step_by(TILE) {
            let span = Span { inputs, start, len: TILE.min(self.len - start), acc: &[] };
            machine.run(span);
            for (at, values) in values.iter_mut().enumerate() {
                values.extend_from_slice(cast_slice(machine.root(at, span)));
            }
        }
        values
    }
}

/// A chain whose operands are bound.
pub(crate) struct BoundChain<'a> {
    links: Vec<(Link, Bound<'a>)>,
    run: usize,
    row: usize,
}

enum Bound<'a> {
    Constant(f32),
    Runs(Vec<f32>),
    Columns(Vec<f32>),
    Memory(&'a [f32]),
}

impl Chain {
    /// Binds the operands: those of the out space, and the same through the axes of each table.
    pub fn bind<'a>(
        &self,
        inputs: &[Option<BoundInput<'a>>],
        through: impl Fn(&Range<usize>) -> Vec<Option<BoundInput<'a>>>,
    ) -> BoundChain<'a> {
        let values = |table: &Option<LinkTable>| {
            table.as_ref().map(|table| table.values(&through(&table.axes))).unwrap_or_default()
        };
        let (mut of_runs, mut of_columns) = (values(&self.of_runs), values(&self.of_columns));
        let bound = |&(op, operand): &(Link, LinkOperand)| {
            let operand = match operand {
                LinkOperand::Constant(number) => Bound::Constant(number),
                LinkOperand::Run(at) => Bound::Runs(std::mem::take(&mut of_runs[at])),
                LinkOperand::Column(at) => Bound::Columns(std::mem::take(&mut of_columns[at])),
                LinkOperand::Memory(at) => match &inputs[usize::from(at)] {
                    Some(BoundInput::Memory(words)) => Bound::Memory(cast_slice(words)),
                    _ => unreachable!("the plan says where operands lie"),
                },
            };
            (op, operand)
        };
        BoundChain { links: self.links.iter().map(bound).collect(), run: self.run, row: self.row }
    }
}

/// An operation over the lanes of a segment.
#[derive(Clone, Copy)]
struct SegmentLink<'s> {
    op: Link,
    operand: SegmentOperand<'s>,
}

#[derive(Clone, Copy)]
enum SegmentOperand<'s> {
    Splat(f32),
    Lanes(&'s [f32]),
}

impl BoundChain<'_> {
    /// Replaces `sums`, which begin at position `start` of the out space, by the results of the chain.
    pub fn apply(&self, start: usize, sums: &mut [f32]) {
        let (mut at, end) = (start, start + sums.len());
        while at < end {
            let (run, column) = (at / self.run, at % self.row);
            let next = end.min((run + 1).saturating_mul(self.run));
            let next = next.min(at.saturating_add(self.row - column));
            let links = self.links.iter().map(|(op, operand)| {
                let operand = match operand {
                    Bound::Constant(number) => SegmentOperand::Splat(*number),
                    Bound::Runs(values) => SegmentOperand::Splat(values[run]),
                    Bound::Columns(values) => SegmentOperand::Lanes(&values[column..]),
                    Bound::Memory(words) => SegmentOperand::Lanes(&words[at..next]),
                };
                SegmentLink { op: *op, operand }
            });
            let links: SmallVec<[SegmentLink<'_>; 8]> = links.collect();
            run_links(&links, &mut sums[at - start..next - start]);
            at = next;
        }
    }
}

/// The loop for the instructions of one kind of processor, over as many lanes as the operands have.
type RunLinks = unsafe fn(&[SegmentLink<'_>], &mut [f32]);

fn run_links(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    static NATIVE: LazyLock<RunLinks> = LazyLock::new(|| all()[0]);
    run_links_by(*NATIVE, links, lanes);
}

fn run_links_by(by: RunLinks, links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    for link in links {
        if let SegmentOperand::Lanes(operand) = link.operand {
            assert!(operand.len() >= lanes.len(), "an operand has all lanes");
        }
    }
    // SAFETY: the processor has the instructions of `by` (`all`), and the operands have all lanes.
    unsafe { by(links, lanes) }
}

/// The loops that this processor can run, the best first.
fn all() -> Vec<RunLinks> {
    let mut all: Vec<RunLinks> = Vec::new();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if vectors::has_avx512() {
            all.push(links_avx512);
        }
        if vectors::has_avx2() {
            all.push(links_avx2);
        }
    }
    all.push(links_plain);
    all
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn links_avx512(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    // SAFETY: as the caller promises.
    unsafe { any_links::<std::arch::x86_64::__m512, 8>(links, lanes) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2,fma")]
unsafe fn links_avx2(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    // SAFETY: as the caller promises.
    unsafe { any_links::<std::arch::x86_64::__m256, 4>(links, lanes) }
}

unsafe fn links_plain(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    // SAFETY: as the caller promises.
    unsafe { any_links::<vectors::Plain, 4>(links, lanes) }
}

/// Vectors at a time towards the end of a segment.
const FEW: usize = 3;

/// Replaces `lanes` by the results of the links, `N` vectors at a time.
///
/// # Safety
/// The processor has the instructions of `L`, and operands have all lanes.
#[inline(always)]
unsafe fn any_links<L: Lanes, const N: usize>(links: &[SegmentLink<'_>], lanes: &mut [f32]) {
    let mut at = 0;
    // SAFETY: as the caller promises; each call gets no more lanes than there are.
    unsafe {
        while at + N * L::LEN <= lanes.len() {
            run_at::<L, N>(links, at, lanes.as_mut_ptr().add(at), L::LEN);
            at += N * L::LEN;
        }
        while at + FEW * L::LEN <= lanes.len() {
            run_at::<L, FEW>(links, at, lanes.as_mut_ptr().add(at), L::LEN);
            at += FEW * L::LEN;
        }
        while at < lanes.len() {
            let count = L::LEN.min(lanes.len() - at);
            run_at::<L, 1>(links, at, lanes.as_mut_ptr().add(at), count);
            at += count;
        }
    }
}

/// Computes `N` vectors of lanes, which begin at position `at` of the segment. The last has `count` lanes.
///
/// # Safety
/// As for [`any_links`].
#[inline(always)]
unsafe fn run_at<L: Lanes, const N: usize>(
    links: &[SegmentLink<'_>],
    at: usize,
    lanes: *mut f32,
    count: usize,
) {
    // SAFETY: as the caller promises.
    unsafe {
        let mut values = [L::splat(0.0); N];
        for i in 0..N {
            values[i] = some::<L, N>(lanes, i, count);
        }
        for &SegmentLink { op, operand } in links {
            let mut own = [L::splat(0.0); N];
            let mut may_be_nan = true;
            match operand {
                SegmentOperand::Splat(number) => {
                    own = [L::splat(number); N];
                    may_be_nan = number.is_nan();
                }
                SegmentOperand::Lanes(operand) => {
                    for i in 0..N {
                        own[i] = some::<L, N>(operand.as_ptr().add(at), i, count);
                    }
                }
            }
            for i in 0..N {
                let (t, z) = (values[i], own[i]);
                values[i] = match op {
                    Link::Add => t.add(z),
                    Link::Mul => t.mul(z),
                    Link::Sub => t.sub(z),
                    Link::SubFrom => z.sub(t),
                    Link::Min if !may_be_nan => t.lesser(z),
                    Link::Min => t.lesser(z).or_nan_of(z),
                    Link::MinOf => z.lesser(t).or_nan_of(t),
                    Link::Max if !may_be_nan => t.greater(z),
                    Link::Max => t.greater(z).or_nan_of(z),
                    Link::MaxOf => z.greater(t).or_nan_of(t),
                };
            }
        }
        for i in 0..N {
            let to = lanes.add(i * L::LEN);
            if N > 1 {
                values[i].store(to);
            } else {
                values[i].store_first(to, count);
            }
        }
    }
}

/// Reads vector `i` of `N`. A single one has `count` elements.
///
/// # Safety
/// The elements exist, and the processor has the instructions of `L`.
#[inline(always)]
unsafe fn some<L: Lanes, const N: usize>(from: *const f32, i: usize, count: usize) -> L {
    // SAFETY: as the caller promises.
    unsafe { if N > 1 { L::load(from.add(i * L::LEN)) } else { L::load_first(from, count) } }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::tape::math;

    /// The result of an operation on one lane.
    fn one(op: Link, t: f32, z: f32) -> f32 {
        match op {
            Link::Add => t + z,
            Link::Mul => t * z,
            Link::Sub => t - z,
            Link::SubFrom => z - t,
            Link::Min => math::min(t, z),
            Link::MinOf => math::min(z, t),
            Link::Max => math::max(t, z),
            Link::MaxOf => math::max(z, t),
        }
    }

    #[test]
    fn each_operation_is_that_of_single_lanes_by_the_instructions_of_any_processor() {
        use Link::{Add, Max, MaxOf, Min, MinOf, Mul, Sub, SubFrom};
        let numbers = [-0.0, 0.0, 1.5, -2.0, f32::NAN, f32::INFINITY, f32::NEG_INFINITY];
        for op in [Add, Mul, Sub, SubFrom, Min, MinOf, Max, MaxOf] {
            for len in [1, 4, 5, 15, 16, 17, 128, 140] {
                let sums: Vec<f32> = (0..len).map(|at| numbers[at % 7]).collect();
                let other: Vec<f32> = (0..len).map(|at| numbers[at / 7 % 7]).collect();
                let operands = numbers.map(SegmentOperand::Splat);
                for operand in operands.into_iter().chain([SegmentOperand::Lanes(&other)]) {
                    for by in all() {
                        let mut got = sums.clone();
                        run_links_by(by, &[SegmentLink { op, operand }], &mut got);
                        for (at, got) in got.into_iter().enumerate() {
                            let z = match operand {
                                SegmentOperand::Splat(number) => number,
                                SegmentOperand::Lanes(lanes) => lanes[at],
                            };
                            let want = one(op, sums[at], z);
                            let same = got.to_bits() == want.to_bits();
                            assert!(
                                same || (got.is_nan() && want.is_nan()),
                                "{op:?}: {got} {want}"
                            );
                        }
                    }
                }
            }
        }
    }

    #[test]
    fn lanes_of_any_number_take_their_own_operands() {
        const RUN: usize = 37;
        const ROW: usize = 23;
        let len = 5 * RUN * ROW;
        let number = |at: usize| ((at * 29) % 101) as f32 - 50.0;
        let memory: Vec<f32> = (0..len).map(|at| number(at + 7)).collect();
        let runs: Vec<f32> = (0..len.div_ceil(RUN)).map(|at| number(at + 3)).collect();
        let columns: Vec<f32> = (0..ROW).map(|at| number(at + 5)).collect();
        let chain = BoundChain {
            links: vec![
                (Link::Sub, Bound::Runs(runs.clone())),
                (Link::Mul, Bound::Columns(columns.clone())),
                (Link::SubFrom, Bound::Memory(&memory)),
                (Link::Max, Bound::Constant(-900.0)),
                (Link::MinOf, Bound::Constant(800.0)),
            ],
            run: RUN,
            row: ROW,
        };
        for start in [0, 1, 36, 37, 500] {
            for count in [0, 1, 15, 16, 17, 63, 64, 65, 200, 1001] {
                let mut got: Vec<f32> = (start..start + count).map(number).collect();
                if count > 3 {
                    got[3] = f32::NAN;
                }
                let before = got.clone();
                chain.apply(start, &mut got);
                for (i, (got, sum)) in got.into_iter().zip(before).enumerate() {
                    let at = start + i;
                    let product = (sum - runs[at / RUN]) * columns[at % ROW];
                    let want = memory[at] - product;
                    let want = if want.is_nan() { want } else { want.clamp(-900.0, 800.0) };
                    assert!(got == want || (got.is_nan() && want.is_nan()), "{at}: {got} {want}");
                }
            }
        }
    }
}
