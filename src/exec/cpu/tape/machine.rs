//! Tapes at work: registers of [`TILE`] lanes, and what instructions read and write.

use std::cell::Cell;
use std::mem;

use bytemuck::Zeroable;
use smallvec::{SmallVec, smallvec};

use super::{lanes, pair};
use crate::exec::cpu::operands::input::Input;
use crate::exec::cpu::operands::prefetch;
use crate::exec::cpu::tape::{Arg, Instruction, Op, TILE, Tape};

/// A register. Vectors that straddle two cache lines take twice as long, hence the alignment.
#[derive(Clone, Copy, Zeroable)]
#[repr(C, align(64))]
struct Register([u32; TILE]);

/// Registers, which the next machine of a thread has after this one.
struct Bank(Vec<Register>);

thread_local! {
    /// To allocate registers and to write zeros to them takes as long as a small run.
    static BANKS: Cell<Vec<Vec<Register>>> = const { Cell::new(Vec::new()) };
}

impl Bank {
    /// Banks that a thread keeps, and the registers of a bank that is kept at most.
    const IDLE: usize = 3;
    const SIZE: usize = 64;

    /// At least `count` registers, of any content.
    fn of(count: usize) -> Self {
        // A thread that ends has none.
        let kept = BANKS.try_with(|kept| {
            let mut banks = kept.take();
            let bank = banks.pop();
            kept.set(banks);
            bank
        });
        let mut registers = kept.ok().flatten().unwrap_or_default();
        if registers.len() < count {
            registers.resize(count, Register::zeroed());
        }
        Self(registers)
    }
}

impl Drop for Bank {
    fn drop(&mut self) {
        let registers = mem::take(&mut self.0);
        if registers.len() > Self::SIZE {
            return;
        }
        // A thread that ends keeps none.
        let _ = BANKS.try_with(|kept| {
            let mut banks = kept.take();
            if banks.len() < Self::IDLE {
                banks.push(registers);
            }
            kept.set(banks);
        });
    }
}

/// The registers of one thread.
pub(in crate::exec::cpu) struct Machine<'t> {
    tape: &'t Tape,
    /// Those of the tape, and one for each root, where that is not computed in place.
    registers: Bank,
    /// Whether memory is asked for a tile before it is read, and a place before it is written.
    fetch_ahead: bool,
}

/// What a tape runs over: `len` elements from `start` on, in row-major order of its space.
#[derive(Clone, Copy)]
pub(in crate::exec::cpu) struct Span<'a> {
    pub inputs: &'a [Option<Input<'a>>],
    pub start: usize,
    pub len: usize,
    /// What the kernel form combined for these elements; empty before that.
    pub acc: &'a [u32],
}

/// Where roots are to be computed, by position; `None` for those that the machine keeps.
pub(in crate::exec::cpu) type Places<'a> = SmallVec<[Option<&'a mut [u32]>; 2]>;

impl<'t> Machine<'t> {
    pub fn new(tape: &'t Tape) -> Self {
        let count = usize::from(tape.registers) + tape.roots.len();
        let mut registers = Bank::of(count);
        for &(register, bits) in &tape.constants {
            registers.0[usize::from(register)].0.fill(bits);
        }
        Self { tape, registers, fetch_ahead: false }
    }

    /// The machine for a step of which each thread reads and writes `words` in tiles one after the other. Eight
    /// operations on 1e8 elements by 16 threads took 1.09 to 1.17 times as long as a loop by hand with hints of what
    /// comes next, 1.27 to 1.35 times without; by one thread, 1e6 took 1.6 times as long with and 2.4 without. Where
    /// caches hold the words, hints cost up to a third more: 6 MB of one thread took as long with as without.
    pub fn over(mut self, words: usize) -> Self {
        const LARGE: usize = 8 << 20;
        self.fetch_ahead = words >= LARGE / 4;
        self
    }

    /// Runs the tape; `span.len` is at most [`longest_span`](Self::longest_span).
    pub fn run(&mut self, span: Span<'_>) {
        self.run_to(span, smallvec![]);
    }

    /// Runs the tape, with the roots that [have a place](Self::has_place) in `places`, each of `span.len`
    /// lanes.
    pub fn run_to(&mut self, span: Span<'_>, mut places: Places<'_>) {
        let Self { tape, registers: Bank(ref mut registers), fetch_ahead, .. } = *self;
        while places.len() < tape.roots.len() {
            places.push(None);
        }
        if fetch_ahead {
            places.iter_mut().flatten().for_each(|place| prefetch::write(place));
        }
        for &Instruction { op, out } in &tape.instructions {
            let register = match out {
                Arg::Register(register) => register,
                Arg::Root(root) => {
                    if let Some(out) = places[usize::from(root)].take() {
                        let registers = Registers { low: registers, high: &[] };
                        let reader = Reader { tape, span, registers, places: &places, fetch_ahead };
                        reader.step(op, out);
                        places[usize::from(root)] = Some(out);
                        continue;
                    }
                    tape.registers + root
                }
                Arg::Memory(_) | Arg::Acc => continue,
            };
            let (registers, out) = Registers::around(registers, usize::from(register));
            let reader = Reader { tape, span, registers, places: &places, fetch_ahead };
            reader.step(op, &mut out[..span.len]);
        }
    }

    /// The most lanes that a run may have: more than [`TILE`] where memory is all the tape reads and
    /// gives.
    pub fn longest_span(&self) -> usize {
        let as_it_lies = |root: &Arg| matches!(root, Arg::Memory(_));
        if self.tape.roots.iter().all(as_it_lies) { 16 * TILE } else { TILE }
    }

    /// Whether root `index` is an operand's memory as it lies, which is there for spans of any length.
    pub fn reads_memory(&self, index: usize) -> bool {
        matches!(self.tape.roots[index], Arg::Memory(_))
    }

    /// Whether root `index` may be given a place: it is computed, and for no other root.
    pub fn has_place(&self, index: usize) -> bool {
        self.tape.own[index]
    }

    /// The lanes of root `index`, for which there was no place, after a run over the same span.
    pub fn root<'a>(&'a self, index: usize, span: Span<'a>) -> &'a [u32] {
        let registers = Registers { low: &self.registers.0, high: &[] };
        let Self { tape, fetch_ahead, .. } = *self;
        Reader { tape, span, registers, places: &[], fetch_ahead }.lanes(tape.roots[index])
    }
}

/// All registers but one, or all.
#[derive(Clone, Copy)]
struct Registers<'a> {
    low: &'a [Register],
    /// Those after the one that is left out.
    high: &'a [Register],
}

impl<'a> Registers<'a> {
    /// The lanes of register `index`, and the other registers.
    fn around(all: &'a mut [Register], index: usize) -> (Self, &'a mut [u32; TILE]) {
        let (low, rest) = all.split_at_mut(index);
        let (own, high) = rest.split_at_mut(1);
        (Self { low, high }, &mut own[0].0)
    }

    #[inline]
    fn lanes(self, index: usize) -> &'a [u32; TILE] {
        let register = self.low.get(index);
        &register.unwrap_or_else(|| &self.high[index - self.low.len() - 1]).0
    }
}

/// What an instruction may read.
#[derive(Clone, Copy)]
struct Reader<'a> {
    tape: &'a Tape,
    span: Span<'a>,
    registers: Registers<'a>,
    places: &'a [Option<&'a mut [u32]>],
    fetch_ahead: bool,
}

impl<'a> Reader<'a> {
    #[inline]
    fn step(&self, op: Op, out: &mut [u32]) {
        let lanes = |arg| self.lanes(arg);
        match op {
            Op::Gather(operand) => {
                if let Some(Input::Gather(gather)) = &self.span.inputs[usize::from(operand)] {
                    gather.fetch(self.span.start, out);
                }
            }
            Op::Unary(op, ty, x) => lanes::unary(op, ty, lanes(x), out),
            Op::Binary(op, ty, x, y) => lanes::binary(op, ty, lanes(x), lanes(y), out),
            Op::Pair(first, second, args) => pair::run(first, second, args.map(lanes), out),
            Op::Select(c, x, y) => lanes::select(lanes(c), lanes(x), lanes(y), out),
            Op::Cast(from, to, x) => lanes::cast(from, to, lanes(x), out),
            Op::Fetch(operand, at) => {
                if let Some(Input::Table(table)) = &self.span.inputs[usize::from(operand)] {
                    table.fetch(lanes(at), out);
                }
            }
            Op::Check(operand, [holds, site, at]) => {
                out.copy_from_slice(lanes(holds));
                if let Some(Input::Failures(failures)) = &self.span.inputs[usize::from(operand)] {
                    failures.tell(out, lanes(site), lanes(at));
                }
            }
        }
    }

    #[inline]
    fn lanes(&self, arg: Arg) -> &'a [u32] {
        let Span { inputs, start, len, acc } = self.span;
        match arg {
            Arg::Register(register) => &self.registers.lanes(usize::from(register))[..len],
            Arg::Root(root) => match self.places.get(usize::from(root)) {
                Some(Some(place)) => place,
                _ => &self.registers.lanes(usize::from(self.tape.registers + root))[..len],
            },
            Arg::Memory(operand) => match &inputs[usize::from(operand)] {
                Some(input @ Input::Memory(words)) => {
                    if self.fetch_ahead {
                        input.fetch_ahead(start + len, TILE);
                    }
                    &words[start..start + len]
                }
                _ => &[],
            },
            Arg::Acc => &acc[..len],
        }
    }
}
