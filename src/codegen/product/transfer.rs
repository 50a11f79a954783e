//! Positions that move along k, and transfers of tiles of the operands from memory to workgroup memory by the threads
//! of a workgroup.

use super::collapsed::Product;
use super::reading::{Factor, Reading, axes};
use super::windows::OperandWindows;
use crate::codegen::kernel::KernelBuilder;

/// The part of one operand's tile that one thread brings: some neighbours a round.
pub(super) struct TileTransfer {
    pub reading: Reading,
    /// The names of the thread's places in the tile, across k and along it.
    pub places: [&'static str; 2],
    /// Groups of neighbours in the tile.
    pub items: usize,
    pub threads: usize,
    /// The length of the tile along k.
    pub bk: usize,
}

impl TileTransfer {
    pub fn name(&self) -> &'static str {
        self.reading.side.name()
    }

    fn rounds(&self) -> std::ops::Range<usize> {
        0..self.items.div_ceil(self.threads)
    }

    /// The statements that `text` gives for each round, where the thread has something to bring in it.
    pub fn each_round(&self, mut text: impl FnMut(usize) -> String) -> String {
        let guarded = |round| {
            let (first, text) = (round * self.threads, text(round));
            if first + self.threads <= self.items {
                return text;
            }
            format!("if thread + {first}u < {}u {{\n{text}}}\n", self.items)
        };
        self.rounds().map(guarded).collect()
    }

    /// Statements that find the thread's places in the tile, as `place` gives their names and texts for an item, and in
    /// memory; and declare variables of type `ty` for the elements there.
    pub fn places(
        &self,
        kernel: &mut KernelBuilder<'_>,
        walk: &IndexCursor<'_>,
        ty: &str,
        place: impl Fn(&str) -> [(&'static str, String); 2],
    ) -> String {
        let (name, mut text) = (self.name(), String::new());
        for round in self.rounds() {
            for (axis, at) in place(&format!("(thread + {}u)", round * self.threads)) {
                text += &format!("let {name}_{axis}{round} = {at};\n");
            }
            text += &format!("var {name}_held{round}: {ty};\n");
            text += &self.start(kernel, walk, round);
        }
        text
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
    fn start(
        &self,
        kernel: &mut KernelBuilder<'_>,
        walk: &IndexCursor<'_>,
        round: usize,
    ) -> String {
        let [outer, k] = self.place(round);
        let first = match self.reading.side {
            Factor::X => "first_row",
            Factor::W => "first_column",
        };
        let (outer, k) = (format!("{first} + {outer}"), format!("first_k + {k}"));
        walk.start(kernel, &self.prefix(round), &outer, &k)
    }

    /// Statements that read the tile at `next_k` into variables; at the end of k, zeros past it.
    fn read(&self, kernel: &mut KernelBuilder<'_>, walk: &IndexCursor<'_>, end: bool) -> String {
        self.each_round(|round| {
            let [_, k] = self.place(round);
            let read = walk.read(kernel, &self.prefix(round), &format!("next_k + {k}"), 0, end);
            format!("{}_held{round} = {read};\n", self.name())
        })
    }

    /// Statements that move on to the next tile.
    fn advance(&self, kernel: &mut KernelBuilder<'_>, walk: &IndexCursor) -> String {
        self.rounds().map(|round| walk.advance(kernel, &self.prefix(round), self.bk)).collect()
    }
}

/// Statements that read the tiles at `next_k`, those that reach past the end of k with zeros there, and move on.
pub(super) fn fetch(
    kernel: &mut KernelBuilder<'_>,
    transfers: [&TileTransfer; 2],
    walks: &[IndexCursor<'_>; 2],
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

/// A walk over one side along k: a position in each operand that is read, moved on by additions alone, since
/// multiplying it out for each read takes longer than the read.
pub(super) struct IndexCursor<'p> {
    side: Factor,
    /// The finder of the positions of the right operand, if it is one of windows, whose steps along k are no additions.
    windows: Option<&'p OperandWindows>,
    /// The last place across k that may be read, if some are outside.
    last: Option<usize>,
    operands: Vec<Stepping>,
}

struct Stepping {
    operand: usize,
    /// The start of the batch in it.
    base: String,
    outer_stride: i64,
    k_stride: i64,
}

impl IndexCursor<'_> {
    /// Statements that start at `outer` and `k`, in variables that start with `prefix`.
    pub fn start(
        &self,
        kernel: &mut KernelBuilder<'_>,
        prefix: &str,
        outer: &str,
        k: &str,
    ) -> String {
        let outer = match self.last {
            Some(last) => format!("min({outer}, {})", kernel.size(last)),
            None => outer.to_string(),
        };
        let mut text = format!("let {prefix}_outer = {outer};\n");
        if let Some(windows) = self.windows {
            let bases: Vec<&str> = self.operands.iter().map(|o| o.base.as_str()).collect();
            return text + &windows.start(kernel, prefix, &bases);
        }
        let coordinates = [format!("{prefix}_outer"), format!("({k})")];
        for Stepping { operand, base, outer_stride, k_stride } in &self.operands {
            let at = kernel.index(base, &[*outer_stride, *k_stride], &coordinates);
            text += &format!("var {prefix}_at{operand} = {at};\n");
        }
        text
    }

    /// The call that reads the elements at `k`, `ahead` of the walk; at the end of k, zeros past it.
    pub fn read(
        &self,
        kernel: &mut KernelBuilder<'_>,
        prefix: &str,
        k: &str,
        ahead: usize,
        end: bool,
    ) -> String {
        let end = if end { "_end" } else { "" };
        let mut text = format!("load_{}{end}({prefix}_outer, {k}", self.side.name());
        for Stepping { operand, k_stride, .. } in &self.operands {
            let offset = k_stride * ahead as i64;
            let at = kernel.index(&format!("{prefix}_at{operand}"), &[offset], &["1u".into()]);
            text += &format!(", {at}");
        }
        text + ")"
    }

    /// Statements that move on by `step` along k.
    pub fn advance(&self, kernel: &mut KernelBuilder<'_>, prefix: &str, step: usize) -> String {
        let mut text = String::new();
        for Stepping { operand, k_stride, .. } in self.operands.iter().filter(|o| o.k_stride != 0) {
            let step = kernel.param(k_stride * step as i64);
            text += &format!("{prefix}_at{operand} += {step};\n");
        }
        text
    }
}

impl Product {
    pub fn walk(
        &self,
        kernel: &KernelBuilder<'_>,
        reading: &Reading,
        names: &[String],
    ) -> IndexCursor<'_> {
        let side = reading.side;
        let windows = self.windows.as_ref().filter(|_| side == Factor::W);
        let operands = kernel.operands_of(&[self.prologue(side)]).into_iter();
        let stepping = |operand: usize| {
            let view = &kernel.step.operands[operand].view;
            let base = self.results.maps.base(operand, names).to_string();
            let (outer_stride, k_stride) = match windows {
                Some(_) => (0, 0),
                None => axes(side, view).map(|axis| view.strides[axis]).into(),
            };
            Stepping { operand, base, outer_stride, k_stride }
        };
        let [size, _] = self.sizes(side);
        let read_at_once = match reading {
            Reading { along_k: true, .. } => 1,
            Reading { halves: true, .. } => 8,
            _ if size.is_multiple_of(4) => 4,
            _ => 1,
        };
        let last = reading.ragged.then(|| size - read_at_once);
        IndexCursor { side, windows, last, operands: operands.map(stepping).collect() }
    }
}
