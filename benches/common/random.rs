//! Random numbers that other languages make too.

/// Uniform numbers in −1..1 (splitmix64: Steele et al., 2014).
pub struct Random(u64);

impl Random {
    /// The generator of `seed`.
    pub fn new(seed: u64) -> Self {
        Self(seed)
    }

    /// The generator whose seed is the hash of a name (64-bit FNV-1a).
    pub fn named(name: &str) -> Self {
        let hash = |hash: u64, byte| (hash ^ u64::from(byte)).wrapping_mul(0x100_0000_01b3);
        Self::new(name.bytes().fold(0xcbf2_9ce4_8422_2325, hash))
    }

    /// 64 random bits.
    pub fn bits(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    /// `n` numbers.
    pub fn floats(&mut self, n: usize) -> Vec<f32> {
        (0..n).map(|_| (self.bits() >> 40) as f32 / (1 << 23) as f32 - 1.0).collect()
    }
}
