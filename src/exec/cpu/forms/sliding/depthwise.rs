//! Convolutions of one channel by small filters, without a layout: windows are read where their image lies, and elements
//! of the border by masks.

#![expect(clippy::needless_range_loop, reason = "loops of fixed lengths, over registers")]

use std::ops::Range;
use std::sync::LazyLock;

use crate::exec::cpu::forms::vectors::{self, Lanes};
use crate::plan::Sliding;

/// The sizes of windows that there are loops for, and the steps.
const SIZES: [usize; 2] = [3, 5];
const STEPS: [usize; 2] = [1, 2];
/// An image of one channel, with windows that slide over it and over its border of zeros.
pub(super) struct ImagePlane<'p> {
    pub shape: PlaneShape,
    pub image: &'p [f32],
    /// The weights of a window, row by row.
    pub weights: &'p [f32],
}

/// The sizes of all images of a step.
#[derive(Clone, Copy, Debug)]
pub(super) struct PlaneShape {
    /// Elements of a window along either axis, and the elements from one window to the next.
    size: usize,
    step: usize,
    height: usize,
    width: usize,
    /// Zeros before the first row, and before the first element of a row.
    above: usize,
    before: usize,
    /// Rows of windows, and windows of a row.
    rows: usize,
    columns: usize,
}

impl PlaneShape {
    /// The shape of the images of `sliding`, whose border is zeros, if there is a loop for their windows.
    pub fn of(sliding: &Sliding) -> Option<Self> {
        let [down, along] = &sliding.axes[..] else { return None };
        let window = down.window;
        let fits = window == along.window
            && window.dilation == 1
            && SIZES.contains(&window.size)
            && STEPS.contains(&window.step);
        fits.then(|| Self {
            size: window.size,
            step: window.step,
            height: down.inside.len(),
            width: along.inside.len(),
            above: down.inside.start,
            before: along.inside.start,
            rows: down.count,
            columns: along.count,
        })
    }

    /// Rows of windows.
    pub fn rows(self) -> usize {
        self.rows
    }

    pub fn width(self) -> usize {
        self.width
    }

    /// Elements of an image.
    pub fn elements(self) -> usize {
        self.height * self.width
    }

    /// The rows of the image that some `rows` of windows cover, and the shape of the image of those rows alone.
    pub fn band(self, rows: &Range<usize>) -> (Range<usize>, Self) {
        let (first, last) = (rows.start * self.step, rows.end.max(1) * self.step - self.step);
        let end = (last + self.size).saturating_sub(self.above).min(self.height);
        let start = first.saturating_sub(self.above).min(end);
        let above = self.above.saturating_sub(first);
        (start..end, Self { height: end - start, above, ..self })
    }
}

/// The loop for the instructions of one kind of processor.
type RowsOfWindows = unsafe fn(&ImagePlane<'_>, Range<usize>, *mut f32);

/// Sets `out` to the sums of all windows of some `rows`.
pub(super) fn run(plane: &ImagePlane<'_>, rows: Range<usize>, out: &mut [f32]) {
    static NATIVE: LazyLock<RowsOfWindows> = LazyLock::new(|| all()[0]);
    run_by(*NATIVE, plane, rows, out);
}

fn run_by(by: RowsOfWindows, plane: &ImagePlane<'_>, rows: Range<usize>, out: &mut [f32]) {
    let PlaneShape { size, height, width, columns, .. } = plane.shape;
    assert!(plane.image.len() == height * width && out.len() == rows.len() * columns);
    assert!(plane.weights.len() >= size * size);
    // SAFETY: the processor has the instructions of `by`. Only elements inside of the image are read, and `out` has the
    // sums of all rows.
    unsafe { by(plane, rows, out.as_mut_ptr()) }
}

/// The loops that this processor can run, the best first.
fn all() -> Vec<RowsOfWindows> {
    let mut all: Vec<RowsOfWindows> = Vec::new();
    #[cfg(all(target_arch = "x86_64", not(miri)))]
    {
        if vectors::has_avx512() {
            all.push(rows_avx512);
        }
        if vectors::has_avx2() {
            all.push(rows_avx2);
        }
    }
    all.push(rows_plain);
    all
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx512f,avx2,fma")]
unsafe fn rows_avx512(plane: &ImagePlane<'_>, rows: Range<usize>, out: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe { any_rows::<std::arch::x86_64::__m512>(plane, rows, out) }
}

#[cfg(all(target_arch = "x86_64", not(miri)))]
#[target_feature(enable = "avx2,fma")]
unsafe fn rows_avx2(plane: &ImagePlane<'_>, rows: Range<usize>, out: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe { any_rows::<std::arch::x86_64::__m256>(plane, rows, out) }
}

unsafe fn rows_plain(plane: &ImagePlane<'_>, rows: Range<usize>, out: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe { any_rows::<vectors::Plain>(plane, rows, out) }
}

/// Writes the sums of `rows` to `out`.
///
/// # Safety
/// The processor has the instructions of `L`. The image has all of its elements, and `out` room for all sums.
#[inline(always)]
unsafe fn any_rows<L: Lanes>(plane: &ImagePlane<'_>, rows: Range<usize>, out: *mut f32) {
    // SAFETY: as the caller promises.
    unsafe {
        match (plane.shape.size, plane.shape.step) {
            (3, 1) => rows_of::<L, 3, 1, 4>(plane, rows, out),
            (3, _) => rows_of::<L, 3, 2, 2>(plane, rows, out),
            (_, 1) => rows_of::<L, 5, 1, 4>(plane, rows, out),
            _ => rows_of::<L, 5, 2, 2>(plane, rows, out),
        }
    }
}

/// Most rows for which a vector of columns is computed before the next: what they read stays in the first-level cache.
const BAND: usize = 16;

/// As [`any_rows`], `HIGH` rows at a time, for windows of one size and step.
///
/// # Safety
/// As there.
#[inline(always)]
unsafe fn rows_of<L: Lanes, const SIZE: usize, const STEP: usize, const HIGH: usize>(
    plane: &ImagePlane<'_>,
    rows: Range<usize>,
    out: *mut f32,
) {
    let columns = plane.shape.columns;
    let band = rows.len().div_ceil(rows.len().div_ceil(BAND).max(1)).max(1);
    for first in rows.clone().step_by(band) {
        let rows_of_band = band.min(rows.end - first);
        let out = out.wrapping_add((first - rows.start) * columns);
        for column in (0..columns).step_by(L::LEN) {
            // SAFETY: as the caller promises.
            let span = unsafe { ColumnSpan::<L, SIZE>::new(plane, STEP, column) };
            let mut done = 0;
            while done < rows_of_band {
                // The last rows may be computed twice.
                let high = if rows_of_band < HIGH { 1 } else { HIGH };
                let at = done.min(rows_of_band - high);
                let (row, to) = (first + at, out.wrapping_add(at * columns + column));
                // SAFETY: as the caller promises.
                unsafe {
                    if high == HIGH {
                        tile::<L, SIZE, STEP, HIGH>(plane, &span, row, to);
                    } else {
                        tile::<L, SIZE, STEP, 1>(plane, &span, row, to);
                    }
                }
                done = at + high;
            }
        }
    }
}

/// A vector of windows side by side.
struct ColumnSpan<L: Lanes, const SIZE: usize> {
    weights: [[L; SIZE]; SIZE],
    /// The first element that the first window covers, counted from the first zero of a row.
    start: usize,
    /// For each element of a window's row, those inside of the image among the vector that begins there, and among the
    /// vector after that.
    masks: [[L::Mask; 2]; SIZE],
    /// Windows that exist.
    count: usize,
}

impl<L: Lanes, const SIZE: usize> ColumnSpan<L, SIZE> {
    /// The windows from `column` on, which move by `step`.
    ///
    /// # Safety
    /// The processor has the instructions of `L`.
    #[inline(always)]
    unsafe fn new(plane: &ImagePlane<'_>, step: usize, column: usize) -> Self {
        let PlaneShape { width, before, columns, .. } = plane.shape;
        let elements = &plane.weights[..SIZE * SIZE];
        let start = step * column;
        let range = |start: usize| {
            let lane = |at: usize| (at + before).saturating_sub(start).min(L::LEN);
            lane(0)..lane(width)
        };
        // SAFETY: as the caller promises.
        unsafe {
            let mut weights = [[L::splat(0.0); SIZE]; SIZE];
            let mut masks = [[L::mask(0..0); 2]; SIZE];
            for i in 0..SIZE {
                for j in 0..SIZE {
                    weights[i][j] = L::splat(elements[i * SIZE + j]);
                }
                masks[i] = [L::mask(range(start + i)), L::mask(range(start + i + L::LEN))];
            }
            Self { weights, start, masks, count: L::LEN.min(columns - column) }
        }
    }
}

/// Writes the sums of `HIGH` rows of a span from `row` on to `out`.
///
/// # Safety
/// As for [`any_rows`].
#[inline(always)]
unsafe fn tile<L: Lanes, const SIZE: usize, const STEP: usize, const HIGH: usize>(
    &ImagePlane { shape, image, .. }: &ImagePlane<'_>,
    &ColumnSpan { ref weights, start, ref masks, count }: &ColumnSpan<L, SIZE>,
    row: usize,
    out: *mut f32,
) {
    let PlaneShape { height, width, above, before, columns, .. } = shape;
    // SAFETY: as the caller promises. Elements outside of the image are masked.
    unsafe {
        let mut sums = [L::splat(0.0); HIGH];
        for line in 0..(HIGH - 1) * STEP + SIZE {
            let y = (row * STEP + line).wrapping_sub(above);
            let mut x = [L::splat(0.0); SIZE];
            if y < height {
                let from = image.as_ptr().wrapping_add(y * width + start).wrapping_sub(before);
                if STEP == 1 {
                    for j in 0..SIZE {
                        x[j] = L::load_masked(from.wrapping_add(j), masks[j][0]);
                    }
                } else {
                    // Vectors of windows that move by 2 begin at every second element.
                    for j in (0..SIZE).step_by(2) {
                        let from = from.wrapping_add(j);
                        let low = L::load_masked(from, masks[j][0]);
                        let high = L::load_masked(from.wrapping_add(L::LEN), masks[j][1]);
                        let [even, odd] = low.unzip(high);
                        x[j] = even;
                        if j + 1 < SIZE {
                            x[j + 1] = odd;
                        }
                    }
                }
            }
            for r in 0..HIGH {
                if line >= r * STEP && line - r * STEP < SIZE {
                    for j in 0..SIZE {
                        sums[r] = sums[r].add_product(x[j], weights[line - r * STEP][j]);
                    }
                }
            }
        }
        for r in 0..HIGH {
            sums[r].store_first(out.add(r * columns), count);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of all windows, element by element in double precision.
    fn expected(plane: &ImagePlane<'_>, rows: &Range<usize>) -> Vec<f64> {
        let PlaneShape { size, step, height, width, above, before, columns, .. } = plane.shape;
        let sum = |row: usize, column: usize| {
            let mut sum = 0.0;
            for (i, j) in (0..size).flat_map(|i| (0..size).map(move |j| (i, j))) {
                let y = (row * step + i).wrapping_sub(above);
                let x = (column * step + j).wrapping_sub(before);
                let inside = y < height && x < width;
                let element = if inside { plane.image[y * width + x] } else { 0.0 };
                sum += f64::from(element) * f64::from(plane.weights[i * size + j]);
            }
            sum
        };
        rows.clone().flat_map(|row| (0..columns).map(move |column| sum(row, column))).collect()
    }

    #[test]
    fn windows_of_any_image_and_border_are_summed() {
        let sizes: &[[usize; 2]] = match cfg!(miri) {
            true => &[[1, 1], [4, 6]],
            false => &[[1, 1], [1, 40], [3, 5], [7, 7], [14, 14], [9, 33], [20, 16], [6, 70]],
        };
        for by in all() {
            for (size, step) in SIZES.into_iter().flat_map(|size| STEPS.map(|step| (size, step))) {
                for &[height, width] in sizes {
                    for pad in 0..size {
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
                        let mut weights = [0.0; 25];
                        for (at, weight) in weights.iter_mut().enumerate() {
                            *weight = ((at * 11) % 17) as f32 - 8.0;
                        }
                        if pad == 1 {
                            weights[1] = f32::NAN;
                        }
                        let plane = ImagePlane { shape, image: &image, weights: &weights };
                        for rows in [0..rows, rows / 2..rows, 0..1] {
                            let mut out = vec![7.0; rows.len() * columns];
                            run_by(by, &plane, rows.clone(), &mut out);
                            let (band, shape) = shape.band(&rows);
                            let image = &image[band.start * width..band.end * width];
                            let mut of_band = vec![8.0; out.len()];
                            let plane_of_band = ImagePlane { shape, image, ..plane };
                            run_by(by, &plane_of_band, 0..rows.len(), &mut of_band);
                            let bits =
                                |all: &[f32]| all.iter().map(|x| x.to_bits()).collect::<Vec<_>>();
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
