//! Normalisations of channels and groups of them.

use smallvec::smallvec;

use super::reduce::check_epsilon;
use super::{BufferId, GpuCommandBatch, Refusal};
use crate::base::dtype::{Float, Scalar};
use crate::base::shape::Shape;
use crate::error::MistakeKind;
use crate::ops::{Elementwise, Normalization, Op};

/// Normalisations of `[batch, channels, …]`, with a `weight` and a `bias` of `[channels]` where they are given, as in
/// PyTorch. It is a mistake if ε is negative or not finite.
impl GpuCommandBatch {
    /// (x − mean) / √(variance + ε) · weight + bias with given means and variances of `[channels]`: batch normalisation
    /// once a network is trained. Elementwise, so that a convolution or product before it ends with it, in the same
    /// kernel; its weights stay as they are, since to fold into them what may be other data in each run is a pass over
    /// them.
    #[track_caller]
    pub fn batch_norm<T: Float>(
        &mut self,
        x: BufferId<T>,
        mean: BufferId<T>,
        variance: BufferId<T>,
        weight: impl Into<Option<BufferId<T>>>,
        bias: impl Into<Option<BufferId<T>>>,
        epsilon: f32,
    ) -> BufferId<T> {
        let affine = [weight.into(), bias.into()];
        self.composed_if("batch_norm", |b| b.batch_normed(x, [mean, variance], affine, epsilon))
    }

    /// (x − mean) / √(variance + ε) · weight + bias, with mean and variance (over n) of each group of channels of each
    /// element of the batch (Wu and He, 2018). One kernel, and one more for weight and bias where groups have several
    /// channels.
    #[track_caller]
    pub fn group_norm<T: Float>(
        &mut self,
        x: BufferId<T>,
        groups: usize,
        weight: impl Into<Option<BufferId<T>>>,
        bias: impl Into<Option<BufferId<T>>>,
        epsilon: f32,
    ) -> BufferId<T> {
        let affine = [weight.into(), bias.into()];
        self.composed_if("group_norm", |b| b.group_normed(x, Some(groups), affine, epsilon))
    }

    /// As [`group_norm`](Self::group_norm) with each channel a group of its own (Ulyanov et al., 2016): one kernel.
    #[track_caller]
    pub fn instance_norm<T: Float>(
        &mut self,
        x: BufferId<T>,
        weight: impl Into<Option<BufferId<T>>>,
        bias: impl Into<Option<BufferId<T>>>,
        epsilon: f32,
    ) -> BufferId<T> {
        let affine = [weight.into(), bias.into()];
        self.composed_if("instance_norm", |b| b.group_normed(x, None, affine, epsilon))
    }

    #[track_caller]
    fn batch_normed<T: Float>(
        &mut self,
        x: BufferId<T>,
        [mean, variance]: [BufferId<T>; 2],
        [weight, bias]: [Option<BufferId<T>>; 2],
        epsilon: f32,
    ) -> Result<BufferId<T>, Refusal> {
        let epsilon = check_epsilon(epsilon)?.value();
        let shape = self.shape_of(x)?;
        let columns = channel_columns(&shape)?;
        self.check_channels("mean", Some(mean), &shape)?;
        self.check_channels("variance", Some(variance), &shape)?;
        self.check_channels("weight", weight, &shape)?;
        self.check_channels("bias", bias, &shape)?;
        let addend = Scalar::new(T::DTYPE, epsilon);
        let op = Op::Elementwise(Elementwise::AddScalar, smallvec![addend]);
        let ids = [self.check(variance)];
        let shifted = self.record(op, &ids);
        let scale = self.rsqrt(shifted);
        let scale = match weight {
            Some(weight) => self.mul(scale, weight),
            None => scale,
        };
        let (mean, scale) =
            (self.reshape(mean, columns.clone()), self.reshape(scale, columns.clone()));
        let centred = self.sub(x, mean);
        let scaled = self.mul(centred, scale);
        Ok(self.affine(scaled, [None, bias], &columns))
    }

    #[track_caller]
    fn group_normed<T: Float>(
        &mut self,
        x: BufferId<T>,
        groups: Option<usize>,
        affine: [Option<BufferId<T>>; 2],
        epsilon: f32,
    ) -> Result<BufferId<T>, Refusal> {
        let epsilon = check_epsilon(epsilon)?;
        let shape = self.shape_of(x)?;
        let columns = channel_columns(&shape)?;
        let groups = groups.unwrap_or(shape[1]);
        let fits = if groups == 0 { shape[1] == 0 } else { shape[1].is_multiple_of(groups) };
        if !fits {
            return Err(MistakeKind::Groups { groups, shape }.into());
        }
        self.check_channels("weight", affine[0], &shape)?;
        self.check_channels("bias", affine[1], &shape)?;
        let each = shape.dims()[2..].iter().product::<usize>() * shape[1] / groups.max(1);
        let rows = self.reshape(x, [shape[0], groups, each]);
        let normed = self.normalize(Normalization::LayerNorm(epsilon), rows, 2);
        let normed = self.reshape(normed, shape);
        Ok(self.affine(normed, affine, &columns))
    }

    /// x · weight + bias, as far as they are given.
    #[track_caller]
    fn affine<T: Float>(
        &mut self,
        x: BufferId<T>,
        [weight, bias]: [Option<BufferId<T>>; 2],
        columns: &Shape,
    ) -> BufferId<T> {
        let mut y = x;
        if let Some(weight) = weight {
            let weight = self.reshape(weight, columns.clone());
            y = self.mul(y, weight);
        }
        if let Some(bias) = bias {
            let bias = self.reshape(bias, columns.clone());
            y = self.add(y, bias);
        }
        y
    }

    fn check_channels<T: Float>(
        &self,
        what: &'static str,
        x: Option<BufferId<T>>,
        of: &Shape,
    ) -> Result<(), Refusal> {
        let Some(x) = x else { return Ok(()) };
        let (given, wanted) = (self.shape_of(x)?, Shape::from(of[1]));
        if given == wanted {
            return Ok(());
        }
        Err(MistakeKind::LayerShape { what, given, wanted }.into())
    }
}

/// The shape in which one number a channel broadcasts over `[batch, channels, …]`.
fn channel_columns(shape: &Shape) -> Result<Shape, MistakeKind> {
    if shape.rank() < 2 {
        let wanted = "[batch, channels, …]";
        return Err(MistakeKind::Layout { what: "x", wanted, shape: shape.clone() });
    }
    let dims = shape.dims().iter().enumerate();
    Ok(dims.skip(1).map(|(axis, &dim)| if axis == 1 { dim } else { 1 }).collect())
}
