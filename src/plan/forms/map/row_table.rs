//! Maps that look up in rows of a table: if all that a workgroup fetches lies in one row, that row is read in order
//! and goes through workgroup memory. Fetched one by one, its elements come in pieces of memory that are used in part.

use super::space::MapSpace;
use crate::cost::Limits;
use crate::expr::{ExprNode, Ref};
use crate::plan::step_parts::{Lookup, StepContext};

/// The most lines of results of a workgroup, where a row of the table is one piece and where it is several. On an H200,
/// four in place of two took 0.85 of the time with one piece, and 1.04 with two.
const MOST_LINES: [usize; 2] = [4, 2];
/// Bytes of a row that are in workgroup memory at a time. On an H200, twice as many took 1.3 times as long.
const PIECE_BYTES: usize = 16 << 10;
const MOST_PIECES: usize = 4;
/// The shortest rows of the table and of results: look-ups in shorter ones come from the first-level cache.
const LEAST: usize = 4096;
/// The longest row of the table for each element that is looked up in it.
const SPARSE: usize = 2;
/// Workgroups from which on they keep a large GPU busy.
const GROUPS: usize = 128;

/// A look-up in rows of a table.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct RowTable {
    /// The [`ExprNode::Fetch`] of an element.
    pub fetch: Ref,
    pub table: usize,
    /// The operand that counts where the row of the table begins.
    pub first: usize,
    /// The index in the row, an `i32`.
    pub index: Ref,
    /// Elements of a row of the table.
    pub size: usize,
    /// Elements of the row that are in workgroup memory at a time.
    pub piece: usize,
}

impl RowTable {
    /// Threads of a workgroup. On an H200, with 256 it took 1.6 times as long.
    pub const THREADS: usize = 512;
    /// Elements of which each thread has four.
    pub const LINE: usize = 4 * Self::THREADS;

    /// The map's only look-up, if its table's rows should go through workgroup memory.
    pub fn find(space: &MapSpace, context: &StepContext<'_>, limits: &Limits) -> Option<Self> {
        let Lookup { fetch, table, first, index, stride, size } = only_lookup(context)?;
        let stored = limits.stored(context.operands[table].dtype).bytes() as usize;
        let piece = (PIECE_BYTES / stored).min(size.next_multiple_of(Self::LINE));
        let row = Self { fetch, table, first, index, size, piece };
        let fits = limits.threads as usize >= Self::THREADS
            && limits.workgroup_bytes as usize >= PIECE_BYTES;
        (stride == 1 && fits && is_read_once(context, table) && row.pays(space)).then_some(row)
    }

    /// True if rows are such that this is faster, and all of a row of `space` looks up in one row of the table.
    fn pays(&self, space: &MapSpace) -> bool {
        let columns = space.columns();
        let stays = space.axes.strides[space.map_of(self.first)].last() == Some(&0);
        stays
            && columns.is_multiple_of(4)
            && columns.min(self.size) >= LEAST
            && self.pieces() <= MOST_PIECES
            && self.size <= SPARSE * columns
            && space.axes.len() / columns * self.parts(columns) >= GROUPS
    }

    /// Pieces of a row that come to workgroup memory one after the other.
    pub fn pieces(&self) -> usize {
        self.size.div_ceil(self.piece)
    }

    /// Lines of results of a workgroup.
    pub fn lines(&self, columns: usize) -> usize {
        let most = MOST_LINES[usize::from(self.pieces() > 1)];
        columns.div_ceil(Self::LINE).next_power_of_two().min(most)
    }

    /// Workgroups of a row of results.
    pub fn parts(&self, columns: usize) -> usize {
        columns.div_ceil(self.lines(columns) * Self::LINE)
    }
}

/// The look-up of the only fetch among the expressions.
fn only_lookup(context: &StepContext<'_>) -> Option<Lookup> {
    let reachable = context.expr.reachable(&context.roots()).into_iter();
    let mut fetches = reachable.filter(|&r| matches!(context.expr.node(r), ExprNode::Fetch(..)));
    let fetch = fetches.next()?;
    let lookup = context.lookups.iter().find(|lookup| lookup.fetch == fetch)?;
    fetches.next().is_none().then_some(*lookup)
}

/// True if nothing else reads the table's value.
fn is_read_once(context: &StepContext<'_>, table: usize) -> bool {
    let value = context.operands[table].source.value();
    context.operands.iter().filter(|operand| operand.source.value() == value).count() == 1
}
