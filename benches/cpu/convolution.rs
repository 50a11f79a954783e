//! Convolutions over squares; beside each, windows written out and `gemm`, an image a thread.

use onetrip::Conv2d;

use crate::Done;
use crate::direct;
use crate::measure::{Bench, Work};
use crate::reference::{Random, check};

/// The sizes of a convolution. Both axes of images, filters and outputs are alike.
#[derive(Clone, Copy)]
pub struct Sizes {
    pub images: usize,
    pub channels: usize,
    pub side: usize,
    pub filters: usize,
    pub size: usize,
    pub step: usize,
    pub padding: usize,
    pub dilation: usize,
    pub groups: usize,
}

impl Sizes {
    /// `images` of `channels` squares of `side`, and filters with zeros around that keep the side.
    fn new([images, channels, side]: [usize; 3], [filters, size]: [usize; 2]) -> Self {
        let padding = size / 2;
        Self { images, channels, side, filters, size, step: 1, padding, dilation: 1, groups: 1 }
    }

    /// Windows along an axis.
    pub fn places(&self) -> usize {
        let reach = (self.size - 1) * self.dilation + 1;
        (self.side + 2 * self.padding - reach) / self.step + 1
    }
}

pub async fn all(bench: &Bench) -> Done {
    let strided = |sizes| Sizes { step: 2, ..sizes };
    let cases = [
        ("conv2d_3x3_8x64x56x56", Sizes::new([8, 64, 56], [64, 3])),
        ("conv2d_1x1_8x64x56x56", Sizes::new([8, 64, 56], [64, 1])),
        ("conv2d_7x7_by_2_1x3x224x224", strided(Sizes::new([1, 3, 224], [64, 7]))),
        ("conv2d_5x5_1x32x56x56", Sizes::new([1, 32, 56], [64, 5])),
        ("conv2d_3x3_by_2_1x64x56x56", strided(Sizes::new([1, 64, 56], [128, 3]))),
        (
            "conv2d_3x3_dilated_1x64x56x56",
            Sizes { padding: 2, dilation: 2, ..Sizes::new([1, 64, 56], [64, 3]) },
        ),
        (
            "conv2d_3x3_in_4_groups_1x64x56x56",
            Sizes { groups: 4, ..Sizes::new([1, 64, 56], [64, 3]) },
        ),
        ("conv2d_3x3_1x512x7x7", Sizes::new([1, 512, 7], [512, 3])),
        ("conv2d_1x1_1x256x14x14", Sizes::new([1, 256, 14], [1024, 1])),
    ];
    for (name, sizes) in cases {
        convolution(bench, name, &sizes).await?;
    }
    Ok(())
}

async fn convolution(bench: &Bench, name: &str, sizes: &Sizes) -> Done {
    if !bench.wants(name) {
        return Ok(());
    }
    let &Sizes { images, channels, side, filters, size, step, padding, dilation, groups } = sizes;
    let places = sizes.places();
    let (own, len) = (channels / groups, images * filters * places * places);
    let mut random = Random::new(4);
    let x = random.floats(images * channels * side * side);
    let w = random.floats(filters * own * size * size);
    let on_x = bench.device.resident(&x, [images, channels, side, side])?;
    let on_w = bench.device.resident(&w, [filters, own, size, size])?;
    let conv = Conv2d {
        stride: [step; 2],
        padding: [(padding, padding); 2],
        dilation: [dilation; 2],
        groups,
        ..Conv2d::default()
    };
    let mut out = vec![0.0; len];
    let beside = || direct::convolution(sizes, &x, &w, &mut out);
    let work = Work::Flops(2.0 * (len * own * size * size) as f64);
    let y = bench
        .pair(name, &work, "windows and gemm", beside, |b| {
            b.bind(&on_x).conv2d(b.bind(&on_w), None, conv)
        })
        .await?;
    let exact = |i: usize| {
        let [r, c] = [i / places % places, i % places];
        let [image, f] = [i / (filters * places * places), i / (places * places) % filters];
        let group = f / (filters / groups);
        let term = |at: usize| {
            let [channel, i, j] = [at / (size * size), at / size % size, at % size];
            let [row, column] =
                [[r, i], [c, j]].map(|[at, i]| (at * step + i * dilation).wrapping_sub(padding));
            if row >= side || column >= side {
                return 0.0;
            }
            let channel = image * channels + group * own + channel;
            let x = x[(channel * side + row) * side + column];
            f64::from(x) * f64::from(w[f * own * size * size + at])
        };
        (0..own * size * size).map(term).sum()
    };
    check(name, Some(y), 1e-4, exact)?;
    check("windows and gemm", Some(out), 1e-4, exact)
}
