//! Shapes, and NumPy broadcasting.

mod view;

use std::fmt;

use smallvec::SmallVec;

pub(crate) use self::view::{Move, Range, View, Window};

/// The greatest number of dimensions of a tensor.
pub const MAX_RANK: usize = 8;

/// The sizes of a tensor's dimensions, outermost first. `[]` is a scalar of one element.
///
/// ```
/// use onetrip::Shape;
///
/// let image = Shape::new(&[8, 3, 32, 32]);
/// assert_eq!((image.rank(), image.elements()), (4, 24_576));
/// assert_eq!(image.broadcast(&Shape::new(&[3, 1, 1])), Some(image.clone()));
/// assert_eq!(image.broadcast(&Shape::new(&[2, 1, 1])), None);
/// ```
#[derive(Clone, PartialEq, Eq, Hash, Default)]
pub struct Shape(SmallVec<[usize; 4]>);

impl Shape {
    /// A shape from its dimensions.
    #[must_use]
    pub fn new(dims: &[usize]) -> Self {
        Self(SmallVec::from_slice(dims))
    }

    /// The dimensions, outermost first.
    #[must_use]
    pub fn dims(&self) -> &[usize] {
        &self.0
    }

    /// The number of dimensions.
    #[must_use]
    pub fn rank(&self) -> usize {
        self.0.len()
    }

    /// The number of elements: the product of the dimensions, saturating.
    #[must_use]
    pub fn elements(&self) -> usize {
        points(&self.0)
    }

    /// The coordinates of the element at position `at` in row-major order.
    pub(crate) fn coordinates(&self, at: usize) -> Vec<usize> {
        let mut rest = at;
        let mut coordinates: Vec<usize> = Vec::with_capacity(self.rank());
        for dim in self.0.iter().rev().map(|&dim| dim.max(1)) {
            coordinates.push(rest % dim);
            rest /= dim;
        }
        coordinates.reverse();
        coordinates
    }

    /// The shape that two shapes broadcast to by NumPy's rule: aligned at the last
    /// dimension, equal or 1. `None` where they do not fit.
    #[must_use]
    pub fn broadcast(&self, other: &Self) -> Option<Self> {
        if self == other {
            return Some(self.clone());
        }
        let rank = self.rank().max(other.rank());
        let mut dims = SmallVec::with_capacity(rank);
        for axis in 0..rank {
            let (a, b) = (self.aligned(axis, rank), other.aligned(axis, rank));
            dims.push(match (a, b) {
                (a, b) if a == b => a,
                (1, b) => b,
                (a, 1) => a,
                _ => return None,
            });
        }
        Some(Self(dims))
    }

    /// The size of the last axis but one: the rows of a matrix.
    pub(crate) fn rows(&self) -> usize {
        self.rank().checked_sub(2).map_or(1, |axis| self.0[axis])
    }

    /// The size of `axis` when the shape is padded on the left with ones to `rank`.
    fn aligned(&self, axis: usize, rank: usize) -> usize {
        let missing = rank - self.rank();
        if axis < missing { 1 } else { self.0[axis - missing] }
    }
}

/// The number of points in a space of `dims`, saturating.
pub(crate) fn points(dims: &[usize]) -> usize {
    dims.iter().fold(1, |n, &d| n.saturating_mul(d))
}

impl std::ops::Index<usize> for Shape {
    type Output = usize;
    fn index(&self, axis: usize) -> &usize {
        &self.0[axis]
    }
}
macro_rules! from {
    ($($(const $n:ident,)? $from:ty: |$dims:ident| $shape:expr;)*) => {$(
        impl $(<const $n: usize>)? From<$from> for Shape {
            fn from($dims: $from) -> Self {
                $shape
            }
        }
    )*};
}
from! {
    const N, [usize; N]: |dims| Self::new(&dims);
    &[usize]: |dims| Self::new(dims);
    Vec<usize>: |dims| Self(SmallVec::from_vec(dims));
    &Shape: |shape| shape.clone();
    usize: |len| Self::new(&[len]);
}
impl FromIterator<usize> for Shape {
    fn from_iter<I: IntoIterator<Item = usize>>(dims: I) -> Self {
        Self(dims.into_iter().collect())
    }
}
impl fmt::Display for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}
impl fmt::Debug for Shape {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn broadcasting_follows_numpy() {
        type Case = (&'static [usize], &'static [usize], Option<&'static [usize]>);
        let cases: [Case; 7] = [
            (&[], &[3], Some(&[3])),
            (&[2, 1], &[3], Some(&[2, 3])),
            (&[8, 1, 6, 1], &[7, 1, 5], Some(&[8, 7, 6, 5])),
            (&[0], &[1], Some(&[0])),
            (&[0], &[2], None),
            (&[2, 3], &[3, 2], None),
            (&[4, 1], &[1, 5], Some(&[4, 5])),
        ];
        for (a, b, want) in cases {
            let got = Shape::from(a).broadcast(&Shape::from(b));
            assert_eq!(got, want.map(Shape::from), "{a:?} {b:?}");
        }
    }
}
