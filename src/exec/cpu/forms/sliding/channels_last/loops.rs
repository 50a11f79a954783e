//! The loops over windows for each kind of processor.

use std::ops::Range;

use super::image::{ChannelBlock, WindowedImages};
use super::padded_rows::{GROUP, PaddedRows};
use crate::exec::cpu::vectors::SimdVector;
use crate::exec::cpu::vectors::by_processor::loops;
use crate::exec::cpu::vectors::links::AffineClamp;

loops! {
    /// The loop for the instructions of one kind of processor.
    struct Loops {}

    unsafe fn rows(
        images: &WindowedImages<'_>, rows: Range<usize>, out: *mut f32, scratch: &mut Vec<f32>
    ) = any_rows::<V>(images, rows, out, scratch);
}

/// Sets `out` to the results of some `rows` of windows, which count over all images. `scratch` is memory for copies.
pub(super) fn sum_rows(
    images: &WindowedImages<'_>,
    rows: Range<usize>,
    out: &mut [f32],
    scratch: &mut Vec<f32>,
) {
    sum_rows_by(Loops::native(), images, rows, out, scratch);
}

fn sum_rows_by(
    by: &Loops,
    all: &WindowedImages<'_>,
    rows: Range<usize>,
    out: &mut [f32],
    scratch: &mut Vec<f32>,
) {
    let &WindowedImages { channels, down, along, images, weights, affine } = all;
    let image = down.size * along.size * channels;
    assert!(out.len() == rows.len() * along.count * channels);
    assert!(rows.end.div_ceil(down.count) * image <= images.len());
    assert!(weights.len() == down.window.size * along.window.size * channels);
    if let Some(affine) = affine {
        let AffineClamp { sub, mul, add, low, high } = affine;
        assert!([sub, mul, add, low, high].iter().all(|numbers| numbers.reaches(channels)));
    }
    // SAFETY: the processor has the instructions of `by` (`Loops::all`). All images of the rows exist, and so do the weights,
    // the numbers of all channels and the results.
    unsafe { (by.rows)(all, rows, out.as_mut_ptr(), scratch) }
}

/// Writes the results of `rows` to `out`, image by image.
///
/// # Safety
/// The processor has the instructions of `V`. The images of `rows` exist, with weights and numbers for all channels, and
/// `out` has room for all results.
#[inline(always)]
unsafe fn any_rows<V: SimdVector>(
    images: &WindowedImages<'_>,
    rows: Range<usize>,
    out: *mut f32,
    scratch: &mut Vec<f32>,
) {
    let &WindowedImages { channels, down, along, .. } = images;
    let mut row = rows.start;
    while row < rows.end {
        let (image, first) = (row / down.count, row % down.count);
        let left = (down.count - first).min(rows.end - row);
        let some = first..first + left.min(PaddedRows::<V>::most(images));
        let out = out.wrapping_add((row - rows.start) * along.count * channels);
        row += some.len();
        let mut padded = PaddedRows::<V>::new(images, some, scratch);
        let pixels = images.images.as_ptr().wrapping_add(image * down.size * along.size * channels);
        for first in (0..channels).step_by(GROUP * V::LEN) {
            let group = first..channels.min(first + GROUP * V::LEN);
            // SAFETY: as the caller promises.
            unsafe {
                padded.copy(images, pixels, group.clone());
                for (at, channel) in group.step_by(V::LEN).enumerate() {
                    let block = ChannelBlock::<V>::new(images, channel);
                    padded.sum_windows(at, &block, out.wrapping_add(channel));
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::base::shape::Window;
    use crate::exec::cpu::chain::ColumnNumbers;
    use crate::exec::cpu::forms::sliding::channels_last::image::WindowedAxis;

    /// The results of some rows of windows, element by element in double precision.
    fn expected(all: &WindowedImages<'_>, rows: Range<usize>) -> Vec<f64> {
        let &WindowedImages { channels, down, along, images, weights, affine } = all;
        let inside = |axis: WindowedAxis, at: usize, tap: usize| {
            let place = at * axis.window.step + tap * axis.window.dilation;
            place.checked_sub(axis.border).filter(|&place| place < axis.size)
        };
        let result = |row: usize, column: usize, channel: usize| {
            let image = row / down.count * down.size;
            let mut sum = 0.0;
            for i in 0..down.window.size {
                for j in 0..along.window.size {
                    let y = inside(down, row % down.count, i);
                    let pixel = y.zip(inside(along, column, j)).map_or(0.0, |(y, x)| {
                        images[((image + y) * along.size + x) * channels + channel]
                    });
                    let weight = weights[(i * along.window.size + j) * channels + channel];
                    sum += f64::from(pixel) * f64::from(weight);
                }
            }
            let Some(&AffineClamp { sub, mul, add, low, high }) = affine else { return sum };
            let [sub, mul, add, low, high] = [sub, mul, add, low, high].map(|numbers| {
                f64::from(match numbers {
                    ColumnNumbers::One(number) => number,
                    ColumnNumbers::Each(numbers) => numbers[channel],
                })
            });
            let t = (sum - sub) * mul + add;
            if t.is_nan() { t } else { t.max(low).min(high) }
        };
        let mut results = Vec::new();
        for row in rows {
            for column in 0..along.count {
                results.extend((0..channels).map(|channel| result(row, column, channel)));
            }
        }
        results
    }

    #[test]
    fn windows_of_any_size_are_summed_up_over_any_channels() {
        let axis = |size, border, window: Window| {
            let count = window.count(size + 2 * border);
            (count > 0).then_some(WindowedAxis { size, border, count, window })
        };
        let windows = [(1, 1, 1), (3, 2, 1), (5, 1, 1), (5, 2, 1), (3, 1, 2), (3, 1, 1), (4, 3, 1)];
        let windows = windows.map(|(size, step, dilation)| Window { size, step, dilation });
        let number = |at: usize, from: usize| ((at * 29 + from) % 23) as f32 - 11.0;
        let cases: Vec<_> = if cfg!(miri) {
            let [.., tiled, any] = windows;
            // More channels than a group of vectors has; more columns than a tile has; borders of both kinds.
            vec![
                (tiled, [1, 2], 1, 37),
                (tiled, [1, 3], 4, 5),
                (any, [2, 3], 2, 5),
                (any, [2, 3], 5, 5),
            ]
        } else {
            let sizes = [[1, 1], [2, 3], [5, 4], [7, 7], [9, 15]];
            combinations(&windows, &sizes, &[1, 4, 17, 35, 64, 83]).collect()
        };
        for (window, [height, width], border, channels) in cases {
            let axes = axis(height, border, window).zip(axis(width, border, window));
            let Some((down, along)) = axes else { continue };
            let count = 2 * height * width * channels;
            let mut images: Vec<f32> = (0..count).map(|at| number(at, 3)).collect();
            images[count / 2] = f32::INFINITY;
            let taps = window.size * window.size * channels;
            let mut weights: Vec<f32> = (0..taps).map(|at| number(at, 7)).collect();
            weights[taps / 3] = f32::NAN;
            let own: Vec<f32> = (0..channels).map(|at| number(at, 1)).collect();
            let affine = AffineClamp {
                sub: ColumnNumbers::Each(&own),
                mul: ColumnNumbers::One(-0.5),
                add: ColumnNumbers::Each(&own),
                low: ColumnNumbers::One(-90.0),
                high: ColumnNumbers::One(110.0),
            };
            for affine in [None, Some(&affine)] {
                let (images, weights) = (&images[..], &weights[..]);
                let all_images = WindowedImages { channels, down, along, images, weights, affine };
                let all_rows = 2 * down.count;
                let of_all = expected(&all_images, 0..all_rows);
                let row = along.count * channels;
                for rows in [0..all_rows, all_rows / 3..all_rows, 0..1] {
                    let want = &of_all[rows.start * row..rows.end * row];
                    for by in Loops::all() {
                        let (mut got, mut scratch) = (vec![7.0; want.len()], vec![5.0]);
                        sum_rows_by(by, &all_images, rows.clone(), &mut got, &mut scratch);
                        for (at, (&got, &want)) in got.iter().zip(want).enumerate() {
                            let same = f64::from(got) == want || (got.is_nan() && want.is_nan());
                            assert!(
                                same,
                                "{channels} {down:?} {along:?} {rows:?} {at}: {got} {want}"
                            );
                        }
                    }
                }
            }
        }
    }

    /// All combinations, with each border up to one that is wider than its windows.
    fn combinations<'t>(
        windows: &'t [Window],
        sizes: &'t [[usize; 2]],
        channels: &'t [usize],
    ) -> impl Iterator<Item = (Window, [usize; 2], usize, usize)> {
        windows.iter().flat_map(move |&window| {
            sizes.iter().flat_map(move |&size| {
                let borders = [0, 1, window.size / 2, window.reach() + 1].into_iter();
                borders.flat_map(move |border| {
                    channels.iter().map(move |&channels| (window, size, border, channels))
                })
            })
        })
    }
}
