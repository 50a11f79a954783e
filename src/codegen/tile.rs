//! The tiles of a matrix product: where they lie in workgroup memory, and which thread does what.

use std::fmt::Write;

use crate::plan::Tile;

/// How a workgroup's memory and threads are laid out.
pub(super) struct Layout {
    pub tile: Tile,
    /// Quads from one k to the next.
    pub x_pitch: usize,
    pub w_pitch: usize,
}

impl Layout {
    /// Fits the tile to `bytes` of workgroup memory: without padding where that is too much, then with
    /// less of k.
    pub fn new(mut tile: Tile, x_along_k: bool, w_along_k: bool, bytes: usize) -> Self {
        // A quad of padding spreads a column of the tile over the banks.
        let pad = |along: bool| usize::from(along);
        let mut x_pitch = tile.bm.div_ceil(4) + pad(x_along_k);
        let mut w_pitch = tile.bn.div_ceil(4) + pad(w_along_k);
        if (x_pitch + w_pitch) * tile.bk * 16 > bytes {
            x_pitch = tile.bm.div_ceil(4);
            w_pitch = tile.bn.div_ceil(4);
        }
        while (x_pitch + w_pitch) * tile.bk * 16 > bytes && tile.bk > 1 {
            tile.bk /= 2;
        }
        Self { tile, x_pitch, w_pitch }
    }

    pub fn threads(&self) -> usize {
        (self.tile.bm / self.tile.tm) * (self.tile.bn / self.tile.tn)
    }

    /// Threads along n.
    pub fn tx(&self) -> usize {
        self.tile.bn / self.tile.tn
    }

    /// Threads along m.
    pub fn ty(&self) -> usize {
        self.tile.bm / self.tile.tm
    }

    /// Rows that a thread takes next to each other. With fours, the quads of neighbouring threads are
    /// neighbours in workgroup memory.
    pub fn row_step(&self) -> usize {
        if self.tile.tm.is_multiple_of(4) { 4 } else { self.tile.tm }
    }

    /// A thread's row `r`, counted from its first.
    pub fn row(&self, r: usize) -> usize {
        let step = self.row_step();
        r / step * step * self.ty() + r % step
    }

    /// The first column of a thread's quad `q`, counted from its first.
    pub fn column(&self, q: usize) -> usize {
        q * 4 * self.tx()
    }

    /// Statements that add one k to a thread's block of the result.
    pub fn multiply(&self) -> String {
        let mut text = String::new();
        for q in 0..self.tile.tn / 4 {
            let at = format!("k * {}u + tx + {}u", self.w_pitch, q * self.tx());
            let _ = writeln!(text, "let w{q} = w_tile[{at}];");
        }
        let quads = self.tile.tm.is_multiple_of(4);
        for r in 0..self.tile.tm {
            let x = if quads {
                let q = r / 4;
                if r % 4 == 0 {
                    let at = format!("k * {}u + ty + {}u", self.x_pitch, q * self.ty());
                    let _ = writeln!(text, "let x{q} = x_tile[{at}];");
                }
                format!("x{q}.{}", ["x", "y", "z", "w"][r % 4])
            } else {
                let _ = writeln!(text, "let row{r} = ty * {}u + {r}u;", self.tile.tm);
                let at = format!("k * {}u + row{r} / 4u", self.x_pitch);
                let _ = writeln!(text, "let x{r} = x_tile[{at}][row{r} % 4u];");
                format!("x{r}")
            };
            for q in 0..self.tile.tn / 4 {
                let _ = writeln!(text, "acc{r}_{q} += {x} * w{q};");
            }
        }
        text
    }
}

/// How the threads bring one tile from memory to workgroup memory, an element a thread and round.
pub(super) struct Transfer {
    pub name: &'static str,
    /// Rows or columns of the tile.
    pub outer: usize,
    pub bk: usize,
    /// Whether neighbouring threads take neighbours along k.
    pub along_k: bool,
    pub pitch: usize,
    pub threads: usize,
}

impl Transfer {
    fn rounds(&self) -> std::ops::Range<usize> {
        0..(self.outer * self.bk).div_ceil(self.threads)
    }

    /// Statements that find the thread's places in the tile, and variables for what is there.
    pub fn places(&self, ty: &str) -> String {
        let Self { name, outer, bk, threads, .. } = self;
        let mut text = String::new();
        for round in self.rounds() {
            let at = format!("(thread + {}u)", round * threads);
            let (o, k) = if self.along_k {
                (format!("{at} / {bk}u"), format!("{at} % {bk}u"))
            } else {
                (format!("{at} % {outer}u"), format!("{at} / {outer}u"))
            };
            let _ = writeln!(text, "let {name}_o{round} = {o};");
            let _ = writeln!(text, "let {name}_k{round} = {k};");
            let _ = writeln!(text, "var {name}_held{round}: {ty};");
        }
        text
    }

    /// Statements that read the tile at `next_k` into the variables.
    pub fn fetch(&self, load: &dyn Fn(&str, &str) -> String) -> String {
        let name = self.name;
        let line = |round| {
            let (o, k) = (format!("{name}_o{round}"), format!("next_k + {name}_k{round}"));
            format!("{name}_held{round} = {};\n", load(&o, &k))
        };
        self.rounds().map(line).collect()
    }

    /// Statements that put the variables into workgroup memory.
    pub fn put(&self) -> String {
        let Self { name, outer, bk, pitch, threads, .. } = self;
        let line = |round: usize| {
            let at = format!("{name}_k{round} * {pitch}u + {name}_o{round} / 4u");
            let put = format!("{name}_tile[{at}][{name}_o{round} % 4u] = {name}_held{round};\n");
            if (round + 1) * threads > outer * bk {
                format!("if thread + {}u < {}u {{\n    {put}}}\n", round * threads, outer * bk)
            } else {
                put
            }
        };
        self.rounds().map(line).collect()
    }
}
