//! Strided views: the index maps that reshape, permute, slice and broadcast become, so that none of them needs a kernel.

use smallvec::SmallVec;

use super::Shape;

/// One movement of a view. Every value stays where it is; only the index map changes.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Move {
    /// The same elements in row-major order under another shape.
    Reshape(Shape),
    /// `axes[i]` is the old axis that becomes axis `i`.
    Permute(SmallVec<[usize; 4]>),
    /// NumPy broadcasting to a larger shape.
    Broadcast(Shape),
    /// Per axis: first index, step (not zero), count.
    Slice(SmallVec<[Range; 4]>),
    /// `axis` becomes two: the windows that fit into it, and the elements of a window. Windows may overlap.
    Window { axis: usize, window: Window },
}

impl Move {
    /// True if the movement changes nothing of `shape`.
    pub fn is_identity(&self, shape: &Shape) -> bool {
        match self {
            Self::Reshape(to) | Self::Broadcast(to) => to == shape,
            Self::Permute(axes) => axes.iter().enumerate().all(|(i, &axis)| i == axis),
            Self::Slice(ranges) => ranges
                .iter()
                .zip(shape.dims())
                .all(|(range, &dim)| *range == Range { start: 0, step: 1, count: dim }),
            Self::Window { .. } => false,
        }
    }
}

/// The windows along an axis: `size` elements `dilation` apart, each window `step` past the last.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Window {
    pub size: usize,
    pub step: usize,
    pub dilation: usize,
}

impl Window {
    /// From the first element of a window to its last, both counted. A window has at least one.
    pub fn reach(&self) -> usize {
        (self.size - 1).saturating_mul(self.dilation).saturating_add(1)
    }

    /// From the first element of the first of `count` windows to the last of the last, at least one.
    pub fn extent(&self, count: usize) -> usize {
        (count - 1) * self.step + self.reach()
    }

    /// The windows that fit into `len` elements.
    pub fn count(&self, len: usize) -> usize {
        len.checked_sub(self.reach()).map_or(0, |rest| rest / self.step + 1)
    }
}

/// One axis of a slice: `start, start + step, …`, `count` of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Range {
    pub start: i64,
    pub step: i64,
    pub count: usize,
}

impl Range {
    /// This range, and of that another.
    pub fn then(self, next: Self) -> Self {
        Self {
            start: self.start + next.start * self.step,
            step: self.step * next.step,
            count: next.count,
        }
    }
}

/// A strided index map: element `(c0, c1, …)` of `dims` lies at `offset + Σ cᵢ·strideᵢ`.
#[derive(Debug, PartialEq, Eq, Hash)]
pub(crate) struct View {
    pub dims: SmallVec<[usize; 4]>,
    pub strides: SmallVec<[i64; 4]>,
    pub offset: i64,
}

impl Clone for View {
    /// In one piece each, where what is derived goes element by element.
    fn clone(&self) -> Self {
        Self {
            dims: SmallVec::from_slice(&self.dims),
            strides: SmallVec::from_slice(&self.strides),
            offset: self.offset,
        }
    }
}

impl View {
    /// The row-major map of a whole buffer.
    pub fn contiguous(shape: &Shape) -> Self {
        let mut strides: SmallVec<[i64; 4]> = smallvec::smallvec![0; shape.rank()];
        let mut next = 1;
        for (axis, &dim) in shape.dims().iter().enumerate().rev() {
            strides[axis] = next;
            next *= dim as i64;
        }
        Self { dims: shape.dims().into(), strides, offset: 0 }
    }

    pub fn shape(&self) -> Shape {
        Shape::new(&self.dims)
    }

    /// The view along `axes` alone, in their order. It begins with the first element along all others.
    pub fn along(&self, axes: impl Iterator<Item = usize> + Clone) -> Self {
        Self {
            dims: axes.clone().map(|axis| self.dims[axis]).collect(),
            strides: axes.map(|axis| self.strides[axis]).collect(),
            offset: self.offset,
        }
    }

    /// The points along axes with a stride: the most elements that the view reaches.
    pub fn moving_points(&self) -> usize {
        let moving = self.dims.iter().zip(&self.strides).filter(|&(_, &stride)| stride != 0);
        moving.fold(1, |points, (&dim, _)| points.saturating_mul(dim))
    }

    /// True if element `i` in row-major order lies at `i`: the view is the whole buffer as it is.
    pub fn is_contiguous(&self) -> bool {
        let mut next = 1;
        self.offset == 0
            && self.dims.iter().zip(&self.strides).rev().all(|(&dim, &stride)| {
                let fits = dim == 1 || stride == next;
                next *= dim as i64;
                fits
            })
    }

    /// The number of elements, if these follow each other from the first on.
    pub fn one_run(&self) -> Option<usize> {
        let mut len = 1;
        for (&dim, &stride) in self.dims.iter().zip(&self.strides).rev() {
            if dim != 1 && stride != len as i64 {
                return None;
            }
            len *= dim;
        }
        Some(len)
    }

    /// True if every element lies in `0..elements`, as all of no elements do.
    pub fn is_inside(&self, elements: usize) -> bool {
        if self.dims.contains(&0) {
            return true;
        }
        let (mut low, mut high) = (self.offset, self.offset);
        for (&dim, &stride) in self.dims.iter().zip(&self.strides) {
            let reach = (dim as i64 - 1) * stride;
            low += reach.min(0);
            high += reach.max(0);
        }
        low >= 0 && high < elements as i64
    }

    /// True if the view reaches each of `0..elements`, as often as may be, and nothing else.
    pub fn covers(&self, elements: usize) -> bool {
        if self.dims.contains(&0) {
            return elements == 0;
        }
        let moving = self.dims.iter().zip(&self.strides).filter(|&(&dim, &s)| dim > 1 && s != 0);
        let mut axes: SmallVec<[(i64, usize); 4]> =
            moving.map(|(&dim, &s)| (s.abs(), dim)).collect();
        axes.sort_unstable();
        let mut next = 1;
        let dense = axes.iter().all(|&(stride, dim)| {
            let fits = stride == next;
            next *= dim as i64;
            fits
        });
        dense && next == elements as i64 && self.is_inside(elements)
    }

    /// The view after `step`, or `None` where it is a reshape that strides cannot express.
    pub fn moved(&self, step: &Move) -> Option<Self> {
        match step {
            Move::Reshape(shape) => self.reshaped(shape),
            Move::Permute(axes) => Some(Self {
                dims: axes.iter().map(|&a| self.dims[a]).collect(),
                strides: axes.iter().map(|&a| self.strides[a]).collect(),
                offset: self.offset,
            }),
            Move::Broadcast(shape) => {
                let missing = shape.rank() - self.dims.len();
                let strides = (0..shape.rank()).map(|axis| {
                    let kept = axis >= missing && self.dims[axis - missing] == shape[axis];
                    if kept { self.strides[axis - missing] } else { 0 }
                });
                Some(Self {
                    dims: shape.dims().into(),
                    strides: strides.collect(),
                    offset: self.offset,
                })
            }
            Move::Slice(ranges) => {
                let mut view = self.clone();
                for (axis, range) in ranges.iter().enumerate() {
                    view.offset += range.start * self.strides[axis];
                    view.strides[axis] *= range.step;
                    view.dims[axis] = range.count;
                }
                Some(view)
            }
            &Move::Window { axis, window } => {
                let mut view = self.clone();
                let (stride, count) = (view.strides[axis], window.count(view.dims[axis]));
                // A step that is never taken may be of any size.
                let step = |taken: usize, step: usize| if taken > 1 { step as i64 } else { 1 };
                view.dims[axis] = count;
                view.dims.insert(axis + 1, window.size);
                view.strides[axis] = stride * step(count, window.step);
                view.strides.insert(axis + 1, stride * step(window.size, window.dilation));
                Some(view)
            }
        }
    }

    /// Splits and merges axes where the strides allow it, as NumPy does before it copies.
    fn reshaped(&self, shape: &Shape) -> Option<Self> {
        let offset = self.offset;
        let to = shape.dims();
        if shape.elements() == 0 {
            return Some(Self { offset, ..Self::contiguous(shape) });
        }
        let from: SmallVec<[(usize, i64); 4]> = self
            .dims
            .iter()
            .zip(&self.strides)
            .filter(|&(&dim, _)| dim != 1)
            .map(|(&dim, &stride)| (dim, stride))
            .collect();
        let mut strides: SmallVec<[i64; 4]> = smallvec::smallvec![0; to.len()];
        let (mut old, mut new) = (0, 0);
        while old < from.len() {
            // The smallest groups of old and new axes with the same number of elements.
            let (old_start, new_start) = (old, new);
            let (mut old_count, mut new_count) = (from[old].0, 1);
            old += 1;
            while new_count != old_count {
                if new_count < old_count {
                    new_count *= to[new];
                    new += 1;
                } else {
                    old_count *= from[old].0;
                    old += 1;
                }
            }
            let group = &from[old_start..old];
            if group.windows(2).any(|w| w[0].1 != w[1].1 * w[1].0 as i64) {
                return None;
            }
            let mut stride = group[group.len() - 1].1;
            for axis in (new_start..new).rev() {
                strides[axis] = stride;
                stride *= to[axis] as i64;
            }
        }
        Some(Self { dims: to.into(), strides, offset })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The offsets of all elements in row-major order, by brute force.
    fn offsets(view: &View) -> Vec<i64> {
        let mut out = vec![view.offset];
        for (&dim, &stride) in view.dims.iter().zip(&view.strides) {
            out = out.iter().flat_map(|&o| (0..dim as i64).map(move |c| o + c * stride)).collect();
        }
        out
    }

    #[test]
    fn a_run_has_its_elements_one_after_the_other() {
        let views: [(&[usize], &[i64]); 9] = [
            (&[], &[]),
            (&[1], &[5]),
            (&[0], &[1]),
            (&[4, 0], &[0, 1]),
            (&[2, 1, 3], &[3, 7, 1]),
            (&[2, 3], &[4, 1]),
            (&[2, 3], &[0, 1]),
            (&[3, 2], &[1, 3]),
            (&[4], &[-1]),
        ];
        for (dims, strides) in views {
            let view = View { dims: dims.into(), strides: strides.into(), offset: 7 };
            let offsets = offsets(&view);
            let is_run = offsets.iter().zip(7..).all(|(&offset, want)| offset == want);
            assert_eq!(view.one_run(), is_run.then_some(offsets.len()), "{view:?}");
        }
    }

    #[test]
    fn reshapes_keep_the_row_major_order() {
        let base = View::contiguous(&[4, 6, 5].into());
        let views = [
            base.clone(),
            base.moved(&Move::Permute(smallvec::smallvec![1, 0, 2])).unwrap(),
            base.moved(&Move::Slice(smallvec::smallvec![
                Range { start: 3, step: -1, count: 4 },
                Range { start: 0, step: 2, count: 3 },
                Range { start: 0, step: 1, count: 5 },
            ]))
            .unwrap(),
        ];
        let shapes: [&[usize]; 10] = [
            &[2, 2, 6, 5],
            &[24, 5],
            &[120],
            &[6, 20],
            &[4, 1, 3, 2, 5],
            &[12, 5],
            &[4, 15],
            &[3, 2, 4, 5],
            &[6, 2, 2, 5],
            &[2, 2, 3, 5],
        ];
        let mut reshaped = 0;
        for view in &views {
            for shape in shapes {
                let shape = Shape::from(shape);
                if shape.elements() != view.shape().elements() {
                    continue;
                }
                if let Some(after) = view.moved(&Move::Reshape(shape)) {
                    assert_eq!(offsets(&after), offsets(view));
                    reshaped += 1;
                }
            }
        }
        // Seven of the whole, two that split the permuted axes, one that splits the sliced.
        assert_eq!(reshaped, 10);
    }

    #[test]
    fn ranges_compose() {
        let first = Range { start: 9, step: -2, count: 5 };
        let next = Range { start: 1, step: 3, count: 2 };
        let values: Vec<i64> = (0..5).map(|i| 9 - 2 * i).collect();
        let joined = first.then(next);
        let got: Vec<i64> = (0..2).map(|i| joined.start + i * joined.step).collect();
        assert_eq!(got, [values[1], values[4]]);
    }

    #[test]
    fn windows_overlap() {
        let base = View::contiguous(&[2, 7].into());
        let window = Window { size: 3, step: 2, dilation: 2 };
        let view = base.moved(&Move::Window { axis: 1, window }).unwrap();
        assert_eq!(view.dims[..], [2, 2, 3]);
        assert_eq!(offsets(&view), [0, 2, 4, 2, 4, 6, 7, 9, 11, 9, 11, 13]);
        assert!(view.is_inside(14) && !view.is_inside(13));
        assert_eq!([0, 4, 5, 6].map(|len| window.count(len)), [0, 0, 1, 1]);
    }

    #[test]
    fn views_that_reach_everything() {
        let base = View::contiguous(&[4, 1, 6].into());
        let turned = base.moved(&Move::Permute(smallvec::smallvec![2, 0, 1])).unwrap();
        let back = |start, step, count| {
            let first = Range { start, step, count };
            let rest =
                [Range { start: 0, step: 1, count: 1 }, Range { start: 0, step: 1, count: 6 }];
            base.moved(&Move::Slice([first, rest[0], rest[1]].into_iter().collect())).unwrap()
        };
        let repeated = base.moved(&Move::Broadcast([3, 4, 5, 6].into())).unwrap();
        for view in [base.clone(), turned, back(3, -1, 4), repeated] {
            assert!(view.covers(24) && !view.covers(25), "{view:?}");
        }
        let nothing = View::contiguous(&[3, 0].into());
        let outside = View { offset: -6, ..base.clone() };
        for view in [back(0, 1, 3), back(1, 1, 3), back(0, 2, 2), nothing.clone(), outside] {
            assert!(!view.covers(24), "{view:?}");
        }
        assert!(nothing.covers(0) && View::contiguous(&[].into()).covers(1));
    }
}
