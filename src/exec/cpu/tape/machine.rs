//! Execution of tapes over registers of [`TILE`] lanes, or of a multiple.

use std::ops::Range;

use bytemuck::{cast_slice, cast_slice_mut};
use smallvec::SmallVec;

use super::lanes;
use super::registers::{RegisterBank, Registers};
use crate::exec::cpu::operands::BoundInput;
use crate::exec::cpu::tape::{
    Arg, InnerBroadcast, Instruction, LONGEST, LinkArg, LinkRange, MOST_LINKS, OuterBroadcast,
    TILE, Tape, TapeOp,
};
use crate::exec::cpu::vectors::links::{LaneLink, LaneOperand, Link, apply_links};

/// A tape and the registers of one thread.
pub(crate) struct Machine<'t> {
    tape: &'t Tape,
    /// The registers of the tape, and one for each root, for use if the root is not written directly.
    registers: RegisterBank,
    /// Blocks of a register.
    blocks: usize,
    /// The stretches whose values are known.
    stretches: Range<usize>,
    /// The number of stretches of a walk; 0 if it is unknown.
    all_stretches: usize,
    /// The stretch whose values the lanes hold, and the number of these lanes.
    spread: (usize, usize),
    /// The first column and the number of the lanes that hold the values of columns.
    columns: (usize, usize),
}

/// The range that a tape runs over: `len` elements from `start` on, in row-major order of its space.
#[derive(Clone, Copy)]
pub(crate) struct Span<'a> {
    pub inputs: &'a [Option<BoundInput<'a>>],
    pub start: usize,
    pub len: usize,
    /// The form's combined values for these elements; empty before they are combined.
    pub acc: &'a [u32],
}

/// The destinations of the roots, by position; `None` for a root that stays in its register. They and spans are passed by
/// reference: a copy would wait until all results before it are written.
pub(crate) type RootDestinations<'a> = SmallVec<[Option<&'a mut [u32]>; 2]>;

impl<'t> Machine<'t> {
    pub fn new(tape: &'t Tape) -> Self {
        Self::with_blocks(tape, 1)
    }

    fn with_blocks(tape: &'t Tape, blocks: usize) -> Self {
        let count = usize::from(tape.registers) + tape.roots.len();
        let mut registers = RegisterBank::of(count * blocks);
        for &(register, bits) in &tape.constants {
            let first = usize::from(register) * blocks;
            registers.0[first..first + blocks].iter_mut().for_each(|block| block.0.fill(bits));
        }
        Self {
            tape,
            registers,
            blocks,
            stretches: 0..0,
            all_stretches: 0,
            spread: (0, 0),
            columns: (0, 0),
        }
    }

    /// Returns a machine for a walk over `len` elements of a space. Its registers are as long as the first-level cache
    /// allows: an instruction takes some 20 ns beside its work. For the same reason, the values of many stretches are
    /// computed at once. `converted` of the results are not stored as words, and each takes a register more.
    pub fn for_walk(tape: &'t Tape, len: usize, space: usize, converted: usize) -> Self {
        /// Most blocks of all registers of a tile, 8 KiB. Operands and results pass through the cache beside them.
        const ALL: usize = 4;
        let long = tape.long_registers + converted;
        let all = usize::from(tape.registers) + tape.roots.len();
        let kept = RegisterBank::SIZE / all.max(1);
        let blocks = (ALL / long.max(1)).min(kept).min(LONGEST / TILE).min(len.div_ceil(TILE));
        let all_stretches = space.div_ceil(tape.inner.len.max(1));
        Self { all_stretches, ..Self::with_blocks(tape, blocks.max(1)) }
    }

    /// Runs the tape; `span.len` is at most [`longest_span`](Self::longest_span).
    pub fn run(&mut self, span: &Span<'_>) {
        self.run_to(span, &mut []);
    }

    /// Computes the values of the stretches that `span` touches, and spreads them over its lanes. The inputs of all spans
    /// of a machine are the same, so that values stay while the stretch does.
    fn enter_stretches(&mut self, span: &Span<'_>) {
        /// Stretches whose values are computed at once in a walk.
        const AHEAD: usize = 64;
        let InnerBroadcast { len, instructions, spread } = &self.tape.inner;
        if instructions.is_empty() || span.len == 0 {
            return;
        }
        let (first, last) = (span.start / len, (span.start + span.len - 1) / len);
        if first == last && self.spread.0 == first && self.spread.1 >= span.len {
            return;
        }
        self.spread = (first, if first == last { span.len } else { 0 });
        let needed = first..last + 1;
        if !(self.stretches.contains(&first) && self.stretches.contains(&last)) {
            let ahead = AHEAD.min(self.all_stretches.saturating_sub(first));
            self.stretches = first..first + needed.len().max(ahead);
            self.compute_stretches(span);
        }
        let (registers, blocks) = (&mut self.registers.0, self.blocks);
        let before = span.start - first * len;
        for &(from, to) in spread {
            let (registers, out) = Registers::around(registers, blocks, to);
            let values = &registers.lanes(from)[first - self.stretches.start..][..needed.len()];
            lanes::spread(values, *len, before, span.len, out);
        }
    }

    /// Computes the values of the known stretches.
    fn compute_stretches(&mut self, span: &Span<'_>) {
        let InnerBroadcast { len, instructions, .. } = &self.tape.inner;
        let known =
            Span { start: self.stretches.start, len: self.stretches.len(), acc: &[], ..*span };
        let (registers, blocks) = (&mut self.registers.0, self.blocks);
        for &Instruction { op, out } in instructions {
            let Arg::Register(register) = out else { continue };
            let (registers, out) = Registers::around(registers, blocks, register);
            let out = &mut out[..known.len];
            let reader =
                Reader { tape: self.tape, span: &known, registers, first: 0, destinations: &[] };
            match op {
                TapeOp::Load(operand) => {
                    if let Some(input) = &span.inputs[usize::from(operand)] {
                        input.fetch_stretches(known.start, *len, out);
                    }
                }
                op => reader.step(op, out),
            }
        }
    }

    /// Computes the values of the columns of `span`, unless the lanes hold them.
    fn enter_columns(&mut self, span: &Span<'_>) {
        let OuterBroadcast { period, instructions } = &self.tape.outer;
        let (first, len) = (span.start % period, span.len);
        if instructions.is_empty() || (self.columns.0 == first && self.columns.1 >= len) {
            return;
        }
        self.columns = (first, len);
        for &Instruction { op, out } in instructions {
            let Arg::Register(register) = out else { continue };
            let (registers, out) = Registers::around(&mut self.registers.0, self.blocks, register);
            let reader = Reader { tape: self.tape, span, registers, first: 0, destinations: &[] };
            reader.step(op, &mut out[..len]);
        }
    }

    /// Runs the tape, and computes in `destinations` the roots that [may be written directly](Self::is_direct). Each
    /// destination has `span.len` lanes.
    pub fn run_to(&mut self, span: &Span<'_>, destinations: &mut [Option<&mut [u32]>]) {
        self.enter_stretches(span);
        self.enter_columns(span);
        let first = (span.start / self.tape.inner.len.max(1)).saturating_sub(self.stretches.start);
        let Self { tape, registers: RegisterBank(ref mut registers), blocks, .. } = *self;
        for &Instruction { op, out } in &tape.instructions {
            let register = match out {
                Arg::Register(register) => register,
                Arg::Root(root) => {
                    if let Some(out) =
                        destinations.get_mut(usize::from(root)).and_then(Option::take)
                    {
                        let registers = Registers::all(registers, blocks);
                        let reader = Reader { tape, span, registers, first, destinations };
                        reader.step(op, out);
                        destinations[usize::from(root)] = Some(out);
                        continue;
                    }
                    tape.registers + root
                }
                Arg::Memory(_) | Arg::Acc => continue,
            };
            let (registers, out) = Registers::around(registers, blocks, register);
            let reader = Reader { tape, span, registers, first, destinations };
            reader.step(op, &mut out[..span.len]);
        }
    }

    /// The length of the tile that begins at `start` in a walk over many.
    pub fn reach(&self, start: usize) -> usize {
        self.tape.reach(start, self.lanes())
    }

    /// Returns the input whose lanes are the only root, if the tape computes nothing.
    pub fn fetched<'i, 'a>(
        &self,
        inputs: &'i [Option<BoundInput<'a>>],
    ) -> Option<&'i BoundInput<'a>> {
        self.tape.fetched(inputs)
    }

    /// Lanes of a register.
    pub fn lanes(&self) -> usize {
        self.blocks * TILE
    }

    /// The greatest length of a span. It exceeds a register's if the tape only passes on operands' memory.
    pub fn longest_span(&self) -> usize {
        let as_it_lies = |root: &Arg| matches!(root, Arg::Memory(_));
        if self.tape.roots.iter().all(as_it_lies) { 16 * TILE } else { self.lanes() }
    }

    /// Returns whether root `index` is an operand's memory itself, which is there for spans of any length.
    pub fn reads_memory(&self, index: usize) -> bool {
        matches!(self.tape.roots[index], Arg::Memory(_))
    }

    /// Computes the first root over `span` in `lanes`.
    pub fn fill(&mut self, span: &Span<'_>, lanes: &mut [u32]) {
        if self.is_direct(0) {
            self.run_to(span, &mut [Some(lanes)]);
        } else {
            self.run(span);
            lanes.copy_from_slice(self.root(0, span));
        }
    }

    /// Returns whether root `index` may be written directly to its output.
    pub fn is_direct(&self, index: usize) -> bool {
        self.tape.direct[index]
    }

    /// The lanes of root `index` after a run over the same span in which the root had no destination.
    pub fn root<'a>(&'a self, index: usize, span: &'a Span<'_>) -> &'a [u32] {
        let registers = Registers::all(&self.registers.0, self.blocks);
        let Self { tape, .. } = *self;
        Reader { tape, span, registers, first: 0, destinations: &[] }.lanes(tape.roots[index])
    }
}

/// The sources that an instruction may read.
#[derive(Clone, Copy)]
struct Reader<'s, 'a> {
    tape: &'a Tape,
    span: &'s Span<'a>,
    registers: Registers<'a>,
    /// The position of the span's first stretch among the known stretches.
    first: usize,
    destinations: &'s [Option<&'a mut [u32]>],
}

impl<'s, 'a: 's> Reader<'s, 'a> {
    #[inline]
    fn step(&self, op: TapeOp, out: &mut [u32]) {
        let lanes = |arg| self.lanes(arg);
        match op {
            TapeOp::Load(operand) => {
                if let Some(BoundInput::Strided(strided)) = &self.span.inputs[usize::from(operand)]
                {
                    strided.fetch(self.span.start, out);
                }
            }
            TapeOp::Unary(op, ty, x) => lanes::unary(op, ty, lanes(x), out),
            TapeOp::Sigmoid(x) => lanes::sigmoid(lanes(x), out),
            TapeOp::Binary(op, ty, x, y) => lanes::binary(op, ty, lanes(x), lanes(y), out),
            TapeOp::Chain(x, links) => self.chain(lanes(x), links, out),
            TapeOp::Select(c, x, y) => lanes::select(lanes(c), lanes(x), lanes(y), out),
            TapeOp::Cast(from, to, x) => lanes::cast(from, to, lanes(x), out),
            TapeOp::Fetch(operand, at) => {
                if let Some(BoundInput::Table(table)) = &self.span.inputs[usize::from(operand)] {
                    table.fetch(lanes(at), 0, out);
                }
            }
            TapeOp::FetchStretches(operand, first, stride) => {
                if let Some(BoundInput::Table(table)) = &self.span.inputs[usize::from(operand)] {
                    let firsts = self.registers.lanes(first);
                    self.each_stretch(|stretch, skipped, range| {
                        let first = i64::from(firsts[stretch] as i32) + skipped as i64 * stride;
                        table.fetch_strided(first, stride, &mut out[range]);
                    });
                }
            }
            TapeOp::FetchShifted(operand, first, at) => {
                if let Some(BoundInput::Table(table)) = &self.span.inputs[usize::from(operand)] {
                    let at = lanes(at);
                    let firsts = self.registers.lanes(first);
                    self.each_stretch(|stretch, _, range| {
                        table.fetch(&at[range.clone()], firsts[stretch], &mut out[range]);
                    });
                }
            }
            TapeOp::Check(operand, [holds, site, at]) => {
                out.copy_from_slice(lanes(holds));
                if let Some(BoundInput::Failures(failures)) =
                    &self.span.inputs[usize::from(operand)]
                {
                    failures.report(out, lanes(site), lanes(at));
                }
            }
        }
    }

    fn chain(&self, x: &[u32], links: LinkRange, out: &mut [u32]) {
        /// A usual number of links. To fill an array takes as long as a short pass.
        const FEW: usize = 4;
        let links = self.tape.links(links);
        let mut apply = |stretch, lanes| match links.len() {
            ..=FEW => self.apply::<FEW>(x, links, (stretch, lanes), out),
            _ => self.apply::<MOST_LINKS>(x, links, (stretch, lanes), out),
        };
        let len = self.span.len;
        if !links.iter().any(|(_, arg)| matches!(arg, LinkArg::Stretches(_))) {
            return apply(0, 0..len);
        }
        self.each_stretch(|at, _, lanes| apply(at, lanes));
    }

    /// Applies up to `N` links to some lanes of `x`. `stretch` is the position of their stretch among the known stretches.
    #[inline]
    fn apply<const N: usize>(
        &self,
        x: &[u32],
        links: &[(Link, LinkArg)],
        (stretch, lanes): (usize, Range<usize>),
        out: &mut [u32],
    ) {
        let mut bound = [LaneLink::One(Link::Add, LaneOperand::Result); N];
        for (bound, &(op, arg)) in bound.iter_mut().zip(links) {
            let operand = match arg {
                LinkArg::Constant(number) => LaneOperand::Splat(number),
                LinkArg::Lanes(arg) => {
                    LaneOperand::Lanes(cast_slice(&self.lanes(arg)[lanes.clone()]))
                }
                LinkArg::Stretches(from) => {
                    LaneOperand::Splat(f32::from_bits(self.registers.lanes(from)[stretch]))
                }
                LinkArg::Result => LaneOperand::Result,
            };
            *bound = LaneLink::One(op, operand);
        }
        let (from, to) = (cast_slice(&x[lanes.clone()]), cast_slice_mut(&mut out[lanes]));
        apply_links(&bound[..links.len()], from, to);
    }

    /// Calls `work` for each stretch of the span: with its position among the known stretches, the number of its elements
    /// before the span, and its lanes.
    #[inline]
    fn each_stretch(&self, mut work: impl FnMut(usize, usize, Range<usize>)) {
        let (&Span { start, len, .. }, stretch) = (self.span, self.tape.inner.len);
        let (mut skipped, mut done) = (start % stretch, 0);
        for at in self.first.. {
            let end = len.min(done + stretch - skipped);
            work(at, skipped, done..end);
            if end == len {
                break;
            }
            (skipped, done) = (0, end);
        }
    }

    #[inline]
    fn lanes(&self, arg: Arg) -> &'s [u32] {
        let &Span { inputs, start, len, acc } = self.span;
        match arg {
            Arg::Register(register) => &self.registers.lanes(register)[..len],
            Arg::Root(root) => match self.destinations.get(usize::from(root)) {
                Some(Some(destination)) => destination,
                _ => &self.registers.lanes(self.tape.registers + root)[..len],
            },
            Arg::Memory(operand) => match &inputs[usize::from(operand)] {
                Some(BoundInput::Memory(words)) => &words[start..start + len],
                _ => &[],
            },
            Arg::Acc => &acc[..len],
        }
    }
}
