//! Dropout.

use smallvec::smallvec;

use crate::base::dtype::{DType, Element, Float, Scalar};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::methods::create::random::check_probability;
use crate::ops::{Elementwise, Op};

operations! {
    /// Dropout.
    "random";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let x = batch.upload(&[1.0_f32, 2.0]);
        /// let (whole, none) = (x.dropout(0.0, 7, 0), x.dropout(1.0, 7, 0));
        /// batch.execute().await?;
        /// assert_eq!(batch.read(whole).await?, [1.0, 2.0]);
        /// assert_eq!(batch.read(none).await?, [0.0, 0.0]);
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// Zeros with probability `p`, and x / (1 − p) elsewhere, so that the mean stays (Srivastava et al., 2014).
    /// An element stays where [`random_bernoulli`](Self::random_bernoulli) of 1 − p with this seed and stream is true.
    /// It is a mistake if p does not lie in 0..=1.
    fn dropout<T: Float>(x: T; p: f32, seed: u64, stream: u64) -> Tensor<'b, T> = dropout(x, p, seed, stream),
        FLOAT, ANYTHING, (4.0, 0.0), "Zeros with probability `p`, else x / (1 − p).";
}

fn dropout<T: Float>(x: Tensor<'_, T>, p: f32, seed: u64, stream: u64) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    check_probability(p)?;
    let stays = x.batch().random_bernoulli(shape, 1.0 - p, seed, stream);
    let factor = if p < 1.0 { 1.0 / (1.0 - f64::from(p)) } else { 0.0 };
    let factor = smallvec![Scalar::new(DType::F32, factor)];
    let scaled: Tensor<'_, T> = x.apply(Op::Elementwise(Elementwise::Scale, factor));
    Ok(stays.select(scaled, T::default()))
}
