//! Reductions over windows that slide along the last axes of the results, as the host runs them: each element of an
//! image is computed once, however many windows it lies in.

use std::ops::Range;

use smallvec::SmallVec;

use crate::base::dtype::Scalar;
use crate::base::shape::{View, Window};
use crate::cost::Work;
use crate::expr::Ref;
use crate::ops::Combine;
use crate::plan::forms::host_work::{TAP_FLOPS, without};

/// Windows that slide over images.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Sliding {
    /// The number of outer axes before those of an image.
    pub lead: usize,
    /// The axes of an image: reduced axes along which no window moves, then the other outer axes.
    pub axes: SmallVec<[SlidingAxis; 2]>,
    /// The expression of an element inside of the border.
    pub element: Ref,
    /// The factor of the elements of a window; the same for all windows of an image.
    pub weight: Option<Ref>,
    /// The number around the images, by position among the scalars.
    pub border: Option<usize>,
    /// True if images are stored channels last: the last outer axis is that of channels, and it is neither among the first
    /// axes nor among those of an image.
    pub channels_last: bool,
    /// The flops that the host spares, since it computes each element of an image once.
    pub(super) spared: f64,
}

/// An axis of an image: its windows by axes of the step, in coordinates that count the border.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SlidingAxis {
    /// The outer axis of the windows, and the inner axis of their elements, by position among all.
    pub outer: Option<usize>,
    pub inner: Option<usize>,
    pub count: usize,
    pub window: Window,
    /// The coordinates inside of the border, counted from the first element of the first window.
    pub inside: Range<usize>,
}

impl SlidingAxis {
    /// The elements from the first of the first window to the last of the last.
    pub fn extent(&self) -> usize {
        self.window.extent(self.count)
    }

    /// The stride of an operand from a coordinate to the next.
    pub(super) fn stride(&self, view: &View) -> i64 {
        let Window { size, step, dilation } = self.window;
        match (self.outer, self.inner) {
            (Some(outer), _) if self.count > 1 => view.strides[outer] / step as i64,
            (_, Some(inner)) if size > 1 => view.strides[inner] / dilation as i64,
            _ => 0,
        }
    }
}

impl Sliding {
    /// The number around the images, by its bits; `scalars` are those of the step.
    pub fn border_bits(&self, scalars: &[Scalar]) -> u32 {
        self.border.map_or(0, |number| scalars[number].lane_bits())
    }

    /// Most elements of images that stay in the second-level cache between the product that writes them and the windows
    /// that read them. The host computes larger images block by block (`src/exec/cpu/forms/sliding/fused_product.rs`).
    ///
    /// Miri, which is slow, takes fewer.
    pub const CACHED_ELEMENTS: usize = if cfg!(miri) { 1 << 10 } else { 128 << 10 };

    /// True if the elements of windows can be combined so.
    pub fn combines(combine: Combine) -> bool {
        matches!(combine, Combine::Sum | Combine::Max | Combine::Min)
    }

    /// True if each result combines a row of its own, without weights.
    pub fn is_of_rows(&self) -> bool {
        let [SlidingAxis { window, .. }] = self.axes[..] else { return false };
        let has_others = self.weight.is_some() || self.border.is_some();
        window.dilation == 1 && window.step >= window.size && !has_others
    }

    /// Elements that are combined for a result. Without weights, those along one axis come after those along another.
    pub fn taps(&self) -> usize {
        let sizes = self.axes.iter().map(|axis| axis.window.size);
        if self.weight.is_some() { sizes.product() } else { sizes.filter(|&size| size > 1).sum() }
    }

    /// The work on the host, where `work` is that of a kernel that evaluates all windows element by element.
    pub fn on_host(&self, work: Work, results: f64) -> Work {
        let reduce = TAP_FLOPS * self.taps() as f64 * results;
        Work { reduce, ..without(work, self.spared) }
    }

    /// The map from an element of the images inside of their borders to an element of an operand, whose view is over
    /// the outer and the inner axes.
    pub fn image_view(&self, view: &View) -> View {
        let strides: SmallVec<[i64; 4]> = self.axes.iter().map(|axis| axis.stride(view)).collect();
        let starts = self.axes.iter().zip(&strides);
        View {
            offset: view.offset + starts.map(|(axis, s)| s * axis.inside.start as i64).sum::<i64>(),
            dims: view.dims[..self.lead]
                .iter()
                .copied()
                .chain(self.axes.iter().map(|a| a.inside.len()))
                .collect(),
            strides: view.strides[..self.lead].iter().copied().chain(strides).collect(),
        }
    }

    /// The map from a weight of a window to an element of an operand.
    pub fn weight_view(&self, view: &View) -> View {
        let inner = self.axes.iter().filter_map(|axis| axis.inner);
        view.along((0..self.lead).chain(inner))
    }
}
