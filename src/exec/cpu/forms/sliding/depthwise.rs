//! Convolutions of one channel by small filters, and greatest elements of small windows, without a layout: windows are
//! read where their image lies, and elements of the border by masks.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use std::ops::Range;

use super::plane_shape::PlaneShape;
use crate::exec::cpu::vectors::SimdVector;
use crate::exec::cpu::vectors::by_processor::loops;
use crate::exec::cpu::vectors::links::AffineClamp;
use crate::exec::cpu::vectors::prefetch;

/// An image of one channel, with windows that slide over it and over its border.
pub(super) struct ImagePlane<'p> {
    pub shape: PlaneShape,
    pub image: &'p [f32],
    pub result: WindowResult<'p>,
    /// The operations that follow each result.
    pub epilogue: Option<&'p AffineClamp>,
}

/// The result of a window.
#[derive(Clone, Copy)]
pub(super) enum WindowResult<'p> {
    /// The sum of its elements times weights, which lie row by row. The border is zeros.
    Sum(&'p [f32]),
    /// The greatest of its elements. The border is −∞.
    Greatest,
}

loops! {
    /// The loop for the instructions of one kind of processor.
    struct Loops {}

    unsafe fn rows(plane: &ImagePlane<'_>, rows: Range<usize>, out: *mut f32) =
        any_rows::<V>(plane, rows, out);
}

/// Sets `out` to the results of all windows of some `rows`.
pub(super) fn run(plane: &ImagePlane<'_>, rows: Range<usize>, out: &mut [f32]) {
    run_by(Loops::native(), plane, rows, out);
}

fn run_by(by: &Loops, plane: &ImagePlane<'_>, rows: Range<usize>, out: &mut [f32]) {
    let PlaneShape { size, height, width, columns, .. } = plane.shape;
    assert!(plane.image.len() == height * width && out.len() == rows.len() * columns);
    if let WindowResult::Sum(weights) = plane.result {
        assert!(weights.len() >= size * size);
    }
    // SAFETY: the processor has the instructions of `by` (`Loops::all`). Only elements inside of the image are read,
    // and `out` has the results of all rows.
    unsafe { (by.rows)(plane, rows, out.as_mut_ptr()) }
}

/// Writes the results of `rows` to `out`.
///
/// # Safety
/// The processor has the instructions of `V`. The image has all of its elements, and `out` room for all results.
#[inline(always)]
unsafe fn any_rows<V: SimdVector>(plane: &ImagePlane<'_>, rows: Range<usize>, out: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe {
        match plane.result {
            WindowResult::Sum(_) => rows_of_any::<V, false>(plane, rows, out),
            WindowResult::Greatest => rows_of_any::<V, true>(plane, rows, out),
        }
    }
}

/// As [`any_rows`], for the greatest elements or for sums.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn rows_of_any<V: SimdVector, const GREATEST: bool>(
    plane: &ImagePlane<'_>,
    rows: Range<usize>,
    out: *mut f32,
) {
    // SAFETY: as the caller promises.
    unsafe {
        match (plane.shape.size, plane.shape.step) {
            (2, 1) => rows_of::<V, 2, 1, 4, GREATEST>(plane, rows, out),
            (2, _) => rows_of::<V, 2, 2, 2, GREATEST>(plane, rows, out),
            (3, 1) => rows_of::<V, 3, 1, 4, GREATEST>(plane, rows, out),
            (3, _) => rows_of::<V, 3, 2, 2, GREATEST>(plane, rows, out),
            (_, 1) => rows_of::<V, 5, 1, 4, GREATEST>(plane, rows, out),
            _ => rows_of::<V, 5, 2, 2, GREATEST>(plane, rows, out),
        }
    }
}

/// Most rows for which a vector of columns is computed before the next: what they read stays in the first-level cache.
const BAND: usize = 16;

/// Rows of the image between one that is read and that which is prefetched for windows that move by 2.
const AHEAD: usize = 16;

/// As [`any_rows`], `HIGH` rows at a time, for windows of one size and step.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn rows_of<
    V: SimdVector,
    const SIZE: usize,
    const STEP: usize,
    const HIGH: usize,
    const GREATEST: bool,
>(
    plane: &ImagePlane<'_>,
    rows: Range<usize>,
    out: *mut f32,
) {
    let columns = plane.shape.columns;
    let band = rows.len().div_ceil(rows.len().div_ceil(BAND).max(1)).max(1);
    for first in rows.clone().step_by(band) {
        let rows_of_band = band.min(rows.end - first);
        let out = out.wrapping_add((first - rows.start) * columns);
        for column in (0..columns).step_by(V::LEN) {
            // SAFETY: as the caller promises.
            let span = unsafe { ColumnSpan::<V, SIZE>::new(plane, STEP, column) };
            let mut done = 0;
            while done < rows_of_band {
                // The last rows may be computed twice.
                let high = if rows_of_band < HIGH { 1 } else { HIGH };
                let at = done.min(rows_of_band - high);
                let (row, to) = (first + at, out.wrapping_add(at * columns + column));
                // SAFETY: as the caller promises.
                unsafe {
                    if high == HIGH {
                        tile::<V, SIZE, STEP, HIGH, GREATEST>(plane, &span, row, to);
                    } else {
                        tile::<V, SIZE, STEP, 1, GREATEST>(plane, &span, row, to);
                    }
                }
                done = at + high;
            }
        }
    }
}

/// A vector of windows side by side.
struct ColumnSpan<V: SimdVector, const SIZE: usize> {
    /// Zeros where windows have none.
    weights: [[V; SIZE]; SIZE],
    /// The first element that the first window covers, counted from the first zero of a row.
    start: usize,
    /// For each element of a window's row, those inside of the image among the vector that begins there, and among the
    /// vector after that.
    masks: [[V::Mask; 2]; SIZE],
    /// Windows that exist.
    count: usize,
}

impl<V: SimdVector, const SIZE: usize> ColumnSpan<V, SIZE> {
    /// The windows from `column` on, which move by `step`.
    ///
    /// # Safety
    /// The processor has the instructions of `V`.
    #[inline(always)]
    unsafe fn new(plane: &ImagePlane<'_>, step: usize, column: usize) -> Self {
        let PlaneShape { width, before, columns, .. } = plane.shape;
        let start = step * column;
        let range = |start: usize| {
            let lane = |at: usize| (at + before).saturating_sub(start).min(V::LEN);
            lane(0)..lane(width)
        };
        // SAFETY: as the caller promises.
        unsafe {
            let mut weights = [[V::splat(0.0); SIZE]; SIZE];
            let mut masks = [[V::mask(0..0); 2]; SIZE];
            for i in 0..SIZE {
                if let WindowResult::Sum(elements) = plane.result {
                    for j in 0..SIZE {
                        weights[i][j] = V::splat(elements[i * SIZE + j]);
                    }
                }
                masks[i] = [V::mask(range(start + i)), V::mask(range(start + i + V::LEN))];
            }
            Self { weights, start, masks, count: V::LEN.min(columns - column) }
        }
    }
}

/// Writes the results of `HIGH` rows of a span from `row` on to `out`.
///
/// # Safety
/// As for [`any_rows`].
#[inline(always)]
unsafe fn tile<
    V: SimdVector,
    const SIZE: usize,
    const STEP: usize,
    const HIGH: usize,
    const GREATEST: bool,
>(
    &ImagePlane { shape, image, epilogue, .. }: &ImagePlane<'_>,
    &ColumnSpan { ref weights, start, ref masks, count }: &ColumnSpan<V, SIZE>,
    row: usize,
    out: *mut f32,
) {
    let PlaneShape { height, width, above, before, columns, .. } = shape;
    // SAFETY: as the caller promises. Elements outside of the image are masked.
    unsafe {
        let border = V::splat(if GREATEST { f32::NEG_INFINITY } else { 0.0 });
        let load = |from: *const f32, mask: V::Mask| match GREATEST {
            true => border.or_masked(from, mask),
            false => V::load_masked(from, mask),
        };
        let mut results = [border; HIGH];
        for line in 0..(HIGH - 1) * STEP + SIZE {
            let y = (row * STEP + line).wrapping_sub(above);
            let mut x = [border; SIZE];
            if y < height {
                let from = image.as_ptr().wrapping_add(y * width + start).wrapping_sub(before);
                if STEP == 2 && (SIZE == 5 || GREATEST) && line < HIGH * STEP {
                    // The hardware prefetches too late for these. With more prefetches, the others take 6 % longer.
                    let ahead = from.wrapping_add(AHEAD * width);
                    prefetch::line(ahead.cast());
                    prefetch::line(ahead.wrapping_add(V::LEN).cast());
                }
                if STEP == 1 {
                    for j in 0..SIZE {
                        x[j] = load(from.wrapping_add(j), masks[j][0]);
                    }
                } else {
                    // Vectors of windows that move by 2 begin at every second element.
                    for j in (0..SIZE).step_by(2) {
                        let from = from.wrapping_add(j);
                        let low = load(from, masks[j][0]);
                        let high = load(from.wrapping_add(V::LEN), masks[j][1]);
                        let [even, odd] = low.unzip(high);
                        x[j] = even;
                        if j + 1 < SIZE {
                            x[j + 1] = odd;
                        }
                    }
                }
            }
            if GREATEST {
                for j in 1..SIZE {
                    x[0] = greatest(x[0], x[j]);
                }
            }
            for r in 0..HIGH {
                if line < r * STEP || line - r * STEP >= SIZE {
                    continue;
                }
                if GREATEST {
                    results[r] = greatest(results[r], x[0]);
                    continue;
                }
                for j in 0..SIZE {
                    results[r] = results[r].add_product(x[j], weights[line - r * STEP][j]);
                }
            }
        }
        if let Some(epilogue) = epilogue {
            epilogue.splat().apply(&mut results);
        }
        for r in 0..HIGH {
            results[r].store_first(out.add(r * columns), count);
        }
    }
}

/// The greater elements; NaN where either is NaN.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn greatest<V: SimdVector>(a: V, b: V) -> V {
    // SAFETY: as the caller promises.
    unsafe { a.greater(b).or_nan_of(b) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::exec::cpu::forms::sliding::plane_shape::{SIZES, STEPS};

    const CLAMP: AffineClamp =
        AffineClamp { sub: 1.0, mul: -2.0, add: 3.0, low: -70.0, high: 90.0 };

    /// The results of all windows, element by element in double precision.
    fn expected(plane: &ImagePlane<'_>, rows: &Range<usize>) -> Vec<f64> {
        let PlaneShape { size, step, height, width, above, before, columns, .. } = plane.shape;
        let result = |row: usize, column: usize| {
            let elements = (0..size * size).map(|at| {
                let y = (row * step + at / size).wrapping_sub(above);
                let x = (column * step + at % size).wrapping_sub(before);
                (y < height && x < width).then(|| f64::from(plane.image[y * width + x]))
            });
            match plane.result {
                WindowResult::Sum(weights) => {
                    let weighted = elements.zip(weights);
                    weighted.map(|(x, &weight)| x.unwrap_or(0.0) * f64::from(weight)).sum()
                }
                WindowResult::Greatest => elements.flatten().fold(f64::NEG_INFINITY, |a, b| {
                    if a.is_nan() || b.is_nan() { f64::NAN } else { a.max(b) }
                }),
            }
        };
        let finished = |x: f64| ((x - 1.0) * -2.0 + 3.0).clamp(-70.0, 90.0);
        let finish = |x: f64| if plane.epilogue.is_none() { x } else { finished(x) };
        let row = |row: usize| (0..columns).map(move |column| (row, column));
        rows.clone().flat_map(row).map(|(row, column)| finish(result(row, column))).collect()
    }

    #[test]
    fn windows_of_any_image_and_border_are_combined() {
        let sizes: &[[usize; 2]] = match cfg!(miri) {
            true => &[[1, 1], [4, 6], [1, 18], [18, 1]],
            false => &[[1, 1], [1, 40], [3, 5], [7, 7], [14, 14], [9, 33], [20, 16], [6, 70]],
        };
        for by in Loops::all() {
            for (size, step) in SIZES.into_iter().flat_map(|size| STEPS.map(|step| (size, step))) {
                for &[height, width] in sizes {
                    for pad in 0..if cfg!(miri) { 2 } else { size } {
                        let count = |all: usize| {
                            (all + 2 * pad).checked_sub(size).map(|rest| rest / step + 1)
                        };
                        let Some((rows, columns)) = count(height).zip(count(width)) else {
                            continue;
                        };
                        let shape = PlaneShape {
                            size,
                            step,
                            height,
                            width,
                            above: pad,
                            before: pad,
                            rows,
                            columns,
                        };
                        let mut image: Vec<f32> =
                            (0..height * width).map(|at| ((at * 37) % 51) as f32 - 25.0).collect();
                        image[height * width / 2] = f32::NEG_INFINITY;
                        let mut weights: [f32; 25] =
                            std::array::from_fn(|at| ((at * 11) % 17) as f32 - 8.0);
                        if pad == 1 {
                            weights[1] = f32::NAN;
                            image[height * width / 3] = f32::NAN;
                        }
                        let results = [WindowResult::Sum(&weights), WindowResult::Greatest];
                        let ranges = [0..rows, rows / 2..rows, 0..1];
                        let cases = results.into_iter().flat_map(|result| {
                            ranges.clone().into_iter().map(move |rows| (result, rows))
                        });
                        let cases = cases.flat_map(|case| {
                            [None, Some(&CLAMP)].map(|epilogue| (case.clone(), epilogue))
                        });
                        for ((result, rows), epilogue) in cases {
                            let plane = ImagePlane { shape, image: &image, result, epilogue };
                            let mut out = vec![7.0; rows.len() * columns];
                            run_by(by, &plane, rows.clone(), &mut out);
                            let (band, shape) = shape.band(&rows);
                            let image = &image[band.start * width..band.end * width];
                            let mut of_band = vec![8.0; out.len()];
                            let plane_of_band = ImagePlane { shape, image, ..plane };
                            run_by(by, &plane_of_band, 0..rows.len(), &mut of_band);
                            // The bits of a NaN are not specified.
                            let one = |x: &f32| if x.is_nan() { u32::MAX } else { x.to_bits() };
                            let bits = |all: &[f32]| all.iter().map(one).collect::<Vec<_>>();
                            assert_eq!(bits(&out), bits(&of_band), "{shape:?} {rows:?}");
                            for (got, want) in out.into_iter().zip(expected(&plane, &rows)) {
                                let same =
                                    f64::from(got) == want || (got.is_nan() && want.is_nan());
                                assert!(same, "{shape:?} {rows:?}: {got} {want}");
                            }
                        }
                    }
                }
            }
        }
    }
}
