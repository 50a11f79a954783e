//! Steps that read and write images, and the same steps over images whose channels come last.

use std::mem;

use smallvec::SmallVec;

use crate::base::dtype::{DType, Ty};
use crate::base::shape::{Shape, View, points};
use crate::ops::Combine;
use crate::plan::forms::{Form, ProductForm, ReduceForm};
use crate::plan::step::Step;
use crate::plan::step_parts::{OperandSource, Space, StepOperand};
use crate::plan::value::ValueId;

/// The size of each image of a value.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(super) struct ImageSize {
    pub channels: usize,
    pub pixels: usize,
}

/// An image that windows slide over.
pub(super) struct WindowedImage {
    pub value: ValueId,
    pub size: ImageSize,
    /// Results a row.
    pub columns: usize,
}

/// A depthwise convolution, or a product, whose result is images.
pub(super) struct ImageStep<'a> {
    pub step: &'a Step,
    kind: Kind,
    /// The axis of channels of the results, and of the images under windows.
    channel: usize,
}

enum Kind {
    Product,
    /// The windows slide over this operand.
    Windows {
        image: usize,
    },
}

/// The role of an axis.
#[derive(Clone, Copy, PartialEq)]
enum Role {
    Batch,
    Channel,
    Pixel,
}

impl<'a> ImageStep<'a> {
    /// The image step that `step` is, if it can write its images channels last.
    pub fn of(step: &'a Step) -> Option<Self> {
        let [output] = &step.outputs[..] else { return None };
        if output.dtype != DType::F32 || !output.view.is_contiguous() || step.is_empty() {
            return None;
        }
        match &step.form {
            Form::Product(product) => Self::of_product(step, product),
            Form::Reduce(reduce) => Self::of_windows(step, reduce),
            _ => None,
        }
    }

    fn of_product(step: &'a Step, product: &ProductForm) -> Option<Self> {
        let is_plain = product.spread.is_none() && product.acc == Ty::F32 && product.k > 0;
        is_plain.then_some(Self { step, kind: Kind::Product, channel: product.batch.len() })
    }

    fn of_windows(step: &'a Step, reduce: &ReduceForm) -> Option<Self> {
        let sliding = reduce.sliding.as_ref().filter(|sliding| !sliding.channels_last)?;
        let weight = sliding.weight?;
        let border = sliding.border_bits(&step.scalars);
        let image = step.expr.loaded(sliding.element)?;
        let view = sliding.image_view(&step.operands[image].view);
        let is_plain = reduce.combine == Combine::Sum
            && step.expr.ty(reduce.prologue) == Ty::F32
            && border == 0
            && sliding.axes.len() == 2
            && sliding.axes.iter().all(|axis| axis.outer.is_some())
            && step.operands[image].dtype == DType::F32
            && view.is_contiguous();
        let pixels: i64 = sliding.axes.iter().map(|axis| axis.inside.len() as i64).product();
        let is_long = |&axis: &usize| reduce.outer[axis] > 1;
        let channel = (0..sliding.lead).rev().find(is_long)?;
        let weights = step.expr.loads(&[weight]);
        let has_one_weight =
            |axis: usize| weights.iter().all(|&at| step.operands[at].view.strides[axis] == 0);
        // All channels of all images have the same weights but along one axis.
        let fits =
            view.strides[channel] == pixels && (0..channel).filter(is_long).all(has_one_weight);
        (is_plain && fits).then_some(Self { step, kind: Kind::Windows { image }, channel })
    }

    /// The size of the images that the step writes.
    pub fn result(&self) -> ImageSize {
        let dims = &self.step.outputs[0].view.dims;
        let roles = self.roles(Space::Out);
        let pixels = roles.iter().zip(dims).filter(|(role, _)| **role == Role::Pixel);
        ImageSize { channels: dims[self.channel], pixels: pixels.map(|(_, &dim)| dim).product() }
    }

    /// The image that windows slide over.
    pub fn windowed_image(&self) -> Option<WindowedImage> {
        let (Kind::Windows { image }, Form::Reduce(reduce)) = (&self.kind, &self.step.form) else {
            return None;
        };
        let axes = &reduce.sliding.as_ref()?.axes;
        let pixels = axes.iter().map(|axis| axis.inside.len()).product();
        let size = ImageSize { channels: reduce.outer[self.channel], pixels };
        let value = self.step.operands[*image].source.value()?;
        Some(WindowedImage { value, size, columns: axes.last()?.count })
    }

    /// The images that the step reads in the layout in which it writes its own: those under its windows, and those in its
    /// epilogue.
    pub fn inputs_of_its_layout(&self) -> impl Iterator<Item = ValueId> + '_ {
        let roles = self.roles(Space::Out);
        let has_pixels = move |view: &View| {
            let axes = roles.iter().zip(view.dims.iter().zip(&view.strides));
            axes.into_iter().any(|(&role, (&dim, &s))| role == Role::Pixel && dim > 1 && s != 0)
        };
        let epilogue = self.step.operands.iter().filter(move |operand| {
            operand.space == Space::Out
                && matches!(operand.source, OperandSource::Value(_))
                && has_pixels(&operand.view)
        });
        let windowed = self.windowed_image().map(|image| image.value);
        windowed.into_iter().chain(epilogue.filter_map(|operand| operand.source.value()))
    }

    /// The roles of the axes of a space; none in spaces without images.
    fn roles(&self, space: Space) -> SmallVec<[Role; 8]> {
        match (&self.step.form, space) {
            (Form::Product(product), Space::W | Space::Out) => {
                let batch = std::iter::repeat_n(Role::Batch, product.batch.len());
                batch.chain([Role::Channel, Role::Pixel]).collect()
            }
            (Form::Reduce(reduce), Space::Main | Space::Out) => {
                let inner = if space == Space::Main { reduce.inner.len() } else { 0 };
                let lead = reduce.sliding.as_ref().map_or(0, |sliding| sliding.lead);
                let role = |axis: usize| match axis {
                    _ if axis == self.channel => Role::Channel,
                    _ if axis < lead => Role::Batch,
                    _ => Role::Pixel,
                };
                (0..reduce.outer.len() + inner).map(role).collect()
            }
            _ => SmallVec::new(),
        }
    }

    /// The view of `operand` over images of `size` stored channels last, if it reads them from the first pixel to the last.
    pub fn view_channels_last(&self, operand: usize, size: ImageSize) -> Option<View> {
        let StepOperand { source, space, view, .. } = &self.step.operands[operand];
        if !matches!(source, OperandSource::Value(_)) {
            return None;
        }
        let roles = self.roles(*space);
        let [channels, pixels] = [size.channels, size.pixels].map(|size| size as i64);
        let mut of_last = view.clone();
        let (mut has_channels, mut last) = (false, 0);
        for (axis, role) in roles.iter().enumerate() {
            let (dim, stride) = (view.dims[axis] as i64, view.strides[axis]);
            match role {
                Role::Channel => {
                    has_channels = dim == channels && stride == pixels;
                    of_last.strides[axis] = 1;
                }
                Role::Pixel => {
                    last += (dim - 1) * stride;
                    of_last.strides[axis] = stride * channels;
                }
                Role::Batch if dim > 1 && stride % (channels * pixels) != 0 => return None,
                Role::Batch => {}
            }
        }
        // Windows read all of their image, borders included.
        let is_whole = match self.kind {
            Kind::Windows { image } if image == operand => true,
            _ => last == pixels - 1 && view.offset == 0,
        };
        of_last.offset *= channels;
        (has_channels && is_whole).then_some(of_last)
    }

    /// The permutation of axes after which the step writes its images channels last.
    pub fn permutation(&self) -> Permutation {
        Permutation { channel: self.channel, last: self.step.outputs[0].view.dims.len() - 1 }
    }
}

/// A permutation of the axes of an image step: that of channels becomes the last of the results.
pub(super) struct Permutation {
    channel: usize,
    last: usize,
}

impl Permutation {
    /// Changes `step`, whose operands have views over the new layouts already.
    pub fn apply(&self, step: &mut Step) {
        let &Self { channel, last } = self;
        match &mut step.form {
            Form::Product(product) => {
                mem::swap(&mut product.m, &mut product.n);
                mem::swap(&mut product.x, &mut product.w);
            }
            Form::Reduce(reduce) => {
                reduce.outer[channel..].rotate_left(1);
                if let Some(sliding) = &mut reduce.sliding {
                    sliding.lead -= 1;
                    sliding.channels_last = true;
                    for outer in sliding.axes.iter_mut().filter_map(|axis| axis.outer.as_mut()) {
                        *outer -= 1;
                    }
                }
            }
            _ => {}
        }
        for StepOperand { space, view, .. } in &mut step.operands {
            *space = match *space {
                Space::X => Space::W,
                Space::W => Space::X,
                Space::Whole => continue,
                other => other,
            };
            move_behind(view, channel, last);
        }
        let view = &mut step.outputs[0].view;
        move_behind(view, channel, last);
        *view = View::contiguous(&view.shape());
    }
}

/// Moves an axis of `view` behind all others up to `last`.
fn move_behind(view: &mut View, axis: usize, last: usize) {
    view.dims[axis..=last].rotate_left(1);
    view.strides[axis..=last].rotate_left(1);
}

/// The `shape` of images of `size`, with the axis of channels behind all others.
pub(super) fn shape_channels_last(shape: &Shape, size: ImageSize) -> Shape {
    let mut dims: SmallVec<[usize; 8]> = shape.dims().into();
    let is_channel =
        |&axis: &usize| dims[axis] == size.channels && points(&dims[axis + 1..]) == size.pixels;
    match (0..dims.len()).find(is_channel) {
        Some(channel) => dims[channel..].rotate_left(1),
        // Channels and pixels are parts of other axes.
        None => {
            let images = shape.elements() / (size.channels * size.pixels);
            dims = SmallVec::from_slice(&[images, size.pixels, size.channels]);
        }
    }
    dims.into_iter().collect()
}
