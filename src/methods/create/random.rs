//! Random numbers, and operations made of them.

use crate::base::dtype::{Element, Float};
use crate::base::shape::Shape;
use crate::batch::{GpuCommandBatch, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::check_parameter;
use crate::ops::{Distribution, Op, Random, SortOrder, check_size};
use crate::record::Refusal;

/// Uniform numbers are multiples of this part of 1.
const PARTS: f64 = 16_777_216.0;

creations! {
    /// Random numbers. Element i (in row-major order) is made of the words of Philox 4×32-10 (Salmon et al., 2011), and
    /// of nothing else. The counter is (i, 0, low word of `stream`, high word of `stream`), the key (low word of
    /// `seed`, high word of `seed`). So the same seed and stream give the same numbers in every run and on every
    /// device, and a longer tensor begins with those of a shorter one. Streams of one seed are independent of each
    /// other, so that each use in a program should have its own.
    ///
    /// Kernels that read random numbers compute them in place.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use onetrip::{Device, GpuCommandBatch};
    /// let batch = GpuCommandBatch::new(&Device::cpu());
    /// let (seed, stream) = (7, 0);
    /// let bits = batch.random_bits([4], seed, stream);
    /// let uniform = batch.random_uniform::<f32>([4], seed, stream);
    /// let normal = batch.random_normal::<f32>([4], seed, stream);
    /// let is_less = batch.random_bernoulli([4], 0.5, seed, stream);
    /// let order = batch.random_permutation(4, seed, stream);
    /// batch.outputs((bits, uniform, normal, is_less, order));
    /// batch.execute().await?;
    /// let (bits, uniform) = (batch.read(bits).await?, batch.read(uniform).await?);
    /// let from_bits = bits.iter().map(|word| (word >> 8) as f32 / 16_777_216.0);
    /// assert!(from_bits.eq(uniform.iter().copied()));
    /// let expected: Vec<bool> = uniform.iter().map(|&x| x < 0.5).collect();
    /// assert_eq!(batch.read(is_less).await?, expected);
    /// assert!(batch.read(normal).await?.iter().all(|x| x.abs() < 6.8));
    /// let mut order = batch.read(order).await?;
    /// order.sort();
    /// assert_eq!(order, [0, 1, 2, 3]);
    /// # Ok::<_, onetrip::Error>(()) }).unwrap();
    /// ```
    "random", b;

    /// 32 random bits an element: the first of the four words.
    fn random_bits(shape: impl Into<Shape>, seed: u64, stream: u64) -> Tensor<'b, u32> = random(b, shape, Distribution::Bits, seed, stream),
        "u32", AFTER, EXACT, "32 random bits an element (Philox 4×32-10).";
    /// Uniform in 0..1, without 1: the upper 24 bits of the first word, times 2⁻²⁴ (in `f16` 11 bits, times 2⁻¹¹).
    /// Exact on every device.
    fn random_uniform<T: Float>(shape: impl Into<Shape>, seed: u64, stream: u64) -> Tensor<'b, T> = random(b, shape, Distribution::Uniform, seed, stream),
        FLOAT, AFTER, EXACT, "Uniform in 0..1.";
    /// Normal with mean 0 and variance 1, by Box and Muller (1958): √(−2 log u)·cos 2πv with u = first word · 2⁻³² +
    /// 2⁻³³ and v the upper 24 bits of the second word, times 2⁻²⁴. No element is further than 6.8 from 0.
    /// Devices differ by the errors that `log`, `sqrt` and `cos` have on them: at most 3e-6.
    fn random_normal<T: Float>(shape: impl Into<Shape>, seed: u64, stream: u64) -> Tensor<'b, T> = random(b, shape, Distribution::Normal, seed, stream),
        FLOAT, AFTER, (8.0, 3e-6), "Normal with mean 0 and variance 1.";
    /// True with probability `p`: where [`random_uniform`](Self::random_uniform) of `f32` with this seed and stream is
    /// below `p`. Exact on every device. It is a mistake if p does not lie in 0..=1.
    fn random_bernoulli(shape: impl Into<Shape>, p: f32, seed: u64, stream: u64) -> Tensor<'b, bool> = below(p).and_then(|kind| random(b, shape, kind, seed, stream)),
        "bool", AFTER, EXACT, "True with probability `p`.";
    /// The numbers 0 to n − 1 in random order: the [`argsort`](Self::argsort) of [`random_bits`](Self::random_bits),
    /// the same on every device. Numbers whose words are equal keep their order; for n = 10⁶ there are about a hundred
    /// such pairs.
    fn random_permutation(n: usize, seed: u64, stream: u64) -> Tensor<'b, u32> = Ok(b.random_bits([n], seed, stream).argsort(0, SortOrder::Ascending)),
        "u32", AFTER, EXACT, "The numbers 0 to n − 1 in random order.";
}

/// True where a number of 24 bits is below `p` of all of them.
fn below(p: f32) -> Result<Distribution, Refusal> {
    check_probability(p)?;
    Ok(Distribution::Bernoulli((f64::from(p) * PARTS).ceil() as u32))
}

fn random<T: Element>(
    b: &GpuCommandBatch,
    shape: impl Into<Shape>,
    kind: Distribution,
    seed: u64,
    stream: u64,
) -> TensorResult<'_, T> {
    let shape = shape.into();
    check_size(&shape)?;
    // Positions are counted in 32 bits.
    if shape.elements() as u64 > u64::from(u32::MAX) {
        return Err(MistakeKind::TooLarge(shape).into());
    }
    Ok(b.source(Op::Random(Random { kind, seed, stream }), shape))
}

pub(in crate::methods) fn check_probability(p: f32) -> Result<(), MistakeKind> {
    check_parameter("p", (0.0..=1.0).contains(&p), "in 0..=1", &p)
}
