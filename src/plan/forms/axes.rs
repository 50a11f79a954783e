//! Dimensions, and fewer of them for the same elements: axes of size 1 vanish, and neighbouring axes merge if every
//! index map steps through them as through one.

use smallvec::SmallVec;

use crate::base::shape::points;

pub(crate) type Dims = SmallVec<[usize; 4]>;

/// Dimensions that several index maps share, with each map's strides along them.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct CollapsedAxes {
    pub dims: SmallVec<[usize; 4]>,
    /// One entry a map, as long as `dims`.
    pub strides: Vec<SmallVec<[i64; 4]>>,
}

impl CollapsedAxes {
    /// Collapses `dims`, walked in row-major order by maps of the given strides. There is always at
    /// least one axis left; a single element is an axis of size 1 with stride 1.
    pub fn collapse(dims: &[usize], strides: &[&[i64]]) -> Self {
        let mut out = Self { dims: SmallVec::new(), strides: vec![SmallVec::new(); strides.len()] };
        for (axis, &dim) in dims.iter().enumerate() {
            if dim == 1 {
                continue;
            }
            let last = out.dims.len().wrapping_sub(1);
            let merges = out.dims.last().is_some()
                && strides
                    .iter()
                    .zip(&out.strides)
                    .all(|(s, merged)| merged[last] == s[axis].wrapping_mul(dim as i64));
            if merges {
                out.dims[last] = out.dims[last].saturating_mul(dim);
                for (merged, s) in out.strides.iter_mut().zip(strides) {
                    merged[last] = s[axis];
                }
            } else {
                out.dims.push(dim);
                for (merged, s) in out.strides.iter_mut().zip(strides) {
                    merged.push(s[axis]);
                }
            }
        }
        if out.dims.is_empty() {
            out.dims.push(1);
            out.strides.iter_mut().for_each(|s| s.push(1));
        }
        out
    }

    pub fn rank(&self) -> usize {
        self.dims.len()
    }

    /// Points in all.
    pub fn len(&self) -> usize {
        points(&self.dims)
    }

    /// True if the map steps through all points in row-major order by ones.
    pub fn is_linear(&self, map: usize) -> bool {
        let mut next = 1_i64;
        self.dims.iter().zip(&self.strides[map]).rev().all(|(&dim, &stride)| {
            let fits = stride == next;
            next = next.wrapping_mul(dim as i64);
            fits
        })
    }

    /// True if the map stays at one element.
    pub fn is_uniform(&self, map: usize) -> bool {
        self.strides[map].iter().all(|&s| s == 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn contiguous_maps_become_one_axis() {
        let axes = CollapsedAxes::collapse(&[4, 1, 6, 5], &[&[30, 99, 5, 1], &[0, 7, 0, 0]]);
        assert_eq!(axes.dims[..], [120]);
        assert!(axes.is_linear(0) && axes.is_uniform(1));
    }

    #[test]
    fn a_bias_row_keeps_its_axis() {
        let axes = CollapsedAxes::collapse(&[2, 3, 8], &[&[24, 8, 1], &[0, 0, 1]]);
        assert_eq!(axes.dims[..], [6, 8]);
        assert_eq!(axes.strides[1][..], [0, 1]);
        assert!(axes.is_linear(0) && !axes.is_linear(1));
    }

    #[test]
    fn one_element_is_one_linear_axis() {
        let axes = CollapsedAxes::collapse(&[1, 1], &[&[0, 0], &[-3, 5]]);
        assert_eq!(axes.dims[..], [1]);
        assert!(axes.is_linear(0) && axes.is_linear(1));
    }

    #[test]
    fn negative_strides_merge_too() {
        let axes = CollapsedAxes::collapse(&[3, 4], &[&[-4, -1]]);
        assert_eq!(axes.dims[..], [12]);
        assert_eq!(axes.strides[0][..], [-1]);
        assert_eq!(CollapsedAxes::collapse(&[3, 0], &[&[0, 1]]).len(), 0);
    }
}
