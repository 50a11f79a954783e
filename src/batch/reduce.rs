//! Reductions and row operations.

use super::axes::resolve;
use super::{Axes, BufferId, GpuCommandBatch};
use crate::base::dtype::{DType, Element, Float, Logical, Numeric, Scalar};
use crate::error::MistakeKind;
use crate::ops::{Normalization, Op, Reduction};

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident> -> $out:ty;)*) => {
        /// Reductions over any axes: one (`1`), several (`[0, -1]`) or all (`..`). The axes vanish from
        /// the shape, or stay with size 1 with [`Axes::keep_dims`].
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name<T: $bound>(&mut self, x: BufferId<T>, axes: impl Into<Axes>) -> BufferId<$out> {
                self.reduce(Reduction::$op, x, &axes.into())
            })*
        }
    };
}
reductions! {
    /// The sum. Integers wrap; `f16` is summed in `f32`.
    sum Sum<Numeric> -> T;
    /// The arithmetic mean; NaN over no elements.
    mean Mean<Float> -> T;
    /// The product. Integers wrap.
    prod Prod<Numeric> -> T;
    /// The greatest element; NaN if any is NaN. An empty axis is a mistake.
    amax Max<Numeric> -> T;
    /// The least element; NaN if any is NaN. An empty axis is a mistake.
    amin Min<Numeric> -> T;
    /// The first position of the greatest element (or of the first NaN); over several axes, its
    /// position in row-major order. An empty axis is a mistake.
    argmax Argmax<Numeric> -> u32;
    /// The first position of the least element (or of the first NaN); over several axes, its
    /// position in row-major order. An empty axis is a mistake.
    argmin Argmin<Numeric> -> u32;
    /// Whether any element is true; false over no elements.
    any Any<Logical> -> T;
    /// Whether all elements are true; true over no elements.
    all All<Logical> -> T;
    /// log Σ eˣ without overflow; −∞ over no elements.
    logsumexp LogSumExp<Float> -> T;
    /// The Euclidean norm √Σx².
    norm Norm<Float> -> T;
}

impl GpuCommandBatch {
    #[track_caller]
    fn reduce<T: Element, U: Element>(
        &mut self,
        op: Reduction,
        x: BufferId<T>,
        axes: &Axes,
    ) -> BufferId<U> {
        let ids = [self.check(x)];
        let axes_of = self.known_shape(&ids[0]).map(|shape| axes.resolve(&shape));
        match axes_of.transpose() {
            Ok(list) => {
                let axes_list = list.unwrap_or_default();
                self.record(Op::Reduce { op, axes: axes_list, keep: axes.keep }, &ids)
            }
            Err(what) => self.mistake(op.name(), what),
        }
    }

    /// The inner product Σ xᵢ·yᵢ of two vectors of equal length, a scalar of shape `[]`.
    #[track_caller]
    pub fn dot<T: Numeric>(&mut self, x: BufferId<T>, y: BufferId<T>) -> BufferId<T> {
        let ids = [self.check(x), self.check(y)];
        if let Some(what) = ids.iter().find_map(|id| id.as_ref().err()) {
            return self.mistake("dot", what.clone());
        }
        if let (Some(a), Some(b)) = (self.known_shape(&ids[0]), self.known_shape(&ids[1]))
            && (a.rank() != 1 || a != b)
        {
            return self.mistake("dot", MistakeKind::Dot(a, b));
        }
        let product = self.mul(x, y);
        self.sum(product, ..)
    }

    /// e^(x − max) / Σ e^(x − max) along `axis`, which may count from the last (−1).
    #[track_caller]
    pub fn softmax<T: Float>(&mut self, x: BufferId<T>, axis: isize) -> BufferId<T> {
        self.normalize(Normalization::Softmax, x, axis)
    }

    /// x − max − log Σ e^(x − max) along `axis`, which may count from the last (−1). Of an element far above all others,
    /// whose result is near 0, that is off by a few 2⁻²⁴, not by a few units in its own last place: as in PyTorch, the
    /// others' terms are added in `f32` to its 1.
    #[track_caller]
    pub fn log_softmax<T: Float>(&mut self, x: BufferId<T>, axis: isize) -> BufferId<T> {
        self.normalize(Normalization::LogSoftmax, x, axis)
    }

    /// (x − mean) / √(variance + ε) along `axis`, with the variance over n elements (Ba et al., 2016). A
    /// gain and a bias are a [`mul`](Self::mul) and an [`add`](Self::add), which become part of
    /// the same kernel. It is a mistake if ε is negative or not finite. On a GPU squares are taken in `f32`, which
    /// overflows past |x − mean| of 1e19.
    #[track_caller]
    pub fn layer_norm<T: Float>(
        &mut self,
        x: BufferId<T>,
        axis: isize,
        epsilon: f32,
    ) -> BufferId<T> {
        self.normalize_by("layer_norm", Normalization::LayerNorm, x, axis, epsilon)
    }

    /// x / √(mean of x² + ε) along `axis` (Zhang and Sennrich, 2019). A gain is a [`mul`](Self::mul),
    /// which becomes part of the same kernel. It is a mistake if ε is negative or not finite. On a GPU squares
    /// are taken in `f32`, which overflows past |x| of 1e19.
    #[track_caller]
    pub fn rms_norm<T: Float>(&mut self, x: BufferId<T>, axis: isize, epsilon: f32) -> BufferId<T> {
        self.normalize_by("rms_norm", Normalization::RmsNorm, x, axis, epsilon)
    }

    /// x / max(√Σx², ε) along `axis`, as PyTorch's `normalize`: rows of length 1, but for those shorter than ε. It is a
    /// mistake if ε is negative or not finite. On a GPU squares are taken in `f32`, which overflows past |x| of 1e19.
    #[track_caller]
    pub fn l2_normalize<T: Float>(
        &mut self,
        x: BufferId<T>,
        axis: isize,
        epsilon: f32,
    ) -> BufferId<T> {
        self.normalize_by("l2_normalize", Normalization::L2Normalize, x, axis, epsilon)
    }

    #[track_caller]
    fn normalize_by<T: Float>(
        &mut self,
        name: &'static str,
        op: impl FnOnce(Scalar) -> Normalization,
        x: BufferId<T>,
        axis: isize,
        epsilon: f32,
    ) -> BufferId<T> {
        match check_epsilon(epsilon) {
            Ok(epsilon) => self.normalize(op(epsilon), x, axis),
            Err(what) => self.mistake(name, what),
        }
    }

    #[track_caller]
    pub(super) fn normalize<T: Float>(
        &mut self,
        op: Normalization,
        x: BufferId<T>,
        axis: isize,
    ) -> BufferId<T> {
        let ids = [self.check(x)];
        match self.known_shape(&ids[0]).map(|shape| resolve(axis, &shape)).transpose() {
            Ok(axis) => self.record(Op::Row { op, axis: axis.unwrap_or_default() }, &ids),
            Err(what) => self.mistake(op.name(), what),
        }
    }
}

pub(super) fn check_epsilon(epsilon: f32) -> Result<Scalar, MistakeKind> {
    if epsilon.is_finite() && epsilon >= 0.0 {
        Ok(Scalar::new(DType::F32, f64::from(epsilon)))
    } else {
        let given = epsilon.to_string();
        Err(MistakeKind::Parameter { what: "epsilon", must: "finite and not negative", given })
    }
}
