//! Pooling, resizing and the normalisation of channels.

use onetrip::{Corners, Pool2d};

use super::{Case, Given};

const CHANNELS: usize = 64;

fn images(side: usize) -> Vec<Given> {
    vec![Given::new("x", &[8, CHANNELS, side, side])]
}

pub fn cases() -> Vec<Case> {
    let pool = Pool2d { stride: Some([2, 2]), padding: [(1, 1); 2], ..Pool2d::new([3, 3]) };
    let factors = |name| Given::new(name, &[CHANNELS]).scaled(0.25);
    let around_1 = |name| Given { middle: 1.0, ..factors(name) };
    let norm = vec![factors("mean"), around_1("variance"), around_1("weight"), factors("bias")];
    vec![
        Case::new("max_pool2d_3x3_stride2", images(112), vec![], move |x, _| x[0].max_pool2d(pool))
            .exactly(|data, at| {
                pooled(&data[0], 112, at).into_iter().fold(f64::NEG_INFINITY, f64::max)
            }),
        Case::new("avg_pool2d_3x3_stride2", images(112), vec![], move |x, _| x[0].avg_pool2d(pool))
            .exactly(|data, at| pooled(&data[0], 112, at).into_iter().sum::<f64>() / 9.0),
        Case::new("global_avg_pool", images(56), vec![], |x, _| x[0].global_avg_pool()).exactly(
            |data, at| {
                let image = &data[0][at * 56 * 56..][..56 * 56];
                image.iter().map(|&x| f64::from(x)).sum::<f64>() / (56.0 * 56.0)
            },
        ),
        Case::new("resize_bilinear_x2", images(56), vec![], |x, _| {
            x[0].resize_bilinear([112, 112], Corners::HalfPixel)
        })
        .exactly(|data, at| resized(&data[0], 56, at)),
        Case::new("batch_norm", images(56), norm, |x, w| {
            x[0].batch_norm(w[0], w[1], w[2], w[3], 1e-5)
        })
        .exactly(|data, at| {
            let channel = at / (56 * 56) % CHANNELS;
            let of = |k: usize| f64::from(data[k][channel]);
            (f64::from(data[0][at]) - of(1)) / (of(2) + 1e-5).sqrt() * of(3) + of(4)
        }),
    ]
}

/// The elements of a window of 3 × 3, 2 apart, over images of `side` with a border of 1.
fn pooled(x: &[f32], side: usize, at: usize) -> Vec<f64> {
    let half = side / 2;
    let (column, row, image) = (at % half, at / half % half, at / (half * half));
    let places = (0..9).map(|k| [2 * row + k / 3, 2 * column + k % 3]);
    let inside = places.filter(|place| place.iter().all(|&i| (1..=side).contains(&i)));
    inside.map(|[i, j]| f64::from(x[(image * side + i - 1) * side + j - 1])).collect()
}

/// An element of images of twice the size.
fn resized(x: &[f32], side: usize, at: usize) -> f64 {
    let (column, row, image) =
        (at % (2 * side), at / (2 * side) % (2 * side), at / (4 * side * side));
    // The two nearest elements, and how far it is from the first to the second.
    let near = |at: usize| {
        let from = ((at as f64 + 0.5) / 2.0 - 0.5).clamp(0.0, (side - 1) as f64);
        (from as usize, (from as usize + 1).min(side - 1), from.fract())
    };
    let ((top, bottom, down), (left, right, along)) = (near(row), near(column));
    let of = |i: usize, j: usize| f64::from(x[(image * side + i) * side + j]);
    let between = |i| of(i, left) * (1.0 - along) + of(i, right) * along;
    between(top) * (1.0 - down) + between(bottom) * down
}
