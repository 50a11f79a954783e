//! Transfers of tiles of the operands from memory to workgroup memory by the threads of a workgroup.

use super::reading::{Reading, Side};
use crate::codegen::kernel::Kernel;
use crate::codegen::product::index_cursor::Walk;

/// The part of one operand's tile that one thread brings: some neighbours a round.
pub(super) struct Transfer {
    pub reading: Reading,
    /// The names of the thread's places in the tile, across k and along it.
    pub places: [&'static str; 2],
    /// Groups of neighbours in the tile.
    pub items: usize,
    pub threads: usize,
    /// The length of the tile along k.
    pub bk: usize,
}

impl Transfer {
    fn name(&self) -> &'static str {
        self.reading.side.name()
    }

    pub fn rounds(&self) -> std::ops::Range<usize> {
        0..self.items.div_ceil(self.threads)
    }

    /// `text` where the thread has something to bring in `round`.
    pub fn guarded(&self, round: usize, text: String) -> String {
        let first = round * self.threads;
        if first + self.threads <= self.items {
            return text;
        }
        format!("if thread + {first}u < {}u {{\n{text}}}\n", self.items)
    }

    /// The name of the walk of `round`.
    fn prefix(&self, round: usize) -> String {
        format!("{}{round}", self.name())
    }

    /// The names of the thread's place in the tile, across k and along it.
    pub fn place(&self, round: usize) -> [String; 2] {
        let name = self.name();
        self.places.map(|place| format!("{name}_{place}{round}"))
    }

    /// Statements that find the thread's position in memory, given its place in the tile.
    pub fn start(&self, kernel: &mut Kernel<'_>, walk: &Walk<'_>, round: usize) -> String {
        let [outer, k] = self.place(round);
        let first = match self.reading.side {
            Side::X => "first_row",
            Side::W => "first_column",
        };
        let (outer, k) = (format!("{first} + {outer}"), format!("first_k + {k}"));
        walk.start(kernel, &self.prefix(round), &outer, &k)
    }

    /// Statements that read the tile at `next_k` into variables; at the end of k, zeros past it.
    fn read(&self, kernel: &mut Kernel<'_>, walk: &Walk<'_>, end: bool) -> String {
        let line = |round| {
            let [_, k] = self.place(round);
            let k = format!("next_k + {k}");
            let read = walk.read(kernel, &self.prefix(round), &k, 0, end);
            self.guarded(round, format!("{}_held{round} = {read};\n", self.name()))
        };
        self.rounds().map(line).collect()
    }

    /// Statements that move on to the next tile.
    fn advance(&self, kernel: &mut Kernel<'_>, walk: &Walk) -> String {
        self.rounds().map(|round| walk.advance(kernel, &self.prefix(round), self.bk)).collect()
    }
}

/// Statements that read the tiles at `next_k`, those that reach past the end of k with zeros there, and move on.
pub(super) fn fetch(
    kernel: &mut Kernel<'_>,
    transfers: [&Transfer; 2],
    walks: &[Walk<'_>; 2],
) -> String {
    let each = || transfers.into_iter().zip(walks);
    let mut read = |end| -> String {
        each().map(|(transfer, walk)| transfer.read(kernel, walk, end)).collect()
    };
    let inside = read(false);
    let text = if transfers.iter().all(|transfer| !transfer.reading.ragged_k) {
        inside
    } else {
        let (bk, end) = (transfers[0].bk, read(true));
        format!("if next_k + {bk}u <= end_k {{\n{inside}}} else {{\n{end}}}\n")
    };
    let advance: String = each().map(|(transfer, walk)| transfer.advance(kernel, walk)).collect();
    text + &advance
}
