//! Images of another size.

use super::{BufferId, GpuCommandBatch, Refusal};
use crate::dtype::{Element, Float};
use crate::error::MistakeKind;
use crate::ops::check_size;

/// The longest height and width: positions along them are counted on the host.
const LONGEST: usize = 1 << 24;

/// Where the element of a resized axis lies in the original one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Corners {
    /// Pixels are squares, whose outer edges stay where they are: (i + ½)·l/n − ½ (PyTorch's `align_corners=False`, ONNX's
    /// `half_pixel`).
    HalfPixel,
    /// Pixels are points, of which the outermost stay where they are: i·(l − 1)/(n − 1) (PyTorch's `align_corners=True`,
    /// ONNX's `align_corners`).
    Aligned,
}

/// Resizing of the last two axes, height and width, as in PyTorch's `interpolate` with a size. None may be longer than
/// 16 777 216.
impl GpuCommandBatch {
    /// The element ⌊i·l/n⌋ for element i of n, from an axis of length l: PyTorch's `nearest`, and ONNX's with `asymmetric`
    /// coordinates and `floor`.
    #[track_caller]
    pub fn resize_nearest<T: Element>(&mut self, x: BufferId<T>, size: [usize; 2]) -> BufferId<T> {
        let axes = match self.resized_axes(x, size) {
            Ok(axes) => axes,
            Err(what) => return self.refused("resize_nearest", what),
        };
        let mut y = x;
        for (axis, len, count) in axes {
            if len != count {
                let at: Vec<u32> = (0..count).map(|i| (i * len / count) as u32).collect();
                let at = self.upload_vec(at, count);
                y = self.gather(y, at, axis);
            }
        }
        y
    }

    /// Between the two nearest elements along each axis in proportion to their distance: PyTorch's `bilinear`, without
    /// its `antialias`.
    #[track_caller]
    pub fn resize_bilinear<T: Float>(
        &mut self,
        x: BufferId<T>,
        size: [usize; 2],
        corners: Corners,
    ) -> BufferId<T> {
        let axes = match self.resized_axes(x, size) {
            Ok(axes) => axes,
            Err(what) => return self.refused("resize_bilinear", what),
        };
        let mut y = x;
        for (axis, len, count) in axes {
            if len != count {
                y = self.interpolated(y, axis, len, count, corners);
            }
        }
        y
    }

    /// Elements between two of an axis of length `len`, counted from the last, `count` of them.
    #[track_caller]
    fn interpolated<T: Float>(
        &mut self,
        x: BufferId<T>,
        axis: isize,
        len: usize,
        count: usize,
        corners: Corners,
    ) -> BufferId<T> {
        let places: Vec<f64> = (0..count).map(|i| place(i, len, count, corners)).collect();
        let below: Vec<u32> = places.iter().map(|&at| at as u32).collect();
        let above = below.iter().map(|&at| (at + 1).min(len as u32 - 1)).collect();
        let weights: Vec<f32> = places.iter().map(|at| at.fract() as f32).collect();
        let rest: Vec<f32> = places.iter().map(|at| (1.0 - at.fract()) as f32).collect();
        let below = self.upload_vec(below, count);
        let above = self.upload_vec(above, count);
        let column = if axis == -1 { vec![count] } else { vec![count, 1] };
        let (weights, rest) =
            (self.upload_vec(weights, column.clone()), self.upload_vec(rest, column));
        let (low, high) = (self.gather(x, below, axis), self.gather(x, above, axis));
        // Where the weight is 0 the upper element does not count, whatever it is.
        let zero = self.full([], 0.0_f32);
        let between = self.gt(weights, zero);
        let (weights, rest): (BufferId<T>, BufferId<T>) = (self.cast(weights), self.cast(rest));
        let (of_low, of_high) = (self.mul(low, rest), self.mul(high, weights));
        let sum = self.add(of_low, of_high);
        self.select(between, sum, low)
    }

    /// For each resized axis its position from the last, its length and its new length.
    fn resized_axes<T: Element>(
        &self,
        x: BufferId<T>,
        size: [usize; 2],
    ) -> Result<[(isize, usize, usize); 2], Refusal> {
        let shape = self.shape_of(x)?;
        let Some(lead) = shape.rank().checked_sub(2) else {
            let wanted = "[…, height, width]";
            return Err(MistakeKind::Layout { what: "x", wanted, shape }.into());
        };
        let must = "1 to 16777216";
        if size.iter().any(|count| !(1..=LONGEST).contains(count)) {
            let given = format!("{size:?}");
            return Err(MistakeKind::Parameter { what: "size", must, given }.into());
        }
        if shape.dims()[lead..].iter().any(|&len| len > LONGEST) {
            let given = shape.to_string();
            return Err(MistakeKind::Parameter { what: "height and width", must, given }.into());
        }
        if let Some(axis) = (lead..shape.rank()).find(|&axis| shape[axis] == 0) {
            return Err(MistakeKind::EmptyReduction { op: "resizing", axis, shape }.into());
        }
        check_size(&shape.dims()[..lead].iter().copied().chain(size).collect())?;
        Ok([(-2, shape[lead], size[0]), (-1, shape[lead + 1], size[1])])
    }
}

/// Where element `i` of `count` lies along `len`, inside of it.
fn place(i: usize, len: usize, count: usize, corners: Corners) -> f64 {
    let (i, last) = (i as f64, (len - 1) as f64);
    let at = match corners {
        Corners::HalfPixel => (i + 0.5) * len as f64 / count as f64 - 0.5,
        Corners::Aligned if count == 1 => 0.0,
        Corners::Aligned => i * last / (count - 1) as f64,
    };
    at.clamp(0.0, last)
}
