//! The transforms of filters, of tiles and of their products (Lavin and Gray, 2016, section 4.1).

use multiversion::multiversion;

use super::super::kernel::Rows;

/// Tiles that are transformed at a time.
const CHUNK: usize = 16;

type Lanes = [f32; CHUNK];

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

    /// Elements from one point of `rows` rows of tiles to the next. Transforms write whole chunks, past the last tile.
    pub fn pitch(self, rows: usize) -> usize {
        rows * self.len() + CHUNK
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

/// The first tiles of chunks that cover rows of tiles. The last chunk overlaps another, or reaches past a short row.
#[inline(always)]
fn chunks(along: usize) -> impl Iterator<Item = usize> {
    let last = along.saturating_sub(CHUNK);
    (0..last).step_by(CHUNK).chain([last])
}

#[inline(always)]
fn sum(a: &Lanes, b: &Lanes) -> Lanes {
    let mut out = [0.0; CHUNK];
    for i in 0..CHUNK {
        out[i] = a[i] + b[i];
    }
    out
}

#[inline(always)]
fn difference(a: &Lanes, b: &Lanes) -> Lanes {
    let mut out = [0.0; CHUNK];
    for i in 0..CHUNK {
        out[i] = a[i] - b[i];
    }
    out
}

/// Bᵀ·d of four neighbours d.
#[inline(always)]
fn spread([a, b, c, d]: [&Lanes; 4]) -> [Lanes; 4] {
    [difference(a, c), sum(b, c), difference(c, b), difference(b, d)]
}

/// Aᵀ·m of four products m.
#[inline(always)]
fn join([a, b, c, d]: [&Lanes; 4]) -> [Lanes; 2] {
    [sum(&sum(a, b), c), difference(&difference(b, c), d)]
}

/// Writes Bᵀ·d·B of the tiles d of one channel, each of 4×4 elements of an `image` of `rows` rows. The values of a point lie
/// in a row of tiles at `out`, those of the next point `pitch` elements on. A chunk past the last tile is overwritten by
/// the next channel or lies in the room behind a point. Elements that the image lacks affect no result that is kept.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn transform_tiles(
    image: Rows<'_>,
    rows: usize,
    tiles: Tiles,
    pitch: usize,
    out: &mut [f32],
) {
    for from in chunks(tiles.along) {
        let row = |y: usize| along(image, y.min(rows - 1), from);
        let [mut first, mut second] = [row(0), row(1)];
        for down in 0..tiles.down {
            let [third, fourth] = [row(2 * down + 2), row(2 * down + 3)];
            for x in 0..4 {
                let points = spread([&first[x], &second[x], &third[x], &fourth[x]]);
                for (y, point) in points.iter().enumerate() {
                    let at = (4 * y + x) * pitch + down * tiles.along + from;
                    *out[at..].first_chunk_mut().expect("a chunk of room follows each point") =
                        *point;
                }
            }
            [first, second] = [third, fourth];
        }
    }
}

/// The transforms of each four neighbours of a row of the image, of tiles from `from` on.
#[inline(always)]
fn along(image: Rows<'_>, row: usize, from: usize) -> [Lanes; 4] {
    let row: &[f32; 2 * CHUNK + 2] = image.data[row * image.stride + 2 * from..]
        .first_chunk()
        .expect("a block has room behind its last channel");
    let mut elements = [[0.0; CHUNK]; 4];
    for i in 0..CHUNK {
        for (x, elements) in elements.iter_mut().enumerate() {
            elements[i] = row[2 * i + x];
        }
    }
    spread(elements.each_ref())
}

/// Writes the sums Aᵀ·m·A of the `products` m of a filter to rows of `width`. Those of the next point lie `pitch` elements on.
/// Returns whether all sums are finite.
#[multiversion(targets("x86_64+avx512f+avx512bw+avx512dq+avx512vl+avx2+fma", "x86_64+avx2+fma"))]
pub(super) fn results_of_products(
    products: &[f32],
    pitch: usize,
    tiles: Tiles,
    width: usize,
    sums: &mut [f32],
) -> bool {
    // Zero, or NaN once a sum is not finite.
    let mut zeros = [0.0; CHUNK];
    // The next row overwrites elements past a row, unless another chunk has written to it before.
    let is_whole = width.is_multiple_of(2) || tiles.along <= CHUNK;
    for down in 0..tiles.down {
        for from in chunks(tiles.along) {
            let point = |at: usize| -> &Lanes {
                products[at * pitch + down * tiles.along + from..]
                    .first_chunk()
                    .expect("a chunk of room follows each point")
            };
            let column = |x: usize| join([point(x), point(4 + x), point(8 + x), point(12 + x)]);
            let [a, b, c, d] = [column(0), column(1), column(2), column(3)];
            let rows = [join([&a[0], &b[0], &c[0], &d[0]]), join([&a[1], &b[1], &c[1], &d[1]])];
            for (y, [even, odd]) in rows.iter().enumerate() {
                let start = (2 * down + y) * width;
                if start >= sums.len() {
                    break;
                }
                let mut both = [0.0; 2 * CHUNK];
                for i in 0..CHUNK {
                    both[2 * i] = even[i];
                    both[2 * i + 1] = odd[i];
                    zeros[i] += 0.0 * (even[i] + odd[i]);
                }
                let out = &mut sums[start + 2 * from..];
                match out.first_chunk_mut::<{ 2 * CHUNK }>() {
                    Some(out) if is_whole => *out = both,
                    _ => {
                        let len = (2 * CHUNK).min(width - 2 * from);
                        out[..len].copy_from_slice(&both[..len]);
                    }
                }
            }
        }
    }
    zeros[..CHUNK.min(tiles.along)].iter().sum::<f32>() == 0.0
}
