//! Reductions and row operations.

use super::axes::resolve;
use super::{Axes, BufferId, GpuCommandBatch};
use crate::base::dtype::{DType, Element, Float, Logical, Numeric, Scalar};
use crate::error::MistakeKind;
use crate::ops::{Normalization, Op, Reduction, reduce_table, row_table};

macro_rules! reductions {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident<$bound:ident> -> $out:ty, combine $combine:ident,
        empty $empty:expr, ulp $ulp:literal, abs $abs:literal,
        of ($x:ident) $before:expr, then ($($given:ident),+) $after:expr;)*) => {
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
reduce_table!(reductions);

macro_rules! rows {
    ($($(#[doc = $doc:literal])* $name:ident $op:ident $(($epsilon:ident: $scalar:ty))?, family $family:literal,
        words $words:literal, flops $flops:literal;)*) => {
        /// Row operations along an axis, which may count from the last (−1).
        impl GpuCommandBatch {
            $($(#[doc = $doc])*
            #[track_caller]
            pub fn $name<T: Float>(&mut self, x: BufferId<T>, axis: isize $(, $epsilon: f32)?) -> BufferId<T> {
                $(let $epsilon = match check_epsilon($epsilon) {
                    Ok(epsilon) => epsilon,
                    Err(what) => return self.mistake(stringify!($name), what),
                };)?
                self.normalize(Normalization::$op $(($epsilon))?, x, axis)
            })*
        }
    };
}
row_table!(rows);

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
