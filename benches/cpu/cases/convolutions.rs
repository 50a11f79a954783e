//! Convolutions.

use onetrip::{Conv1d, Conv2d, ConvTranspose2d};

use super::{Case, Given};

/// A convolution over two axes.
#[derive(Clone, Copy)]
struct Sizes {
    x: [usize; 4],
    filters: usize,
    size: usize,
    stride: usize,
    dilation: usize,
    groups: usize,
}

const USUAL: Sizes =
    Sizes { x: [8, 64, 56, 56], filters: 64, size: 3, stride: 1, dilation: 1, groups: 1 };

pub fn cases() -> Vec<Case> {
    let stem = Sizes { x: [1, 3, 224, 224], size: 7, stride: 2, ..USUAL };
    let all = [
        ("conv2d_3x3", USUAL),
        ("conv2d_3x3_stride2", Sizes { stride: 2, ..USUAL }),
        ("conv2d_1x1", Sizes { size: 1, ..USUAL }),
        ("conv2d_5x5", Sizes { size: 5, ..USUAL }),
        ("conv2d_depthwise_3x3", Sizes { groups: 64, ..USUAL }),
        ("conv2d_depthwise_3x3_stride2", Sizes { groups: 64, stride: 2, ..USUAL }),
        ("conv2d_depthwise_5x5", Sizes { groups: 64, size: 5, ..USUAL }),
        ("conv2d_depthwise_5x5_stride2", Sizes { groups: 64, size: 5, stride: 2, ..USUAL }),
        ("conv2d_3x3_dilated", Sizes { dilation: 2, ..USUAL }),
        ("conv2d_3x3_groups8", Sizes { groups: 8, ..USUAL }),
        ("conv2d_7x7_stride2_stem", stem),
    ];
    let mut cases: Vec<Case> = all.into_iter().map(|(name, sizes)| sizes.case(name)).collect();
    cases.push(along_one_axis());
    cases.push(transposed());
    cases
}

impl Sizes {
    fn padding(&self) -> usize {
        self.size / 2 * self.dilation
    }

    fn case(self, name: &str) -> Case {
        let Self { x, filters, size, stride, dilation, groups } = self;
        let seen = x[1] / groups;
        let w = Given::weights("w", &[filters, seen, size, size], seen * size * size);
        let how = Conv2d {
            stride: [stride; 2],
            padding: [(self.padding(), self.padding()); 2],
            dilation: [dilation; 2],
            groups,
            ..Conv2d::default()
        };
        Case::new(name, vec![Given::new("x", &x)], vec![w], move |x, w| {
            x[0].conv2d(w[0], None, how)
        })
        .exactly(move |data, at| self.element(&data[0], &data[1], at))
    }

    /// Element `at` of the result.
    fn element(&self, x: &[f32], w: &[f32], at: usize) -> f64 {
        let Self { x: [_, channels, height, width], filters, size, stride, dilation, groups } =
            *self;
        let reach = (size - 1) * dilation + 1;
        let count = |len: usize| (len + 2 * self.padding() - reach) / stride + 1;
        let [rows, columns] = [count(height), count(width)];
        let (column, row) = (at % columns, at / columns % rows);
        let (filter, image) = (at / (columns * rows) % filters, at / (columns * rows * filters));
        let seen = channels / groups;
        let first = filter / (filters / groups) * seen;
        let term = |at: usize| {
            let (channel, i, j) = (at / (size * size), at / size % size, at % size);
            let row = (row * stride + i * dilation).wrapping_sub(self.padding());
            let column = (column * stride + j * dilation).wrapping_sub(self.padding());
            if row >= height || column >= width {
                return 0.0;
            }
            let x = x[((image * channels + first + channel) * height + row) * width + column];
            f64::from(x) * f64::from(w[filter * seen * size * size + at])
        };
        (0..seen * size * size).map(term).sum()
    }
}

fn along_one_axis() -> Case {
    const LENGTH: usize = 1024;
    let w = Given::weights("w", &[64, 64, 5], 64 * 5);
    let how = Conv1d { padding: [(2, 2)], ..Conv1d::default() };
    Case::new("conv1d_5", vec![Given::new("x", &[8, 64, LENGTH])], vec![w], move |x, w| {
        x[0].conv1d(w[0], None, how)
    })
    .exactly(|data, at| {
        let (place, filter, row) = (at % LENGTH, at / LENGTH % 64, at / (LENGTH * 64));
        let term = |at: usize| {
            let from = (place + at % 5).wrapping_sub(2);
            let x = data[0][(row * 64 + at / 5) * LENGTH..][..LENGTH].get(from);
            f64::from(*x.unwrap_or(&0.0)) * f64::from(data[1][filter * 64 * 5 + at])
        };
        (0..64 * 5).map(term).sum()
    })
}

/// Filters of 4 × 4 laid out 2 apart: images of twice the size.
fn transposed() -> Case {
    const SIDE: usize = 28;
    let w = Given::weights("w", &[64, 64, 4, 4], 64 * 4);
    let how =
        ConvTranspose2d { stride: [2, 2], padding: [(1, 1); 2], ..ConvTranspose2d::default() };
    let x = Given::new("x", &[8, 64, SIDE, SIDE]);
    Case::new("conv_transpose2d_4x4_stride2", vec![x], vec![w], move |x, w| {
        x[0].conv_transpose2d(w[0], None, how)
    })
    .exactly(|data, at| {
        let (column, row) = (at % (2 * SIDE), at / (2 * SIDE) % (2 * SIDE));
        let (filter, image) = (at / (4 * SIDE * SIDE) % 64, at / (4 * SIDE * SIDE * 64));
        // The element that lays out place `tap` of the filter at `place`.
        let from = |place: usize, tap: usize| {
            let twice = (place + 1).checked_sub(tap)?;
            (twice % 2 == 0 && twice / 2 < SIDE).then_some(twice / 2)
        };
        let term = |at: usize| {
            let (channel, i, j) = (at / 16, at / 4 % 4, at % 4);
            let (Some(row), Some(column)) = (from(row, i), from(column, j)) else { return 0.0 };
            let x = data[0][((image * 64 + channel) * SIDE + row) * SIDE + column];
            f64::from(x) * f64::from(data[1][(channel * 64 + filter) * 16 + at % 16])
        };
        (0..64 * 16).map(term).sum()
    })
}
