//! Tiles in workgroup memory.

/// A tile in workgroup memory. `pitch` is the fours from one element of the chunk to the next. Fours change places by
/// `swap`, so that the writes of a thread along the chunk are spread over the banks.
#[derive(Clone, Copy)]
pub(super) struct SwappedTile {
    pub name: &'static str,
    pub pitch: usize,
    pub swap: usize,
}

impl SwappedTile {
    pub fn new(name: &'static str, size: usize) -> Self {
        let pitch = size / 4;
        Self { name, pitch, swap: pitch.min(8) - 1 }
    }

    /// The text of the four `quad` at element `4 * four + lane` of the chunk.
    pub fn at(&self, four: &str, lane: usize, quad: &str) -> String {
        let Self { name, pitch, swap } = self;
        let quad = match swap {
            0 => quad.to_string(),
            _ => format!("({quad} ^ ({four} & {swap}u))"),
        };
        format!("{name}[{four} * {}u + {}u + {quad}]", 4 * pitch, lane * pitch)
    }
}
