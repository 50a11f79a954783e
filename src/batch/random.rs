//! Random numbers, and what is made of them.

use smallvec::smallvec;

use super::{BufferId, GpuCommandBatch};
use crate::base::dtype::{DType, Element, Float, Scalar};
use crate::base::shape::Shape;
use crate::error::MistakeKind;
use crate::ops::{Distribution, Elementwise, Op, Random, SortOrder, check_size};

/// Uniform numbers are multiples of this part of 1.
const PARTS: f64 = 16_777_216.0;

/// Random numbers. Element i (in row-major order) is made of the words that Philox 4×32-10 (Salmon et al., 2011)
/// gives for the counter (i, 0, low word of `stream`, high word of `stream`) and the key (low word of `seed`, high
/// word of `seed`), and of nothing else: the same seed and stream give the same numbers in every run and on every
/// device, and a longer tensor begins with those of a shorter one. Streams of one seed are independent of each other,
/// so that each use in a program should have its own.
///
/// Kernels that read random numbers compute them in place.
impl GpuCommandBatch {
    /// 32 random bits an element: the first of the four words.
    #[track_caller]
    pub fn random_bits(
        &mut self,
        shape: impl Into<Shape>,
        seed: u64,
        stream: u64,
    ) -> BufferId<u32> {
        self.random(shape.into(), Random { kind: Distribution::Bits, seed, stream })
    }

    /// Uniform in 0..1, without 1: the upper 24 bits of the first word, times 2⁻²⁴ (in `f16` 11 bits, times 2⁻¹¹).
    /// Exact on every device.
    #[track_caller]
    pub fn random_uniform<T: Float>(
        &mut self,
        shape: impl Into<Shape>,
        seed: u64,
        stream: u64,
    ) -> BufferId<T> {
        self.random(shape.into(), Random { kind: Distribution::Uniform, seed, stream })
    }

    /// Normal with mean 0 and variance 1, by Box and Muller (1958): √(−2 log u)·cos 2πv with u = first word · 2⁻³² +
    /// 2⁻³³ and v the upper 24 bits of the second word, times 2⁻²⁴. No element is further than 6.8 from 0.
    /// Devices differ by the errors that `log`, `sqrt` and `cos` have on them: at most 3e-6.
    #[track_caller]
    pub fn random_normal<T: Float>(
        &mut self,
        shape: impl Into<Shape>,
        seed: u64,
        stream: u64,
    ) -> BufferId<T> {
        self.random(shape.into(), Random { kind: Distribution::Normal, seed, stream })
    }

    /// True with probability `p`: where [`random_uniform`](Self::random_uniform) of `f32` with this seed and stream is
    /// below `p`. Exact on every device. It is a mistake if p does not lie in 0..=1.
    #[track_caller]
    pub fn random_bernoulli(
        &mut self,
        shape: impl Into<Shape>,
        p: f32,
        seed: u64,
        stream: u64,
    ) -> BufferId<bool> {
        match check_probability(p) {
            Ok(()) => {
                let below = (f64::from(p) * PARTS).ceil() as u32;
                let kind = Distribution::Bernoulli(below);
                self.random(shape.into(), Random { kind, seed, stream })
            }
            Err(what) => self.mistake("random_bernoulli", what),
        }
    }

    /// The numbers 0 to n − 1 in random order: the [`argsort`](Self::argsort) of [`random_bits`](Self::random_bits), the
    /// same on every device. Numbers whose words are equal keep their order; for n = 10⁶ there are about a hundred such
    /// pairs.
    #[track_caller]
    pub fn random_permutation(&mut self, n: usize, seed: u64, stream: u64) -> BufferId<u32> {
        self.composed("random_permutation", |b| {
            let keys = b.random_bits([n], seed, stream);
            b.argsort(keys, 0, SortOrder::Ascending)
        })
    }

    /// Zeros with probability `p`, and x / (1 − p) elsewhere, so that the mean stays (Srivastava et al., 2014).
    /// An element stays where [`random_bernoulli`](Self::random_bernoulli) of 1 − p with this seed and stream is true.
    /// It is a mistake if p does not lie in 0..=1.
    #[track_caller]
    pub fn dropout<T: Float>(
        &mut self,
        x: BufferId<T>,
        p: f32,
        seed: u64,
        stream: u64,
    ) -> BufferId<T> {
        self.composed_if("dropout", |b| {
            let shape = b.shape_of(x)?;
            check_probability(p)?;
            let stays = b.random_bernoulli(shape, 1.0 - p, seed, stream);
            let factor = if p < 1.0 { 1.0 / (1.0 - f64::from(p)) } else { 0.0 };
            let factor = smallvec![Scalar::new(DType::F32, factor)];
            let ids = [b.check(x)];
            let scaled = b.record(Op::Elementwise(Elementwise::Scale, factor), &ids);
            let zero = b.full(Shape::default(), T::default());
            Ok(b.select(stays, scaled, zero))
        })
    }

    #[track_caller]
    fn random<T: Element>(&mut self, shape: Shape, random: Random) -> BufferId<T> {
        // Positions are counted in 32 bits.
        let countable = shape.elements() as u64 <= u64::from(u32::MAX);
        let checked = if countable { Ok(()) } else { Err(MistakeKind::TooLarge(shape.clone())) };
        match check_size(&shape).and(checked) {
            Ok(()) => self.source(Op::Random(random), T::DTYPE, shape),
            Err(what) => self.mistake(random.name(), what),
        }
    }
}

fn check_probability(p: f32) -> Result<(), MistakeKind> {
    if (0.0..=1.0).contains(&p) {
        Ok(())
    } else {
        let given = p.to_string();
        Err(MistakeKind::Parameter { what: "p", must: "in 0..=1", given })
    }
}
