//! Expressions compiled to tapes: short lists of instructions over registers of [`TILE`] lanes.

use smallvec::SmallVec;

use super::input::Input;
use super::lanes;
use crate::dtype::{Scalar, Ty};
use crate::expr::{Binary, Expr, Node, Ref, Unary};

/// Lanes of a register: the registers of a usual tape stay in the first-level cache.
pub(super) const TILE: usize = 512;

/// Where an instruction reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Arg {
    Register(u16),
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
    /// Never a register that the instruction reads.
    out: u16,
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
            compiler.node(r, scalars, inputs);
        }
        Self {
            roots: roots.iter().map(|r| compiler.args[r.index()]).collect(),
            instructions: compiler.instructions,
            constants: compiler.constants,
            registers: compiler.registers,
            flops: expr.flops(roots) + 1,
        }
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
    /// How many readers of each node are still to come; roots have one that never comes.
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
        let operands = expr.reachable(roots).into_iter().flat_map(|r| expr.node(r).operands());
        for r in operands.chain(roots.iter().copied()) {
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

    fn node(&mut self, r: Ref, scalars: &[Scalar], inputs: &[Option<Input<'_>>]) {
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
        let out = self.free.pop().unwrap_or_else(|| self.register());
        self.instructions.push(Instruction { op, out });
        self.args[r.index()] = Arg::Register(out);
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

impl<'t> Machine<'t> {
    pub fn new(tape: &'t Tape) -> Self {
        let mut registers = vec![vec![0; TILE]; usize::from(tape.registers)];
        for &(register, bits) in &tape.constants {
            registers[usize::from(register)].fill(bits);
        }
        Self { tape, registers }
    }

    /// Runs the tape; `span.len` is at most [`TILE`].
    pub fn run(&mut self, span: Span<'_>) {
        for &Instruction { op, out: register } in &self.tape.instructions {
            // No instruction reads the register that it writes.
            let mut lanes = std::mem::take(&mut self.registers[usize::from(register)]);
            let out = &mut lanes[..span.len];
            match op {
                Op::Gather(operand) => {
                    if let Some(Input::Gather(gather)) = &span.inputs[usize::from(operand)] {
                        gather.fetch(span.start, out);
                    }
                }
                Op::Unary(op, ty, x) => lanes::unary(op, ty, self.lanes(x, span), out),
                Op::Binary(op, ty, x, y) => {
                    lanes::binary(op, ty, self.lanes(x, span), self.lanes(y, span), out);
                }
                Op::Select(c, x, y) => {
                    let (c, x, y) = (self.lanes(c, span), self.lanes(x, span), self.lanes(y, span));
                    lanes::select(c, x, y, out);
                }
                Op::Cast(from, to, x) => lanes::cast(from, to, self.lanes(x, span), out),
            }
            self.registers[usize::from(register)] = lanes;
        }
    }

    /// The lanes of root `index` after [`run`](Self::run) over the same span.
    pub fn root<'a>(&'a self, index: usize, span: Span<'a>) -> &'a [u32] {
        self.lanes(self.tape.roots[index], span)
    }

    fn lanes<'a>(&'a self, arg: Arg, span: Span<'a>) -> &'a [u32] {
        match arg {
            Arg::Register(register) => &self.registers[usize::from(register)][..span.len],
            Arg::Memory(operand) => match &span.inputs[usize::from(operand)] {
                Some(Input::Memory(words)) => &words[span.start..span.start + span.len],
                _ => &[],
            },
            Arg::Acc => &span.acc[..span.len],
        }
    }
}
