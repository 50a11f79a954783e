//! Random numbers by a counter: each is a function of its position, a seed and a stream. It is therefore the same on
//! every backend, in every run, and for any division of the work.

use smallvec::{SmallVec, smallvec};

use crate::base::dtype::{DType, Scalar, Ty};
use crate::expr::{Builder, E};

/// Numbers of one distribution.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Random {
    pub kind: Distribution,
    pub seed: u64,
    pub stream: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Distribution {
    /// 32 random bits.
    Bits,
    /// In 0..1, without 1: multiples of 2⁻²⁴, in `f16` of 2⁻¹¹.
    Uniform,
    /// Mean 0, variance 1.
    Normal,
    /// True if a multiple of 2⁻²⁴ that is uniform in 0..1 lies below this many of them.
    Bernoulli(u32),
}

/// Multipliers and key increments of Philox 4×32 (Salmon et al., "Parallel random numbers: as easy as 1, 2, 3", 2011).
const MULTIPLIERS: [f64; 2] = [0xd251_1f53_u32 as f64, 0xcd9e_8d57_u32 as f64];
const INCREMENTS: [f64; 2] = [0x9e37_79b9_u32 as f64, 0xbb67_ae85_u32 as f64];
const ROUNDS: usize = 10;

/// Philox 4×32-10: four words of random bits from a counter and a key, all `u32`.
fn philox<'b>(counter: [E<'b>; 4], key: [E<'b>; 2]) -> [E<'b>; 4] {
    let ([mut a, mut b, mut c, mut d], [mut k, mut l]) = (counter, key);
    for round in 0..ROUNDS {
        if round > 0 {
            (k, l) = (k + INCREMENTS[0], l + INCREMENTS[1]);
        }
        let [m, n] = MULTIPLIERS;
        (a, b, c, d) = (c.mul_high(n).xor(b).xor(k), c * n, a.mul_high(m).xor(d).xor(l), a * m);
    }
    [a, b, c, d]
}

impl Random {
    pub fn name(self) -> &'static str {
        match self.kind {
            Distribution::Bits => "random_bits",
            Distribution::Uniform => "random_uniform",
            Distribution::Normal => "random_normal",
            Distribution::Bernoulli(_) => "random_bernoulli",
        }
    }

    /// The numbers that [`apply`](Self::apply) takes.
    pub fn scalars(self) -> SmallVec<[Scalar; 5]> {
        let word = |bits: u64| Scalar::new(DType::U32, f64::from(bits as u32));
        let Self { kind, seed, stream } = self;
        let mut scalars = smallvec![word(seed), word(seed >> 32), word(stream), word(stream >> 32)];
        if let Distribution::Bernoulli(below) = kind {
            scalars.push(word(below.into()));
        }
        scalars
    }

    /// The number at `position`, a `u32`: from the words that Philox makes of the counter (position, 0, stream), low
    /// word first, with the seed as key. In `f16` the lane holds what rounds to itself.
    pub fn apply<'b>(self, position: E<'b>, scalars: &[E<'b>], dtype: DType) -> E<'b> {
        let zero = position.literal(0.0);
        let counter = [position, zero, scalars[2], scalars[3]];
        let [first, second, ..] = philox(counter, [scalars[0], scalars[1]]);
        match self.kind {
            Distribution::Bits => first,
            Distribution::Uniform => {
                let bits = if dtype == DType::F16 { 11 } else { 24 };
                unit(first, bits)
            }
            // The polar form of Box and Muller (1958); the radius has 32 bits for its tail.
            Distribution::Normal => {
                let apart = first.cast(DType::F32) * 2_f64.powi(-32) + 2_f64.powi(-33);
                let angle = unit(second, 24) * std::f64::consts::TAU;
                ((apart.log() * -2.0).sqrt() * angle.cos()).cast(dtype)
            }
            Distribution::Bernoulli(_) => first.shr(8.0).lt(scalars[4]),
        }
    }

    /// Flops of one number.
    pub fn flops(self, dtype: DType) -> u64 {
        let builder = Builder::default();
        let root = {
            let scalars: SmallVec<[E<'_>; 5]> =
                (0..self.scalars().len()).map(|k| builder.scalar(k as u16, Ty::U32)).collect();
            self.apply(builder.load(0, Ty::U32), &scalars, dtype).r()
        };
        builder.finish().flops(&[root])
    }
}

/// The upper `bits` of a word as a multiple of 2^−bits in 0..1.
fn unit(word: E<'_>, bits: i32) -> E<'_> {
    word.shr(f64::from(32 - bits)).cast(DType::F32) * 2_f64.powi(-bits)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::expr::reference::{LaneValue, LeafValues, evaluate};

    /// The vectors that Random123 publishes in `kat_vectors`: counter, key, result.
    const KNOWN: [[u32; 10]; 3] = [
        [0, 0, 0, 0, 0, 0, 0x6627_e8d5, 0xe169_c58d, 0xbc57_ac4c, 0x9b00_dbd8],
        [
            0xffff_ffff,
            0xffff_ffff,
            0xffff_ffff,
            0xffff_ffff,
            0xffff_ffff,
            0xffff_ffff,
            0x408f_276d,
            0x41c8_3b0e,
            0xa20b_c7c6,
            0x6d54_51fd,
        ],
        [
            0x243f_6a88,
            0x85a3_08d3,
            0x1319_8a2e,
            0x0370_7344,
            0xa409_3822,
            0x299f_31d0,
            0xd16c_fe09,
            0x94fd_cceb,
            0x5001_e420,
            0x2412_6ea1,
        ],
    ];

    #[test]
    fn philox_gives_the_published_words() {
        let builder = Builder::default();
        let load = |k: u16| builder.load(k, Ty::U32);
        let words = philox([0, 1, 2, 3].map(load), [4, 5].map(load)).map(E::r);
        let expr = builder.clone().finish();
        for known in KNOWN {
            let loads: Vec<LaneValue> = known[..6].iter().map(|&word| LaneValue::U(word)).collect();
            let leaves = LeafValues { loads: &loads, ..LeafValues::default() };
            let got = words.map(|word| evaluate(&expr, word, leaves));
            assert_eq!(
                got[..],
                known[6..].iter().map(|&w| Some(LaneValue::U(w))).collect::<Vec<_>>()
            );
        }
    }
}
