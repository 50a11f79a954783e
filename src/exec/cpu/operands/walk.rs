//! Walks over elements along strided axes, in row-major order.

use smallvec::SmallVec;

/// A position that moves by strides.
pub(super) trait Position: Copy + Default + PartialEq {
    /// The position that lies so many strides from here.
    fn plus(self, stride: Self, times: i64) -> Self;
}

impl Position for i64 {
    #[inline]
    fn plus(self, stride: Self, times: i64) -> Self {
        self + stride * times
    }
}

/// An axis, and the distance between neighbours along it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Axis<P> {
    pub dim: usize,
    pub stride: P,
}

/// Some axes, innermost first.
pub(super) type Axes<P> = SmallVec<[Axis<P>; 2]>;

/// Returns `axes`, which come innermost first, without those of size 1. Axes that one stride can walk are merged.
pub(super) fn collapse<P: Position>(axes: impl Iterator<Item = Axis<P>>) -> Axes<P> {
    let mut collapsed = Axes::new();
    for axis in axes.filter(|axis| axis.dim != 1) {
        match collapsed.last_mut() {
            Some(Axis { dim, stride })
                if axis.stride == P::default().plus(*stride, *dim as i64) =>
            {
                *dim *= axis.dim;
            }
            _ => collapsed.push(axis),
        }
    }
    collapsed
}

/// The positions along axes, in stretches along the innermost.
pub(super) struct Walk<'a, P> {
    axes: &'a [Axis<P>],
    coordinates: SmallVec<[usize; 8]>,
    /// The next position.
    pub position: P,
}

impl<'a, P: Position> Walk<'a, P> {
    /// Starts at element `start` of the space of `axes`, whose first element lies at `origin`.
    pub fn from(axes: &'a [Axis<P>], origin: P, start: usize) -> Self {
        let mut walk = Self { axes, coordinates: SmallVec::new(), position: origin };
        let mut rest = start;
        for axis in axes {
            let at = rest % axis.dim;
            rest /= axis.dim;
            walk.position = walk.position.plus(axis.stride, at as i64);
            walk.coordinates.push(at);
        }
        walk
    }

    /// Takes the next position, and up to `most` positions from there on along the innermost axis. Returns their number too.
    #[inline]
    pub fn next(&mut self, most: usize) -> (P, usize) {
        let (axes, coordinates, first) = (self.axes, &mut self.coordinates[..], self.position);
        let Some(inner) = axes.first() else { return (first, most.min(1)) };
        let len = most.min(inner.dim - coordinates[0]);
        self.position = first.plus(inner.stride, len as i64);
        coordinates[0] += len;
        for (at, pair) in axes.windows(2).enumerate() {
            if coordinates[at] < pair[0].dim {
                break;
            }
            coordinates[at] = 0;
            coordinates[at + 1] += 1;
            let back = -(pair[0].dim as i64);
            self.position = self.position.plus(pair[1].stride, 1).plus(pair[0].stride, back);
        }
        (first, len)
    }
}
