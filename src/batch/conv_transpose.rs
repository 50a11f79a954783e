//! Transposed convolutions: convolutions of what is spread out with zeros.

use smallvec::SmallVec;

use super::conv::Conv;
use super::{BufferId, GpuCommandBatch, Refusal};
use crate::dtype::{Numeric, Scalar};
use crate::error::MistakeKind;
use crate::ops::{Op, Precision, check_size};
use crate::shape::{Shape, Window};

/// How [`conv_transpose2d`](GpuCommandBatch::conv_transpose2d) and its like lay out their filters along `D` axes: the
/// numbers of the convolution that it turns around.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct ConvTranspose<const D: usize> {
    /// From where one element's filter is laid out to the next's.
    pub stride: [usize; D],
    /// Elements left out before and after each axis of the result.
    pub padding: [(usize, usize); D],
    /// Elements more at the end of each axis, which must be fewer than the stride or the dilation.
    pub output_padding: [usize; D],
    /// From one element of a filter to the next.
    pub dilation: [usize; D],
    /// Groups that channels and filters are cut into.
    pub groups: usize,
    /// How exactly `f32` is multiplied.
    pub precision: Precision,
}

/// Along one axis.
pub type ConvTranspose1d = ConvTranspose<1>;
/// Along two axes: height and width.
pub type ConvTranspose2d = ConvTranspose<2>;

impl<const D: usize> Default for ConvTranspose<D> {
    fn default() -> Self {
        Self {
            stride: [1; D],
            padding: [(0, 0); D],
            output_padding: [0; D],
            dilation: [1; D],
            groups: 1,
            precision: Precision::Exact,
        }
    }
}

/// What happens along one axis: elements `step` apart, of which `start..end` are taken, between zeros.
struct Axis {
    step: usize,
    start: usize,
    end: usize,
    border: (usize, usize),
}

/// Transposed convolutions, as in PyTorch: each element lays out its filter, scaled by it, and what overlaps is added
/// up. The argument is written out once with zeros between its elements where the stride is more than 1.
impl GpuCommandBatch {
    /// `x` of `[batch, channels, length]`, `w` of `[channels, filters / groups, size]` and, if there is one, a `bias` of
    /// `[filters]`: along each axis (length − 1)·stride + reach − padding + `output_padding` elements, where a filter reaches
    /// over (size − 1)·dilation + 1.
    #[track_caller]
    pub fn conv_transpose1d<T: Numeric>(
        &mut self,
        x: BufferId<T>,
        w: BufferId<T>,
        bias: impl Into<Option<BufferId<T>>>,
        conv: ConvTranspose1d,
    ) -> BufferId<T> {
        match self.transposed("conv_transpose1d", x, w, bias.into(), &conv) {
            Ok(y) => y,
            Err(what) => self.refused("conv_transpose1d", what),
        }
    }

    /// As [`conv_transpose1d`](Self::conv_transpose1d), over two axes: `x` of `[batch, channels, height, width]`, `w` of
    /// `[channels, filters / groups, height, width]`.
    #[track_caller]
    pub fn conv_transpose2d<T: Numeric>(
        &mut self,
        x: BufferId<T>,
        w: BufferId<T>,
        bias: impl Into<Option<BufferId<T>>>,
        conv: ConvTranspose2d,
    ) -> BufferId<T> {
        match self.transposed("conv_transpose2d", x, w, bias.into(), &conv) {
            Ok(y) => y,
            Err(what) => self.refused("conv_transpose2d", what),
        }
    }

    #[track_caller]
    fn transposed<T: Numeric, const D: usize>(
        &mut self,
        name: &'static str,
        x: BufferId<T>,
        w: BufferId<T>,
        bias: Option<BufferId<T>>,
        conv: &ConvTranspose<D>,
    ) -> Result<BufferId<T>, Refusal> {
        let (shape, filters) = (self.shape_of(x)?, self.shape_of(w)?);
        check_layout(&shape, &filters, conv)?;
        let axes: Vec<Axis> =
            (0..D).map(|at| axis(&shape, &filters, conv, at)).collect::<Result<_, _>>()?;
        let spread = self.spread_out(x, &shape, &axes)?;
        let w = self.turned(w, &filters, conv.groups);
        let conv = Conv {
            stride: [1; D],
            padding: std::array::from_fn(|at| axes[at].border),
            dilation: conv.dilation,
            groups: conv.groups,
            precision: conv.precision,
        };
        self.convolved(name, spread, w, bias, &conv)
    }

    /// `x` with zeros between its elements, and of that what `axes` take.
    #[track_caller]
    fn spread_out<T: Numeric>(
        &mut self,
        x: BufferId<T>,
        shape: &Shape,
        axes: &[Axis],
    ) -> Result<BufferId<T>, MistakeKind> {
        let lead = &shape.dims()[..2];
        let each = || axes.iter().zip(&shape.dims()[2..]);
        let spread =
            lead.iter().copied().chain(each().map(|(axis, &len)| len.saturating_mul(axis.step)));
        let spread: Shape = spread.collect();
        check_size(&spread)?;
        let mut y = x;
        if axes.iter().any(|axis| axis.step > 1) {
            let pairs = each().flat_map(|(_, &len)| [len, 1]);
            y = self.reshape(y, lead.iter().copied().chain(pairs).collect::<Shape>());
            let none = [0, 0].into_iter();
            let before = std::iter::repeat_n(0, 2 + 2 * axes.len()).collect();
            let after = none.chain(axes.iter().flat_map(|axis| [0, axis.step - 1])).collect();
            let value = Scalar::new(T::DTYPE, 0.0);
            let ids = [self.check(y)];
            y = self.record(Op::Pad { before, after, value }, &ids);
            y = self.reshape(y, spread);
        }
        let whole = lead.iter().map(|&len| (0..len, 1));
        let taken = axes.iter().map(|axis| (axis.start..axis.end, 1));
        let ranges: SmallVec<[_; 4]> = whole.chain(taken).collect();
        Ok(self.slice(y, ranges))
    }

    /// Filters as a convolution takes them: those of a group by the channels that they see, backwards.
    #[track_caller]
    fn turned<T: Numeric>(&mut self, w: BufferId<T>, shape: &Shape, groups: usize) -> BufferId<T> {
        let (seen, each) = (shape[0] / groups, shape[1]);
        let sizes = &shape.dims()[2..];
        let with = |head: &[usize]| head.iter().chain(sizes).copied().collect::<Shape>();
        let grouped = self.reshape(w, with(&[groups, seen, each]));
        let rest = 3..3 + sizes.len() as isize;
        let order: SmallVec<[isize; 8]> = [0, 2, 1].into_iter().chain(rest.clone()).collect();
        let swapped = self.permute(grouped, order);
        let axes: Vec<isize> = rest.collect();
        let turned = self.flip(swapped, &axes[..]);
        self.reshape(turned, with(&[groups * each, seen]))
    }
}

fn check_layout<const D: usize>(
    x: &Shape,
    w: &Shape,
    conv: &ConvTranspose<D>,
) -> Result<(), MistakeKind> {
    let layouts = if D == 1 {
        ["[batch, channels, length]", "[channels, filters / groups, size]"]
    } else {
        ["[batch, channels, height, width]", "[channels, filters / groups, height, width]"]
    };
    for ((what, shape), wanted) in [("x", x), ("w", w)].into_iter().zip(layouts) {
        if shape.rank() != D + 2 {
            return Err(MistakeKind::Layout { what, wanted, shape: shape.clone() });
        }
    }
    let groups = conv.groups;
    if groups == 0 {
        let given = "0".to_string();
        return Err(MistakeKind::Parameter { what: "groups", must: "at least 1", given });
    }
    if x[1] != w[0] || !w[0].is_multiple_of(groups) {
        return Err(MistakeKind::Channels { x: x.clone(), w: w.clone(), groups });
    }
    Ok(())
}

/// What happens along axis `at` of the image.
fn axis<const D: usize>(
    x: &Shape,
    w: &Shape,
    conv: &ConvTranspose<D>,
    at: usize,
) -> Result<Axis, MistakeKind> {
    let (len, size) = (x[2 + at], w[2 + at]);
    let (step, dilation, more) = (conv.stride[at], conv.dilation[at], conv.output_padding[at]);
    let numbers = [(size, "size"), (step, "stride"), (dilation, "dilation")];
    if let Some((_, what)) = numbers.into_iter().find(|&(number, _)| number == 0) {
        let given = "0".to_string();
        return Err(MistakeKind::Parameter { what, must: "at least 1", given });
    }
    if more >= step.max(dilation) {
        let given = more.to_string();
        let must = "less than the stride or the dilation";
        return Err(MistakeKind::Parameter { what: "output_padding", must, given });
    }
    let reach = Window { size, step: 1, dilation }.reach();
    let (before, after) = conv.padding[at];
    let [length, reach_, step_, before_, after_, more_] =
        [len, reach, step, before, after, more].map(|number| number as i128);
    let result = (length - 1) * step_ + reach_ - before_ - after_ + more_;
    if len == 0 || result < 1 {
        return Err(MistakeKind::Window { reach, axis: 2 + at, shape: x.clone() });
    }
    // What stands before the first element, and after the zeros that follow the last.
    let (left, right) = (reach_ - 1 - before_, reach_ - step_ - after_ + more_);
    let zeros = |side: i128| usize::try_from(side).unwrap_or(0);
    let end = len.saturating_mul(step).saturating_sub(zeros(-right));
    Ok(Axis { step, start: zeros(-left).min(end), end, border: (zeros(left), zeros(right)) })
}
