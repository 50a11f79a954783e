//! Expressions compiled to tapes: short lists of instructions over registers of [`TILE`] lanes.

pub(crate) mod lanes;
mod machine;
pub(crate) mod math;
pub(crate) mod pair;
pub(crate) mod wide;

use smallvec::SmallVec;

pub(super) use self::machine::{Machine, RootPlaces, Span};

use crate::base::dtype::{Scalar, Ty};
use crate::exec::cpu::operands::BoundInput;
use crate::exec::cpu::tape::pair::Second;
use crate::expr::{Binary, Expr, ExprNode, Failure, Ref, Unary};

/// Lanes of a register. The registers of a usual tape stay in the first-level cache.
pub(super) const TILE: usize = 512;

/// A source or a destination of an instruction.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Arg {
    Register(u16),
    /// The result of a root, which may lie in an output.
    Root(u16),
    /// An operand's memory, read in place.
    Memory(u16),
    Acc,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum TapeOp {
    /// Loads the elements of a strided operand.
    Load(u16),
    Unary(Unary, Ty, Arg),
    Binary(Binary, Ty, Arg, Arg),
    /// Two operations in one pass. The first takes the first two arguments, the second takes its result and the third
    /// argument.
    Pair(Binary, Second, [Arg; 3]),
    Select(Arg, Arg, Arg),
    Cast(Ty, Ty, Arg),
    /// Fetches elements of a table.
    Fetch(u16, Arg),
    /// Passes on its first argument, which marks failures, and reports their sites and positions.
    Check(u16, [Arg; 3]),
}

#[derive(Clone, Copy, Debug)]
pub(super) struct Instruction {
    pub op: TapeOp,
    /// The register or root that is written. The instruction never reads it.
    pub out: Arg,
}

#[derive(Debug)]
pub(super) struct Tape {
    pub instructions: Vec<Instruction>,
    /// Registers that hold a constant, and the bits of the constant.
    pub constants: Vec<(u16, u32)>,
    pub registers: u16,
    pub roots: SmallVec<[Arg; 2]>,
    /// True for each root that may be given a place. Such a root is computed, and is no other root as well.
    pub own: SmallVec<[bool; 2]>,
    flops: u64,
}

impl Tape {
    pub fn compile(
        expr: &Expr,
        roots: &[Ref],
        scalars: &[Scalar],
        inputs: &[Option<BoundInput<'_>>],
    ) -> Self {
        let mut compiler = Compiler::new(expr, roots);
        for r in expr.reachable(roots) {
            let root = roots.iter().position(|&root| root == r);
            compiler.node(r, root, scalars, inputs);
        }
        let roots_at: SmallVec<[Arg; 2]> = roots.iter().map(|r| compiler.args[r.index()]).collect();
        let once = |root: &Arg| roots_at.iter().filter(|&other| other == root).count() == 1;
        let is_own = |(index, root): (usize, &Arg)| *root == Arg::Root(index as u16) && once(root);
        Self {
            own: roots_at.iter().enumerate().map(is_own).collect(),
            roots: roots_at,
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

    /// Returns the input that the only root loads, if the tape does nothing else.
    pub fn fetched<'i, 'a>(
        &self,
        inputs: &'i [Option<BoundInput<'a>>],
    ) -> Option<&'i BoundInput<'a>> {
        match (&self.instructions[..], &self.roots[..]) {
            (&[Instruction { op: TapeOp::Load(operand), out }], &[root]) if out == root => {
                inputs[usize::from(operand)].as_ref()
            }
            _ => None,
        }
    }

    /// Returns whether root `index` is the unchanged combined value.
    pub fn is_acc(&self, index: usize) -> bool {
        self.roots[index] == Arg::Acc
    }
}

struct Compiler<'e> {
    expr: &'e Expr,
    /// Number of readers of each node that are still to come.
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
        inputs: &[Option<BoundInput<'_>>],
    ) {
        let arg = |r: Ref| self.args[r.index()];
        let node = self.expr.node(r);
        let op = match node {
            ExprNode::Acc => return,
            ExprNode::Const(c) => return self.constant(r, c.bits),
            ExprNode::Scalar(n) => return self.constant(r, scalars[usize::from(n)].lane_bits()),
            ExprNode::Load(n) => {
                if matches!(inputs[usize::from(n)], Some(BoundInput::Memory(_))) {
                    self.args[r.index()] = Arg::Memory(n);
                    return;
                }
                TapeOp::Load(n)
            }
            ExprNode::Unary(op, x) => TapeOp::Unary(op, self.expr.ty(x), arg(x)),
            ExprNode::Binary(op, x, y) => TapeOp::Binary(op, self.expr.ty(x), arg(x), arg(y)),
            ExprNode::Select(c, x, y) => TapeOp::Select(arg(c), arg(x), arg(y)),
            ExprNode::Cast(to, x) => TapeOp::Cast(self.expr.ty(x), to, arg(x)),
            ExprNode::Fetch(n, at) => TapeOp::Fetch(n, arg(at)),
            ExprNode::Check(n, Failure { holds, site, at }) => {
                TapeOp::Check(n, [arg(holds), arg(site), arg(at)])
            }
        };
        let pair = self.pair(node);
        let op = pair.map_or(op, |(op, _)| op);
        let out = match (root, pair) {
            (Some(root), _) => Arg::Root(root as u16),
            // No argument of a pair lies where its first operation wrote.
            (None, Some((_, out))) => out,
            (None, None) => Arg::Register(self.free.pop().unwrap_or_else(|| self.register())),
        };
        self.instructions.push(Instruction { op, out });
        self.args[r.index()] = out;
        self.release(node, out);
    }

    /// Merges `node` and the last instruction if the two are a pair and nothing else reads that instruction's result.
    /// Removes the instruction, and returns the pair with the register that it wrote.
    fn pair(&mut self, node: ExprNode) -> Option<(TapeOp, Arg)> {
        let ExprNode::Binary(second, x, y) = node else { return None };
        let &Instruction { op: TapeOp::Binary(first, Ty::F32, a, b), out } =
            self.instructions.last()?
        else {
            return None;
        };
        let [from_x, from_y] = [x, y].map(|r| self.args[r.index()] == out);
        let middle = if from_x { x } else { y };
        let reads = u32::from(from_x) + u32::from(from_y);
        let read_here_alone = reads > 0 && self.readers[middle.index()] == reads;
        if !read_here_alone || !matches!(out, Arg::Register(_)) || !Second::follows(first) {
            return None;
        }
        let second = Second::of(second, [from_x, from_y])?;
        let third =
            if from_x && from_y { a } else { self.args[if from_x { y } else { x }.index()] };
        self.instructions.pop();
        Some((TapeOp::Pair(first, second, [a, b, third]), out))
    }

    /// Frees the registers of `node`'s operands that have no later reader, except `out`.
    fn release(&mut self, node: ExprNode, out: Arg) {
        for operand in node.operands() {
            let readers = &mut self.readers[operand.index()];
            *readers -= 1;
            let computed =
                !matches!(self.expr.node(operand), ExprNode::Const(_) | ExprNode::Scalar(_));
            if *readers == 0
                && computed
                && self.args[operand.index()] != out
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
