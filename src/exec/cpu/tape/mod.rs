//! Expressions compiled to tapes: short lists of instructions over registers of [`TILE`] lanes, or of a multiple.

mod compile;
pub(crate) mod lanes;
mod machine;
pub(crate) mod math;
mod registers;
pub(crate) mod wide;
mod write;

use smallvec::SmallVec;

pub(super) use self::machine::{Machine, Span};
pub(super) use self::registers::RegisterBank;

use crate::base::dtype::Ty;
use crate::exec::cpu::operands::BoundInput;
use crate::exec::cpu::vectors::links::Link;
use crate::expr::{Binary, Unary};

/// Least lanes of a register. The registers of a usual tape stay in the first-level cache.
pub(super) const TILE: usize = 512;
/// Most lanes of a register, a multiple of [`TILE`].
const LONGEST: usize = 4 * TILE;
/// Most links of a chain, which a machine binds in an array.
const MOST_LINKS: usize = 16;

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
    /// 1 / (1 + e⁻ˣ) in one pass.
    Sigmoid(Arg),
    Binary(Binary, Ty, Arg, Arg),
    /// Applies some of the tape's links to `f32` lanes, in one pass.
    Chain(Arg, LinkRange),
    Select(Arg, Arg, Arg),
    Cast(Ty, Ty, Arg),
    /// Fetches elements of a table.
    Fetch(u16, Arg),
    /// Fetches elements of a table that lie at a distance from each other within each stretch. A register of one lane a
    /// stretch has the position of the first.
    FetchStretches(u16, u16, i64),
    /// Fetches elements of a table at the sums of a position, of which a register has one for each stretch, and of lanes.
    FetchShifted(u16, u16, Arg),
    /// Passes on its first argument, which marks failures, and reports their sites and positions.
    Check(u16, [Arg; 3]),
}

/// The links of a chain among those of its tape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct LinkRange {
    first: usize,
    count: usize,
}

/// The second argument of a link. The first is the result of the link before.
#[derive(Clone, Copy, Debug)]
pub(super) enum LinkArg {
    Constant(f32),
    Lanes(Arg),
    /// A register that has one lane a stretch.
    Stretches(u16),
    /// The result of the link before, too.
    Result,
}

impl LinkArg {
    fn lanes(self) -> Option<Arg> {
        if let Self::Lanes(arg) = self { Some(arg) } else { None }
    }
}

impl TapeOp {
    /// The sources that have a lane for each element. A chain also reads the [lanes](LinkArg::Lanes) of its links.
    fn args(self) -> SmallVec<[Arg; 3]> {
        match self {
            Self::Load(_) | Self::FetchStretches(..) => SmallVec::new(),
            Self::Unary(.., x)
            | Self::Sigmoid(x)
            | Self::Chain(x, _)
            | Self::Cast(.., x)
            | Self::Fetch(_, x)
            | Self::FetchShifted(.., x) => SmallVec::from_slice(&[x]),
            Self::Binary(.., x, y) => SmallVec::from_slice(&[x, y]),
            Self::Select(c, x, y) => SmallVec::from_slice(&[c, x, y]),
            Self::Check(_, args) => SmallVec::from_slice(&args),
        }
    }
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
    /// The links of all chains.
    pub links: Vec<(Link, LinkArg)>,
    /// Registers that hold a constant, and the bits of the constant.
    pub constants: Vec<(u16, u32)>,
    pub registers: u16,
    /// The number of registers that the instructions of each tile read or write.
    pub long_registers: usize,
    pub roots: SmallVec<[Arg; 2]>,
    /// True for each root that may be written directly to its output. Such a root is computed, and is no other root as
    /// well.
    pub direct: SmallVec<[bool; 2]>,
    /// The values that are the same for all elements of a stretch.
    pub inner: InnerBroadcast,
    /// The values that are the same for all rows.
    pub outer: OuterBroadcast,
    flops: u64,
}

/// The part of a tape whose operands are broadcast along the innermost axes of the space: their strides are 0 there.
/// Neighbours along these axes are a *stretch*. The part is computed for one lane a stretch, and its results are spread
/// over the lanes of the stretch.
#[derive(Debug)]
pub(super) struct InnerBroadcast {
    /// Elements of a stretch. Stretches begin at its multiples.
    pub len: usize,
    /// Instructions over one lane a stretch.
    pub instructions: Vec<Instruction>,
    /// Registers of one lane a stretch, each with the register of lanes that it is spread over.
    pub spread: Vec<(u16, u16)>,
}

/// The part of a tape whose operands are broadcast along the outer axes of the space: their strides are 0 there, so that
/// values repeat with each row. Its lanes stay from tile to tile, if these begin at the same column.
#[derive(Debug)]
pub(super) struct OuterBroadcast {
    /// Elements of a row.
    pub period: usize,
    pub instructions: Vec<Instruction>,
}

impl Tape {
    /// The number of elements that threads share out as one: a tile of [`TILE`] lanes, or whole rows where values repeat
    /// with each row.
    pub fn unit(&self) -> usize {
        let has_columns = !self.outer.instructions.is_empty();
        self.whole_rows(if has_columns { TILE.max(self.outer.period) } else { TILE })
    }

    fn whole_rows(&self, lanes: usize) -> usize {
        match &self.outer {
            it if it.instructions.is_empty() || it.period > lanes => lanes,
            it => lanes - lanes % it.period,
        }
    }

    /// The length of the tile of at most `lanes` lanes that begins at `start`. It ends with a long stretch, so that its
    /// values are spread over the lanes once.
    fn reach(&self, start: usize, lanes: usize) -> usize {
        let stretch = self.inner.len;
        if stretch < lanes / 2
            || self.inner.instructions.is_empty()
            || !self.outer.instructions.is_empty()
        {
            return self.whole_rows(lanes);
        }
        let even = stretch.div_ceil(stretch.div_ceil(lanes));
        even.min(stretch - start % stretch)
    }

    fn links(&self, LinkRange { first, count }: LinkRange) -> &[(Link, LinkArg)] {
        &self.links[first..first + count]
    }

    /// Arithmetic cost of one element; at least 1.
    pub fn flops(&self) -> u64 {
        self.flops
    }

    /// Returns the input whose lanes are the only root, if the tape computes nothing.
    pub fn fetched<'i, 'a>(
        &self,
        inputs: &'i [Option<BoundInput<'a>>],
    ) -> Option<&'i BoundInput<'a>> {
        match (&self.instructions[..], &self.roots[..]) {
            (&[], &[Arg::Memory(operand)]) => inputs[usize::from(operand)].as_ref(),
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
