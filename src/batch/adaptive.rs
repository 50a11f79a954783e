//! Means over windows that together cover an axis, however many there are to be.

use std::ops::Range;

use smallvec::SmallVec;

use super::pool::layout;
use super::resize::LONGEST;
use super::{BufferId, GpuCommandBatch, Pool2d, Refusal};
use crate::base::dtype::{Element, Float};
use crate::base::shape::{Shape, Window};
use crate::error::MistakeKind;
use crate::ops::{Op, Reduction, check_size};

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

impl GpuCommandBatch {
    /// Means over `size` windows along each of the last two axes that together cover them: window i of n along an
    /// axis of length l is `⌊i·l/n⌋..⌈(i + 1)·l/n⌉`, as in PyTorch. Where n divides l this is one kernel. Where windows
    /// differ in more than 16 ways, neither l nor n may be over 16 777 216.
    #[track_caller]
    pub fn adaptive_avg_pool2d<T: Float>(
        &mut self,
        x: BufferId<T>,
        size: [usize; 2],
    ) -> BufferId<T> {
        const NAME: &str = "adaptive_avg_pool2d";
        self.composed_if(NAME, |b| {
            let shape = b.shape_of(x)?;
            let [rows, columns] = covers(&shape, size)?;
            let whole = |cover: &Cover| cover.len.is_multiple_of(cover.count);
            if whole(&rows) && whole(&columns) {
                let pool = Pool2d::new([rows.len / rows.count, columns.len / columns.count]);
                return Ok(b.avg_pool(NAME, x, &pool));
            }
            let y = b.covered(x, rows)?;
            b.covered(y, columns)
        })
    }

    /// Means over the windows of `cover`. Those that are alike are taken together where there are few ways.
    #[track_caller]
    fn covered<T: Float>(&mut self, x: BufferId<T>, cover: Cover) -> Result<BufferId<T>, Refusal> {
        let shape = self.shape_of(x)?;
        let (period, step) = cover.period();
        if period > WAYS {
            return Ok(self.looked_up(x, shape.rank(), cover));
        }
        let Cover { axis, count, .. } = cover;
        let parts: Vec<BufferId<T>> = (0..period)
            .map(|at| {
                let elements = cover.window(at);
                let window = Window { size: elements.len(), step, dilation: 1 };
                let reach = elements.start..elements.end + (count / period - 1) * step;
                let ranges = shape.dims().iter().enumerate();
                let ranges =
                    ranges.map(|(a, &d)| if a == axis { (reach.clone(), 1) } else { (0..d, 1) });
                let part = self.slice(x, ranges.collect::<SmallVec<[_; 4]>>());
                let windows = self.windows("unfold", part, axis, window);
                self.mean_along(windows, axis + 1)
            })
            .collect();
        if let &[all] = &parts[..] {
            return Ok(all);
        }
        let parts: Vec<BufferId<T>> =
            parts.into_iter().map(|part| self.unsqueeze(part, axis as isize + 1)).collect();
        let joined = self.concat(&parts, axis as isize + 1);
        let mut dims = shape.dims().to_vec();
        dims[axis] = count;
        Ok(self.reshape(joined, dims))
    }

    /// Means over windows of any kind: all are as long as the longest, and what is too much does not count.
    #[track_caller]
    fn looked_up<T: Float>(&mut self, x: BufferId<T>, rank: usize, cover: Cover) -> BufferId<T> {
        let Cover { axis, count, .. } = cover;
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
        let places = self.upload_vec(places.collect::<Vec<u32>>(), [count, longest]);
        let counts = self.upload_vec(counts.collect::<Vec<bool>>(), both);
        let sizes = self.upload_vec(sizes.collect::<Vec<f32>>(), one);
        let elements = self.gather(x, places, axis as isize);
        let elements: BufferId<f32> = self.cast(elements);
        let zero = self.full([], 0.0_f32);
        let elements = self.select(counts, elements, zero);
        let sums = self.sum(elements, axis as isize + 1);
        let means = self.div(sums, sizes);
        self.cast(means)
    }

    #[track_caller]
    fn mean_along<T: Element>(&mut self, x: BufferId<T>, axis: usize) -> BufferId<T> {
        let ids = [self.check(x)];
        let axes = SmallVec::from_slice(&[axis]);
        self.record(Op::Reduce { op: Reduction::Mean, axes, keep: false }, &ids)
    }
}

/// How the last two axes of `shape` are covered by `size` windows.
fn covers(shape: &Shape, size: [usize; 2]) -> Result<[Cover; 2], MistakeKind> {
    let Some(lead) = shape.rank().checked_sub(2) else {
        return Err(layout("[…, height, width]", shape));
    };
    if size.contains(&0) {
        let given = format!("{size:?}");
        return Err(MistakeKind::Parameter { what: "size", must: "at least 1", given });
    }
    if let Some(axis) = (lead..shape.rank()).find(|&axis| shape[axis] == 0) {
        return Err(MistakeKind::EmptyReduction { op: "a mean", axis, shape: shape.clone() });
    }
    check_size(&shape.dims()[..lead].iter().copied().chain(size).collect())?;
    let covers = [0, 1].map(|at| Cover { axis: lead + at, len: shape[lead + at], count: size[at] });
    let must = "at most 16777216 where windows differ in more than 16 ways";
    for cover in covers.iter().filter(|cover| cover.period().0 > WAYS) {
        let (len, count) = (cover.len, cover.count);
        for (what, number) in [("size", count), ("height and width", len)] {
            if number > LONGEST {
                let given = number.to_string();
                return Err(MistakeKind::Parameter { what, must, given });
            }
        }
    }
    Ok(covers)
}

fn gcd(a: usize, b: usize) -> usize {
    if b == 0 { a } else { gcd(b, a % b) }
}
