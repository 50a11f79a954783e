//! Means over windows that together cover an axis, however many there are to be.

use std::ops::Range;

use super::pool::{Pool2d, avg_pool};
use crate::base::dtype::{Element, Float};
use crate::base::shape::{Shape, Window};
use crate::batch::{GpuCommandBatch, Operand, Tensor, TensorResult};
use crate::error::MistakeKind;
use crate::methods::arguments::checks::{check_parameter, layout};
use crate::methods::movement::views::{along, windows};
use crate::methods::nn::resize::LONGEST;
use crate::ops::check_size;

/// Windows that differ in how they start or in size in more ways than this are looked up element by element.
const WAYS: usize = 16;

/// Windows that cover an axis of `len` elements.
#[derive(Clone, Copy)]
struct Cover {
    axis: usize,
    len: usize,
    count: usize,
}

impl Cover {
    /// The elements of window `at`.
    fn window(&self, at: usize) -> Range<usize> {
        let [at, len, count] = [at, self.len, self.count].map(|number| number as u128);
        (at * len / count) as usize..((at + 1) * len).div_ceil(count) as usize
    }

    /// After how many windows, and elements, their starts and sizes repeat.
    fn period(&self) -> (usize, usize) {
        let repeats = gcd(self.len, self.count);
        (self.count / repeats, self.len / repeats)
    }
}

operations! {
    /// Pooling to a size.
    "pooling";
    example {
        ///
        /// ```
        /// # pollster::block_on(async {
        /// # use onetrip::{Device, GpuCommandBatch};
        /// let batch = GpuCommandBatch::new(&Device::cpu());
        /// let image = batch.upload_shaped(&[1.0_f32, 2.0, 3.0, 4.0], [1, 1, 2, 2]);
        /// let means = image.adaptive_avg_pool2d([1, 2]);
        /// batch.execute().await?;
        /// assert_eq!(batch.read(means).await?, [2.0, 3.0]);
        /// # Ok::<_, onetrip::Error>(()) }).unwrap();
        /// ```
    }

    /// Means over `size` windows along each of the last two axes that together cover them: window i of n along an
    /// axis of length l is `⌊i·l/n⌋..⌈(i + 1)·l/n⌉`, as in PyTorch. Where n divides l this is one kernel. Where windows
    /// differ in more than 16 ways, neither l nor n may be over 16 777 216.
    fn adaptive_avg_pool2d<T: Float>(x: T; size: [usize; 2]) -> Tensor<'b, T> = adaptive_avg_pool2d(x, size),
        FLOAT, WINDOWED, SUMMED, "Means over a given number of windows that cover the last two axes.";
}

fn adaptive_avg_pool2d<T: Float>(x: Tensor<'_, T>, size: [usize; 2]) -> TensorResult<'_, T> {
    let [rows, columns] = covers(&x.known_shape()?, size)?;
    let whole = |cover: &Cover| cover.len.is_multiple_of(cover.count);
    if whole(&rows) && whole(&columns) {
        return avg_pool(x, Pool2d::new([rows.len / rows.count, columns.len / columns.count]));
    }
    covered(covered(x, rows)?, columns)
}

/// Means over the windows of `cover`. Those that are alike are taken together where there are few ways.
fn covered<T: Float>(x: Tensor<'_, T>, cover: Cover) -> TensorResult<'_, T> {
    let shape = x.known_shape()?;
    let (period, step) = cover.period();
    if period > WAYS {
        return Ok(looked_up(x, shape.rank(), cover));
    }
    let Cover { axis, count, .. } = cover;
    let means = (0..period).map(|at| {
        let elements = cover.window(at);
        let window = Window { size: elements.len(), step, dilation: 1 };
        let reach = elements.start..elements.end + (count / period - 1) * step;
        let part = along(x, &shape, axis, reach);
        windows("unfold", part, axis, window).mean(axis as isize + 1)
    });
    let means: Vec<Tensor<'_, T>> = means.collect();
    if let &[all] = &means[..] {
        return Ok(all);
    }
    let columns: Vec<_> = means.into_iter().map(|mean| mean.unsqueeze(axis as isize + 1)).collect();
    let joined = x.batch().concat(columns, axis as isize + 1);
    let mut dims = shape.dims().to_vec();
    dims[axis] = count;
    Ok(joined.reshape(dims))
}

/// Means over windows of any kind: all are as long as the longest, and surplus elements do not count.
fn looked_up<T: Float>(x: Tensor<'_, T>, rank: usize, cover: Cover) -> Tensor<'_, T> {
    let (b, Cover { axis, count, .. }) = (x.batch(), cover);
    let windows = || (0..count).map(|at| cover.window(at));
    let longest = windows().map(|window| window.len()).max().unwrap_or(1);
    let places = windows().flat_map(|window| {
        (0..longest).map(move |i| (window.start + i).min(window.end - 1) as u32)
    });
    let counts = windows().flat_map(|window| (0..longest).map(move |i| i < window.len()));
    let sizes = windows().map(|window| window.len() as f32);
    let after = |axes: usize| std::iter::repeat_n(1, axes);
    let both: Shape = [count, longest].into_iter().chain(after(rank - 1 - axis)).collect();
    let one: Shape = [count].into_iter().chain(after(rank - 1 - axis)).collect();
    let places = b.upload_shaped(places.collect::<Vec<u32>>(), [count, longest]);
    let counts = b.upload_shaped(counts.collect::<Vec<bool>>(), both);
    let sizes = b.upload_shaped(sizes.collect::<Vec<f32>>(), one);
    let elements = x.gather(places, axis as isize).cast::<f32>();
    let sums = counts.select(elements, 0.0).sum(axis as isize + 1);
    (sums / sizes).cast()
}

/// The covers of the last two axes of `shape` by `size` windows.
fn covers(shape: &Shape, size: [usize; 2]) -> Result<[Cover; 2], MistakeKind> {
    let Some(lead) = shape.rank().checked_sub(2) else {
        return Err(layout("[…, height, width]", shape));
    };
    check_parameter("size", !size.contains(&0), "at least 1", &format_args!("{size:?}"))?;
    if let Some(axis) = (lead..shape.rank()).find(|&axis| shape[axis] == 0) {
        return Err(MistakeKind::EmptyReduction { op: "a mean", axis, shape: shape.clone() });
    }
    check_size(&shape.dims()[..lead].iter().copied().chain(size).collect())?;
    let covers = [0, 1].map(|at| Cover { axis: lead + at, len: shape[lead + at], count: size[at] });
    let must = "at most 16777216 where windows differ in more than 16 ways";
    for cover in covers.iter().filter(|cover| cover.period().0 > WAYS) {
        let (len, count) = (cover.len, cover.count);
        for (what, number) in [("size", count), ("height and width", len)] {
            check_parameter(what, number <= LONGEST, must, &number)?;
        }
    }
    Ok(covers)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
