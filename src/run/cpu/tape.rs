//! Expressions compiled to tapes: short lists of instructions over registers of [`TILE`] lanes.

use smallvec::{SmallVec, smallvec};

use super::input::Input;
use super::{lanes, prefetch};
use crate::dtype::{Scalar, Ty};
use crate::expr::{Binary, Expr, Node, Ref, Unary};

/// Lanes of a register: the registers of a usual tape stay in the first-level cache.
pub(super) const TILE: usize = 512;

/// Where an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arg {
    Register(u16),
    /// What was computed as a root, which may lie in an output.
    Root(u16),
    /// An operand's memory as it lies.
    Memory(u16),
    Acc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Op {
    /// Fetches an operand's elements.
    Gather(u16),
    Unary(Unary, Ty, Arg),
    Binary(Binary, Ty, Arg, Arg),
    Select(Arg, Arg, Arg),
    Cast(Ty, Ty, Arg),
}

#[derive(Clone, Copy, Debug)]
struct Instruction {
    op: Op,
    /// A register or a root, and never one that the instruction reads.
    out: Arg,
}

/// A compiled expression.
#[derive(Debug)]
pub(super) struct Tape {
    instructions: Vec<Instruction>,
    /// Registers that hold one number all the time, and its bits.
    constants: Vec<(u16, u32)>,
    registers: u16,
    roots: SmallVec<[Arg; 2]>,
    flops: u64,
    /// Whether memory is asked for a tile before it is read, and a place before it is written.
    fetch_ahead: bool,
}

impl Tape {
    /// Compiles `roots` for operands bound as `inputs`.
    pub fn compile(
        expr: &Expr,
        roots: &[Ref],
        scalars: &[Scalar],
        inputs: &[Option<Input<'_>>],
    ) -> Self {
        let mut compiler = Compiler::new(expr, roots);
        for r in expr.reachable(roots) {
            let root = roots.iter().position(|&root| root == r);
            compiler.node(r, root, scalars, inputs);
        }
        Self {
            roots: roots.iter().map(|r| compiler.args[r.index()]).collect(),
            instructions: compiler.instructions,
            constants: compiler.constants,
            registers: compiler.registers,
            flops: expr.flops(roots) + 1,
            fetch_ahead: false,
        }
    }

    /// The tape for a step that reads and writes `words` in tiles one after the other. Eight operations on 1e8
    /// elements by 16 threads took 1.09 to 1.17 times as long as a loop by hand with hints of what comes next,
    /// 1.27 to 1.35 times without; where caches hold the words, hints cost up to a third more.
    pub fn over(mut self, words: usize) -> Self {
        const LARGE: usize = 128 << 20;
        self.fetch_ahead = words >= LARGE / 4;
        self
    }

    /// Arithmetic cost of one element; at least 1.
    pub fn flops(&self) -> u64 {
        self.flops
    }

    /// Whether root `index` is the combined value as it is.
    pub fn is_acc(&self, index: usize) -> bool {
        self.roots[index] == Arg::Acc
    }
}

struct Compiler<'e> {
    expr: &'e Expr,
    /// How many readers of each node are still to come.
    readers: Vec<u32>,
    args: Vec<Arg>,
    free: Vec<u16>,
    registers: u16,
    instructions: Vec<Instruction>,
    constants: Vec<(u16, u32)>,
}

impl<'e> Compiler<'e> {
    fn new(expr: &'e Expr, roots: &[Ref]) -> Self {
        let mut readers = vec![0; expr.len()];
        for r in expr.reachable(roots).into_iter().flat_map(|r| expr.node(r).operands()) {
            readers[r.index()] += 1;
        }
        Self {
            expr,
            readers,
            args: vec![Arg::Acc; expr.len()],
            free: Vec::new(),
            registers: 0,
            instructions: Vec::new(),
            constants: Vec::new(),
        }
    }

    fn node(
        &mut self,
        r: Ref,
        root: Option<usize>,
        scalars: &[Scalar],
        inputs: &[Option<Input<'_>>],
    ) {
        let arg = |r: Ref| self.args[r.index()];
        let node = self.expr.node(r);
        let op = match node {
            Node::Acc => return,
            Node::Const(c) => return self.constant(r, c.bits),
            Node::Scalar(n) => return self.constant(r, scalars[usize::from(n)].lane_bits()),
            Node::Load(n) => {
                if matches!(inputs[usize::from(n)], Some(Input::Memory(_))) {
                    self.args[r.index()] = Arg::Memory(n);
                    return;
                }
                Op::Gather(n)
            }
            Node::Unary(op, x) => Op::Unary(op, self.expr.ty(x), arg(x)),
            Node::Binary(op, x, y) => Op::Binary(op, self.expr.ty(x), arg(x), arg(y)),
            Node::Select(c, x, y) => Op::Select(arg(c), arg(x), arg(y)),
            Node::Cast(to, x) => Op::Cast(self.expr.ty(x), to, arg(x)),
        };
        let out = match root {
            Some(root) => Arg::Root(root as u16),
            None => Arg::Register(self.free.pop().unwrap_or_else(|| self.register())),
        };
        self.instructions.push(Instruction { op, out });
        self.args[r.index()] = out;
        self.release(node);
    }

    /// Frees the registers of `node`'s operands that nobody reads later.
    fn release(&mut self, node: Node) {
        for operand in node.operands() {
            let readers = &mut self.readers[operand.index()];
            *readers -= 1;
            let computed = !matches!(self.expr.node(operand), Node::Const(_) | Node::Scalar(_));
            if *readers == 0
                && computed
                && let Arg::Register(register) = self.args[operand.index()]
            {
                self.free.push(register);
            }
        }
    }

    fn register(&mut self) -> u16 {
        self.registers += 1;
        self.registers - 1
    }

    fn constant(&mut self, r: Ref, bits: u32) {
        let register = self.register();
        self.constants.push((register, bits));
        self.args[r.index()] = Arg::Register(register);
    }
}

/// The registers of one thread.
pub(super) struct Machine<'t> {
    tape: &'t Tape,
    registers: Vec<Vec<u32>>,
    /// Where roots lie that are not computed in place, as far as there are any.
    roots: SmallVec<[Vec<u32>; 2]>,
}

/// What a tape runs over: `len` elements from `start` on, in row-major order of its space.
#[derive(Clone, Copy)]
pub(super) struct Span<'a> {
    pub inputs: &'a [Option<Input<'a>>],
    pub start: usize,
    pub len: usize,
    /// What the kernel form combined for these elements; empty before that.
    pub acc: &'a [u32],
}

/// Where roots are to be computed, by position; `None` for those that the machine keeps.
pub(super) type Places<'a> = SmallVec<[Option<&'a mut [u32]>; 2]>;

impl<'t> Machine<'t> {
    pub fn new(tape: &'t Tape) -> Self {
        let mut registers = vec![vec![0; TILE]; usize::from(tape.registers)];
        for &(register, bits) in &tape.constants {
            registers[usize::from(register)].fill(bits);
        }
        Self { tape, registers, roots: smallvec![Vec::new(); tape.roots.len()] }
    }

    /// Runs the tape; `span.len` is at most [`longest_span`](Self::longest_span).
    pub fn run(&mut self, span: Span<'_>) {
        self.run_to(span, smallvec![]);
    }

    /// Runs the tape, with the roots that [have a place](Self::has_place) in `places`, each of `span.len`
    /// lanes.
    pub fn run_to(&mut self, span: Span<'_>, mut places: Places<'_>) {
        places.resize_with(self.tape.roots.len(), || None);
        for place in places.iter_mut().flatten() {
            if self.tape.fetch_ahead {
                prefetch::write(place);
            }
        }
        for &Instruction { op, out } in &self.tape.instructions {
            // No instruction reads what it writes.
            match out {
                Arg::Root(root) if places[usize::from(root)].is_some() => {
                    if let Some(out) = places[usize::from(root)].take() {
                        self.step(op, span, &places, out);
                        places[usize::from(root)] = Some(out);
                    }
                }
                Arg::Root(root) => {
                    let mut lanes = std::mem::take(&mut self.roots[usize::from(root)]);
                    lanes.resize(TILE, 0);
                    self.step(op, span, &places, &mut lanes[..span.len]);
                    self.roots[usize::from(root)] = lanes;
                }
                Arg::Register(register) => {
                    let mut lanes = std::mem::take(&mut self.registers[usize::from(register)]);
                    self.step(op, span, &places, &mut lanes[..span.len]);
                    self.registers[usize::from(register)] = lanes;
                }
                Arg::Memory(_) | Arg::Acc => {}
            }
        }
    }

    /// The most lanes that a run may have: more than [`TILE`] where memory is all the tape reads and
    /// gives.
    pub fn longest_span(&self) -> usize {
        let as_it_lies = |root: &Arg| matches!(root, Arg::Memory(_));
        if self.tape.roots.iter().all(as_it_lies) { 16 * TILE } else { TILE }
    }

    /// Whether root `index` may be given a place: it is computed, and for no other root.
    pub fn has_place(&self, index: usize) -> bool {
        let own = Arg::Root(index as u16);
        self.tape.roots[index] == own && self.tape.roots.iter().filter(|&&r| r == own).count() == 1
    }

    fn step(&self, op: Op, span: Span<'_>, places: &Places<'_>, out: &mut [u32]) {
        let lanes = |arg| self.lanes(arg, span, places);
        match op {
            Op::Gather(operand) => {
                if let Some(Input::Gather(gather)) = &span.inputs[usize::from(operand)] {
                    gather.fetch(span.start, out);
                }
            }
            Op::Unary(op, ty, x) => lanes::unary(op, ty, lanes(x), out),
            Op::Binary(op, ty, x, y) => lanes::binary(op, ty, lanes(x), lanes(y), out),
            Op::Select(c, x, y) => lanes::select(lanes(c), lanes(x), lanes(y), out),
            Op::Cast(from, to, x) => lanes::cast(from, to, lanes(x), out),
        }
    }

    /// The lanes of root `index`, for which there was no place, after a run over the same span.
    pub fn root<'a>(&'a self, index: usize, span: Span<'a>) -> &'a [u32] {
        self.lanes(self.tape.roots[index], span, &[])
    }

    fn lanes<'a>(
        &'a self,
        arg: Arg,
        span: Span<'a>,
        places: &'a [Option<&mut [u32]>],
    ) -> &'a [u32] {
        match arg {
            Arg::Register(register) => &self.registers[usize::from(register)][..span.len],
            Arg::Root(root) => match places.get(usize::from(root)) {
                Some(Some(place)) => place,
                _ => &self.roots[usize::from(root)][..span.len],
            },
            Arg::Memory(operand) => match &span.inputs[usize::from(operand)] {
                Some(input @ Input::Memory(words)) => {
                    let end = span.start + span.len;
                    if self.tape.fetch_ahead {
                        input.fetch_ahead(end, TILE);
                    }
                    &words[span.start..end]
                }
                _ => &[],
            },
            Arg::Acc => &span.acc[..span.len],
        }
    }
}
