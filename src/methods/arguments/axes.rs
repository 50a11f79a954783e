//! Axes that an operation works on.

use smallvec::SmallVec;

use crate::base::shape::Shape;
use crate::error::MistakeKind;

/// The axes of a reduction: one (`1`), several (`[0, 2]`) or all (`..`). Negative numbers count from
/// the last axis; a `usize` is given as `axis as isize`. [`keep_dims`](Self::keep_dims) leaves them in the result with size 1.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Axes {
    /// `None` for all.
    list: Option<SmallVec<[isize; 4]>>,
    pub(crate) keep: bool,
}

impl Axes {
    /// All axes.
    pub const ALL: Self = Self { list: None, keep: false };

    /// The reduced axes stay in the result, with size 1.
    ///
    /// ```
    /// # use onetrip::{Axes, Device, GpuCommandBatch};
    /// # let batch = GpuCommandBatch::new(&Device::cpu());
    /// let x = batch.upload_shaped(&[1.0_f32; 6], [2, 3]);
    /// let means = x.mean(Axes::from(-1).keep_dims());
    /// assert_eq!(means.shape().unwrap().dims(), [2, 1]);
    /// let centred = x - means;
    /// # let _ = centred;
    /// ```
    #[must_use]
    pub fn keep_dims(self) -> Self {
        Self { keep: true, ..self }
    }

    /// The axes in ascending order, counted from the front.
    pub(crate) fn resolve(&self, shape: &Shape) -> Result<SmallVec<[usize; 4]>, MistakeKind> {
        let Some(list) = &self.list else { return Ok((0..shape.rank()).collect()) };
        let mut axes: SmallVec<[usize; 4]> = SmallVec::new();
        for &given in list {
            let axis = resolve(given, shape)?;
            if axes.contains(&axis) {
                return Err(MistakeKind::AxisTwice { axis: given, shape: shape.clone() });
            }
            axes.push(axis);
        }
        axes.sort_unstable();
        Ok(axes)
    }
}

/// An axis counted from the front.
pub(crate) fn resolve(axis: isize, shape: &Shape) -> Result<usize, MistakeKind> {
    let rank = shape.rank() as isize;
    if (-rank..rank).contains(&axis) {
        Ok(axis.rem_euclid(rank) as usize)
    } else {
        Err(MistakeKind::Axis { axis, shape: shape.clone() })
    }
}

impl From<isize> for Axes {
    fn from(axis: isize) -> Self {
        Self { list: Some(smallvec::smallvec![axis]), keep: false }
    }
}
impl<const N: usize> From<[isize; N]> for Axes {
    fn from(axes: [isize; N]) -> Self {
        Self::from(&axes[..])
    }
}
impl From<&[isize]> for Axes {
    fn from(axes: &[isize]) -> Self {
        Self { list: Some(SmallVec::from_slice(axes)), keep: false }
    }
}
impl From<std::ops::RangeFull> for Axes {
    fn from(_: std::ops::RangeFull) -> Self {
        Self::ALL
    }
}
