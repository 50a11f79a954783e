//! The transforms of filters, of tiles and of their products (Lavin and Gray, 2016, section 4.1).

use super::super::kernel::Rows;
use crate::exec::cpu::vectors::SimdVector;
use crate::exec::cpu::vectors::by_processor::loops;

/// Most elements of a vector, each of another tile.
const LONGEST: usize = 16;

/// The tiles of a block.
#[derive(Clone, Copy)]
pub(super) struct Tiles {
    pub down: usize,
    pub along: usize,
}

impl Tiles {
    pub fn len(self) -> usize {
        self.down * self.along
    }

    /// Elements from one point of `rows` rows of tiles to the next. Transforms write whole vectors, past the last tile.
    pub fn pitch(self, rows: usize) -> usize {
        rows * self.len() + LONGEST
    }
}

/// G·g·Gᵀ of a filter g of 3×3.
pub(super) fn transform_filter(filter: &[f32; 9]) -> [f32; 16] {
    let spread = |a: f32, b: f32, c: f32| [a, 0.5 * (a + b + c), 0.5 * (a - b + c), c];
    let column = |x: usize| spread(filter[x], filter[3 + x], filter[6 + x]);
    let columns = [column(0), column(1), column(2)];
    let mut points = [0.0; 16];
    for (y, points) in points.chunks_exact_mut(4).enumerate() {
        points.copy_from_slice(&spread(columns[0][y], columns[1][y], columns[2][y]));
    }
    points
}

loops! {
    /// The transforms for the instructions of one kind of processor.
    struct Transforms {}

    unsafe fn tiles(image: Rows<'_>, rows: usize, tiles: Tiles, pitch: usize, out: &mut [f32]) =
        any_tiles::<V>(image, rows, tiles, pitch, out);

    unsafe fn results(
        products: &[f32],
        pitch: usize,
        tiles: Tiles,
        width: usize,
        sums: &mut [f32],
    ) -> bool = any_results::<V>(products, pitch, tiles, width, sums);
}

/// Writes Bᵀ·d·B of the tiles d of one channel, each of 4×4 elements of an `image` of `rows` rows. The values of a point lie
/// in a row of tiles at `out`, those of the next point `pitch` elements on. A vector past the last tile is overwritten by
/// the next channel or lies in the room behind a point. Elements that the image lacks affect no result that is kept.
pub(super) fn transform_tiles(
    image: Rows<'_>,
    rows: usize,
    tiles: Tiles,
    pitch: usize,
    out: &mut [f32],
) {
    // SAFETY: the processor has the instructions (`Transforms::all`).
    unsafe { (Transforms::native().tiles)(image, rows, tiles, pitch, out) }
}

/// Writes the sums Aᵀ·m·A of the `products` m of a filter to rows of `width`. Those of the next point lie `pitch` elements on.
/// Returns whether all sums are finite.
pub(super) fn results_of_products(
    products: &[f32],
    pitch: usize,
    tiles: Tiles,
    width: usize,
    sums: &mut [f32],
) -> bool {
    // SAFETY: the processor has the instructions (`Transforms::all`).
    unsafe { (Transforms::native().results)(products, pitch, tiles, width, sums) }
}

/// The first tiles of vectors that cover rows of tiles. The last vector overlaps another, or reaches past a short row.
#[inline(always)]
fn firsts<V: SimdVector>(along: usize) -> impl Iterator<Item = usize> {
    let last = along.saturating_sub(V::LEN);
    (0..last).step_by(V::LEN).chain([last])
}

/// Bᵀ·d of four neighbours d.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn spread<V: SimdVector>([a, b, c, d]: [V; 4]) -> [V; 4] {
    // SAFETY: as the caller promises.
    unsafe { [a.sub(c), b.add(c), c.sub(b), b.sub(d)] }
}

/// Aᵀ·m of four products m.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn join<V: SimdVector>([a, b, c, d]: [V; 4]) -> [V; 2] {
    // SAFETY: as the caller promises.
    unsafe { [a.add(b).add(c), b.sub(c).sub(d)] }
}

/// Bᵀ·d of each four neighbours d of a row of the image, of tiles from `from` on. A closure would not be compiled for the
/// instructions of the function around it.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn spread_row<V: SimdVector>(image: Rows<'_>, row: usize, from: usize) -> [V; 4] {
    let elements = &image.data[row * image.stride + 2 * from..][..2 * V::LEN + 2];
    let elements = elements.as_ptr();
    // SAFETY: as the caller promises; the elements exist.
    unsafe {
        let [a, b] = V::load(elements).unzip(V::load(elements.add(V::LEN)));
        let [c, d] = V::load(elements.add(2)).unzip(V::load(elements.add(V::LEN + 2)));
        spread([a, b, c, d])
    }
}

/// Aᵀ·m of the products m of column `x` of some tiles. Those of the first point begin at `first`.
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn join_column<V: SimdVector>(
    products: &[f32],
    first: usize,
    pitch: usize,
    x: usize,
) -> [V; 2] {
    let column = &products[first + x * pitch..][..12 * pitch + V::LEN];
    let at = column.as_ptr();
    // SAFETY: as the caller promises; the products exist.
    unsafe {
        let [a, b] = [V::load(at), V::load(at.add(4 * pitch))];
        let [c, d] = [V::load(at.add(8 * pitch)), V::load(at.add(12 * pitch))];
        join([a, b, c, d])
    }
}

/// See [`transform_tiles`].
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn any_tiles<V: SimdVector>(
    image: Rows<'_>,
    rows: usize,
    tiles: Tiles,
    pitch: usize,
    out: &mut [f32],
) {
    // SAFETY: as the caller promises; slices of the lengths that are read and written exist.
    unsafe {
        for from in firsts::<V>(tiles.along) {
            let mut first = spread_row::<V>(image, 0, from);
            let mut second = spread_row::<V>(image, 1.min(rows - 1), from);
            for down in 0..tiles.down {
                let third = spread_row(image, (2 * down + 2).min(rows - 1), from);
                let fourth = spread_row(image, (2 * down + 3).min(rows - 1), from);
                for x in 0..4 {
                    let points = spread([first[x], second[x], third[x], fourth[x]]);
                    for (y, point) in points.into_iter().enumerate() {
                        let at = (4 * y + x) * pitch + down * tiles.along + from;
                        point.store(out[at..][..V::LEN].as_mut_ptr());
                    }
                }
                [first, second] = [third, fourth];
            }
        }
    }
}

/// See [`results_of_products`].
///
/// # Safety
/// The processor has the instructions of `V`.
#[inline(always)]
unsafe fn any_results<V: SimdVector>(
    products: &[f32],
    pitch: usize,
    tiles: Tiles,
    width: usize,
    sums: &mut [f32],
) -> bool {
    // SAFETY: as the caller promises; slices of the lengths that are read and written exist.
    unsafe {
        let zero = V::splat(0.0);
        // Zero, or NaN once a sum is not finite.
        let mut zeros = zero;
        // The next row overwrites elements past a row, unless another vector has written to it before.
        let is_whole = width.is_multiple_of(2) || tiles.along <= V::LEN;
        for down in 0..tiles.down {
            for from in firsts::<V>(tiles.along) {
                let first = down * tiles.along + from;
                let a = join_column::<V>(products, first, pitch, 0);
                let b = join_column::<V>(products, first, pitch, 1);
                let c = join_column::<V>(products, first, pitch, 2);
                let d = join_column::<V>(products, first, pitch, 3);
                let rows = [join([a[0], b[0], c[0], d[0]]), join([a[1], b[1], c[1], d[1]])];
                for (y, [even, odd]) in rows.into_iter().enumerate() {
                    let start = (2 * down + y) * width;
                    if start >= sums.len() {
                        break;
                    }
                    zeros = zeros.add(even.add(odd).mul(zero));
                    let [low, high] = even.zip(odd);
                    let out = &mut sums[start + 2 * from..];
                    if is_whole && out.len() >= 2 * V::LEN {
                        low.store(out.as_mut_ptr());
                        high.store(out.as_mut_ptr().add(V::LEN));
                    } else {
                        let len = (2 * V::LEN).min(width - 2 * from);
                        let out = out[..len].as_mut_ptr();
                        low.store_first(out, len.min(V::LEN));
                        high.store_first(out.wrapping_add(V::LEN), len.saturating_sub(V::LEN));
                    }
                }
            }
        }
        let mut lanes = [0.0; LONGEST];
        zeros.store_first(lanes.as_mut_ptr(), tiles.along.min(V::LEN));
        lanes.iter().sum::<f32>() == 0.0
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The sums of a filter over an image of `rows` by `columns` elements, by `transforms`.
    fn sums(
        &Transforms { tiles, results }: &Transforms,
        (image, stride): (&[f32], usize),
        [rows, columns]: [usize; 2],
        filter: &[f32; 9],
    ) -> (Vec<f32>, bool) {
        let [height, width] = [rows - 2, columns - 2];
        let all = Tiles { down: height.div_ceil(2), along: width.div_ceil(2) };
        let pitch = all.pitch(1);
        let mut products = vec![f32::NAN; POINTS * pitch];
        // SAFETY: the processor has the instructions (`Transforms::all`).
        unsafe { tiles(Rows { data: image, stride }, rows, all, pitch, &mut products) };
        for (products, point) in products.chunks_mut(pitch).zip(transform_filter(filter)) {
            products.iter_mut().for_each(|product| *product *= point);
        }
        let mut sums = vec![7.0; height * width];
        // SAFETY: as before.
        let is_finite = unsafe { results(&products, pitch, all, width, &mut sums) };
        (sums, is_finite)
    }

    const POINTS: usize = 16;

    #[test]
    fn transforms_of_any_processor_are_convolutions() {
        let filter = std::array::from_fn(|at| (at as f32 - 3.0) * 2.0);
        for transforms in Transforms::all() {
            for [height, width] in [
                [1_usize, 1_usize],
                [2, 2],
                [3, 5],
                [4, 8],
                [5, 31],
                [6, 32],
                [7, 33],
                [2, 34],
                [3, 66],
                [4, 97],
            ] {
                let [rows, columns] = [height + 2, width + 2];
                let stride = columns.next_multiple_of(2) + 1;
                let element = |at: usize| ((at * 7) % 23) as f32 - 11.0;
                let image: Vec<f32> = (0..rows * stride + 3 * LONGEST).map(element).collect();
                let image = &image[..];
                let (got, is_finite) = sums(transforms, (image, stride), [rows, columns], &filter);
                assert!(is_finite);
                for (at, got) in got.iter().enumerate() {
                    let [y, x] = [at / width, at % width];
                    let term = |k: usize| image[(y + k / 3) * stride + x + k % 3] * filter[k];
                    assert_eq!(*got, (0..9).map(term).sum::<f32>(), "{height} {width}: {y} {x}");
                }
                let mut image = image.to_vec();
                image[(rows - 1) * stride + columns - 1] = f32::INFINITY;
                let (_, is_finite) = sums(transforms, (&image, stride), [rows, columns], &filter);
                assert!(!is_finite, "{height} {width}");
            }
        }
    }
}
