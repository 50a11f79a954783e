//! The compiler from expressions to tapes.

mod chains;
mod fetches;

use std::collections::BTreeSet;

use smallvec::{SmallVec, smallvec};

use super::{
    Arg, InnerBroadcast, Instruction, LONGEST, LinkArg, OuterBroadcast, TILE, Tape, TapeOp,
};
use crate::base::dtype::{Scalar, Ty};
use crate::exec::cpu::operands::BoundInput;
use crate::exec::cpu::vectors::links::Link;
use crate::expr::{Binary, Expr, ExprNode, Failure, Ref, Unary};
use crate::plan::SHORTEST_STRETCH;

impl Tape {
    /// Compiles `roots` for operands bound as `inputs`.
    pub fn compile(
        expr: &Expr,
        roots: &[Ref],
        scalars: &[Scalar],
        inputs: &[Option<BoundInput<'_>>],
    ) -> Self {
        let mut compiler = Compiler::new(expr, roots, scalars, inputs);
        for r in expr.reachable(roots) {
            compiler.node(r, roots.iter().position(|&root| root == r));
        }
        roots.iter().for_each(|&root| compiler.spread(root));
        let roots_at: SmallVec<[Arg; 2]> = roots.iter().map(|r| compiler.args[r.index()]).collect();
        let is_unique = |root: &Arg| roots_at.iter().filter(|&other| other == root).count() == 1;
        let is_direct =
            |(index, root): (usize, &Arg)| *root == Arg::Root(index as u16) && is_unique(root);
        let registers = |all: &mut dyn Iterator<Item = Arg>| -> BTreeSet<u16> {
            all.filter_map(|arg| if let Arg::Register(at) = arg { Some(at) } else { None })
                .collect()
        };
        let args_of = |all: &[Instruction]| -> Vec<Arg> {
            all.iter().flat_map(|it| it.op.args().into_iter().chain([it.out])).collect()
        };
        let linked = compiler.links.iter().filter_map(|(_, arg)| arg.lanes());
        let long = registers(&mut args_of(&compiler.instructions).into_iter().chain(linked));
        let broadcast = [&compiler.inner.instructions, &compiler.outer.instructions];
        let broadcast = broadcast.into_iter().flat_map(|all| args_of(all));
        let others = registers(&mut broadcast.chain(roots_at.iter().copied()));
        // Links hold their constants themselves, and the lanes of long stretches.
        let is_read = |register: &u16| long.contains(register) || others.contains(register);
        let (mut constants, mut inner) = (compiler.constants, compiler.inner);
        constants.retain(|(at, _)| is_read(at));
        inner.spread.retain(|(_, to)| is_read(to));
        Self {
            long_registers: long.len(),
            direct: roots_at.iter().enumerate().map(is_direct).collect(),
            roots: roots_at,
            instructions: compiler.instructions,
            links: compiler.links,
            constants,
            registers: compiler.registers,
            inner,
            outer: compiler.outer,
            flops: compiler.flops + 1,
        }
    }
}

/// The axes along which the lanes of a node are the same.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Broadcast {
    /// All axes: the node is a constant.
    All,
    /// The innermost axes: the lanes of a [stretch](InnerBroadcast) are the same.
    Inner,
    /// The outer axes: the lanes of a [column](OuterBroadcast) are the same.
    Outer,
    None,
}

impl Broadcast {
    /// The axes along which a function of two nodes is the same.
    fn with(self, other: Self) -> Self {
        match (self, other) {
            (Self::All, one) | (one, Self::All) => one,
            (one, same) if one == same => one,
            _ => Self::None,
        }
    }
}

/// Flops of 1 / (1 + e⁻ˣ): as many as of its operations.
const SIGMOID_FLOPS: u64 = 16;

/// Returns x if `node` is 1 / (1 + e⁻ˣ).
fn sigmoid_of(expr: &Expr, node: ExprNode) -> Option<Ref> {
    let ExprNode::Unary(Unary::Recip, sum) = node else { return None };
    let ExprNode::Binary(Binary::Add, a, b) = expr.node(sum) else { return None };
    let is_one = |r| matches!(expr.node(r), ExprNode::Const(c) if c.bits == 1.0_f32.to_bits());
    let power = if is_one(b) { a } else { Some(b).filter(|_| is_one(a))? };
    let ExprNode::Unary(Unary::Exp, minus) = expr.node(power) else { return None };
    let ExprNode::Unary(Unary::Neg, x) = expr.node(minus) else { return None };
    (expr.ty(x) == Ty::F32).then_some(x)
}

struct Compiler<'e> {
    expr: &'e Expr,
    scalars: &'e [Scalar],
    inputs: &'e [Option<BoundInput<'e>>],
    broadcast: Vec<Broadcast>,
    /// Number of readers of each node that are still to come.
    readers: Vec<u32>,
    /// The lanes of each node, if it has any.
    args: Vec<Arg>,
    /// The register of each node that is computed for one lane a stretch.
    stretch_args: Vec<Option<u16>>,
    free: Vec<u16>,
    registers: u16,
    instructions: Vec<Instruction>,
    links: Vec<(Link, LinkArg)>,
    constants: Vec<(u16, u32)>,
    inner: InnerBroadcast,
    outer: OuterBroadcast,
    /// Flops of one element, without those of its stretch and of the column of a short row.
    flops: u64,
}

impl<'e> Compiler<'e> {
    fn new(
        expr: &'e Expr,
        roots: &[Ref],
        scalars: &'e [Scalar],
        inputs: &'e [Option<BoundInput<'e>>],
    ) -> Self {
        let reachable = expr.reachable(roots);
        // An operand that is a root itself is fetched by element, since that takes one pass.
        let inner = reachable.iter().filter(|r| !roots.contains(r));
        let loads = inner.filter_map(|&r| match expr.node(r) {
            ExprNode::Load(n) => inputs[usize::from(n)].as_ref(),
            _ => None,
        });
        let repeats =
            loads.clone().map(BoundInput::repeats).filter(|&len| len >= SHORTEST_STRETCH).min();
        let periods =
            loads.filter_map(BoundInput::period).filter(|&period| period <= LONGEST).max();
        let mut compiler = Self {
            expr,
            scalars,
            inputs,
            broadcast: vec![Broadcast::None; expr.len()],
            readers: vec![0; expr.len()],
            args: vec![Arg::Acc; expr.len()],
            stretch_args: vec![None; expr.len()],
            free: Vec::new(),
            registers: 0,
            instructions: Vec::new(),
            links: Vec::new(),
            constants: Vec::new(),
            inner: InnerBroadcast {
                len: repeats.unwrap_or(usize::MAX),
                instructions: Vec::new(),
                spread: Vec::new(),
            },
            outer: OuterBroadcast { period: periods.unwrap_or(1), instructions: Vec::new() },
            flops: 0,
        };
        for &r in &reachable {
            compiler.broadcast[r.index()] = compiler.broadcast(r, roots);
        }
        for &r in reachable.iter().rev() {
            if compiler.readers[r.index()] > 0 || roots.contains(&r) {
                for read in compiler.reads(expr.node(r)) {
                    compiler.readers[read.index()] += 1;
                }
            }
        }
        compiler
    }

    fn broadcast(&self, r: Ref, roots: &[Ref]) -> Broadcast {
        let node = self.expr.node(r);
        match node {
            ExprNode::Const(_) | ExprNode::Scalar(_) => Broadcast::All,
            ExprNode::Acc => Broadcast::None,
            ExprNode::Load(_) if roots.contains(&r) => Broadcast::None,
            ExprNode::Load(n) => match &self.inputs[usize::from(n)] {
                Some(input) if input.repeats().is_multiple_of(self.inner.len) => Broadcast::Inner,
                Some(input)
                    if input.period().is_some_and(|it| self.outer.period.is_multiple_of(it)) =>
                {
                    Broadcast::Outer
                }
                _ => Broadcast::None,
            },
            node => {
                let operands = node.operands().map(|operand| self.broadcast[operand.index()]);
                operands.fold(Broadcast::All, Broadcast::with)
            }
        }
    }

    fn node(&mut self, r: Ref, root: Option<usize>) {
        let node = self.expr.node(r);
        match node {
            _ if root.is_none() && self.readers[r.index()] == 0 => return,
            ExprNode::Acc => return,
            ExprNode::Const(c) => return self.constant(r, c.bits),
            ExprNode::Scalar(n) => {
                return self.constant(r, self.scalars[usize::from(n)].lane_bits());
            }
            ExprNode::Load(n)
                if matches!(self.inputs[usize::from(n)], Some(BoundInput::Memory(_))) =>
            {
                self.args[r.index()] = Arg::Memory(n);
                return;
            }
            _ => {}
        }
        match self.broadcast[r.index()] {
            Broadcast::All | Broadcast::Inner => {
                let op = self.op(node, |r| self.stretch_arg(r));
                self.stretch_args[r.index()] = Some(self.stretch_instruction(op));
            }
            Broadcast::Outer => {
                // Functions of constants alone are computed by stretch.
                self.reads(node).into_iter().for_each(|operand| self.spread(operand));
                let op = self.op(node, |r| self.args[r.index()]);
                let out = Arg::Register(self.register());
                self.outer.instructions.push(Instruction { op, out });
                // Values of longer rows may be computed in each tile.
                if self.outer.period > TILE {
                    self.flops += node.flops();
                }
                self.args[r.index()] = out;
            }
            Broadcast::None => self.by_element(r, node, root),
        }
    }

    fn by_element(&mut self, r: Ref, node: ExprNode, root: Option<usize>) {
        let is_sigmoid = sigmoid_of(self.expr, node).is_some();
        self.flops += if is_sigmoid { SIGMOID_FLOPS } else { node.flops() };
        let chain = self.extend_chain(node);
        let op = match (self.fetch_of_stretches(node), self.shifted_fetch(node), chain) {
            (Some(fetch), ..) => self.stretch_fetch(&fetch),
            (None, Some(op), _) => op,
            (None, None, Some((op, _))) => op,
            (None, None, None) => {
                self.reads(node).into_iter().for_each(|operand| self.spread(operand));
                self.op(node, |r| self.args[r.index()])
            }
        };
        let out = match (root, chain) {
            (Some(root), _) => Arg::Root(root as u16),
            // No argument of a chain lies where its first link wrote.
            (None, Some((_, out))) => out,
            (None, None) => Arg::Register(self.free.pop().unwrap_or_else(|| self.register())),
        };
        self.instructions.push(Instruction { op, out });
        self.args[r.index()] = out;
        self.release(node, out);
    }

    fn op(&self, node: ExprNode, arg: impl Fn(Ref) -> Arg) -> TapeOp {
        if let Some(x) = sigmoid_of(self.expr, node) {
            return TapeOp::Sigmoid(arg(x));
        }
        match node {
            ExprNode::Unary(op, x) => TapeOp::Unary(op, self.expr.ty(x), arg(x)),
            ExprNode::Binary(op, x, y) => TapeOp::Binary(op, self.expr.ty(x), arg(x), arg(y)),
            ExprNode::Select(c, x, y) => TapeOp::Select(arg(c), arg(x), arg(y)),
            ExprNode::Cast(to, x) => TapeOp::Cast(self.expr.ty(x), to, arg(x)),
            ExprNode::Fetch(n, at) => TapeOp::Fetch(n, arg(at)),
            ExprNode::Check(n, Failure { holds, site, at }) => {
                TapeOp::Check(n, [arg(holds), arg(site), arg(at)])
            }
            ExprNode::Load(n) => TapeOp::Load(n),
            ExprNode::Acc | ExprNode::Const(_) | ExprNode::Scalar(_) => {
                unreachable!("{node:?} needs no instruction")
            }
        }
    }

    /// The lane of each stretch of a node that is the same within stretches.
    fn stretch_arg(&self, r: Ref) -> Arg {
        self.stretch_args[r.index()].map_or(self.args[r.index()], Arg::Register)
    }

    fn stretch_instruction(&mut self, op: TapeOp) -> u16 {
        let register = self.register();
        self.inner.instructions.push(Instruction { op, out: Arg::Register(register) });
        register
    }

    /// Gives lanes to a node that is computed for one lane a stretch.
    fn spread(&mut self, r: Ref) {
        let Some(from) = self.stretch_args[r.index()] else { return };
        if self.args[r.index()] == Arg::Acc {
            let to = self.register();
            self.inner.spread.push((from, to));
            self.args[r.index()] = Arg::Register(to);
        }
    }

    /// The nodes whose lanes or stretches `node` reads.
    fn reads(&self, node: ExprNode) -> SmallVec<[Ref; 3]> {
        match (self.fetch_of_stretches(node), self.shifted(node), sigmoid_of(self.expr, node)) {
            (Some(fetch), ..) => smallvec![fetch.base],
            (_, Some((_, base, column)), _) => smallvec![base, column],
            (.., Some(x)) => smallvec![x],
            _ => node.operands().collect(),
        }
    }

    /// Frees the registers of `node`'s operands that have no later reader, except `out`. The others keep their lanes from
    /// tile to tile.
    fn release(&mut self, node: ExprNode, out: Arg) {
        for operand in self.reads(node) {
            let readers = &mut self.readers[operand.index()];
            *readers -= 1;
            if *readers == 0
                && self.broadcast[operand.index()] == Broadcast::None
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
